//! A compressed tar archive, for systems without a package manager: one directory that is
//! unpacked anywhere.

use std::path::PathBuf;

use super::contents::Entry;
use super::program::Program;
use super::{Job, archive};

/// Writes the archive and returns its path.
pub fn build(job: &Job<'_>, program: &Program) -> Result<PathBuf, String> {
    let name = format!("thalweg-{}-{}-linux", job.version, program.architecture.kernel);
    let path = job.out.join(format!("{name}.tar.gz"));
    let packaging = job.root.join("packaging");
    let entries = [
        Entry::file("bin/thalweg", 0o755, program.path.clone()),
        Entry::file("LICENSE", 0o644, job.root.join("LICENSE")),
        Entry::file("README.md", 0o644, job.root.join("README.md")),
        Entry::file("etc/thalweg.toml", 0o644, packaging.join("thalweg.toml")),
        Entry::file("etc/thalweg.logrotate", 0o644, packaging.join("logrotate")),
        Entry::file("etc/thalweg.service", 0o644, packaging.join("systemd/thalweg.service")),
    ];
    archive::write_gzipped(&path, &format!("{name}/"), &entries)?;
    Ok(path)
}
