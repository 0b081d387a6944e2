//! What is exact, what is not, and what follows from it for plans.

use std::sync::Arc;

use arrow::util::pretty::pretty_format_batches;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, col, lit};
use datafusion::physical_plan::ExecutionPlan as _;
use datafusion::physical_plan::statistics::StatisticsArgs;
use futures::TryStreamExt;
use thalweg_execution::scan::{Purpose, ScanRequest, ShardScan, States, table_statistics};
use thalweg_store::TableState;

use crate::{Database, Session};

async fn run(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        session.execute(sql).await.unwrap();
    }
}

async fn shown(session: &mut Session, sql: &str) -> String {
    let rows = session.execute(sql).await.unwrap().rows.expect("a query gives rows");
    let batches = rows.try_collect::<Vec<_>>().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

fn state(database: &Database, table: &str) -> Arc<TableState> {
    let snapshot = database.shared.engine.snapshot();
    let mut tables = snapshot.tables();
    let found = tables.find(|(_, state)| state.schema().name == table);
    Arc::clone(found.expect("there is such a table").1)
}

fn has_open_chunk(state: &TableState) -> bool {
    state.chunks().any(|chunk| chunk.zone(0).is_none())
}

/// `t` with a thousand rows in a closed chunk: making an index closes it.
async fn closed() -> (Database, Session) {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    let statements = [
        "CREATE TABLE t (id bigint, kind text, size int)",
        "INSERT INTO t SELECT i, 'kind ' || (i % 7), CASE WHEN i > 100 THEN i % 50 END \
         FROM generate_series(1, 1000) AS g(i)",
        "CREATE INDEX by_kind ON t (kind)",
    ];
    run(&mut session, &statements).await;
    assert!(!has_open_chunk(&state(&database, "t")));
    (database, session)
}

/// `id < 10`
fn few(state: &TableState) -> Arc<dyn PhysicalExpr> {
    let id = col("id", state.arrow_schema()).unwrap();
    Arc::new(BinaryExpr::new(id, Operator::Lt, lit(10_i64)))
}

fn filtered(state: &Arc<TableState>, filter: &Arc<dyn PhysicalExpr>) -> Statistics {
    let request = ScanRequest {
        table: "t",
        schema: state.arrow_schema(),
        projection: vec![0, 1, 2],
        filter: Some(filter),
        limit: None,
        threads: 1,
        purpose: Purpose::Run,
    };
    let scan = ShardScan::new(&States::from(Arc::clone(state)), request).unwrap();
    let statistics = scan.statistics_from_inputs(&[], &StatisticsArgs::new()).unwrap();
    statistics.as_ref().clone()
}

fn bounds(of: &ColumnStatistics) -> (Precision<ScalarValue>, Precision<ScalarValue>) {
    (of.min_value.clone(), of.max_value.clone())
}

#[tokio::test]
async fn closed_chunks_are_exact_until_a_row_dies() {
    let (database, mut session) = closed().await;
    let exact = table_statistics(&state(&database, "t"));
    let (one, thousand) = (ScalarValue::from(1_i64), ScalarValue::from(1000_i64));
    let of_id = &exact.column_statistics[0];
    assert_eq!(bounds(of_id), (Precision::Exact(one.clone()), Precision::Exact(thousand.clone())));
    assert_eq!(exact.column_statistics[2].null_count, Precision::Exact(100));
    assert_eq!(exact.column_statistics[1].distinct_count, Precision::Inexact(7));
    assert!(matches!(exact.total_byte_size, Precision::Inexact(20_000..100_000)));
    run(&mut session, &["DELETE FROM t WHERE id = 1000"]).await;
    let left = table_statistics(&state(&database, "t"));
    assert_eq!(left.num_rows, Precision::Exact(999));
    let of_id = &left.column_statistics[0];
    assert_eq!(bounds(of_id), (Precision::Inexact(one), Precision::Inexact(thousand)));
    assert_eq!(left.column_statistics[2].null_count, Precision::Inexact(100));
}

#[tokio::test]
async fn beside_an_open_chunk_nothing_is_exact_but_rows() {
    let (database, mut session) = closed().await;
    run(&mut session, &["INSERT INTO t VALUES (-5, 'new', NULL), (2000, 'newer', 99)"]).await;
    let state = state(&database, "t");
    assert!(has_open_chunk(&state));
    let plain = table_statistics(&state);
    assert_eq!(plain.num_rows, Precision::Exact(1002));
    for of_column in &plain.column_statistics {
        // Values beyond the bounds of closed chunks would be taken for such that there are not.
        assert_eq!(bounds(of_column), (Precision::Absent, Precision::Absent));
        assert!(matches!(of_column.null_count, Precision::Inexact(_)));
    }
    assert_eq!(plain.column_statistics[1].distinct_count, Precision::Inexact(7));
    // What a filter is about is looked for, where that is cheap.
    let filtered = filtered(&state, &few(&state));
    let ends = (ScalarValue::from(-5_i64), ScalarValue::from(2000_i64));
    let of_id = bounds(&filtered.column_statistics[0]);
    assert_eq!(of_id, (Precision::Inexact(ends.0), Precision::Inexact(ends.1)));
    assert_eq!(bounds(&filtered.column_statistics[2]), (Precision::Absent, Precision::Absent));
    assert_eq!(filtered.num_rows, Precision::Inexact(1002));
    let ends = shown(&mut session, "SELECT min(id), max(id) FROM t").await;
    assert!(ends.contains("| -5  | 2000 |"), "{ends}");
}

#[tokio::test]
async fn an_open_chunk_alone_tells_what_a_filter_is_about() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    let statements = [
        "CREATE TABLE t (id bigint, kind text, size int)",
        "INSERT INTO t VALUES (3, 'a', 1), (8, 'b', NULL)",
    ];
    run(&mut session, &statements).await;
    let state = state(&database, "t");
    assert!(has_open_chunk(&state));
    let plain = table_statistics(&state);
    assert_eq!(plain.column_statistics[0], ColumnStatistics::new_unknown());
    let of_id = bounds(&filtered(&state, &few(&state)).column_statistics[0]);
    let (three, eight) = (ScalarValue::from(3_i64), ScalarValue::from(8_i64));
    assert_eq!(of_id, (Precision::Inexact(three), Precision::Inexact(eight)));
}

