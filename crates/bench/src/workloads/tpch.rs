//! TPC-H in memory: 22 queries beside DataFusion's own tables and DuckDB, in turns.

use thalweg_query::{Database, Session};
use thalweg_types::Result;

use super::Workload;
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::machine;
use crate::peers::{DuckDb, MemTables, Rows, copy, execute, load, same, to_rows};
use crate::samples::Samples;
use crate::tpch::{QUERIES, TABLES};

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "tpch",
    about: "the 22 queries of TPC-H in memory, beside DataFusion's MemTable and DuckDB",
    run: |context| Box::pin(run(context)),
};

/// The three systems, loaded.
struct Systems {
    session: Session,
    tables: MemTables,
    duckdb: Option<DuckDb>,
}

/// A query's seconds in each system, and the error in our result, if any.
#[derive(Default)]
struct Times {
    ours: Samples,
    tables: Samples,
    duckdb: Samples,
    wrong: Option<String>,
}

async fn run(context: &Context) -> Result<Findings> {
    let database = Database::in_memory()?;
    let mut systems = Systems::load(context, database.session()).await?;
    let mut queries = Vec::new();
    for (sql, number) in QUERIES.iter().zip(1..) {
        let times = systems.measure(context, sql).await?;
        println!("  {}", times.line(number));
        queries.push(times);
    }
    Ok(summary(context, &queries))
}

impl Systems {
    async fn load(context: &Context, mut session: Session) -> Result<Systems> {
        let files = context.tpch()?;
        let mut duckdb = context.duckdb(None)?;
        for table in &TABLES {
            load(&mut session, &files, table).await?;
            if let Some(duckdb) = &mut duckdb {
                duckdb.run(&table.create())?;
                duckdb.run(&copy(&files, table.name))?;
            }
        }
        let tables = MemTables::load(&files, machine::cores()).await?;
        Ok(Systems { session, tables, duckdb })
    }

    /// Runs a query in each system in turns, with one unmeasured run first.
    async fn measure(&mut self, context: &Context, sql: &str) -> Result<Times> {
        let mut times = Times::default();
        let sql = sql.trim_end().trim_end_matches(';');
        for repetition in 0..=context.repetitions {
            let ours = context.timed(execute(&mut self.session, sql)).await;
            let (table_seconds, expected) = context.timed(self.tables.execute(sql)).await?;
            let mut expected = to_rows(&expected)?;
            let mut duckdb_seconds = None;
            if let Some(duckdb) = &mut self.duckdb {
                let (seconds, rows) = duckdb.fetch(sql)?;
                (duckdb_seconds, expected) = (Some(seconds), rows);
            }
            let our_seconds = match ours {
                Ok((seconds, batches)) => {
                    times.compare(&to_rows(&batches)?, &expected);
                    Some(seconds)
                }
                Err(error) => {
                    times.wrong = Some(format!("{error:?}"));
                    None
                }
            };
            if repetition > 0 {
                our_seconds.into_iter().for_each(|seconds| times.ours.push(seconds));
                times.tables.push(table_seconds);
                duckdb_seconds.into_iter().for_each(|seconds| times.duckdb.push(seconds));
            }
        }
        Ok(times)
    }
}

impl Times {
    fn compare(&mut self, ours: &Rows, expected: &Rows) {
        if let Err(difference) = same(ours, expected) {
            self.wrong = Some(difference);
        }
    }

    fn line(&self, number: usize) -> String {
        let shown = |samples: &Samples| match samples.is_empty() {
            true => "      -".to_owned(),
            false => format!("{:7.1}", samples.median() * 1000.0),
        };
        let wrong = self.wrong.as_ref().map_or_else(String::new, |why| format!("  WRONG: {why}"));
        let [ours, tables, duckdb] = [&self.ours, &self.tables, &self.duckdb].map(shown);
        format!("Q{number:02}  ours {ours} ms  MemTable {tables} ms  DuckDB {duckdb} ms{wrong}")
    }
}

fn summary(context: &Context, queries: &[Times]) -> Findings {
    let mut findings = Findings::default();
    // Includes only queries that all systems answered: a total of fewer would flatter ours.
    let answered: Vec<&Times> = queries.iter().filter(|times| !times.ours.is_empty()).collect();
    let what = format!("{} queries, scale {}, total", answered.len(), context.scale);
    let ours = total(&answered, |times| &times.ours);
    if !ours.is_empty() {
        let tables = total(&answered, |times| &times.tables);
        let duckdb = total(&answered, |times| &times.duckdb);
        findings.push(
            Finding::new(&what, Unit::Seconds, ours.clone())
                .beside("DataFusion MemTable", tables)
                .wanted(Wanted::RatioAtMost(1.0)),
        );
        findings.push(Finding::new(what, Unit::Seconds, ours).beside("DuckDB", duckdb));
    }
    let right = queries.iter().filter(|times| times.wrong.is_none()).count();
    findings.push(
        Finding::new("queries whose rows are the peers' rows", Unit::Count, right as f64)
            .wanted(Wanted::AtLeast(QUERIES.len() as f64))
            .noted("Compared with DuckDB's, or DataFusion's where DuckDB is not installed."),
    );
    for (times, number) in queries.iter().zip(1..) {
        if !times.ours.is_empty() {
            findings.push(
                Finding::new(format!("Q{number}"), Unit::Seconds, times.ours.clone())
                    .beside("DataFusion MemTable", times.tables.clone())
                    .noted(times.wrong.clone().unwrap_or_default()),
            );
        }
    }
    findings
}

/// The sums over all queries, run by run.
fn total(queries: &[&Times], samples: impl Fn(&Times) -> &Samples) -> Samples {
    let Some(runs) = queries.iter().map(|times| samples(times).len()).min() else {
        return Samples::default();
    };
    let mut totals = vec![0.0; runs];
    for times in queries {
        for (total, seconds) in totals.iter_mut().zip(samples(times).iter()) {
            *total += seconds;
        }
    }
    Samples::from_iter(totals)
}
