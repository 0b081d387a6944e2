//! A gateway and four workers beside one process with the same rows and the same client: rows
//! written by key, groupings, queries for a few rows, and TPC-H. Groupings also run over 2,160
//! workers.

mod queries;
mod short;
mod thousands;

use thalweg_protocol::v1::Durability;
use thalweg_types::Result;

use self::queries::{QueryTimes, Systems};
use super::Workload;
use super::measure::{Work, in_turns};
use crate::account::CREATE;
use crate::clients::Connection;
use crate::context::Context;
use crate::data::TpchFiles;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::h2o::{GROUP_BY, grouped};
use crate::peers::{Ballista, Call, Cluster, ClusterOptions, OnDisk, Ours, Server, copy};
use crate::samples::Samples;
use crate::tpch::{QUERIES, TABLES};

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "cluster",
    about: "writes and queries through a gateway to four workers, beside one process",
    run: |context| Box::pin(run(context)),
};

const WORKERS: usize = 4;
const ONE: &str = "one process";

/// Keys of the written rows, and the number of times that one measurement writes all of them.
const KEYS: u64 = 1_000_000;
const ROUNDS: usize = 3;
/// Rows of one message.
const SHAPES: [(&str, u64); 2] = [("one row a message", 1), ("100 rows a message", 100)];

/// Number of rows to group at scale 1, and the number of db-benchmark's queries.
const GROUPED_ROWS: f64 = 1e7;
const QUESTIONS: usize = 5;

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    if context.wants("writes") {
        writes(context, &mut findings).await?;
    }
    if context.wants("group-by") {
        group_by(context, &mut findings).await?;
    }
    if context.wants("short") {
        short::measure(context, &mut findings).await?;
    }
    if context.wants("thousands") {
        thousands::measure(context, &mut findings).await?;
    }
    if context.wants("tpch") {
        tpch(context, &mut findings).await?;
    }
    Ok(findings)
}

/// Durable rows over the record API.
async fn writes(context: &Context, findings: &mut Findings) -> Result<()> {
    let scratch = context.scratch_for_servers("cluster-writes")?;
    let on_disk = OnDisk::Everything;
    let options =
        ClusterOptions { name: "gateway", workers: WORKERS, logical: 1, on_disk, settings: &[] };
    let cluster = scratch.path().join("cluster");
    let cluster = Cluster::start(context.program(), &cluster, &options).await?;
    let one = Server::start(context.program(), scratch.path(), None).await?;
    for server in [&one, &cluster.gateway] {
        Connection::open(&server.endpoint).await?.execute(CREATE).await?;
    }
    for (shape, message_rows) in SHAPES {
        println!("  {shape}:");
        let ours =
            |server| Ours::new(server, Call::Write(Durability::Fsync), KEYS).batched(message_rows);
        let (through, direct) = (ours(&cluster.gateway), ours(&one));
        let mut works = [&through, &direct].map(|target| Work::new(target, KEYS, ROUNDS));
        in_turns(context, &mut works)?;
        let [through, direct] = works.map(|work| work.flood);
        let work = format!("upserts, fsync, {shape}");
        findings.push(
            Finding::new(&work, Unit::RowsPerSecond, through.rates)
                .beside(ONE, direct.rates)
                .wanted(Wanted::RatioAtLeast(0.6))
                .noted(format!("One stream; {KEYS} keys, each written {ROUNDS} times.")),
        );
        findings.push(
            Finding::new(format!("gateway CPU a million, {work}"), Unit::Seconds, through.cpu)
                .beside(ONE, direct.cpu)
                .noted("Of the gateway alone: the workers' is their own."),
        );
    }
    Ok(())
}

async fn group_by(context: &Context, findings: &mut Findings) -> Result<()> {
    let rows = (context.scale * GROUPED_ROWS) as u64;
    let tables = grouped(context.cache(), rows)?;
    let mut systems = Systems::start(context, "cluster-group-by", WORKERS, 1, &[]).await?;
    for table in &tables {
        let create = format!("CREATE TABLE {} ({})", table.name, table.columns);
        let file = table.path.display();
        systems
            .fill(&create, &format!("COPY {} FROM '{file}' (FORMAT parquet)", table.name))
            .await?;
    }
    let mut all = Vec::new();
    for (question, number) in GROUP_BY[..QUESTIONS].iter().zip(1..) {
        let asked = systems.ask(context, question).await?;
        println!("  {}", asked.line(&format!("group-by {number}")));
        let QueryTimes { cluster, one, .. } = asked.clone();
        if !cluster.is_empty() {
            findings.push(
                Finding::new(format!("group-by {number}, {rows} rows"), Unit::Seconds, cluster)
                    .beside(ONE, one)
                    .wanted(Wanted::RatioAtMost(1.3))
                    .noted(*question),
            );
        }
        all.push(asked);
    }
    findings.push(answered("group-by", &all));
    Ok(())
}

