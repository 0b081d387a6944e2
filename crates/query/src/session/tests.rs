//! Statements that go wrong in ways that no SQL file can ask for.

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

/// A session whose next statement knows the function.
fn session() -> Session {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    break_next(&mut session);
    session
}

fn break_next(session: &mut Session) {
    let planner = session.database.shared.planners.take();
    let signature = Signature::nullary(Volatility::Immutable);
    planner.context.register_udf(ScalarUDF::from(Broken(signature)));
    session.planner = Some(planner);
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
