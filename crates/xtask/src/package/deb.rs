//! Debian packages: an `ar` archive of a version, of control files and of the files to install.
//! The format is that of [deb(5)](https://manpages.debian.org/deb.5), compressed by gzip, which
//! every version of dpkg reads.

use std::fs::File;
use std::path::PathBuf;

use super::contents::{Entry, Source, script, system_entries};
use super::program::Program;
use super::{Job, archive, at};

/// Writes the package and returns its path.
pub fn build(job: &Job<'_>, program: &Program) -> Result<PathBuf, String> {
    let architecture = program.architecture.debian;
    let path = job.out.join(format!("thalweg_{}_{architecture}.deb", job.version));
    let entries = system_entries(job, program);
    let members: [(&str, Vec<u8>); 3] = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", archived(&control_entries(job, program, &entries)?)?),
        ("data.tar.gz", archived(&entries)?),
    ];
    let mut builder = ar::Builder::new(File::create(&path).map_err(at(&path))?);
    for (name, bytes) in &members {
        let mut header = ar::Header::new(name.as_bytes().to_vec(), bytes.len() as u64);
        header.set_mode(0o100_644);
        header.set_mtime(archive::time().into());
        builder.append(&header, bytes.as_slice()).map_err(at(&path))?;
    }
    Ok(path)
}

fn archived(entries: &[Entry]) -> Result<Vec<u8>, String> {
    let gzip = archive::write(archive::gzip(Vec::new()), "", entries)?;
    gzip.finish().map_err(|error| format!("an archive: {error}"))
}

fn control_entries(
    job: &Job<'_>,
    program: &Program,
    entries: &[Entry],
) -> Result<Vec<Entry>, String> {
    let configs = entries.iter().filter(|entry| entry.is_config);
    let configs: String = configs.map(|entry| format!("/{}\n", entry.path)).collect();
    let mut control = vec![
        Entry::bytes("control", 0o644, control(job, program, entries)?),
        Entry::bytes("conffiles", 0o644, configs),
    ];
    for name in ["postinst", "prerm", "postrm"] {
        let text = script(job.root, &format!("deb/{name}"))?;
        control.push(Entry::bytes(name, 0o755, text));
    }
    Ok(control)
}

fn control(job: &Job<'_>, program: &Program, entries: &[Entry]) -> Result<String, String> {
    let mut bytes = 0;
    for entry in entries {
        bytes += match &entry.source {
            Source::Directory => 0,
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::File(source) => std::fs::metadata(source).map_err(at(source))?.len(),
        };
    }
    let mut depends = "passwd".to_owned();
    if let Some(version) = &program.glibc {
        depends = format!("libc6 (>= {version}), libgcc-s1, {depends}");
    }
    Ok(format!(
        "Package: thalweg\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: Thalweg <packages@thalweg.invalid>\n\
         Installed-Size: {kibibytes}\n\
         Depends: {depends}\n\
         Recommends: logrotate\n\
         Section: database\n\
         Priority: optional\n\
         Description: memory-first SQL database for live data\n \
         Thalweg takes durable writes row by row, answers analytical SQL over the\n \
         same rows a moment later, and speaks PostgreSQL's dialect and protocol.\n",
        version = job.version,
        architecture = program.architecture.debian,
        kibibytes = bytes.div_ceil(1024),
    ))
}
