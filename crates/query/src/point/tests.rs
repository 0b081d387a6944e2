//! Point statements beside the same statements written out, which are planned: the same tags, rows
//! and errors.

use arrow::array::AsArray;
use arrow::datatypes::Int32Type;
use datafusion::common::ScalarValue;
use futures::TryStreamExt;
use thalweg_types::{DataType, Result};

use super::Point;
use crate::{Database, Outcome, Route, Session, Tag};

const SETUP: [&str; 2] = [
    "CREATE TABLE t (id int PRIMARY KEY, n smallint CHECK (n <> 13), big bigint UNIQUE, s text)",
    "INSERT INTO t VALUES (1, 1, 10, 'one'), (2, NULL, 20, NULL),\
     (3, 32767, 9223372036854775807, 'x')",
];

/// What a statement gave: its tag, or its error.
async fn told(session: &mut Session, prepared: &str, values: &[ScalarValue]) -> String {
    let statement = session.prepare(prepared, &[]).await.unwrap();
    assert!(statement.point().is_some(), "planned: {prepared}");
    let outcome = session.execute_prepared(&statement, values).await;
    match outcome {
        Ok(outcome) => show(outcome).await.unwrap(),
        Err(error) => format!("{} {}", error.state().0, error.message()),
    }
}

async fn told_plainly(session: &mut Session, sql: &str) -> String {
    match session.execute(sql).await {
        Ok(outcome) => show(outcome).await.unwrap(),
        Err(error) => format!("{} {}", error.state().0, error.message()),
    }
}

async fn show(outcome: Outcome) -> Result<String> {
    let mut shown = outcome.tag.to_string();
    if let Some(rows) = outcome.rows {
        for batch in rows.try_collect::<Vec<_>>().await? {
            for column in batch.columns() {
                shown.push_str(&format!(" {column:?}"));
            }
        }
    }
    Ok(shown)
}

async fn filled() -> Session {
    let mut session = Database::in_memory().unwrap().session();
    for sql in SETUP {
        session.execute(sql).await.unwrap();
    }
    session
}

fn int(value: i32) -> ScalarValue {
    ScalarValue::Int32(Some(value))
}

#[tokio::test]
async fn literals_and_sums_do_what_they_do_when_planned() {
    let no_values: &[ScalarValue] = &[];
    for (prepared, values, plain) in [
        ("UPDATE t SET n = n + $1 WHERE id = 1", &[ScalarValue::Int16(Some(5))][..], None),
        ("UPDATE t SET n = n + 1 WHERE id = 2", no_values, None),
        ("UPDATE t SET n = n + 1 WHERE id = 3", no_values, None),
        ("UPDATE t SET n = n + 12 WHERE id = 1", no_values, None),
        ("UPDATE t SET big = big - 10 WHERE id = 2", no_values, None),
        ("UPDATE t SET big = big + 1 WHERE id = 3", no_values, None),
        ("UPDATE t SET big = -7, s = 'it''s' WHERE id = $1", &[int(2)], Some("2")),
        ("UPDATE t SET big = -7 WHERE id = 9", no_values, None),
        ("INSERT INTO t VALUES ($1, -3, 5, 'five')", &[int(5)], Some("5")),
        ("INSERT INTO t (s, id) VALUES ('s', 1)", no_values, None),
        ("INSERT INTO t VALUES (1, 2, 3, 'x') ON CONFLICT (id) DO NOTHING", no_values, None),
        (
            "INSERT INTO t VALUES ($1, 7, 8, 'x') ON CONFLICT (id) DO UPDATE SET n = excluded.n",
            &[int(1)],
            Some("1"),
        ),
        ("DELETE FROM t WHERE id = 2", no_values, None),
        ("SELECT s, id FROM t WHERE id = 3", no_values, None),
        ("SELECT * FROM t WHERE id = -3", no_values, None),
    ] {
        let (mut ours, mut planned) = (filled().await, filled().await);
        let plain = match plain {
            Some(value) => prepared.replace("$1", value),
            None => prepared.replace("$1", "5"),
        };
        let told = told(&mut ours, prepared, values).await;
        assert_eq!(told, told_plainly(&mut planned, &plain).await, "{prepared}");
        let all = "SELECT * FROM t ORDER BY id";
        let rows = told_plainly(&mut ours, all).await;
        assert_eq!(rows, told_plainly(&mut planned, all).await, "{prepared}");
    }
}

#[tokio::test]
async fn keys_may_come_in_a_narrower_type() {
    let (mut ours, mut planned) = (filled().await, filled().await);
    for sql in [
        "SELECT s FROM t WHERE id = $1",
        "UPDATE t SET n = 5 WHERE id = $1",
        "DELETE FROM t WHERE id = $1",
    ] {
        for key in [3, 9] {
            let statement = ours.prepare(sql, &[Some(DataType::Int2)]).await.unwrap();
            assert!(statement.point().is_some(), "planned: {sql}");
            let key_given = [ScalarValue::Int16(Some(key))];
            let outcome = ours.execute_prepared(&statement, &key_given).await.unwrap();
            let plain = told_plainly(&mut planned, &sql.replace("$1", &key.to_string())).await;
            assert_eq!(show(outcome).await.unwrap(), plain, "{sql}, {key}");
        }
    }
    let wider = ours.prepare("SELECT s FROM t WHERE id = $1", &[Some(DataType::Int8)]).await;
    assert!(wider.unwrap().point().is_none());
}

