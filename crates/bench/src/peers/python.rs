//! A Python with the modules of a peer or a client, and scripts that run in it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::de::DeserializeOwned;
use thalweg_types::{Error, Result};

use crate::errors::while_doing;

/// The path of a Python interpreter.
pub struct Python(PathBuf);

impl Python {
    /// The requested Python or the path's; `None`, with a message, if it lacks the module.
    pub fn with_module(asked: Option<&Path>, module: &str) -> Option<Python> {
        let python = asked.map_or_else(|| PathBuf::from("python3"), Path::to_owned);
        let probe = Command::new(&python)
            .args(["-c", &format!("import {module}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if probe.is_ok_and(|status| status.success()) {
            return Some(Python(python));
        }
        println!(
            "  no python3 with {module} here: what needs it is left out \
             (bench/peers/requirements.txt says what to install)"
        );
        None
    }

    /// A process that will run a script.
    pub fn command(&self, script: &str) -> Command {
        let mut command = Command::new(&self.0);
        command.args(["-c", script]);
        command
    }

    /// Runs a script to its end; returns its output, one line of JSON.
    pub fn run<T: DeserializeOwned>(&self, script: &str, arguments: &[&str]) -> Result<T> {
        self.run_with_input(script, arguments, "")
    }

    /// Like [`Self::run`], for a script that reads input.
    pub fn run_with_input<T: DeserializeOwned>(
        &self,
        script: &str,
        arguments: &[&str],
        input: &str,
    ) -> Result<T> {
        let mut child = self
            .command(script)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(while_doing(self.0.display()))?;
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        // A script that reads nothing may have closed its input already.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().map_err(while_doing(self.0.display()))?;
        if !output.status.success() {
            return Err(Error::internal(format!("{} ended: {}", self.0.display(), output.status)));
        }
        serde_json::from_slice(&output.stdout).map_err(while_doing("a script's answer"))
    }
}
