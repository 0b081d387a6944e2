//! Entries of packages: files and directories with their place, mode and origin.

use std::path::{Path, PathBuf};

use super::program::Program;
use super::{Job, at};

/// Origin of an entry's bytes.
pub enum Source {
    Directory,
    Bytes(Vec<u8>),
    File(PathBuf),
}

/// A file or directory of a package. It belongs to root unless `owner` says otherwise.
pub struct Entry {
    /// Place below the root of the file system, without a slash at the start.
    pub path: String,
    pub mode: u32,
    pub source: Source,
    /// Number of the user and group that it belongs to.
    pub owner: u32,
    /// True for a file that people edit: an upgrade keeps their version.
    pub is_config: bool,
}

impl Entry {
    pub fn directory(path: &str, mode: u32) -> Entry {
        Entry::new(path, mode, Source::Directory)
    }

    pub fn bytes(path: &str, mode: u32, bytes: impl Into<Vec<u8>>) -> Entry {
        Entry::new(path, mode, Source::Bytes(bytes.into()))
    }

    pub fn file(path: &str, mode: u32, source: PathBuf) -> Entry {
        Entry::new(path, mode, Source::File(source))
    }

    fn new(path: &str, mode: u32, source: Source) -> Entry {
        assert!(!path.starts_with('/'), "paths are relative to the root of the file system");
        Entry { path: path.to_owned(), mode, source, owner: 0, is_config: false }
    }

    pub fn owned_by(self, owner: u32) -> Entry {
        Entry { owner, ..self }
    }

    fn config(self) -> Entry {
        Entry { is_config: true, ..self }
    }
}

/// The files that a `.deb` and an `.rpm` install.
pub fn system_entries(job: &Job<'_>, program: &Program) -> Vec<Entry> {
    let packaging = job.root.join("packaging");
    let unit = packaging.join("systemd/thalweg.service");
    let doc = "usr/share/doc/thalweg";
    vec![
        Entry::directory("etc/thalweg", 0o755),
        Entry::file("etc/thalweg/thalweg.toml", 0o644, packaging.join("thalweg.toml")).config(),
        Entry::file("etc/logrotate.d/thalweg", 0o644, packaging.join("logrotate")).config(),
        Entry::file("usr/bin/thalweg", 0o755, program.path.clone()),
        Entry::file("usr/lib/systemd/system/thalweg.service", 0o644, unit),
        Entry::directory(doc, 0o755),
        Entry::file(&format!("{doc}/copyright"), 0o644, job.root.join("LICENSE")),
        Entry::file(&format!("{doc}/operating.md"), 0o644, job.root.join("docs/operating.md")),
        // Root opens the log for the server, which itself cannot reach it: a rotation as root is
        // safe in a directory that nobody else writes.
        Entry::directory("var/log/thalweg", 0o750),
    ]
}

/// A script of a package: the functions that all share, then its own lines.
pub fn script(root: &Path, name: &str) -> Result<String, String> {
    let read = |name: &str| {
        let path = root.join("packaging").join(name);
        std::fs::read_to_string(&path).map_err(at(&path))
    };
    Ok(read("setup")? + &read(name)?)
}
