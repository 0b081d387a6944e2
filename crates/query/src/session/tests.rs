//! Statements that go wrong in ways that no SQL file can ask for.

mod foreign_keys;

use arrow::datatypes::DataType as ArrowType;
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::*;

/// A function that panics where its call is folded into a constant.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Broken(Signature);

impl ScalarUDFImpl for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(ArrowType::Int64)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        panic!("the function is broken");
    }
}

/// A session whose next statement knows the function: the last planner that was given back is
/// taken first.
fn session() -> Session {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    break_next(&mut session);
    session
}

fn break_next(session: &mut Session) {
    let planner = session.database.shared.planners.take().unwrap();
    let signature = Signature::nullary(Volatility::Immutable);
    planner.context.register_udf(ScalarUDF::from(Broken(signature)));
    session.database.shared.planners.give_back(planner);
}

fn assert_broke_down<T>(outcome: Result<T>) {
    let error = outcome.err().expect("the function panics");
    assert_eq!(error.state(), SqlState::INTERNAL_ERROR);
    assert_eq!(error.detail(), Some("the function is broken"));
}

#[tokio::test]
async fn a_panic_fails_its_statement_only() {
    let mut session = session();
    assert_broke_down(session.execute("SELECT 1 WHERE broken() = 1").await);
    session.execute("CREATE TABLE t (id integer)").await.unwrap();
    break_next(&mut session);
    assert_broke_down(session.prepare("SELECT broken()", &[]).await);
    session.execute("INSERT INTO t VALUES (1)").await.unwrap();
}

#[tokio::test]
async fn a_panic_fails_the_block_around_it() {
    let mut session = session();
    session.begin(&[]).unwrap();
    assert_broke_down(session.execute("SELECT 1 WHERE broken() = 1").await);
    assert_eq!(session.transaction(), TransactionStatus::Failed);
    session.execute("ROLLBACK").await.unwrap();
    session.execute("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn parameters_are_what_stands_beside_them() {
    use arrow::datatypes::DataType::{self as Arrow, Boolean, Float64, Int32, Int64, Utf8View};
    let numeric = || Arrow::Decimal128(38, 10);
    let mut session = Database::in_memory().unwrap().session();
    session.execute("CREATE TABLE t (id integer, d double precision, s text)").await.unwrap();
    for (sql, types) in [
        ("SELECT coalesce($1, 1)", vec![Int32]),
        ("SELECT coalesce($1, 2::bigint, $2)", vec![Int64, Int64]),
        ("SELECT nullif($1, 'x'), coalesce($2, 'x')", vec![Utf8View, Utf8View]),
        ("SELECT ARRAY[$1, 2]", vec![Int32]),
        ("SELECT greatest($1, 1.5), least(2, $2)", vec![numeric(), Int32]),
        ("SELECT CASE WHEN $1 THEN $2 ELSE 3 END", vec![Boolean, Int32]),
        ("SELECT CASE $1 WHEN 1 THEN 'a' ELSE $2 END", vec![Int32, Utf8View]),
        ("SELECT CASE WHEN id = $1 THEN d ELSE $2 END FROM t", vec![Int32, Float64]),
        ("SELECT 1 WHERE $1 IN (1, 2)", vec![Int32]),
        ("SELECT id FROM t WHERE $1 BETWEEN id AND 7", vec![Int32]),
        (
            "SELECT id FROM t WHERE coalesce(d, $1) > 0 AND ($2 IN (s) OR $3)",
            vec![Float64, Utf8View, Boolean],
        ),
        ("SELECT round($1, 2), round($2)", vec![numeric(), Float64]),
        ("SELECT substr($1, $2), left($3, $4)", vec![Utf8View, Int32, Utf8View, Int32]),
        ("SELECT * FROM generate_series(1, $1)", vec![Int32]),
        ("SELECT $1 = ANY ($2::integer[])", vec![Int32, Arrow::new_list(Int32, true)]),
        ("SELECT id FROM t WHERE $1 AND NOT $2", vec![Boolean, Boolean]),
        ("UPDATE t SET d = coalesce($1, d) WHERE id IN ($2, 3)", vec![Float64, Int32]),
        ("SELECT $1", vec![Utf8View]),
    ] {
        let prepared = session.prepare(sql, &[]).await.unwrap();
        let found = prepared.parameters().iter().map(|field| field.data_type().clone());
        let found = found.collect::<Vec<_>>();
        let same = found.len() == types.len()
            && found.iter().zip(&types).all(|(found, wanted)| found.equals_datatype(wanted));
        assert!(same, "{sql}: {found:?}");
    }
}

#[tokio::test]
async fn columns_that_are_parameters_have_no_name() {
    let mut session = Database::in_memory().unwrap().session();
    for (sql, names) in [
        ("SELECT $1", &["?column?"][..]),
        ("SELECT $1::integer, ($2), $3 AS c", &["int4", "?column?", "c"]),
        ("SELECT * FROM (SELECT $1, $2) t", &["?column?", "?column?"]),
    ] {
        let prepared = session.prepare(sql, &[]).await.unwrap();
        let schema = prepared.schema().unwrap();
        let found = schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>();
        assert_eq!(found, names, "{sql}");
    }
}

#[tokio::test]
async fn blocks_out_of_order_are_warned_of() {
    let mut session = Database::in_memory().unwrap().session();
    for (sql, state) in [
        ("COMMIT", Some("25P01")),
        ("SET LOCAL work_mem = '1MB'", Some("25P01")),
        ("BEGIN", None),
        ("BEGIN", Some("25001")),
        ("ROLLBACK", None),
        ("ROLLBACK", Some("25P01")),
    ] {
        let outcome = session.execute(sql).await.unwrap();
        let warned = outcome.notices.first().map(|notice| (notice.severity(), notice.state.0));
        assert_eq!(warned, state.map(|state| ("WARNING", state)), "{sql}");
    }
    let outcome = session.execute("DROP TABLE IF EXISTS nothing").await.unwrap();
    let told = outcome.notices.first().map(|notice| (notice.severity(), notice.state.0));
    assert_eq!(told, Some(("NOTICE", "00000")));
}

#[tokio::test]
async fn who_wants_more_than_a_snapshot_is_told() {
    let mut session = Database::in_memory().unwrap().session();
    for (sql, notices) in [
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", 1),
        ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", 1),
        ("COMMIT", 0),
        ("START TRANSACTION ISOLATION LEVEL REPEATABLE READ", 0),
        ("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", 0),
        ("COMMIT", 0),
        ("BEGIN", 0),
    ] {
        assert_eq!(session.execute(sql).await.unwrap().notices.len(), notices, "{sql}");
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a test looks at the directory")]
async fn a_canceled_copy_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let files = || std::fs::read_dir(directory.path()).unwrap().count();
    let file = directory.path().join("copied");
    for format in ["csv", "parquet"] {
        let mut session = Database::in_memory().unwrap().session();
        let handle = session.cancel_handle();
        let endless = "SELECT i FROM generate_series(1, 100000000000) AS g(i)";
        let sql = format!("COPY ({endless}) TO '{}' (FORMAT {format})", file.display());
        let canceling = async {
            while files() == 0 {
                tokio::task::yield_now().await;
            }
            handle.cancel();
        };
        let (outcome, ()) = tokio::join!(session.execute(&sql), canceling);
        let error = outcome.err().expect("it would not end");
        assert_eq!(error.state(), SqlState::QUERY_CANCELED);
        // The thread that writes goes on for a few rows.
        while files() > 0 {
            tokio::task::yield_now().await;
        }
        session.execute("SELECT 1").await.unwrap();
    }
}
