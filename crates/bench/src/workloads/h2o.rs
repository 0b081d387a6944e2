//! db-benchmark in memory: ten group-by queries and five joins, beside peers.

use arrow::datatypes::DataType;
use thalweg_query::{Database, Session};
use thalweg_types::Result;

use super::Workload;
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::h2o::{GROUP_BY, JOINS, Table, grouped, joined};
use crate::machine;
use crate::peers::{Answered, ask_all, execute, fastest, same, to_rows};
use crate::samples::Samples;

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "h2o",
    about: "db-benchmark's group-by and join of ten million rows, beside others",
    run: |context| Box::pin(run(context)),
};

/// Rows at scale 1.
const ROWS: f64 = 1e7;

async fn run(context: &Context) -> Result<Findings> {
    let rows = (context.scale * ROWS) as u64;
    let mut findings = Findings::default();
    let tables = grouped(context.cache(), rows)?;
    task(context, "group-by", &tables, &GROUP_BY, &mut findings).await?;
    let tables = joined(context.cache(), rows)?;
    task(context, "join", &tables, &JOINS, &mut findings).await?;
    Ok(findings)
}

async fn task(
    context: &Context,
    name: &str,
    tables: &[Table],
    questions: &[&str],
    findings: &mut Findings,
) -> Result<()> {
    let (ours, right) = ours(context, tables, questions).await?;
    let files: Vec<_> = tables.iter().map(|table| (table.name, table.path.clone())).collect();
    let peers = ask_all(context, machine::cores(), context.repetitions, &files, questions)?;
    for (place, samples) in ours.iter().enumerate() {
        let mut line = format!("  {name} {}: ours {:.3} s", place + 1, samples.median());
        for peer in peers.iter().filter(|peer| !peer.seconds[place].is_empty()) {
            line.push_str(&format!("  {} {:.3} s", peer.engine, peer.seconds[place].median()));
        }
        println!("{line}");
    }
    for peer in &peers {
        findings.push(total(name, &ours, peer));
    }
    findings.push(
        Finding::new(format!("{name}: answers that are DuckDB's"), Unit::Count, right as f64)
            .wanted(Wanted::AtLeast(questions.len() as f64)),
    );
    for (place, samples) in ours.into_iter().enumerate() {
        let finding = Finding::new(format!("{name} {}", place + 1), Unit::Seconds, samples);
        findings.push(match fastest(&peers, place) {
            Some((engine, theirs)) => finding.beside(engine, theirs.clone()),
            None => finding,
        });
    }
    Ok(())
}

/// The sums of the medians over the queries that a peer answers.
fn total(name: &str, ours: &[Samples], peer: &Answered) -> Finding {
    let answered = || ours.iter().zip(&peer.seconds).filter(|(_, theirs)| !theirs.is_empty());
    let our_total: f64 = answered().map(|(ours, _)| ours.median()).sum();
    let their_total: f64 = answered().map(|(_, theirs)| theirs.median()).sum();
    let work = format!("{name}, total of {} questions", answered().count());
    Finding::new(work, Unit::Seconds, our_total)
        .beside(peer.engine, Samples::from(their_total))
        .wanted(Wanted::RatioAtMost(1.0))
}

/// Our times, and the number of results that equal DuckDB's.
async fn ours(
    context: &Context,
    tables: &[Table],
    questions: &[&str],
) -> Result<(Vec<Samples>, usize)> {
    let database = Database::in_memory()?;
    let mut session = database.session();
    let mut duckdb = context.duckdb(None)?;
    for Table { name, columns, path } in tables {
        execute(&mut session, &format!("CREATE TABLE {name} ({columns})")).await?;
        let copy = format!("COPY {name} FROM '{}' (FORMAT parquet)", path.display());
        execute(&mut session, &copy).await?;
        if let Some(duckdb) = &mut duckdb {
            let view =
                format!("CREATE VIEW {name} AS SELECT * FROM read_parquet('{}')", path.display());
            duckdb.run(&view)?;
        }
    }
    let mut all = Vec::new();
    let mut right = 0;
    for question in questions {
        let mut samples = Samples::default();
        for repetition in 0..=context.repetitions {
            let (seconds, _) = context.timed(execute(&mut session, question)).await?;
            if repetition > 0 {
                samples.push(seconds);
            }
        }
        all.push(samples);
        if let Some(duckdb) = &mut duckdb {
            let check = check(&mut session, question).await?;
            let rows = to_rows(&execute(&mut session, &check).await?)?;
            match same(&rows, &duckdb.fetch(&check)?.1) {
                Ok(()) => right += 1,
                Err(difference) => println!("  WRONG: {question}: {difference}"),
            }
        }
    }
    Ok((all, right))
}

/// Aggregates the result of a query, whose millions of rows thus need not be fetched.
async fn check(session: &mut Session, question: &str) -> Result<String> {
    let prepared = session.prepare(question, &[]).await?;
    let mut sums = vec!["count(*)".to_owned()];
    for field in prepared.schema().into_iter().flat_map(|schema| schema.fields()) {
        let name = field.name();
        match field.data_type() {
            DataType::Utf8View | DataType::Utf8 => {
                sums.push(format!("count({name}), min({name}), max({name})"));
            }
            _ => sums.push(format!("count({name}), sum({name}), min({name}), max({name})")),
        }
    }
    Ok(format!("SELECT {} FROM ({question}) AS answer", sums.join(", ")))
}