#[tokio::test]
async fn small_filtered_sides_of_joins_come_first() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    let statements = [
        "CREATE TABLE facts (id bigint, k bigint)",
        "INSERT INTO facts SELECT i, i % 1000 FROM generate_series(1, 200000) AS g(i)",
        "INSERT INTO facts VALUES (200001, 1)",
        "CREATE TABLE others (k bigint, v bigint)",
        "INSERT INTO others SELECT i, i FROM generate_series(1, 100000) AS g(i)",
        "INSERT INTO others VALUES (100001, 1)",
    ];
    run(&mut session, &statements).await;
    for table in ["facts", "others"] {
        assert!(has_open_chunk(&state(&database, table)), "{table}");
    }
    let join = "FROM others o JOIN facts f ON f.k = o.k";
    for (condition, first) in [("f.id < 100", "facts"), ("true", "others"), ("o.k < 9", "others")] {
        let sql = format!("EXPLAIN SELECT o.v, f.id {join} WHERE {condition}");
        let plan = shown(&mut session, &sql).await;
        let scan = plan.lines().find(|line| line.contains("ShardScan: ")).unwrap();
        assert!(scan.contains(&format!("ShardScan: {first} ")), "{plan}");
    }
}

#[tokio::test]
async fn what_is_one_value_now_is_not_for_ever() {
    let (database, mut session) = closed().await;
    // No row is beyond 1000 yet, so that the order says nothing.
    let sql = "SELECT id FROM t WHERE id >= 1000 ORDER BY id";
    for _ in 0..4 {
        assert!(shown(&mut session, sql).await.contains("| 1000 |"));
    }
    run(&mut session, &["INSERT INTO t (id) VALUES (1009), (1003), (1007), (1001)"]).await;
    let found = shown(&mut session, sql).await;
    assert!(database.shared.plans.figures().runs > 1);
    let ids = found.lines().filter(|line| line.contains("| 10")).map(str::trim);
    let expected = ["| 1000 |", "| 1001 |", "| 1003 |", "| 1007 |", "| 1009 |"];
    assert_eq!(ids.collect::<Vec<_>>(), expected, "{found}");
}
