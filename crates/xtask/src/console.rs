//! `cargo xtask console`: the web console's files, built again from their sources and compared with
//! those that the server embeds, and its tests in a browser.
//!
//! The packages of the lock file are installed below `~/.cache/thalweg/console`, so that the
//! checkout holds sources alone. Nothing but this command needs Node or npm.
#![expect(
    clippy::disallowed_methods,
    reason = "processes of this machine are started, nothing here runs in simulation"
)]

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::clients::program::{self, Ended};

const SOURCES: &str = "crates/server/console";
const BUILT: &str = "dist";
/// The lock file as of the last installation: as long as it is the same, npm is not run again.
const STAMP: &str = "installed.json";
/// Names of Chromium on the search path.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// The oldest major version of Node that the browser's driver runs on.
const NODE_MIN: u32 = 20;

const INSTALL_LIMIT: Duration = Duration::from_secs(240);
const BUILD_LIMIT: Duration = Duration::from_secs(60);
const TEST_LIMIT: Duration = Duration::from_secs(600);

/// Why the console was not built or tested.
pub enum Failure {
    /// This machine lacks something.
    Missing(String),
    /// The console is wrong.
    Broken(String),
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Broken(message)
    }
}

/// Builds and compares; with `--write` it replaces the embedded files, with `--test` it runs the
/// tests against the built server, or the one that `--server` names.
pub fn run(root: &Path, options: &[&str]) -> Result<(), String> {
    let place = Place::new(root)?;
    let ran = match options {
        [] => place.build().and_then(|()| place.compare()),
        ["--write"] => place.build().and_then(|()| Ok(place.write()?)),
        ["--test"] => place.test(&built_program(root)),
        ["--test", "--server", program] => place.test(Path::new(program)),
        _ => return Err("usage: cargo xtask console [--write | --test [--server PROGRAM]]".into()),
    };
    ran.map_err(|failure| match failure {
        Failure::Missing(reason) => format!("console: {reason}"),
        Failure::Broken(message) => message,
    })
}

/// The gate's part: the embedded files are what their sources give, and the page works.
///
/// # Errors
/// [`Failure::Missing`] if this machine cannot build or test the console.
pub fn check(root: &Path) -> Result<(), Failure> {
    let place = Place::new(root)?;
    place.build()?;
    place.compare()?;
    place.test(&built_program(root))
}

fn built_program(root: &Path) -> PathBuf {
    crate::target(root).join("release/thalweg")
}

struct Place {
    sources: PathBuf,
    /// The copy that is built, beside the installed packages.
    copy: PathBuf,
}

impl Place {
    fn new(root: &Path) -> Result<Place, String> {
        let home = std::env::var_os("HOME").ok_or("HOME is not set")?;
        let copy = PathBuf::from(home).join(".cache/thalweg/console");
        Ok(Place { sources: root.join(SOURCES), copy })
    }

    /// Copies the sources, and installs what the lock file names unless it is there.
    fn install(&self) -> Result<(), Failure> {
        for tool in ["node", "npm"] {
            if !program::is_there(tool) {
                return Err(Failure::Missing(format!("no {tool} here")));
            }
        }
        is_recent(&self.run("node", &["--version"], &[], BUILD_LIMIT)?.1)?;
        for directory in ["src", "tests", BUILT] {
            let _ = fs::remove_dir_all(self.copy.join(directory));
        }
        copy_all(&self.sources, &self.copy)?;
        let failed = |error: std::io::Error| format!("{}: {error}", self.copy.display());
        fs::remove_dir_all(self.copy.join(BUILT)).map_err(failed)?;
        let (stamp, lock) = (self.copy.join(STAMP), self.copy.join("package-lock.json"));
        let wanted = fs::read_to_string(lock).map_err(failed)?;
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        let _ = fs::remove_file(&stamp);
        // No package runs a program of its own while it is installed.
        let install = ["ci", "--ignore-scripts", "--silent", "--no-audit", "--no-fund"];
        let (ended, output) = self.run("npm", &install, &[], INSTALL_LIMIT)?;
        if ended != Ended::Success {
            let why = program::tail(&output);
            return Err(Failure::Missing(format!("the page's packages: npm {ended}\n{why}")));
        }
        Ok(fs::write(stamp, wanted).map_err(failed)?)
    }

