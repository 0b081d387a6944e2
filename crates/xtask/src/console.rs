//! `cargo xtask console`: the web console's files, built again from their sources and compared with
//! those that the server embeds, and its tests in a browser.
//!
//! The packages of the lock file are installed below `~/.cache/thalweg/console`, so that the
//! checkout holds sources alone. Nothing but this command needs Node or npm.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "processes of this machine are started, nothing here runs in simulation"
)]

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = "crates/server/console";
const BUILT: &str = "dist";
/// Names under which systems have Chromium.
const BROWSERS: [&str; 3] =
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// Builds and compares; with `--write` it replaces the embedded files, with `--test` it runs the
/// tests against the built server, or the one that `--server` names.
pub fn run(root: &Path, options: &[&str]) -> Result<(), String> {
    let place = Place { sources: root.join(SOURCES), copy: cache()?.join("console") };
    match options {
        [] => place.build().and_then(|()| place.compare()),
        ["--write"] => place.build().and_then(|()| place.write()),
        ["--test"] => place.test(&root.join("target/release/thalweg")),
        ["--test", "--server", program] => place.test(Path::new(program)),
        _ => Err("usage: cargo xtask console [--write | --test [--server PROGRAM]]".to_owned()),
    }
}

fn cache() -> Result<PathBuf, String> {
    let home = std::env::var_os("HOME").ok_or("HOME is not set")?;
    Ok(PathBuf::from(home).join(".cache/thalweg"))
}

struct Place {
    sources: PathBuf,
    /// The copy that is built, beside the installed packages.
    copy: PathBuf,
}

impl Place {
    /// Copies the sources and installs what the lock file names.
    fn install(&self) -> Result<(), String> {
        for directory in ["src", "tests", BUILT] {
            let _ = fs::remove_dir_all(self.copy.join(directory));
        }
        copy_all(&self.sources, &self.copy)?;
        fs::remove_dir_all(self.copy.join(BUILT)).map_err(|error| error.to_string())?;
        // No package runs a program of its own while it is installed.
        let install = ["ci", "--ignore-scripts", "--silent", "--no-audit", "--no-fund"];
        self.run("npm", &install, &[])
    }

    fn build(&self) -> Result<(), String> {
        self.install()?;
        self.run("node", &["build.mjs"], &[])
    }

    fn compare(&self) -> Result<(), String> {
        let (built, embedded) = (self.copy.join(BUILT), self.sources.join(BUILT));
        let names = names(&built)?;
        if names != self::names(&embedded)? {
            return Err(differs("the list of files"));
        }
        for name in &names {
            if contents(&built.join(name))? != contents(&embedded.join(name))? {
                return Err(differs(name));
            }
        }
        eprintln!("console: {} files are what their sources give", names.len());
        Ok(())
    }

    fn write(&self) -> Result<(), String> {
        copy_all(&self.copy.join(BUILT), &self.sources.join(BUILT))
    }

    fn test(&self, program: &Path) -> Result<(), String> {
        let Some(browser) = BROWSERS.into_iter().find(|path| Path::new(path).exists()) else {
            eprintln!("console: skipped, this machine has no Chromium");
            return Ok(());
        };
        self.install()?;
        let program = fs::canonicalize(program)
            .map_err(|error| format!("{}: {error}; build it first", program.display()))?;
        let program = program.to_string_lossy().into_owned();
        let variables = [("THALWEG_PROGRAM", program.as_str()), ("THALWEG_BROWSER", browser)];
        self.run("node", &["tests/browser.mjs"], &variables)
    }

    fn run(&self, program: &str, words: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
        let mut command = Command::new(program);
        command.args(words).envs(variables.iter().copied()).current_dir(&self.copy);
        let status = command.status().map_err(|error| format!("{program}: {error}"))?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("{program} {} failed", words.join(" "))),
        }
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