async fn tpch(context: &Context, findings: &mut Findings) -> Result<()> {
    let files = context.tpch()?;
    let mut systems = Systems::start(context, "cluster-tpch", WORKERS, 1, &[]).await?;
    for table in &TABLES {
        systems.fill(&table.create_with_key(), &copy(&files, table.name)).await?;
    }
    let mut all = Vec::new();
    for (sql, number) in QUERIES.iter().zip(1..) {
        let asked = systems.ask(context, sql.trim_end().trim_end_matches(';')).await?;
        println!("  {}", asked.line(&format!("Q{number:02}")));
        all.push(asked);
    }
    // Includes only queries that both answered: a total of fewer would flatter one of them.
    let both: Vec<&QueryTimes> = all.iter().filter(|asked| !asked.cluster.is_empty()).collect();
    let total = |samples: fn(&QueryTimes) -> &Samples| {
        both.iter().map(|asked| samples(asked).median()).sum::<f64>()
    };
    if !both.is_empty() {
        let work = format!("tpch, {} queries, scale {}, total", both.len(), context.scale);
        findings.push(
            Finding::new(work, Unit::Seconds, total(|asked| &asked.cluster))
                .beside(ONE, Samples::from(total(|asked| &asked.one)))
                .wanted(Wanted::RatioAtMost(1.5)),
        );
    }
    findings.push(answered("tpch", &all));
    beside_ballista(context, &files, &all, findings).await?;
    for (asked, number) in all.into_iter().zip(1..) {
        if !asked.cluster.is_empty() {
            findings.push(
                Finding::new(format!("tpch Q{number}"), Unit::Seconds, asked.cluster)
                    .beside(ONE, asked.one),
            );
        }
    }
    Ok(())
}

/// Runs the same queries on as many Ballista executors, over the files that the rows came from.
async fn beside_ballista(
    context: &Context,
    files: &TpchFiles,
    all: &[QueryTimes],
    findings: &mut Findings,
) -> Result<()> {
    if !context.peers {
        return Ok(());
    }
    let scratch = context.scratch_for_servers("cluster-ballista")?;
    let tables: Vec<_> = TABLES.iter().map(|table| (table.name, files.path(table.name))).collect();
    let Some(ballista) = Ballista::start(scratch.path(), WORKERS, &tables).await? else {
        println!("  Ballista is not installed: nothing is put beside the cluster");
        return Ok(());
    };
    let (mut ours, mut theirs, mut both) = (0.0, 0.0, 0);
    for ((sql, asked), number) in QUERIES.iter().zip(all).zip(1..) {
        let sql = sql.trim_end().trim_end_matches(';');
        let seconds = ballista.ask(sql, context.repetitions)?;
        if seconds.is_empty() || asked.cluster.is_empty() {
            println!("  Q{number:02}  Ballista gave no answer");
            continue;
        }
        println!("  Q{number:02}  Ballista {:7.1} ms", seconds.median() * 1000.0);
        (ours, theirs) = (ours + asked.cluster.median(), theirs + seconds.median());
        both += 1;
    }
    if both > 0 {
        let work = format!("tpch, {both} queries, scale {}, four workers each", context.scale);
        findings.push(
            Finding::new(work, Unit::Seconds, Samples::from(ours))
                .beside("Ballista", Samples::from(theirs))
                .wanted(Wanted::RatioAtMost(0.5))
                .noted(
                    "Ballista reads the Parquet files each time, of which the system has kept all.",
                ),
        );
    }
    Ok(())
}

/// The number of answers that equal those of one process.
fn answered(part: &str, all: &[QueryTimes]) -> Finding {
    let right = all.iter().filter(|asked| asked.wrong.is_none()).count();
    Finding::new(
        format!("{part}: answers that are those of one process"),
        Unit::Count,
        right as f64,
    )
    .wanted(Wanted::AtLeast(all.len() as f64))
}
