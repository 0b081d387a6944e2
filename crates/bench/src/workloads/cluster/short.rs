//! Queries for a few rows, prepared and run one after another: they show the overhead of workers.

use thalweg_types::Result;

use super::queries::Systems;
use super::{ONE, WORKERS};
use crate::clients::Connection;
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit};
use crate::peers::Server;
use crate::samples::Samples;

const CREATE: &str =
    "CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, item text, amount bigint)";
/// Number of rows at scale 1.
const ROWS: f64 = 300_000.0;
/// Number of runs of a query for each repetition of the workload.
const ASKED: usize = 201;
/// Number of unmeasured runs, which absorb one-time work such as planning.
const ASKED_BEFORE: usize = 20;

/// Queries with a number as their parameter.
const QUERIES: [(&str, &str); 6] = [
    ("the row of a key", "SELECT * FROM orders WHERE id = $1"),
    ("computed of a key", "SELECT id, amount + 1, upper(item) FROM orders WHERE id = $1"),
    ("an aggregate of a key", "SELECT sum(amount) FROM orders WHERE id = $1"),
    ("rows of all workers", "SELECT id, amount FROM orders WHERE customer = $1"),
    (
        "groups of all workers",
        "SELECT item, count(*), sum(amount) FROM orders WHERE customer = $1 GROUP BY item",
    ),
    (
        "first rows of all workers",
        "SELECT id, amount FROM orders WHERE customer <> $1 ORDER BY amount DESC LIMIT 10",
    ),
];

/// Measures each prepared query on a cluster and on one process.
pub async fn measure(context: &Context, findings: &mut Findings) -> Result<()> {
    let rows = (ROWS * context.scale) as u64;
    let systems = Systems::start(context, "cluster-short", WORKERS, 1, &[]).await?;
    let insert = format!(
        "INSERT INTO orders SELECT n, n % 7000, 'item ' || (n % 5), n \
         FROM generate_series(1, {rows}) AS s(n)"
    );
    systems.fill(CREATE, &insert).await?;
    let mut cluster = connected(&systems.cluster.gateway).await?;
    let mut one = connected(&systems.one).await?;
    for (name, _) in QUERIES {
        let (mut ours, mut theirs) = (Samples::default(), Samples::default());
        for asked in 0..ASKED_BEFORE + ASKED * context.repetitions {
            let value = ((asked as u64 * 37) % rows.min(7_000) + 1).to_string();
            let (seconds, _) = context.timed(cluster.execute_prepared(name, &[&value])).await?;
            let (alone, _) = context.timed(one.execute_prepared(name, &[&value])).await?;
            if asked >= ASKED_BEFORE {
                ours.push(seconds);
                theirs.push(alone);
            }
        }
        let [with, without] = [&ours, &theirs].map(|samples| samples.median() * 1e3);
        println!("  {name}: cluster {with:.2} ms, {ONE} {without:.2} ms");
        findings.push(
            Finding::new(format!("short query, {name}"), Unit::Seconds, ours).beside(ONE, theirs),
        );
    }
    Ok(())
}

/// A connection with all queries prepared.
async fn connected(server: &Server) -> Result<Connection> {
    let mut connection = Connection::open(&server.endpoint).await?;
    for (name, sql) in QUERIES {
        connection.prepare(name, sql).await?;
    }
    Ok(connection)
}
