//! `cargo xtask check`: every step of the gate, in the order of what fails fastest.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::console::{self, Failure};
use crate::tidy;

/// Length of the tests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Short,
    Long,
}

/// Variables that the long mode sets unless the environment has them: the number of cases that
/// randomised tests run, and the length of the weather that a cluster goes through.
const LONG_MODE: &[(&str, &str)] =
    &[("THALWEG_CASES", "5000"), ("PROPTEST_CASES", "5000"), ("THALWEG_STEPS", "120")];

/// Names the Python that tests ask DuckDB through.
const DUCKDB: &str = "THALWEG_DUCKDB";

/// Names the PostgreSQL that generated statements are asked of, by a connection string.
const POSTGRES: &str = "THALWEG_POSTGRES";

/// Tools that tests start, and what is not tested without them: a reader's clients, and programs by
/// which packages are installed, verified and rendered.
const TOOLS: &[(&str, &str)] = &[
    ("psql", "docs/tour.md"),
    ("curl", "docs/tour.md"),
    ("unshare", "installations of packages, the container image's program"),
    ("dpkg", "the .deb"),
    ("rpm", "installation of the .rpm"),
    ("systemd-analyze", "the unit"),
    ("systemd-nspawn", "the service under systemd"),
    ("logrotate", "log rotation"),
    ("helm", "the chart"),
];

/// Stages in any order of their threads. The second crate is there for the features that it gives
/// third parties, so that none of them is compiled again.
const INTERLEAVINGS: &[&str] = &[
    "test",
    "--release",
    "-p",
    "thalweg-txn",
    "-p",
    "thalweg-dialect",
    "--features",
    "thalweg-txn/shuttle",
    "--lib",
    "interleavings",
];

/// Histories of clients whose threads run in an order that follows from the seed.
const HISTORIES: &[&str] = &[
    "test",
    "--release",
    "-p",
    "thalweg-sim",
    "-p",
    "thalweg-dialect",
    "--features",
    "thalweg-sim/shuttle",
    "--test",
    "traces",
    "--test",
    "histories",
];

/// Runs the gate and stops at the first step that fails.
pub fn run(root: &Path, length: Length) -> Result<(), String> {
    step("tidy");
    tidy::run(root)?;
    cargo(root, &["fmt", "--all", "--check"], length)?;
    cargo(
        root,
        &[
            "clippy",
            "--release",
            "--workspace",
            "--all-targets",
            "--features",
            "thalweg-program/bench",
            "--",
            "-D",
            "warnings",
        ],
        length,
    )?;
    let mut test = vec!["test", "--release", "--workspace", "--no-fail-fast"];
    if length == Length::Long {
        test.extend(["--", "--include-ignored"]);
    }
    if length == Length::Long && python_with_duckdb().is_none() {
        step("no DuckDB here: tests leave it out");
    }
    if length == Length::Long && std::env::var_os(POSTGRES).is_none() {
        step("THALWEG_POSTGRES names no PostgreSQL: a test leaves it out");
    }
    for (name, what) in TOOLS.iter().filter(|(name, _)| !has_tool(name)) {
        step(&format!("no {name} here: tests leave out {what}"));
    }
    cargo(root, &test, length)?;
    web_console(root)?;
    cargo(root, INTERLEAVINGS, length)?;
    cargo(root, HISTORIES, length)
}

/// Builds the web console, compares it with the embedded files, and tests it in a browser with the
/// program that the tests have built.
fn web_console(root: &Path) -> Result<(), String> {
    step("the web console");
    match console::check(root) {
        Ok(()) => Ok(()),
        Err(Failure::Missing(reason)) => {
            step(&format!("{reason}: tests leave out what the web console needs it for"));
            Ok(())
        }
        Err(Failure::Broken(message)) => Err(message),
    }
}

/// The Python that the environment names, or else the one of the path if it has DuckDB.
fn python_with_duckdb() -> Option<OsString> {
    if let Some(named) = std::env::var_os(DUCKDB) {
        return Some(named);
    }
    let mut python = Command::new("python3");
    python.args(["-c", "import duckdb"]).stderr(Stdio::null());
    let has_it = python.status().is_ok_and(|status| status.success());
    has_it.then(|| "python3".into())
}

/// True if tests find a program: on the search path, in directories of system
/// programs, or beside what `docs/install.md` builds.
fn has_tool(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let cache = home.map(|home| home.join(".cache/thalweg/tools"));
    let directories = std::env::split_paths(&path).chain(system).chain(cache);
    directories.into_iter().any(|directory| directory.join(name).is_file())
}

fn step(what: &str) {
    eprintln!("==> {what}");
}

fn cargo(root: &Path, arguments: &[&str], length: Length) -> Result<(), String> {
    step(&format!("cargo {}", arguments.join(" ")));
    // The cargo that runs this program, so that both use one toolchain.
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    if length == Length::Long {
        for (name, value) in LONG_MODE {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        if let Some(python) = python_with_duckdb() {
            command.env(DUCKDB, python);
        }
    }
    let status = command.status().map_err(|error| format!("cargo did not start: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("failed: cargo {}", arguments.join(" "))),
    }
}
