//! Ten million updates of a million rows: neither memory nor scans may degrade.

use arrow::array::RecordBatch;
use thalweg_query::{Database, Session};
use thalweg_types::Result;

use super::Workload;
use crate::context::Context;
use crate::finding::{Chart, Finding, Findings, Line, Unit, Wanted};
use crate::machine;
use crate::peers::execute;
use crate::samples::Samples;

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "updates",
    about: "ten million updates over a million keys: memory, disk and scans afterwards",
    run: |context| Box::pin(run(context)),
};

const KEYS: u64 = 1_000_000;
const UPDATES: u64 = 10_000_000;
/// Rows that one statement updates.
const STATEMENT_ROWS: u64 = 20_000;
/// Number of measurements of memory and disk.
const LOOKS: u64 = 20;
/// Small, so that the run sees several checkpoints.
const CHECKPOINT_BYTES: u64 = 32 << 20;
const MEGABYTE: f64 = 1e6;

const COLUMNS: &str = "id bigint PRIMARY KEY, owner text NOT NULL, balance bigint NOT NULL, \
    rate double precision NOT NULL, changed bigint NOT NULL";

/// Memory and disk space in use after a number of updates, in megabytes.
struct Look {
    updates: u64,
    /// Memory of the whole process.
    resident: f64,
    /// Memory of the tables, by their own count.
    tables: f64,
    files: f64,
}

async fn run(context: &Context) -> Result<Findings> {
    let scratch = context.scratch("updates")?;
    let directory = scratch.path().join("data");
    let builder = Database::builder().directory(&directory);
    let database = builder.checkpoint_bytes(CHECKPOINT_BYTES).open()?;
    let mut session = database.session();
    create(&mut session, "account").await?;
    execute(&mut session, &upsert("account", 0, KEYS)).await?;
    let mut looks = Vec::new();
    let mut rates = Samples::default();
    for part in 0..LOOKS {
        let rows = UPDATES / LOOKS;
        let (seconds, ()) = context.timed(update(&mut session, part * rows, rows)).await?;
        rates.push(rows as f64 / seconds);
        looks.push(Look {
            updates: (part + 1) * rows,
            resident: machine::resident_bytes()? as f64 / MEGABYTE,
            tables: database.size().0 as f64 / MEGABYTE,
            files: machine::directory_bytes(&directory)? as f64 / MEGABYTE,
        });
    }
    let mut findings = Findings::default();
    let upserts = format!("upserts a second, {STATEMENT_ROWS} a statement, synced");
    findings.push(Finding::new(upserts, Unit::RowsPerSecond, rates));
    flatness(&mut findings, &looks);
    scans(context, &mut session, &mut findings).await?;
    drop(session);
    database.close()?;
    Ok(findings)
}

async fn create(session: &mut Session, table: &str) -> Result<()> {
    execute(session, &format!("CREATE TABLE {table} ({COLUMNS})")).await.map(drop)
}

/// Writes `rows` rows from the `first` on, whose keys are spread over all keys.
fn upsert(table: &str, first: u64, rows: u64) -> String {
    // The factor is coprime to the number of keys, so that each key occurs once in a million rows.
    format!(
        "INSERT INTO {table} \
         SELECT (i::bigint * 7919) % {KEYS}, 'owner-' || (i % 5000), i, i * 0.5, i \
         FROM generate_series({first}, {last}) AS series(i) \
         ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, balance = excluded.balance, \
         rate = excluded.rate, changed = excluded.changed",
        last = first + rows - 1,
    )
}

async fn update(session: &mut Session, first: u64, rows: u64) -> Result<()> {
    for done in (0..rows).step_by(STATEMENT_ROWS as usize) {
        execute(session, &upsert("account", KEYS + first + done, STATEMENT_ROWS)).await?;
    }
    Ok(())
}

/// Compares the peaks of the two halves: use varies with each compaction and checkpoint, but it
/// must not grow.
fn flatness(findings: &mut Findings, looks: &[Look]) {
    let (first, second) = looks.split_at(looks.len() / 2);
    let growth = |what: &str, value: fn(&Look) -> f64| {
        let peak = |looks: &[Look]| looks.iter().map(value).collect::<Samples>().max();
        Finding::new(format!("{what}, peak of the last half"), Unit::Megabytes, peak(second))
            .beside("ours in the first half", Samples::from(peak(first)))
            .wanted(Wanted::RatioAtMost(1.1))
    };
    findings.push(growth("resident memory", |look| look.resident));
    findings.push(growth("memory of the tables", |look| look.tables));
    findings.push(growth("files", |look| look.files));
    let line = |name: &str, value: fn(&Look) -> f64| Line {
        name: name.to_owned(),
        points: looks.iter().map(|look| (look.updates as f64 / 1e6, value(look))).collect(),
    };
    findings.charts.push(Chart {
        title: "Memory and files while rows are updated".to_owned(),
        across: "million updates".to_owned(),
        up: "MB".to_owned(),
        lines: vec![
            line("resident", |look| look.resident),
            line("tables", |look| look.tables),
            line("files", |look| look.files),
        ],
    });
}

/// Scans the updated table and a fresh one with the same rows, in turns.
async fn scans(context: &Context, session: &mut Session, findings: &mut Findings) -> Result<()> {
    create(session, "fresh").await?;
    execute(session, "INSERT INTO fresh SELECT * FROM account").await?;
    let mut seconds = [Samples::default(), Samples::default()];
    for _ in 0..context.repetitions * 5 {
        for (table, samples) in ["account", "fresh"].iter().zip(&mut seconds) {
            let scan = format!(
                "SELECT owner, SUM(balance), MAX(rate), COUNT(*) FROM {table} GROUP BY owner"
            );
            let (elapsed, batches) = context.timed(execute(session, &scan)).await?;
            assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 5_000);
            samples.push(elapsed);
        }
    }
    let [updated, fresh] = seconds;
    findings.push(
        Finding::new("scan and group all rows after the updates", Unit::Seconds, updated)
            .beside("ours freshly loaded", fresh)
            .wanted(Wanted::RatioAtMost(1.3)),
    );
    Ok(())
}
