//! The memory of a gateway during a result that is larger than it: 10 GB of `SELECT` through the
//! program itself, relayed and computed at the gateway, to clients that keep up and to clients that
//! stop.
//!
//! The texts are long and few, so that workers store each once in a chunk; on the wire each row has
//! its own copy.

use std::ops::ControlFlow;

use thalweg_types::{Error, Result};

use super::MEMORY_MIB_MAX;
use crate::clients::{Connection, FrontEnd};
use crate::context::{Context, Scratch};
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::machine;
use crate::peers::{Cluster, ClusterOptions, OnDisk};
use crate::workloads::results::{SLOWLY, resting, slow_reader};

const WORKERS: usize = 2;
/// Number of rows at scale 1 and above; each has a text of a thousand letters.
const ROWS: f64 = 1e7;
const TEXT_BYTES: u64 = 1_000;
/// Loads gather in the gateway's memory, so they are split; workers build chunks of this many rows.
const ROWS_AT_ONCE: u64 = 100_000;
/// Rows that are read before the measurement, to exclude the one-time memory of the first query.
const FIRST_ROWS: u64 = 1_000;

const CREATE: &str = "CREATE TABLE texts (id bigint, note text)";
/// Plans that differ in the node that makes the client's rows. Workers do not compute volatile
/// functions, so the gateway does.
const PLANS: [(&str, &str); 2] = [
    ("relayed", "SELECT id, note FROM texts"),
    ("computed", "SELECT id, note, random() AS place FROM texts"),
];
const CLIENTS: [FrontEnd; 3] =
    [FrontEnd::PostgresText, FrontEnd::PostgresBinary, FrontEnd::FlightSql];

/// Measures the gateway's memory while clients read, slowly or not at all.
pub async fn measure(context: &Context, findings: &mut Findings) -> Result<()> {
    let scratch = context.scratch_for_servers("relay-huge")?;
    let rows = (ROWS * context.scale.min(1.0)) as u64;
    let mut cluster = filled(context, &scratch, rows).await?;
    let mut held = 0;
    for worker in cluster.workers() {
        held += machine::resident_bytes_of(worker)?;
    }
    let held = held as f64 / f64::from(1 << 20);
    println!("  the workers hold {rows} rows in {held:.0} MiB");
    findings.push(Finding::new(
        format!("workers' memory for {rows} rows of 1 KB"),
        Unit::Mebibytes,
        held,
    ));
    for (plan, sql) in PLANS {
        for client in CLIENTS {
            let result = format!("{:.0} GB, {plan}, {}", gigabytes(rows), client.name());
            // Memory that earlier queries left in the gateway would hide this query's.
            cluster.renew_gateway().await?;
            to_the_end(context, &cluster, client, (sql, rows), &result, findings).await?;
            cluster.renew_gateway().await?;
            slowly(context, &cluster, client, sql, &result, findings).await?;
        }
    }
    Ok(())
}

fn gigabytes(rows: u64) -> f64 {
    (rows * TEXT_BYTES) as f64 / 1e9
}

async fn filled(context: &Context, scratch: &Scratch, rows: u64) -> Result<Cluster> {
    let on_disk = OnDisk::Gateway;
    let options =
        ClusterOptions { name: "gateway", workers: WORKERS, logical: 1, on_disk, settings: &[] };
    let cluster = Cluster::start(context.program(), scratch.path(), &options).await?;
    let mut connection = Connection::open(&cluster.gateway.endpoint).await?;
    connection.execute(CREATE).await?;
    for from in (0..rows).step_by(ROWS_AT_ONCE as usize) {
        let to = (from + ROWS_AT_ONCE).min(rows) - 1;
        let insert = format!(
            "INSERT INTO texts SELECT n, repeat(chr(97 + (n % 16)::integer), {TEXT_BYTES}) \
             FROM generate_series({from}, {to}) AS s(n)"
        );
        connection.execute(&insert).await?;
    }
    Ok(cluster)
}

async fn to_the_end(
    context: &Context,
    cluster: &Cluster,
    client: FrontEnd,
    (sql, rows): (&str, u64),
    result: &str,
    findings: &mut Findings,
) -> Result<()> {
    let server = &cluster.gateway;
    let rest = resting(server, client, &format!("{sql} LIMIT {FIRST_ROWS}")).await?;
    let mut go_on = |_| ControlFlow::Continue(());
    let (seconds, came) = context.timed(client.query(server, sql, &mut go_on)).await?;
    if came != rows {
        return Err(Error::internal(format!("{result}: {came} rows of {rows} came")));
    }
    let more = machine::raised(server.process(), rest)?;
    let rate = gigabytes(rows) * 1e3 / seconds;
    println!("  {result}: {more:.1} MiB more, {rate:.0} MB/s");
    findings.push(
        Finding::new(format!("gateway memory, {result}"), Unit::Mebibytes, more)
            .wanted(Wanted::AtMost(MEMORY_MIB_MAX))
            .noted("At its peak, above its rest before."),
    );
    findings.push(Finding::new(format!("rate, {result}"), Unit::MegabytesPerSecond, rate));
    Ok(())
}

async fn slowly(
    context: &Context,
    cluster: &Cluster,
    client: FrontEnd,
    sql: &str,
    result: &str,
    findings: &mut Findings,
) -> Result<()> {
    let server = &cluster.gateway;
    let rest = resting(server, client, &format!("{sql} LIMIT {FIRST_ROWS}")).await?;
    client.query(server, sql, &mut slow_reader(context)).await?;
    let more = machine::raised(server.process(), rest)?;
    println!("  {result}, slow reader: {more:.1} MiB more");
    findings.push(
        Finding::new(format!("gateway memory, {result}, slow reader"), Unit::Mebibytes, more)
            .wanted(Wanted::AtMost(MEMORY_MIB_MAX))
            .noted(SLOWLY),
    );
    Ok(())
}
