//! Aggregates that are fused into the scan: which are, how they show, and that they say what the
//! rows say now.

use arrow::array::{ArrayRef, AsArray};
use arrow::record_batch::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use futures::StreamExt;
use thalweg_query::{Database, Outcome, Session};
use thalweg_types::{Error, Result, SqlState};

mod row_filters;
mod shapes;

const ROWS: i64 = 250_000;

/// A session of a database with two threads, and a table of several chunks.
async fn session() -> Session {
    session_of(Database::builder().threads(2).open().unwrap()).await
}

async fn session_of(database: Database) -> Session {
    let mut session = database.session();
    done(&mut session, "CREATE TABLE trades (id bigint, symbol text, volume bigint, rate real)")
        .await;
    let rows = format!(
        "INSERT INTO trades SELECT i, 's' || (i % 3), i % 1000, i % 8 \
         FROM generate_series(1::bigint, {ROWS}::bigint) AS g(i)"
    );
    done(&mut session, &rows).await;
    session
}

async fn done(session: &mut Session, sql: &str) {
    session.execute(sql).await.unwrap();
}

async fn batches(outcome: Outcome) -> Result<Vec<RecordBatch>> {
    let mut rows = outcome.rows.expect("a query gives rows");
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().await {
        batches.push(batch?);
    }
    Ok(batches)
}

async fn shown(outcome: Outcome) -> String {
    pretty_format_batches(&batches(outcome).await.unwrap()).unwrap().to_string()
}

async fn answer(session: &mut Session, sql: &str) -> String {
    shown(session.execute(sql).await.unwrap()).await
}

/// The error of a statement that fails, be it while it is planned or later.
async fn refused(session: &mut Session, sql: &str) -> Error {
    match session.execute(sql).await {
        Ok(outcome) => batches(outcome).await.err().unwrap(),
        Err(error) => error,
    }
}

/// The lines of a plan, as `EXPLAIN` tells them.
async fn plan(session: &mut Session, explain: &str) -> String {
    let mut plan = String::new();
    for batch in batches(session.execute(explain).await.unwrap()).await.unwrap() {
        let texts = |column: &ArrayRef| -> Vec<String> {
            let texts = arrow::compute::cast(column, &arrow::datatypes::DataType::Utf8View);
            let texts = texts.unwrap();
            texts.as_string_view().iter().flatten().map(str::to_owned).collect()
        };
        plan.extend(batch.columns().iter().flat_map(texts).map(|line| line + "\n"));
    }
    plan
}

#[tokio::test]
async fn explain_shows_how_the_work_is_shared_out() {
    let mut session = session().await;
    let chunked = "EXPLAIN SELECT symbol, sum(volume) FROM trades GROUP BY symbol";
    let chunked = plan(&mut session, chunked).await;
    assert!(chunked.contains("FusedAggregate: trades mode=CHUNKED workers=2 local"), "{chunked}");
    assert!(!chunked.contains("ShardScan"), "{chunked}");
    let few = "EXPLAIN SELECT sum(volume) FROM trades WHERE id < 10";
    let few = plan(&mut session, few).await;
    assert!(few.contains("FusedAggregate: trades mode=SERIAL keys=[]"), "{few}");
    assert!(few.contains("chunks=1/"), "{few}");
    let none = plan(&mut session, "EXPLAIN SELECT count(*) FROM trades WHERE symbol = 's9'").await;
    assert!(none.contains("chunks=0/"), "a dictionary knows all texts: {none}");
    let run = "EXPLAIN ANALYZE SELECT symbol, sum(volume) FROM trades WHERE id > 5 GROUP BY 1";
    let run = plan(&mut session, run).await;
    assert!(
        run.contains(&format!("rows_read={ROWS}")) || run.contains("rows_read=250.0 K"),
        "{run}"
    );
    assert!(run.contains("scan_time=") && run.contains("output_rows=3"), "{run}");
    // Three texts of two letters with where they end, and three numbers.
    let bytes = figure(&run, "FusedAggregate", "output_bytes");
    assert!(bytes.starts_with('4') && bytes.ends_with(" B"), "{run}");
}

/// What the first operator of a name says of itself.
fn figure<'a>(run: &'a str, operator: &str, name: &str) -> &'a str {
    let line = run.lines().find(|line| line.contains(operator)).unwrap();
    let (_, figure) = line.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("{run}"));
    figure.split([',', ']']).next().unwrap_or_default()
}

#[tokio::test]
async fn how_many_rows_are_left_to_one_thread_can_be_told() {
    let told = Database::builder().threads(2).serial_rows(ROWS as usize + 1).open().unwrap();
    let mut session = session_of(told).await;
    let plan = plan(&mut session, "EXPLAIN SELECT symbol, sum(volume) FROM trades GROUP BY 1");
    let plan = plan.await;
    assert!(plan.contains("FusedAggregate: trades mode=SERIAL"), "{plan}");
}

