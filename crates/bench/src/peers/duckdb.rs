//! DuckDB in a Python process, driven over its standard input.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde::Deserialize;
use serde_json::{Value, json};
use thalweg_types::{Error, Result};

use super::{Python, Rows};
use crate::errors::while_doing;

const SCRIPT: &str = include_str!("../../../../bench/peers/duckdb_peer.py");

/// A running DuckDB.
pub struct DuckDb {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Failed { error: String },
    Done { seconds: f64, rows: Rows },
}

impl DuckDb {
    /// Opens a database file, or one in memory.
    pub fn start(python: &Python, database: Option<&Path>) -> Result<DuckDb> {
        let database = database.unwrap_or(Path::new(":memory:"));
        let mut child = python
            .command(SCRIPT)
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(while_doing("starting DuckDB"))?;
        let requests = child.stdin.take().expect("standard input is a pipe");
        let answers = child.stdout.take().expect("standard output is a pipe");
        let mut peer = DuckDb { child, requests, answers: BufReader::new(answers) };
        // The first line reports that it is ready.
        peer.line()?;
        Ok(peer)
    }

    /// Runs a statement; returns the seconds that it took.
    pub fn run(&mut self, sql: &str) -> Result<f64> {
        Ok(self.ask(&json!({ "sql": sql }))?.0)
    }

    /// Runs a query to its last row; returns the seconds that it took, and the rows.
    pub fn fetch(&mut self, sql: &str) -> Result<(f64, Rows)> {
        self.ask(&json!({ "sql": sql, "fetch": true }))
    }

    /// Closes the database; returns the seconds that this took.
    pub fn close(mut self) -> Result<f64> {
        Ok(self.ask(&json!({ "close": true }))?.0)
    }

    fn ask(&mut self, request: &Value) -> Result<(f64, Rows)> {
        writeln!(self.requests, "{request}").map_err(while_doing("asking DuckDB"))?;
        let line = self.line()?;
        let answer = serde_json::from_str(&line);
        match answer.map_err(while_doing(format!("DuckDB answered {line:?}")))? {
            Answer::Done { seconds, rows } => Ok((seconds, rows)),
            Answer::Failed { error } => Err(Error::internal(format!("DuckDB: {error}"))),
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(while_doing("reading DuckDB's answer"))?;
        match line.is_empty() {
            true => Err(Error::internal("DuckDB ended without an answer")),
            false => Ok(line),
        }
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
