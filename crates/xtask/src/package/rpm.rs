//! RPM packages, by the crate `rpm`. The format is version 4, which every distribution reads.

use std::path::PathBuf;

use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileMode, FileOptions, PackageBuilder};

use super::contents::{Entry, Source, script, system_entries};
use super::program::Program;
use super::{Job, archive, at};

const GZIP_LEVEL: u32 = 6;
const RELEASE: &str = "1";

/// Writes the package and returns its path.
pub fn build(job: &Job<'_>, program: &Program) -> Result<PathBuf, String> {
    let architecture = program.architecture.kernel;
    let path = job.out.join(format!("thalweg-{}-{RELEASE}.{architecture}.rpm", job.version));
    let summary = "Memory-first SQL database for live data";
    let mut builder =
        PackageBuilder::new("thalweg", job.version, "Apache-2.0", architecture, summary);
    let config = BuildConfig::v4().compression(CompressionWithLevel::Gzip(GZIP_LEVEL));
    builder.using_config(config.source_date(archive::time()));
    builder.release(RELEASE).build_host("localhost").vendor("Thalweg").description(
        "Thalweg takes durable writes row by row, answers analytical SQL over the same rows a \
         moment later, and speaks PostgreSQL's dialect and protocol.",
    );
    builder.requires(Dependency::script_post("/usr/sbin/useradd"));
    builder.requires(Dependency::script_post("/usr/sbin/groupadd"));
    if let Some(version) = &program.glibc {
        builder.requires(Dependency::greater_eq("glibc", version));
        builder.requires(Dependency::any("libgcc"));
    }
    builder.recommends(Dependency::any("logrotate"));
    builder.post_install_script(script(job.root, "rpm/post")?);
    builder.pre_uninstall_script(script(job.root, "rpm/preun")?);
    builder.post_uninstall_script(script(job.root, "rpm/postun")?);
    for entry in system_entries(job, program) {
        add(&mut builder, entry)?;
    }
    let package = builder.build().map_err(|error| format!("{}: {error}", path.display()))?;
    package.write_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

fn add(builder: &mut PackageBuilder, entry: Entry) -> Result<(), String> {
    let path = format!("/{}", entry.path);
    let mode = u16::try_from(entry.mode).expect("permissions have 12 bits");
    let bytes = match entry.source {
        Source::Directory => {
            let options = FileOptions::dir(&path).mode(FileMode::dir(mode));
            let added = builder.with_dir_entry(options);
            return added.map(drop).map_err(|error| format!("{path}: {error}"));
        }
        Source::Bytes(bytes) => bytes,
        Source::File(source) => std::fs::read(&source).map_err(at(&source))?,
    };
    let mut options = FileOptions::new(&path).mode(FileMode::regular(mode));
    if entry.is_config {
        options = options.config().noreplace();
    }
    builder.with_file_contents(bytes, options).map(drop).map_err(|error| format!("{path}: {error}"))
}