#[tokio::test]
async fn what_is_not_understood_is_left_to_datafusion() {
    let mut session = session().await;
    for select in [
        "SELECT sum(DISTINCT volume), count(DISTINCT symbol) FROM trades",
        "SELECT sum(volume) FILTER (WHERE symbol ILIKE 'S%') FROM trades",
        "SELECT sum(volume) FROM trades WHERE symbol LIKE 's_'",
        "SELECT sum(volume / 3.5) FROM trades",
        "SELECT max(CASE WHEN id > 3 THEN symbol ELSE 'none' END) FROM trades",
        "SELECT string_agg(symbol, ',' ORDER BY id) FROM trades",
        "SELECT symbol, sum(volume) FROM trades GROUP BY ROLLUP (symbol)",
        "SELECT max(rate * rate) FROM trades",
        "SELECT first_value(symbol), last_value(symbol) FROM trades",
        "SELECT first_value(symbol ORDER BY volume, id) FROM trades",
        "SELECT last_value(volume ORDER BY symbol) FROM trades",
        "SELECT first_value(upper(symbol) ORDER BY id) FROM trades",
    ] {
        let plan = plan(&mut session, &format!("EXPLAIN {select}")).await;
        assert!(!plan.contains("FusedAggregate"), "{select}: {plan}");
    }
}

#[tokio::test]
async fn the_answer_is_the_same_on_one_thread_and_on_two() {
    let mut two = session().await;
    let mut one = session_of(Database::builder().threads(1).open().unwrap()).await;
    for select in [
        "SELECT symbol, count(*), sum(volume), avg(volume) FROM trades GROUP BY 1 ORDER BY 1",
        "SELECT id, sum(volume) FROM trades GROUP BY id ORDER BY id LIMIT 3 OFFSET 200000",
        "SELECT count(*), max(n) FROM (SELECT count(*) AS n FROM trades GROUP BY id, symbol) AS x",
        "SELECT min(rate), max(symbol), sum(rate) FROM trades WHERE volume BETWEEN 5 AND 17",
    ] {
        assert_eq!(answer(&mut one, select).await, answer(&mut two, select).await, "{select}");
    }
}

#[tokio::test]
async fn a_prepared_aggregate_sees_what_was_written_since() {
    let mut session = session().await;
    let sql =
        "SELECT symbol, sum(volume) AS s FROM trades WHERE symbol IN ('s1', 'new') GROUP BY 1";
    let prepared = session.prepare(sql, &[]).await.unwrap();
    let before = shown(session.execute_prepared(&prepared, &[]).await.unwrap()).await;
    assert_eq!(before, answer(&mut session, sql).await);
    done(&mut session, "INSERT INTO trades VALUES (-1, 'new', 77, 0)").await;
    done(&mut session, "DELETE FROM trades WHERE symbol = 's1'").await;
    let after = shown(session.execute_prepared(&prepared, &[]).await.unwrap()).await;
    assert!(after.contains("new") && after.contains("77") && !after.contains("s1"), "{after}");
    done(&mut session, "BEGIN").await;
    done(&mut session, "INSERT INTO trades VALUES (-2, 'new', 3, 0)").await;
    let own = shown(session.execute_prepared(&prepared, &[]).await.unwrap()).await;
    assert!(own.contains("80"), "{own}");
    done(&mut session, "ROLLBACK").await;
    done(&mut session, "ALTER TABLE trades RENAME COLUMN volume TO amount").await;
    let error = session.execute_prepared(&prepared, &[]).await.err().unwrap();
    assert_eq!(error.state(), SqlState::UNDEFINED_COLUMN);
}

#[tokio::test]
async fn a_prepared_aggregate_of_a_view_sees_another_view_of_the_name() {
    let mut session = session().await;
    done(&mut session, "CREATE VIEW seen AS SELECT volume FROM trades WHERE id <= 2").await;
    let prepared = session.prepare("SELECT sum(volume) AS total FROM seen", &[]).await.unwrap();
    let before = shown(session.execute_prepared(&prepared, &[]).await.unwrap()).await;
    assert!(before.contains(" 3 "), "{before}");
    done(&mut session, "DROP VIEW seen").await;
    done(&mut session, "CREATE VIEW seen AS SELECT volume FROM trades WHERE id <= 3").await;
    let after = shown(session.execute_prepared(&prepared, &[]).await.unwrap()).await;
    assert!(after.contains(" 6 "), "{after}");
}

#[tokio::test]
async fn where_memory_is_short_operators_that_spill_take_over() {
    let small = Database::builder().threads(2).memory_limit(6 << 20).open().unwrap();
    let mut small = session_of(small).await;
    let mut large = session().await;
    let select = "SELECT id, sum(volume) AS s, count(*), min(rate) FROM trades GROUP BY id";
    let select = format!("SELECT count(*), sum(s) FROM ({select}) AS x");
    assert_eq!(answer(&mut small, &select).await, answer(&mut large, &select).await);
}

#[tokio::test]
async fn a_sum_beyond_bigint_is_refused_wherever_it_is_found() {
    let mut session = session().await;
    let rows = "INSERT INTO trades SELECT i, 'big', 9223372036854775807, 0 FROM \
                generate_series(1::bigint, 2::bigint) AS g(i)";
    done(&mut session, rows).await;
    for select in [
        "SELECT symbol, sum(volume) FROM trades GROUP BY symbol",
        "SELECT sum(volume) FROM trades",
        "SELECT sum(volume) FROM trades WHERE symbol = 'big'",
    ] {
        let error = refused(&mut session, select).await;
        assert_eq!(error.state(), SqlState::NUMERIC_OUT_OF_RANGE, "{select}");
        assert_eq!(error.message(), "bigint out of range", "{select}");
    }
}
