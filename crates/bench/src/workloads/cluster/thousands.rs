//! Groupings over as many workers as a large cluster has, beside one process with the same rows.
//!
//! One process is all of the workers, each with a socket, a log and rows of its own: what is seen
//! is what a gateway pays for asking so many, and workers for being asked about few rows each.

use thalweg_types::Result;

use super::asked::{Asked, Systems};
use super::{GROUPED_ROWS, ONE, QUESTIONS, answered};
use crate::clients::Connection;
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::h2o::{GROUP_BY, Table, grouped};
use crate::{counters, machine};

const WORKERS: usize = 2_160;
const RATIO_MAX: f64 = 3.0;
/// How long the cluster is watched while nobody asks it anything, in seconds.
const AT_REST_SECONDS: u64 = 10;

pub async fn measure(context: &Context, findings: &mut Findings) -> Result<()> {
    let rows = (context.scale * GROUPED_ROWS) as u64;
    let tables = grouped(context.cache(), rows)?;
    let started = context.seconds();
    let mut systems = Systems::start(context, "cluster-thousands", 1, WORKERS).await?;
    let started = context.seconds() - started;
    println!("  {WORKERS} workers joined after {started:.1} s");
    findings.push(
        Finding::new(format!("{WORKERS} workers in a process, started"), Unit::Seconds, started)
            .noted("From its start until the gateway has given buckets to all of them."),
    );
    at_rest(context, &systems, findings)?;
    let gateway = systems.cluster.gateway.process();
    machine::forget_peak_of(gateway)?;
    let rest = machine::resident_bytes_of(gateway)?;
    let raised =
        || Ok(machine::peak_bytes_of(gateway)?.saturating_sub(rest) as f64 / f64::from(1 << 20));
    for table in &tables {
        load(context, &systems, table, findings).await?;
    }
    findings.push(Finding::new(
        format!("gateway memory, COPY to {WORKERS} workers"),
        Unit::Mebibytes,
        raised()?,
    ));
    machine::forget_peak_of(gateway)?;
    let mut all = Vec::new();
    for (question, number) in GROUP_BY[..QUESTIONS].iter().zip(1..) {
        all.push(ask(context, &mut systems, question, number, findings).await?);
    }
    findings.push(
        Finding::new(
            format!("gateway memory, group-by over {WORKERS} workers"),
            Unit::Mebibytes,
            raised()?,
        )
        .noted("At its peak while it was asked, above its rest before any row was there."),
    );
    findings.push(answered(&format!("group-by over {WORKERS} workers"), &all));
    Ok(())
}

/// What so many workers cost while nobody asks them anything.
fn at_rest(context: &Context, systems: &Systems, findings: &mut Findings) -> Result<()> {
    let before = cpu(systems)?;
    context.sleep(std::time::Duration::from_secs(AT_REST_SECONDS));
    let spent = (cpu(systems)?.0 - before.0) / AT_REST_SECONDS as f64;
    println!("  at rest: {spent:.2} s of CPU a second");
    findings.push(
        Finding::new(format!("CPU a second at rest, {WORKERS} workers"), Unit::Seconds, spent)
            .noted("Of gateway and workers together: joining again and looking at each other."),
    );
    Ok(())
}

/// Seconds of the cluster's processors, and of one process.
fn cpu(systems: &Systems) -> Result<(f64, f64)> {
    let mut cluster = counters::cpu_seconds_of(systems.cluster.gateway.process())?;
    for worker in systems.cluster.workers() {
        cluster += counters::cpu_seconds_of(worker)?;
    }
    Ok((cluster, counters::cpu_seconds_of(systems.one.process())?))
}

async fn load(
    context: &Context,
    systems: &Systems,
    table: &Table,
    findings: &mut Findings,
) -> Result<()> {
    let create = format!("CREATE TABLE {} ({})", table.name, table.columns);
    let copy = format!("COPY {} FROM '{}' (FORMAT parquet)", table.name, table.path.display());
    let mut seconds = [0.0; 2];
    for (server, seconds) in [&systems.cluster.gateway, &systems.one].into_iter().zip(&mut seconds)
    {
        let mut connection = Connection::open(&server.endpoint).await?;
        connection.execute(&create).await?;
        *seconds = context.timed(connection.execute(&copy)).await?.0;
    }
    let [cluster, one] = seconds;
    println!("  COPY: {cluster:.2} s over {WORKERS} workers, {one:.2} s in {ONE}");
    findings.push(
        Finding::new(format!("COPY to {WORKERS} workers"), Unit::Seconds, cluster)
            .beside(ONE, one.into()),
    );
    Ok(())
}

async fn ask(
    context: &Context,
    systems: &mut Systems,
    question: &str,
    number: usize,
    findings: &mut Findings,
) -> Result<Asked> {
    let before = cpu(systems)?;
    let asked = systems.ask(context, question).await?;
    let after = cpu(systems)?;
    let (cluster_cpu, one_cpu) = (after.0 - before.0, after.1 - before.1);
    println!(
        "  {}; CPU {cluster_cpu:.2} s beside {one_cpu:.2} s",
        asked.line(&format!("group-by {number} over {WORKERS} workers"))
    );
    if !asked.cluster.is_empty() {
        // Each was asked once more than is counted.
        let asks = (context.repetitions + 1) as f64;
        let work = format!("group-by {number} over {WORKERS} workers");
        findings.push(
            Finding::new(&work, Unit::Seconds, asked.cluster.clone())
                .beside(ONE, asked.one.clone())
                .wanted(Wanted::RatioAtMost(RATIO_MAX))
                .noted(question),
        );
        findings.push(
            Finding::new(format!("{work}, CPU"), Unit::Seconds, cluster_cpu / asks)
                .beside(ONE, (one_cpu / asks).into())
                .noted("Of all processes of the cluster, with what they need at rest."),
        );
    }
    Ok(asked)
}