    fn build(&self) -> Result<(), Failure> {
        self.install()?;
        let (ended, output) = self.run("node", &["build.mjs"], &[], BUILD_LIMIT)?;
        match ended {
            Ended::Success => Ok(()),
            _ => Err(Failure::Broken(format!("the build of the console {ended}\n{output}"))),
        }
    }

    fn compare(&self) -> Result<(), Failure> {
        let (built, embedded) = (self.copy.join(BUILT), self.sources.join(BUILT));
        let names = names(&built)?;
        if names != self::names(&embedded)? {
            return Err(differs("the list of files").into());
        }
        for name in &names {
            if contents(&built.join(name))? != contents(&embedded.join(name))? {
                return Err(differs(name).into());
            }
        }
        eprintln!("console: {} files are what their sources give", names.len());
        Ok(())
    }

    fn write(&self) -> Result<(), String> {
        copy_all(&self.copy.join(BUILT), &self.sources.join(BUILT))
    }

    fn test(&self, program: &Path) -> Result<(), Failure> {
        let Some(browser) = BROWSERS.into_iter().find_map(program::path_of) else {
            return Err(Failure::Missing("no Chromium here".to_owned()));
        };
        self.install()?;
        let program = fs::canonicalize(program)
            .map_err(|error| format!("{}: {error}; build it first", program.display()))?;
        let variables = [("THALWEG_PROGRAM", &program), ("THALWEG_BROWSER", &browser)];
        let (ended, output) = self.run("node", &["tests/browser.mjs"], &variables, TEST_LIMIT)?;
        eprint!("{output}");
        match ended {
            Ended::Success => Ok(()),
            _ => Err(Failure::Broken(format!("console: the tests in a browser: {ended}"))),
        }
    }

    /// Runs a program in the copy to its end, and returns what it printed.
    fn run(
        &self,
        program: &str,
        words: &[&str],
        variables: &[(&str, &PathBuf)],
        limit: Duration,
    ) -> Result<(Ended, String), String> {
        fs::create_dir_all(&self.copy)
            .map_err(|error| format!("{}: {error}", self.copy.display()))?;
        let mut command = Command::new(program);
        command.args(words).envs(variables.iter().copied()).current_dir(&self.copy);
        program::run(&mut command, &self.copy.join("output.log"), limit)
    }
}

/// # Errors
/// [`Failure::Missing`] if Node is too old; `version` is what it prints, as `v20.11.0`.
fn is_recent(version: &str) -> Result<(), Failure> {
    let version = version.trim();
    let major = version.trim_start_matches('v').split('.').next();
    match major.and_then(|major| major.parse::<u32>().ok()) {
        Some(major) if major >= NODE_MIN => Ok(()),
        _ => Err(Failure::Missing(format!("Node {version} is older than {NODE_MIN}"))),
    }
}

fn differs(what: &str) -> String {
    format!("console: {what} differs from its sources; run cargo xtask console --write")
}

/// The names of a directory's files, in order.
fn names(directory: &Path) -> Result<Vec<String>, String> {
    let failed = |error| format!("{}: {error}", directory.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// The contents of a file, decompressed: versions of Node compress differently.
fn contents(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error| format!("{}: {error}", path.display());
    let bytes = fs::read(path).map_err(failed)?;
    if path.extension().is_none_or(|extension| extension != "gz") {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).map_err(failed)?;
    Ok(plain)
}

fn copy_all(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let target = to.join(entry.file_name());
        match entry.file_type().map_err(failed)?.is_dir() {
            true => copy_all(&entry.path(), &target)?,
            false => drop(fs::copy(entry.path(), target).map_err(failed)?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_node_is_missing() {
        assert!(is_recent("v20.11.0\n").is_ok());
        for version in ["v18.20.4\n", "", "node: not found"] {
            assert!(matches!(is_recent(version), Err(Failure::Missing(_))), "{version}");
        }
    }

    #[test]
    fn files_are_compared_by_their_contents() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (directory.path().join("a.gz"), directory.path().join("b.gz"));
        for (path, level) in [(&one, 1), (&other, 9)] {
            use std::io::Write as _;
            let file = fs::File::create(path).unwrap();
            let level = flate2::Compression::new(level);
            let mut encoder = flate2::write::GzEncoder::new(file, level);
            encoder.write_all(&b"console ".repeat(1000)).unwrap();
            encoder.finish().unwrap();
        }
        assert_eq!(contents(&one).unwrap(), contents(&other).unwrap());
    }
}
