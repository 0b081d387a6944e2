//! Small analytical queries, prepared: their time beside others, on one thread and on two, over
//! PostgreSQL's wire, and their fixed cost without any rows.

mod bare;
mod ranges;
mod wire;

use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use thalweg_query::{Database, Prepared, ScalarValue, Session};
use thalweg_types::Result;

use super::Workload;
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::peers::{Answered, ask_all, execute, fastest};
use crate::samples::Samples;

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "questions",
    about: "prepared GROUP BYs over millions of rows, beside DuckDB, Polars, DataFusion and chdb",
    run: |context| Box::pin(run(context)),
};

const MILLION: u64 = 1_000_000;
/// Number of runs of a query for each repetition of the workload.
const ASKED: usize = 21;
/// Like [`ASKED`], for a query that takes a few microseconds.
const ASKED_OFTEN: usize = 2001;
/// Number of threads of the embedded database that takes turns with a server.
const TURNS_THREADS: usize = 2;

const SUMS: &str = "SELECT symbol, sum(volume) FROM trades GROUP BY symbol";
const SUMS_AND_COUNTS: &str = "SELECT symbol, sum(volume), count(*) FROM trades GROUP BY symbol";

/// Rows of `trades`, the number of symbols that alternate in it, and the query.
const SHAPES: [(u64, u64, &str); 4] = [
    (MILLION, 2, SUMS),
    (MILLION, 8, SUMS_AND_COUNTS),
    (5 * MILLION, 8, SUMS_AND_COUNTS),
    (10 * MILLION, 2, SUMS),
];

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    for (rows, symbols, question) in SHAPES {
        shape(context, rows, symbols, question, &mut findings).await?;
    }
    costs(context, &mut findings).await?;
    let rounds = bare::rounds(context).await?;
    println!("  a round of two fragments: {:.1} µs", rounds.median() * 1e6);
    let work = "two fragments without work, one on each of two threads";
    findings.push(Finding::new(work, Unit::Seconds, rounds).wanted(Wanted::AtMost(33e-6)).noted(
        "From handing them to threads that rest until a third one that waits is told; none \
             ends before both have begun.",
    ));
    Ok(findings)
}

async fn shape(
    context: &Context,
    rows: u64,
    symbols: u64,
    question: &str,
    findings: &mut Findings,
) -> Result<()> {
    let path = trades(context, rows, symbols).await?;
    let repetitions = context.repetitions * ASKED;
    let work = |threads: usize| {
        let threads = if threads == 1 { "one thread" } else { "two threads" };
        let asked = question.strip_suffix(" GROUP BY symbol").unwrap_or(question);
        format!("{asked} …, {} M rows of {symbols} symbols, {threads}", rows / MILLION)
    };
    let mut one = None;
    for threads in [1, 2] {
        let ours = ours(context, threads, &path, question, repetitions).await?;
        println!("  {}: {:.3} ms", work(threads), ours.median() * 1e3);
        let peers =
            ask_all(context, threads, repetitions, &[("trades", path.clone())], &[question])?;
        push(
            findings,
            &work(threads),
            &ours,
            &peers,
            rows == MILLION && symbols == 2 && threads == 1,
        );
        match one.take() {
            None => one = Some(ours),
            Some(alone) => {
                findings.push(by_threads(context, rows, symbols, &alone, &ours).await?);
                if rows == MILLION && symbols == 2 {
                    over_wire(context, &path, question, findings).await?;
                }
            }
        }
    }
    Ok(())
}

/// The speed-up of two threads, beside a loop that adds as many numbers.
async fn by_threads(
    context: &Context,
    rows: u64,
    symbols: u64,
    one: &Samples,
    two: &Samples,
) -> Result<Finding> {
    let millions = rows / MILLION;
    let work = format!("{millions} M rows, {symbols} symbols: one thread's time by two's");
    let finding = Finding::new(work, Unit::Number, one.median() / two.median());
    if rows < 10 * MILLION {
        return Ok(finding);
    }
    let (one, two) = (bare::sums(context, rows, 1).await?, bare::sums(context, rows, 2).await?);
    let loops = Samples::from(one.median() / two.median());
    Ok(finding.beside("a loop over as many numbers", loops).wanted(Wanted::AtLeast(1.8)))
}

async fn over_wire(
    context: &Context,
    path: &Path,
    question: &str,
    findings: &mut Findings,
) -> Result<()> {
    let turns = wire::turns(context, path, question, context.repetitions * ASKED).await?;
    let longer = turns.longer();
    println!(
        "  embedded {:.3} ms, over the wire {:.3} ms, longer by {:.3} ms",
        turns.embedded.median() * 1e3,
        turns.over_wire.median() * 1e3,
        longer.median() * 1e3
    );
    let work = "1 M rows, 2 symbols, two threads: over PostgreSQL's wire";
    findings.push(
        Finding::new(work, Unit::Seconds, turns.over_wire).beside("embedded", turns.embedded),
    );
    let work = "1 M rows, 2 symbols, two threads: longer over the wire than embedded right before";
    findings.push(
        Finding::new(work, Unit::Seconds, longer)
            .wanted(Wanted::AtMost(0.0003))
            .noted("Asked in turns; less than nothing is noise."),
    );
    Ok(())
}

