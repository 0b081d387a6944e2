//! Who waits for keys, and what it saves; that answers stay the same is what SQL files say.

use arrow::util::pretty::pretty_format_batches;
use futures::TryStreamExt;
use thalweg_types::Result;

use crate::{Database, Session};

const SETUP: [&str; 4] = [
    "CREATE TABLE few (id integer PRIMARY KEY, kind integer)",
    "CREATE TABLE many (id integer PRIMARY KEY, few integer, amount bigint)",
    "INSERT INTO few SELECT n, n % 5 FROM generate_series(1, 50) AS s(n)",
    // Rows with the same key lie in one of three chunks.
    "INSERT INTO many SELECT n, n / 3000, n FROM generate_series(1, 150000) AS s(n)",
];

fn database(threads: usize) -> Database {
    Database::builder().threads(threads).open().unwrap()
}

async fn session(database: &Database) -> Session {
    let mut session = database.session();
    for sql in SETUP {
        session.execute(sql).await.unwrap();
    }
    session
}

async fn rows(session: &mut Session, sql: &str) -> Result<String> {
    let rows = session.execute(sql).await?.rows.expect("a query gives rows");
    let batches = rows.try_collect::<Vec<_>>().await?;
    Ok(pretty_format_batches(&batches).unwrap().to_string())
}

async fn plan(session: &mut Session, sql: &str) -> String {
    rows(session, &format!("EXPLAIN {sql}")).await.unwrap()
}

const JOIN: &str = "SELECT m.id FROM few f JOIN many m ON m.few = f.id WHERE f.kind = 3";
const GROUPS: &str = "SELECT f.id, g.total FROM few f JOIN \
    (SELECT few, sum(amount) AS total FROM many GROUP BY few) g ON g.few = f.id WHERE f.kind = 3";

/// Whose second sides have rows that may not be left out, or nobody knows of any.
const PLAIN: &[&str] = &[
    "SELECT m.id FROM few f JOIN many m ON m.few = f.id",
    "SELECT m.id FROM (SELECT * FROM few WHERE kind = 3) f FULL JOIN many m ON m.few = f.id",
    "SELECT m.id FROM (SELECT * FROM few WHERE kind = 3) f RIGHT JOIN many m ON m.few = f.id",
    "SELECT m.id FROM few f JOIN many m ON m.few IS NOT DISTINCT FROM f.id WHERE f.kind = 3",
    "SELECT m.id FROM few f JOIN (SELECT * FROM many ORDER BY amount LIMIT 90000) m \
     ON m.few = f.id WHERE f.kind = 3",
    "SELECT f.id, g.total FROM few f JOIN (SELECT few % 7 AS seventh, sum(amount) AS total \
     FROM many GROUP BY few % 7) g ON g.total = f.id WHERE f.kind = 3",
];

#[tokio::test]
async fn plans_tell_who_waits() {
    let mut session = session(&database(2)).await;
    for (sql, waits) in [(JOIN, "ShardScan: many"), (GROUPS, "FusedAggregate: many")] {
        let plan = plan(&mut session, sql).await;
        let waiting = plan.lines().find(|line| line.contains(waits)).unwrap();
        assert!(waiting.contains("among=[few]"), "{plan}");
        assert!(plan.contains("CollectKeys: [id]"), "{plan}");
    }
    for sql in PLAIN {
        let plan = plan(&mut session, sql).await;
        assert!(!plan.contains("among=") && !plan.contains("CollectKeys"), "{plan}");
    }
}

#[tokio::test]
async fn chunks_without_keys_are_not_read() {
    let mut session = session(&database(1)).await;
    for (sql, chunks) in [("> 48", 1), ("< 5", 1), ("IN (1, 48)", 2), ("= 51", 0)] {
        for join in [JOIN, GROUPS] {
            // Of a condition like this one, the bounds of chunks tell nothing.
            let sql = join.replace("f.kind = 3", &format!("abs(f.id) {sql}"));
            let plan = rows(&mut session, &format!("EXPLAIN ANALYZE {sql}")).await.unwrap();
            let waiting = plan.lines().find(|line| line.contains("among=[few]")).unwrap();
            // Nobody reads a second side where the first has no rows.
            let is_met = waiting.contains(&format!("chunks_read={chunks}"));
            assert!(is_met || chunks == 0 && !waiting.contains("chunks_read="), "{plan}");
        }
    }
}

#[tokio::test]
async fn a_join_that_ends_early_keeps_nobody_waiting() {
    for threads in [1, 2] {
        let mut session = session(&database(threads)).await;
        for join in [JOIN, GROUPS] {
            for _ in 0..5 {
                assert!(rows(&mut session, &format!("{join} LIMIT 1")).await.is_ok());
                let fails = join.replace("f.kind = 3", "1 / (f.kind - 3) > 5");
                rows(&mut session, &fails).await.unwrap_err();
            }
        }
    }
}

#[tokio::test]
async fn kept_plans_have_the_keys_of_each_run() {
    let database = database(2);
    let mut session = session(&database).await;
    for join in [JOIN, GROUPS] {
        let counted = format!("SELECT count(*) FROM ({join}) j").replace("kind = 3", "id = $1");
        let prepared = session.prepare(&counted, &[]).await.unwrap();
        for (id, expected) in [(1, true), (49, true), (51, false), (1, true)] {
            let value = datafusion::common::ScalarValue::Int32(Some(id));
            let outcome = session.execute_prepared(&prepared, &[value]).await.unwrap();
            let found: Vec<_> = outcome.rows.unwrap().try_collect().await.unwrap();
            let found = pretty_format_batches(&found).unwrap().to_string();
            assert_eq!(!found.contains("| 0 "), expected, "{found}");
        }
    }
    assert!(database.shared.plans.figures().runs > 2);
}
