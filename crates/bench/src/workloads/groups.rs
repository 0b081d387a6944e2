//! Very many groups: their peak memory, and correct results with little memory.

use futures::TryStreamExt;
use thalweg_env::{Memory, RealMemory};
use thalweg_query::{Database, Session};
use thalweg_types::{Error, Result};

use super::Workload;
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::machine;
use crate::peers::execute;

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "groups",
    about: "ten million groups in memory, and fifty million under a limit of 1 GiB",
    run: |context| Box::pin(run(context)),
};

/// Groups at scale 1.
const GROUPS: f64 = 1e7;
const GROUPS_BEYOND: f64 = 5e7;
const LIMIT_BYTES: usize = 1 << 30;
const MEBIBYTE: f64 = 1_048_576.0;

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    if context.wants("groups in memory") {
        in_memory(context, &mut findings).await?;
    }
    if context.wants("groups beyond memory") {
        beyond_memory(context, &mut findings).await?;
    }
    Ok(findings)
}

/// Each row is a group of its own; the result is discarded as it arrives.
async fn in_memory(context: &Context, findings: &mut Findings) -> Result<()> {
    let groups = (context.scale * GROUPS) as u64;
    let database = Database::in_memory()?;
    let mut session = database.session();
    fill(&mut session, groups, groups).await?;
    let (seconds, peak) = ask(context, &mut session, groups).await?;
    let work = format!("groups in memory: {} M of a bigint, three aggregates", groups / 1_000_000);
    println!("  {work}: {:.1} bytes a group at the peak, {seconds:.2} s", peak / groups as f64);
    findings.push(Finding::new(&work, Unit::Seconds, seconds));
    let bytes = format!("{work}, bytes of the process a group at the peak");
    let finding = Finding::new(bytes, Unit::Number, peak / groups as f64);
    findings.push(finding.wanted(Wanted::AtMost(40.0)).noted(
        "What the process had in RAM at its peak above what it had with the rows, what the \
         allocator kept included.",
    ));
    database.close()
}

/// Two rows in each group, and a memory limit that is too low for all groups.
async fn beyond_memory(context: &Context, findings: &mut Findings) -> Result<()> {
    let groups = (context.scale * GROUPS_BEYOND) as u64;
    let scratch = context.scratch("groups")?;
    let database = Database::builder()
        .memory_limit(LIMIT_BYTES)
        .spill_directory(scratch.path().join("spilled"))
        .open()?;
    let mut session = database.session();
    fill(&mut session, 2 * groups, groups).await?;
    let (seconds, peak) = ask(context, &mut session, groups).await?;
    let millions = groups / 1_000_000;
    let work = format!("groups beyond memory: {millions} M of two rows, a limit of 1 GiB");
    println!("  {work}: {seconds:.1} s, {:.0} MiB at the peak", peak / MEBIBYTE);
    findings.push(Finding::new(&work, Unit::Seconds, seconds));
    let bytes = format!("{work}, memory of the process at the peak");
    findings.push(
        Finding::new(bytes, Unit::Mebibytes, peak / MEBIBYTE)
            .noted("Above what it had with the rows; the limit is on what operators account for."),
    );
    database.close()
}

async fn fill(session: &mut Session, rows: u64, groups: u64) -> Result<()> {
    execute(session, "CREATE TABLE readings (id bigint, value bigint)").await?;
    // An odd factor distributes the ids over the rows.
    let fill = format!(
        "INSERT INTO readings SELECT i * 7919 % {groups}, i % 1000 \
         FROM generate_series(1::bigint, {rows}::bigint) AS g(i)"
    );
    execute(session, &fill).await.map(drop)
}

/// Groups all rows; returns the seconds, and the growth of memory.
///
/// # Errors
/// If the number of groups is wrong.
async fn ask(context: &Context, session: &mut Session, groups: u64) -> Result<(f64, f64)> {
    let question = "SELECT id, count(*), sum(value), min(value) FROM readings GROUP BY id";
    let process = std::process::id();
    // Memory that was freed after filling the table would be reused, which would hide the growth.
    RealMemory.give_back();
    let before = machine::resident_bytes()?;
    machine::forget_peak_of(process)?;
    let count = async {
        let outcome = session.execute(question).await?;
        let mut rows = outcome.rows.ok_or_else(|| Error::internal("a question has rows"))?;
        let mut count = 0;
        while let Some(batch) = rows.try_next().await? {
            count += batch.num_rows() as u64;
        }
        Ok(count)
    };
    let (seconds, count) = context.timed(count).await?;
    let peak = machine::peak_bytes_of(process)?.saturating_sub(before);
    match count == groups {
        true => Ok((seconds, peak as f64)),
        false => Err(Error::internal(format!("{count} groups and not {groups}"))),
    }
}
