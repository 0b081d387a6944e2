//! Opening a database after its process died: from a checkpoint, and from the log alone.

use std::io::Read;
use std::path::Path;

use thalweg_query::Database;
use thalweg_types::{Error, Result};

use super::Workload;
use crate::context::Context;
use crate::errors::while_doing;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::machine;
use crate::peers::{copy, execute, to_rows};
use crate::samples::Samples;
use crate::tpch::lineitem;

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "recovery",
    about: "opening six million rows from a checkpoint and from the log alone",
    run: |context| Box::pin(run(context)),
};

async fn run(context: &Context) -> Result<Findings> {
    let scratch = context.scratch("recovery")?;
    let (live, log, checkpoint) = (
        scratch.path().join("live"),
        scratch.path().join("log"),
        scratch.path().join("checkpoint"),
    );
    let rows = prepare(context, &live, &log, &checkpoint).await?;
    let mut findings = Findings::default();
    let from_log = measure(context, &log, rows).await?;
    findings.push(
        Finding::new(
            format!("rows a second from the log alone, {rows} rows"),
            Unit::RowsPerSecond,
            from_log.seconds.iter().map(|seconds| rows as f64 / seconds).collect::<Samples>(),
        )
        .wanted(Wanted::AtLeast(1e6)),
    );
    let from_checkpoint = measure(context, &checkpoint, rows).await?;
    findings.push(
        Finding::new(
            "files opened from a checkpoint, page cache cold",
            Unit::MegabytesPerSecond,
            from_checkpoint.rates(),
        )
        .beside("reading the same files", from_checkpoint.read_rates())
        .noted("What the disk gives in the same run, and how much of it recovery uses."),
    );
    findings.push(Finding::new(
        "seconds from a checkpoint to the first answer",
        Unit::Seconds,
        from_checkpoint.seconds,
    ));
    Ok(findings)
}

/// Loads a table. Copies the files on disk before the checkpoint, as a process that dies at that
/// moment would leave them, and after it.
async fn prepare(context: &Context, live: &Path, log: &Path, checkpoint: &Path) -> Result<u64> {
    let files = context.tpch()?;
    // No automatic checkpoint, which would leave no log to recover from.
    let database = Database::builder().directory(live).checkpoint_bytes(u64::MAX).open()?;
    let mut session = database.session();
    execute(&mut session, &lineitem().create_with_key()).await?;
    execute(&mut session, &copy(&files, "lineitem")).await?;
    let rows = count(&mut session).await?;
    copy_directory(live, log)?;
    database.checkpoint()?;
    drop(session);
    // Obsolete segments are removed in the background, until the database is closed.
    database.close()?;
    copy_directory(live, checkpoint)?;
    Ok(rows)
}

struct Openings {
    bytes: f64,
    seconds: Samples,
    read_seconds: Samples,
}

impl Openings {
    fn rates(&self) -> Samples {
        self.seconds.iter().map(|seconds| self.bytes / 1e6 / seconds).collect()
    }

    fn read_rates(&self) -> Samples {
        self.read_seconds.iter().map(|seconds| self.bytes / 1e6 / seconds).collect()
    }
}

/// Opens copies of a directory, each with a cold page cache, in turns with plain reads of the
/// files.
async fn measure(context: &Context, image: &Path, rows: u64) -> Result<Openings> {
    let bytes = machine::directory_bytes(image)? as f64;
    let mut openings =
        Openings { bytes, seconds: Samples::default(), read_seconds: Samples::default() };
    for _ in 0..context.repetitions {
        let scratch = context.scratch("opening")?;
        let directory = scratch.path().join("data");
        copy_directory(image, &directory)?;
        forget_cached(&directory)?;
        let started = context.seconds();
        read_all(&directory)?;
        openings.read_seconds.push(context.seconds() - started);
        forget_cached(&directory)?;
        let started = context.seconds();
        let database = Database::open(&directory)?;
        let mut session = database.session();
        let found = count(&mut session).await?;
        openings.seconds.push(context.seconds() - started);
        if found != rows {
            return Err(Error::internal(format!("{found} rows came back, {rows} were there")));
        }
        drop(session);
        database.close()?;
    }
    Ok(openings)
}

async fn count(session: &mut thalweg_query::Session) -> Result<u64> {
    let batches = execute(session, "SELECT COUNT(*) FROM lineitem").await?;
    let rows = to_rows(&batches)?;
    let text = rows.first().and_then(|row| row.first()?.clone()).unwrap_or_default();
    text.parse().map_err(while_doing("counting the rows"))
}

/// Copies a directory with its empty subdirectories, and syncs the files: the page cache can drop
/// only synced pages.
fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).map_err(while_doing(to.display()))?;
    for entry in std::fs::read_dir(from).map_err(while_doing(from.display()))? {
        let entry = entry.map_err(while_doing(from.display()))?;
        let (source, place) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_directory(&source, &place)?;
            continue;
        }
        std::fs::copy(&source, &place).map_err(while_doing(source.display()))?;
        open(&place)?.sync_all().map_err(while_doing(place.display()))?;
    }
    Ok(())
}

fn forget_cached(directory: &Path) -> Result<()> {
    for path in machine::files_below(directory)? {
        rustix::fs::fadvise(open(&path)?, 0, None, rustix::fs::Advice::DontNeed)
            .map_err(while_doing(path.display()))?;
    }
    Ok(())
}

fn read_all(directory: &Path) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    for path in machine::files_below(directory)? {
        let mut file = open(&path)?;
        while file.read(&mut buffer).map_err(while_doing(path.display()))? > 0 {}
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "what the benchmark compares with is the real disk")]
fn open(path: &Path) -> Result<std::fs::File> {
    std::fs::File::open(path).map_err(while_doing(path.display()))
}
