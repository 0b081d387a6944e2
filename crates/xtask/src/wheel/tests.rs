//! The tests of the Python package, in virtual environments that have the wheel and little else.
//!
//! One environment has pytest alone, the other one the libraries that the package works with. The
//! environments are kept below `~/.cache/thalweg/python`; the wheel is installed anew each time.
//! A library that cannot be installed is named, and pytest names the tests that need it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::clients::program::{self, Ended};

/// Libraries that the package exchanges data with.
const OPTIONAL: &[&str] = &["pyarrow", "pandas", "polars", "duckdb", "sqlalchemy"];

const INSTALL_LIMIT: Duration = Duration::from_secs(240);
const TESTS_LIMIT: Duration = Duration::from_secs(300);

/// An environment of Python.
struct Environment {
    directory: PathBuf,
}

/// Runs the tests in both environments.
pub fn run(root: &Path, wheel: &Path, selection: Option<&str>) -> Result<(), String> {
    let python = "import sys; sys.exit(sys.version_info < (3, 10))";
    let has_python = Command::new("python3").args(["-c", python]).status();
    if !has_python.is_ok_and(|status| status.success()) {
        return Err("wheel: its tests need Python 3.10 or later, as python3".to_owned());
    }
    let home = std::env::var_os("HOME").ok_or("HOME is not set: nowhere to install pytest")?;
    let cache = Path::new(&home).join(".cache/thalweg/python");
    for (name, libraries) in [("bare", &[][..]), ("full", OPTIONAL)] {
        let environment = Environment { directory: cache.join(name) };
        let installed = environment.install(&["pytest"]);
        installed.map_err(|message| format!("wheel: its tests need pytest\n{message}"))?;
        environment.install(&["--force-reinstall", "--no-deps", &wheel.display().to_string()])?;
        for library in libraries {
            if let Err(message) = environment.install(&[library]) {
                println!("wheel: {library} cannot be installed here\n{message}");
            }
        }
        environment.test(root, name, selection)?;
    }
    Ok(())
}

impl Environment {
    fn install(&self, packages: &[&str]) -> Result<(), String> {
        if !self.python().exists() {
            let directory = self.directory.display().to_string();
            self.run(Command::new("python3").args(["-m", "venv", &directory]), INSTALL_LIMIT)?;
        }
        let mut pip = Command::new(self.python());
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        self.run(pip.args(packages), INSTALL_LIMIT).map(drop)
    }

    fn test(&self, root: &Path, name: &str, selection: Option<&str>) -> Result<(), String> {
        let mut pytest = Command::new(self.python());
        // Outside of the sources, so that the installed package is imported.
        pytest.current_dir(&self.directory).env("PYTHONDONTWRITEBYTECODE", "1");
        pytest.env("THALWEG_SOURCES", root);
        // `-rs` names the tests that were skipped, and why.
        pytest.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]);
        pytest.arg(root.join("crates/python/tests"));
        if let Some(selection) = selection {
            pytest.args(["-k", selection]);
        }
        let output = self.run(&mut pytest, TESTS_LIMIT)?;
        println!("wheel: tests in the {name} environment\n{}", output.trim_end());
        Ok(())
    }

    fn python(&self) -> PathBuf {
        self.directory.join("bin/python")
    }

    /// Runs a command to its end and returns its output.
    fn run(&self, command: &mut Command, limit: Duration) -> Result<String, String> {
        let logs = self.directory.parent().expect("the environment lies in the cache");
        std::fs::create_dir_all(logs).map_err(|error| format!("{}: {error}", logs.display()))?;
        let (ended, output) = program::run(command, &logs.join("output.log"), limit)?;
        match ended {
            Ended::Success => Ok(output),
            _ => Err(format!("{} {ended}\n{output}", command.get_program().display())),
        }
    }
}