fn push(findings: &mut Findings, work: &str, ours: &Samples, peers: &[Answered], bound: bool) {
    if bound {
        let finding = Finding::new(work, Unit::Seconds, ours.clone());
        findings.push(finding.wanted(Wanted::AtMost(0.001)));
    }
    let best = fastest(peers, 0).map(|(engine, _)| engine);
    for peer in peers {
        if peer.seconds[0].is_empty() {
            continue;
        }
        let finding = Finding::new(work, Unit::Seconds, ours.clone())
            .beside(peer.engine, peer.seconds[0].clone());
        findings.push(match bound && best == Some(peer.engine) {
            true => finding.wanted(Wanted::RatioAtMost(0.2)),
            false => finding,
        });
    }
}

/// The table as a file in the cache.
async fn trades(context: &Context, rows: u64, symbols: u64) -> Result<PathBuf> {
    let path = context.cache().join(format!("trades-{rows}-{symbols}.parquet"));
    if !path.exists() {
        println!("  making {}", path.display());
        let mut session = Database::in_memory()?.session();
        let copy = format!(
            "COPY (SELECT 'symbol' || (i % {symbols}) AS symbol, i * 7919 % 1000 AS volume \
             FROM generate_series(1::bigint, {rows}::bigint) AS g(i)) TO '{}' (FORMAT parquet)",
            path.display()
        );
        execute(&mut session, &copy).await?;
    }
    Ok(path)
}

async fn ours(
    context: &Context,
    threads: usize,
    path: &Path,
    question: &str,
    repetitions: usize,
) -> Result<Samples> {
    let Embedded { mut session, prepared, _database } =
        Embedded::over(path, threads, question).await?;
    asked(context, &mut session, &prepared, &[], repetitions).await
}

/// A prepared query in a database of this process.
struct Embedded {
    session: Session,
    prepared: Prepared,
    /// Declared after the session, so that it is dropped later.
    _database: Database,
}

impl Embedded {
    /// A query about the rows of a file.
    async fn over(path: &Path, threads: usize, question: &str) -> Result<Embedded> {
        let database = Database::builder().threads(threads).open()?;
        let mut session = database.session();
        execute(&mut session, "CREATE TABLE trades (symbol text, volume bigint)").await?;
        let copy = format!("COPY trades FROM '{}' (FORMAT parquet)", path.display());
        execute(&mut session, &copy).await?;
        let prepared = session.prepare(question, &[]).await?;
        Ok(Embedded { session, prepared, _database: database })
    }

    /// The seconds until the last row.
    async fn ask(&mut self, context: &Context) -> Result<f64> {
        answered(context, &mut self.session, &self.prepared, &[]).await
    }
}

/// The seconds of a prepared statement until its last row.
async fn answered(
    context: &Context,
    session: &mut Session,
    prepared: &Prepared,
    values: &[ScalarValue],
) -> Result<f64> {
    let answer = async {
        let outcome = session.execute_prepared(prepared, values).await?;
        match outcome.rows {
            Some(rows) => rows.try_collect::<Vec<_>>().await.map(drop),
            None => Ok(()),
        }
    };
    Ok(context.timed(answer).await?.0)
}

/// Runs a prepared statement repeatedly, to its last row.
async fn asked(
    context: &Context,
    session: &mut Session,
    prepared: &Prepared,
    values: &[ScalarValue],
    repetitions: usize,
) -> Result<Samples> {
    let mut samples = Samples::default();
    for repetition in 0..=repetitions {
        let seconds = answered(context, session, prepared, values).await?;
        if repetition > 0 {
            samples.push(seconds);
        }
    }
    Ok(samples)
}

/// The fixed cost of a query, without that of its rows.
async fn costs(context: &Context, findings: &mut Findings) -> Result<()> {
    let database = Database::in_memory()?;
    let mut session = database.session();
    let create = "CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, price float)";
    execute(&mut session, create).await?;
    let repetitions = context.repetitions * ASKED_OFTEN;
    let one = [ScalarValue::Int64(Some(1))];
    let questions = [
        ("SELECT id, price FROM orders WHERE customer = $1", &one[..]),
        ("SELECT customer, sum(price) FROM orders WHERE id > $1 GROUP BY customer", &one[..]),
        ("SELECT id, price FROM orders WHERE customer = $1 ORDER BY price LIMIT 10", &one[..]),
    ];
    for (sql, values) in questions {
        let prepared = session.prepare(sql, &[]).await?;
        let samples = asked(context, &mut session, &prepared, values, repetitions).await?;
        println!("  {sql}, no rows: {:.1} µs", samples.median() * 1e6);
        findings.push(
            Finding::new(format!("{sql}: no rows, a plan that was kept"), Unit::Seconds, samples)
                .wanted(Wanted::AtMost(60e-6)),
        );
    }
    let rows =
        "INSERT INTO orders SELECT i, i % 100, i * 0.5 FROM generate_series(0, 999999) AS g(i)";
    execute(&mut session, rows).await?;
    let prepared = session.prepare("SELECT id, price FROM orders WHERE id = $1", &[]).await?;
    let samples = asked(context, &mut session, &prepared, &one, repetitions).await?;
    println!("  a point read: {:.2} µs", samples.median() * 1e6);
    findings.push(
        Finding::new("a point read, prepared, of a million rows", Unit::Seconds, samples)
            .wanted(Wanted::AtMost(3e-6)),
    );
    ranges::short(context, &mut session, repetitions, findings).await
}