/// The values of a column of integers.
async fn integers(outcome: Outcome) -> Vec<i32> {
    let batches: Vec<_> = outcome.rows.unwrap().try_collect().await.unwrap();
    let columns = batches.iter().map(|batch| batch.column(0).as_primitive::<Int32Type>());
    columns.flat_map(|column| column.values().to_vec()).collect()
}

/// A value of a numeric parameter.
fn numeric(value: i128, scale: i8) -> [ScalarValue; 1] {
    [ScalarValue::Decimal128(Some(value), 38, scale)]
}

#[tokio::test]
async fn numeric_keys_may_have_other_digits() {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    for sql in [
        "CREATE TABLE k (p numeric(12,3) PRIMARY KEY, v integer)",
        "CREATE INDEX ON k (p)",
        "INSERT INTO k VALUES (1.5, 1), (-2.125, 2), (7, 3)",
    ] {
        session.execute(sql).await.unwrap();
    }
    let look = session.prepare("SELECT v FROM k WHERE p = $1", &[]).await.unwrap();
    let range = session.prepare("SELECT v FROM k WHERE p >= $1 AND p < 8", &[]).await.unwrap();
    let range_to = session.prepare("SELECT v FROM k WHERE p < $1 ORDER BY p", &[]).await.unwrap();
    let update = session.prepare("UPDATE k SET v = 9 WHERE p = $1", &[]).await.unwrap();
    assert!(look.point().is_some() && range_to.point().is_some_and(Point::is_range));
    assert!(range.point().is_none(), "a constant beside a numeric is planned");
    for (value, scale, found) in [
        (15, 1, &[1][..]),
        (15_000_000_000_000, 13, &[1]),
        (-2_125, 3, &[2]),
        (7, 0, &[3]),
        (70, 1, &[3]),
        // Not exactly a value of the column.
        (15_001, 4, &[]),
        (10_i128.pow(30), 0, &[]),
        (0, 38, &[]),
    ] {
        let outcome = session.execute_prepared(&look, &numeric(value, scale)).await.unwrap();
        assert_eq!(session.route(), Some(Route::Point), "{value}, {scale}");
        assert_eq!(integers(outcome).await, found, "{value}, {scale}");
    }
    for (value, scale, found, route) in [
        (15, 1, &[2][..], Route::IndexRange),
        (1_500, 3, &[2], Route::IndexRange),
        (15_001, 4, &[2, 1], Route::CachedPlan),
    ] {
        let outcome = session.execute_prepared(&range_to, &numeric(value, scale)).await.unwrap();
        assert_eq!(session.route(), Some(route), "{value}, {scale}");
        assert_eq!(integers(outcome).await, found, "{value}, {scale}");
    }
    let outcome = session.execute_prepared(&update, &numeric(15, 1)).await.unwrap();
    assert_eq!((session.route(), outcome.tag), (Some(Route::Point), Tag::Update(1)));
}

#[tokio::test]
async fn what_a_look_does_not_settle_is_planned() {
    let mut session = filled().await;
    for sql in [
        "UPDATE t SET n = n * 2 WHERE id = 1",
        "UPDATE t SET n = big + 1 WHERE id = 1",
        "UPDATE t SET s = s || 'x' WHERE id = 1",
        "INSERT INTO t VALUES (1.5, 2, 3, 'x')",
        "INSERT INTO t VALUES ('1', 2, 3, 'x')",
        "SELECT * FROM t WHERE id = '1'",
        "SELECT * FROM t WHERE id = 1 OR id = 2",
        "DELETE FROM t WHERE id = 99999999999",
    ] {
        let statement = session.prepare(sql, &[]).await.unwrap();
        assert!(statement.point().is_none(), "{sql}");
    }
}

#[tokio::test]
async fn roles_do_what_they_may() {
    let database = Database::in_memory().unwrap();
    let mut owner = database.session();
    for sql in SETUP {
        owner.execute(sql).await.unwrap();
    }
    owner.execute("CREATE USER teller").await.unwrap();
    let mut teller = database.session_as("teller").unwrap();
    let select = teller.prepare("SELECT s FROM t WHERE id = 1", &[]).await.unwrap();
    assert!(select.point().is_some());
    let refused = teller.execute_prepared(&select, &[]).await.err().unwrap();
    assert_eq!(refused.state().0, "42501");
    owner.execute("GRANT SELECT ON t TO teller").await.unwrap();
    teller.execute_prepared(&select, &[]).await.unwrap();
    let update = owner.prepare("UPDATE t SET n = n + 1 WHERE id = 1", &[]).await.unwrap();
    let refused = teller.execute_prepared(&update, &[]).await.err().unwrap();
    assert_eq!(refused.state().0, "42501");
    owner.execute("REVOKE SELECT ON t FROM teller").await.unwrap();
    let refused = teller.execute_prepared(&select, &[]).await.err().unwrap();
    assert_eq!(refused.state().0, "42501");
}
