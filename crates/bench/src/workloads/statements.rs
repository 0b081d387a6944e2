//! Small statements: many connections that read or change one row, and many idle ones.

use std::path::PathBuf;

use thalweg_types::Result;

use super::Workload;
use crate::clients::Connection;
use crate::context::{Context, Scratch};
use crate::errors::while_doing;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::machine;
use crate::peers::{Endpoint, Postgres};
use crate::samples::Samples;

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "statements",
    about: "one-row statements from 16 connections beside PostgreSQL, and idle connections",
    run: |context| Box::pin(run(context)),
};

const ROWS: u64 = 100_000;
const CONNECTIONS: usize = 16;
/// Duration of each run of pgbench.
const SECONDS: u64 = 5;

const CREATE: &str = "CREATE TABLE account (id bigint PRIMARY KEY, owner text NOT NULL, \
    balance bigint NOT NULL)";

/// Statements of pgbench, and their names in the report.
const STATEMENTS: [(&str, &str); 2] = [
    ("SELECT of a row by its key", "SELECT owner, balance FROM account WHERE id = :id;"),
    ("UPDATE of a row by its key", "UPDATE account SET balance = :balance WHERE id = :id;"),
];

const IDLE_CONNECTIONS: usize = 10_000;
/// Files and sockets that a process opens beside its connections, with room to spare.
const OTHER_FILES: usize = 200;

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    one_row(context, &mut findings).await?;
    findings.push(idle(context).await?);
    Ok(findings)
}

async fn one_row(context: &Context, findings: &mut Findings) -> Result<()> {
    let Some(programs) = context.postgres_programs() else { return Ok(()) };
    let scratch = context.scratch_for_servers("statements")?;
    let server = context.server(&scratch).await?;
    let postgres = Postgres::start(&programs, scratch.path()).await?;
    for endpoint in [&server.endpoint, &postgres.endpoint] {
        fill(endpoint).await?;
    }
    // Completes the work that loading left behind before the first measurement.
    Connection::open(&postgres.endpoint).await?.execute("VACUUM ANALYZE account").await?;
    for (work, statement) in STATEMENTS {
        let script = script(&scratch, statement)?;
        let mut rates = [Samples::default(), Samples::default()];
        for _ in 0..context.repetitions {
            let endpoints = [&server.endpoint, &postgres.endpoint];
            for (endpoint, samples) in endpoints.into_iter().zip(&mut rates) {
                let rate = programs.pgbench(endpoint, &script, CONNECTIONS, SECONDS)?;
                println!("  {work}: {} {rate:.0}/s", endpoint.name);
                samples.push(rate);
            }
        }
        let [ours, peer] = rates;
        findings.push(
            Finding::new(work, Unit::StatementsPerSecond, ours)
                .beside(&postgres.endpoint.name, peer)
                .wanted(Wanted::RatioAtLeast(1.0))
                .noted(format!(
                    "`pgbench -n -M prepared -c {CONNECTIONS} -j 2 -T {SECONDS}` on {ROWS} rows, \
                     changes durable on both sides: {statement}"
                )),
        );
    }
    Ok(())
}

async fn fill(endpoint: &Endpoint) -> Result<()> {
    let mut connection = Connection::open(endpoint).await?;
    connection.execute(CREATE).await?;
    let insert = format!(
        "INSERT INTO account SELECT i, 'owner-' || i, i FROM generate_series(1, {ROWS}) AS s(i)"
    );
    connection.execute(&insert).await.map(drop)
}

fn script(scratch: &Scratch, statement: &str) -> Result<PathBuf> {
    let path = scratch.path().join("statement.sql");
    let text =
        format!("\\set id random(1, {ROWS})\n\\set balance random(1, 1000000)\n{statement}\n");
    #[expect(clippy::disallowed_methods, reason = "a script for pgbench, not a database's file")]
    std::fs::write(&path, text).map_err(while_doing(path.display()))?;
    Ok(path)
}

/// Measures the memory of each of many connections that ran a statement and now are idle.
async fn idle(context: &Context) -> Result<Finding> {
    let scratch = context.scratch_for_servers("idle")?;
    let server = context.server(&scratch).await?;
    let allowed = machine::open_files_allowed()?.saturating_sub(OTHER_FILES);
    let number = IDLE_CONNECTIONS.min(allowed);
    // One-time memory of the first statement is not a connection's.
    let first = connect(&server.endpoint).await?;
    let before = machine::resident_bytes_of(server.process())?;
    let mut connections = Vec::with_capacity(number);
    for _ in 0..number {
        connections.push(connect(&server.endpoint).await?);
    }
    let after = machine::resident_bytes_of(server.process())?;
    drop((first, connections));
    let each = after.saturating_sub(before) as f64 / number as f64 / 1024.0;
    let limited = match number < IDLE_CONNECTIONS {
        true => format!(" Fewer than {IDLE_CONNECTIONS}: the limit of open files allows no more."),
        false => String::new(),
    };
    Ok(Finding::new(format!("memory of each of {number} idle connections"), Unit::Kibibytes, each)
        .wanted(Wanted::AtMost(32.0))
        .noted(format!(
            "What the server's process grew by in RAM, after each ran a statement.{limited}"
        )))
}

async fn connect(endpoint: &Endpoint) -> Result<Connection> {
    let mut connection = Connection::open(endpoint).await?;
    connection.execute("SELECT 1").await?;
    Ok(connection)
}
