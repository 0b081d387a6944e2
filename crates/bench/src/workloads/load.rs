//! Bulk load: six million line items from Parquet, durable at the end, beside DuckDB.

use thalweg_query::Database;
use thalweg_types::Result;

use super::Workload;
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::peers::{copy, execute};
use crate::samples::Samples;
use crate::tpch::lineitem;

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "load",
    about: "COPY of TPC-H's lineitem from Parquet, durable, beside DuckDB",
    run: |context| Box::pin(run(context)),
};

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    let (table, scale) = (lineitem(), context.scale);
    let plain = measure(context, &table.create()).await?;
    findings.push(
        Finding::new(format!("COPY lineitem, scale {scale}"), Unit::Seconds, plain.ours)
            .beside("DuckDB", plain.peer)
            .wanted(Wanted::RatioAtMost(2.0))
            .noted("Durable: ours synced, DuckDB's file checkpointed and closed."),
    );
    let keyed = measure(context, &table.create_with_key()).await?;
    findings.push(
        Finding::new("the same with its primary key", Unit::Seconds, keyed.ours)
            .beside("DuckDB", keyed.peer)
            .noted("Both check that no key is there twice."),
    );
    Ok(findings)
}

struct Seconds {
    ours: Samples,
    peer: Samples,
}

async fn measure(context: &Context, create: &str) -> Result<Seconds> {
    let files = context.tpch()?;
    let statement = copy(&files, "lineitem");
    let mut seconds = Seconds { ours: Samples::default(), peer: Samples::default() };
    for _ in 0..context.repetitions {
        let scratch = context.scratch("load")?;
        seconds.ours.push(ours(context, &scratch.path().join("data"), create, &statement).await?);
        if let Some(mut peer) = context.duckdb(Some(&scratch.path().join("duck.db")))? {
            peer.run(create)?;
            let copied = peer.run(&statement)? + peer.run("CHECKPOINT")?;
            seconds.peer.push(copied + peer.close()?);
        }
    }
    Ok(seconds)
}

async fn ours(
    context: &Context,
    directory: &std::path::Path,
    create: &str,
    statement: &str,
) -> Result<f64> {
    let database = Database::open(directory)?;
    let mut session = database.session();
    execute(&mut session, create).await?;
    let (seconds, _) = context.timed(execute(&mut session, statement)).await?;
    drop(session);
    database.close()?;
    Ok(seconds)
}
