//! Programs that are run with a limit: what they print goes to a file, and when their time is
//! over they end with all that they started.

use std::fmt;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(20);
/// Bytes of a long output that are shown.
const TAIL_LINES: usize = 12;

/// The end of a program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Success,
    Failure(Option<i32>),
    TimedOut,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Success => f.write_str("ended"),
            Ended::Failure(Some(code)) => write!(f, "ended with code {code}"),
            Ended::Failure(None) => f.write_str("was ended by a signal"),
            Ended::TimedOut => f.write_str("took too long"),
        }
    }
}

/// Starts a program in a process group of its own, with nothing to read.
pub fn start(command: &mut Command, log: &Path) -> Result<Child, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error| format!("{}: {error}", log.display());
    let output = File::create(log).map_err(failed)?;
    let errors = output.try_clone().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
    command.spawn().map_err(|error| format!("{name} did not start: {error}"))
}

/// Runs a program to its end, or to the end of its time; returns what it printed.
pub fn run(command: &mut Command, log: &Path, limit: Duration) -> Result<(Ended, String), String> {
    let mut child = start(command, log)?;
    let ended = wait(&mut child, limit)?;
    if ended == Ended::TimedOut {
        signal(&child, "KILL", true);
        let _ = child.wait();
    }
    let output = std::fs::read(log).map_err(|error| format!("{}: {error}", log.display()))?;
    Ok((ended, String::from_utf8_lossy(&output).into_owned()))
}

/// Waits for the end, at most so long.
pub fn wait(child: &mut Child, limit: Duration) -> Result<Ended, String> {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(Ended::Success),
            Ok(Some(status)) => return Ok(Ended::Failure(status.code())),
            Ok(None) if Instant::now() >= deadline => return Ok(Ended::TimedOut),
            Ok(None) => std::thread::sleep(POLL),
            Err(error) => return Err(format!("a program cannot be waited for: {error}")),
        }
    }
}

/// Sends a signal to a program, or to it and all that it started.
pub fn signal(child: &Child, name: &str, with_its_own: bool) {
    let sign = if with_its_own { "-" } else { "" };
    let target = format!("{sign}{}", child.id());
    // A process that is gone already needs no signal.
    let _ = Command::new("kill").args([&format!("-{name}"), "--", &target]).status();
}

/// The last lines of an output.
pub fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// True if a program is on the search path.
pub fn is_there(name: &str) -> bool {
    path_of(name).is_some()
}

/// The path of a program on the search path.
pub fn path_of(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}
