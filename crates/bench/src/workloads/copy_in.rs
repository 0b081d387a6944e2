//! COPY FROM STDIN of TPC-H's lineitem as CSV, by the same client into both servers.

use std::path::Path;

use thalweg_types::{Error, Result};

use super::Workload;
use crate::clients::Connection;
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::peers::{Endpoint, Postgres, Programs};
use crate::samples::Samples;
use crate::tpch::lineitem;

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "copy_in",
    about: "COPY FROM STDIN of TPC-H's lineitem as CSV, durable, beside PostgreSQL",
    run: |context| Box::pin(run(context)),
};

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    // The client is psql, which comes with the peer.
    let Some(programs) = context.postgres_programs() else { return Ok(findings) };
    let files = context.tpch()?;
    let (csv, rows) = (files.csv("lineitem")?, files.rows("lineitem")?);
    let scratch = context.scratch_for_servers("copy-in")?;
    let server = context.server(&scratch).await?;
    let postgres = Postgres::start(&programs, scratch.path()).await?;
    let works = [
        (format!("COPY lineitem FROM STDIN, scale {}", context.scale), lineitem().create()),
        ("the same with its primary key".to_owned(), lineitem().create_with_key()),
    ];
    for (work, create) in works {
        let mut rates = [Samples::default(), Samples::default()];
        for _ in 0..context.repetitions {
            let endpoints = [&server.endpoint, &postgres.endpoint];
            for (endpoint, samples) in endpoints.into_iter().zip(&mut rates) {
                let seconds = copy(context, &programs, endpoint, &create, (&csv, rows)).await?;
                println!("  {work}: {} {seconds:.2} s", endpoint.name);
                samples.push(rows as f64 / seconds);
            }
        }
        let [ours, peer] = rates;
        findings.push(
            Finding::new(work, Unit::RowsPerSecond, ours)
                .beside(&postgres.endpoint.name, peer)
                .wanted(Wanted::RatioAtLeast(1.5))
                .noted("The client is psql's \\copy; the rows are durable at its end on both."),
        );
    }
    Ok(findings)
}

/// Copies a file into a new table; returns the seconds from the client's start to its end.
async fn copy(
    context: &Context,
    programs: &Programs,
    endpoint: &Endpoint,
    create: &str,
    (csv, rows): (&Path, u64),
) -> Result<f64> {
    let mut connection = Connection::open(endpoint).await?;
    connection.execute(create).await?;
    let statement = format!("\\copy lineitem FROM '{}' (FORMAT csv)", csv.display());
    let started = context.seconds();
    let printed = programs.run("psql", endpoint, &["-X", "-c", &statement])?;
    let seconds = context.seconds() - started;
    if printed.trim() != format!("COPY {rows}") {
        return Err(Error::internal(format!("psql said {printed:?}, {rows} rows were sent")));
    }
    connection.execute("DROP TABLE lineitem").await?;
    Ok(seconds)
}
