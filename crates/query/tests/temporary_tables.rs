//! Temporary tables of several sessions: who sees them, how they end, and what is left of them.

use std::path::Path;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::ScalarValue;
use futures::StreamExt;
use thalweg_query::{Database, Outcome, Route, Session};
use thalweg_types::{Error, SqlState};

async fn run(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        read(session.execute(sql).await).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
}

/// The rows of an outcome, each as its values with blanks between them.
async fn read(outcome: thalweg_types::Result<Outcome>) -> thalweg_types::Result<Vec<String>> {
    let Some(mut batches) = outcome?.rows else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let options = FormatOptions::default();
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let values = columns.iter().map(|column| column.value(row).to_string());
            rows.push(values.collect::<Vec<_>>().join(" "));
        }
    }
    Ok(rows)
}

async fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    read(session.execute(sql).await).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

async fn refusal(session: &mut Session, sql: &str) -> Error {
    read(session.execute(sql).await).await.expect_err(sql)
}

/// The bytes of all tables once the ends of sessions have been processed: the definitions of a
/// session that begins later come behind them.
async fn bytes_left(database: &Database) -> u64 {
    let mut session = database.session();
    run(&mut session, &["CREATE TEMP TABLE later (a integer)", "DROP TABLE later"]).await;
    database.size().0
}

#[tokio::test]
async fn tables_end_with_their_session() {
    let database = Database::builder().threads(2).open().unwrap();
    let (mut one, mut other) = (database.session(), database.session());
    run(&mut one, &["CREATE TABLE kept (a integer)", "INSERT INTO kept VALUES (1)"]).await;
    let before = database.size();
    for session in [&mut one, &mut other] {
        run(
            session,
            &[
                "CREATE TEMP TABLE t (a serial PRIMARY KEY, b text)",
                "CREATE TEMP TABLE u (a integer REFERENCES t)",
                "CREATE TEMP VIEW v AS SELECT a FROM t",
                "CREATE OR REPLACE TEMP VIEW w AS SELECT a FROM v",
                "INSERT INTO t (b) SELECT repeat('x', 99) || g FROM generate_series(1, 99999) s(g)",
                "INSERT INTO u VALUES (7)",
            ],
        )
        .await;
    }
    assert!(database.size().0 > before.0 + (1 << 20), "both tables count");
    let both = database.size().0;
    drop(one);
    let left = bytes_left(&database).await;
    assert!(left < both && left > before.0, "the other session's tables stay");
    assert_eq!(rows(&mut other, "SELECT count(*), max(a) FROM t").await, ["99999 99999"]);
    assert_eq!(rows(&mut other, "SELECT a FROM u").await, ["7"]);
    // A session that ends within a block leaves nothing either.
    run(&mut other, &["BEGIN", "CREATE TEMP TABLE x (a integer)"]).await;
    drop(other);
    assert_eq!(bytes_left(&database).await, before.0);
    assert_eq!(database.size(), before);
}

#[expect(clippy::disallowed_methods, reason = "the test reads what the database has written")]
fn has_bytes(directory: &Path, needle: &[u8]) -> bool {
    std::fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => has_bytes(&path, needle),
            false => {
                let bytes = std::fs::read(&path).unwrap();
                bytes.windows(needle.len()).any(|window| window == needle)
            }
        }
    })
}

#[tokio::test]
async fn no_file_has_a_byte_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::builder().threads(2).directory(directory.path()).open().unwrap();
    let mut session = database.session();
    run(&mut session, &["CREATE TABLE kept (a text)", "INSERT INTO kept VALUES ('hay stack')"])
        .await;
    let (_, log_bytes) = database.size();
    run(
        &mut session,
        &[
            "CREATE TEMP TABLE needle_t (a serial PRIMARY KEY, b text DEFAULT 'needle')",
            "CREATE INDEX needle_i ON needle_t (b)",
            "INSERT INTO needle_t (b) SELECT 'needle' || g FROM generate_series(1, 150000) s(g)",
            "UPDATE needle_t SET b = 'needle!' WHERE a < 10",
            "CREATE TEMP SEQUENCE needle_s",
            "SELECT nextval('needle_s')",
            "COMMENT ON TABLE needle_t IS 'a needle'",
            "BEGIN",
            "ALTER TABLE needle_t ADD COLUMN c integer",
            "INSERT INTO needle_t (b) VALUES ('needle?')",
            "COMMIT",
        ],
    )
    .await;
    assert_eq!(database.size().1, log_bytes, "the log did not grow");
    run(&mut session, &["BEGIN", "INSERT INTO kept VALUES ('hay')"]).await;
    run(&mut session, &["INSERT INTO needle_t (b) VALUES ('needle')", "COMMIT"]).await;
    assert!(database.size().1 > log_bytes);
    database.checkpoint().unwrap();
    run(&mut session, &["INSERT INTO kept VALUES ('hay')"]).await;
    assert!(has_bytes(directory.path(), b"hay stack"), "the test reads the files");
    assert!(!has_bytes(directory.path(), b"needle"));
    drop(session);
    database.close().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let mut session = database.session();
    assert_eq!(rows(&mut session, "SELECT count(*) FROM kept").await, ["3"]);
    let error = refusal(&mut session, "SELECT * FROM needle_t").await;
    assert_eq!(error.state(), SqlState::UNDEFINED_TABLE);
    let left = "SELECT relname FROM pg_class WHERE relpersistence = 't' OR relname LIKE 'needle%'";
    assert!(rows(&mut session, left).await.is_empty());
}

/// The database's changes are committed before those of temporary tables, which must not fail then.
#[tokio::test]
async fn a_statement_that_changes_both_kinds_of_table_is_atomic() {
    let database = Database::builder().threads(2).open().unwrap();
    let (mut session, mut other) = (database.session(), database.session());
    run(
        &mut session,
        &[
            "CREATE TABLE p (a integer PRIMARY KEY)",
            "INSERT INTO p VALUES (1), (2)",
            "CREATE TEMP TABLE t (a integer PRIMARY KEY)",
            "INSERT INTO t VALUES (2)",
        ],
    )
    .await;
    let moves = "WITH d AS (DELETE FROM p RETURNING a) INSERT INTO t SELECT a FROM d";
    assert_eq!(refusal(&mut session, moves).await.state(), SqlState::UNIQUE_VIOLATION);
    assert_eq!(rows(&mut session, "SELECT a FROM p ORDER BY 1").await, ["1", "2"]);
    assert_eq!(rows(&mut session, "SELECT a FROM t").await, ["2"]);
    // The database's part loses a conflict.
    run(&mut session, &["BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT * FROM p"]).await;
    run(&mut session, &["INSERT INTO t VALUES (3)", "DELETE FROM p WHERE a = 1"]).await;
    run(&mut other, &["DELETE FROM p WHERE a = 1"]).await;
    assert_eq!(refusal(&mut session, "COMMIT").await.state(), SqlState::SERIALIZATION_FAILURE);
    assert_eq!(rows(&mut session, "SELECT a FROM t").await, ["2"]);
    run(&mut session, &["DELETE FROM t", moves]).await;
    assert_eq!(rows(&mut session, "SELECT a FROM t").await, ["2"]);
    assert!(rows(&mut other, "SELECT a FROM p").await.is_empty());
}

#[tokio::test]
async fn prepared_and_cached_statements_follow_the_meaning_of_their_names() {
    let database = Database::builder().threads(2).open().unwrap();
    let (mut session, mut other) = (database.session(), database.session());
    run(
        &mut session,
        &["CREATE TABLE t (a integer PRIMARY KEY, b text)", "INSERT INTO t VALUES (1, 'kept')"],
    )
    .await;
    let one = [ScalarValue::Int32(Some(1))];
    let point = session.prepare("SELECT b FROM t WHERE a = $1", &[]).await.unwrap();
    let update = session.prepare("UPDATE t SET b = b || '!' WHERE a = $1", &[]).await.unwrap();
    let scan = "SELECT b FROM t WHERE a < 10 ORDER BY b";
    for session in [&mut session, &mut other] {
        for _ in 0..4 {
            assert_eq!(rows(session, scan).await, ["kept"]);
        }
        assert_eq!(session.route(), Some(Route::CachedPlan));
    }
    let made = database.plan_figures().made;
    run(
        &mut session,
        &[
            "CREATE TEMP TABLE t (a integer PRIMARY KEY, b text)",
            "INSERT INTO t VALUES (1, 'temporary')",
        ],
    )
    .await;
    assert_eq!(read(session.execute_prepared(&point, &one).await).await.unwrap(), ["temporary"]);
    read(session.execute_prepared(&update, &one).await).await.unwrap();
    for _ in 0..4 {
        assert_eq!(rows(&mut session, scan).await, ["temporary!"]);
    }
    assert_eq!(session.route(), Some(Route::CachedPlan));
    assert_eq!(rows(&mut session, "SELECT b FROM public.t").await, ["kept"]);
    let made_since = database.plan_figures().made;
    assert!(made_since > made);
    // The other session's plan is still there.
    assert_eq!(rows(&mut other, scan).await, ["kept"]);
    assert_eq!(other.route(), Some(Route::CachedPlan));
    assert_eq!(database.plan_figures().made, made_since);
    run(&mut session, &["DROP TABLE t"]).await;
    assert_eq!(read(session.execute_prepared(&point, &one).await).await.unwrap(), ["kept"]);
    assert_eq!(rows(&mut session, scan).await, ["kept"]);
}

#[tokio::test]
async fn permanent_objects_do_not_refer_to_temporary_ones() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    run(
        &mut session,
        &[
            "CREATE TEMP TABLE t (a serial PRIMARY KEY)",
            "CREATE TEMP TABLE u (a integer PRIMARY KEY REFERENCES t)",
            "CREATE TABLE p (a integer)",
        ],
    )
    .await;
    for sql in [
        "CREATE TABLE c (a integer REFERENCES t)",
        "ALTER TABLE p ADD FOREIGN KEY (a) REFERENCES t",
        "CREATE TABLE c (a integer DEFAULT nextval('t_a_seq'))",
        "ALTER TABLE p ALTER COLUMN a SET DEFAULT nextval('t_a_seq')",
        "CREATE VIEW public.v AS SELECT a FROM t",
    ] {
        assert_eq!(refusal(&mut session, sql).await.state(), SqlState::INVALID_TABLE_DEFINITION);
    }
    run(&mut session, &["CREATE TEMP SEQUENCE s"]).await;
    let error = refusal(&mut session, "ALTER SEQUENCE s SET SCHEMA public").await;
    assert_eq!(error.message(), "cannot move objects into or out of temporary schemas");
    let outcome = session.execute("CREATE VIEW v AS SELECT a FROM t").await.unwrap();
    let notice = outcome.notices.first().unwrap();
    assert_eq!(notice.message, "view \"v\" will be a temporary view");
    drop(outcome);
    drop(session);
    let mut session = database.session();
    let error = refusal(&mut session, "SELECT * FROM v").await;
    assert_eq!(error.state(), SqlState::UNDEFINED_TABLE);
}

#[tokio::test]
async fn on_commit_empties_both_ends_of_a_foreign_key_or_none() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    run(
        &mut session,
        &[
            "CREATE TEMP TABLE p (a integer PRIMARY KEY) ON COMMIT DELETE ROWS",
            "CREATE TEMP TABLE c (a integer REFERENCES p) ON COMMIT DELETE ROWS",
            "BEGIN",
            "INSERT INTO p VALUES (1)",
            "INSERT INTO c VALUES (1)",
            "COMMIT",
        ],
    )
    .await;
    assert_eq!(rows(&mut session, "SELECT count(*) FROM p, c").await, ["0"]);
    let error = refusal(&mut session, "CREATE TEMP TABLE d (a integer REFERENCES p)").await;
    assert_eq!(error.message(), "unsupported ON COMMIT and foreign key combination");
    // The names of tables that are dropped at the commit are free again.
    for _ in 0..3 {
        run(
            &mut session,
            &[
                "BEGIN",
                "CREATE TEMP TABLE e (a serial PRIMARY KEY) ON COMMIT DROP",
                "CREATE TEMP TABLE f (a integer REFERENCES e)",
                "INSERT INTO e DEFAULT VALUES",
                "INSERT INTO f VALUES (1)",
                "COMMIT",
                "DROP TABLE f",
            ],
        )
        .await;
    }
}

#[tokio::test]
async fn discard_in_a_block_is_undone_with_it() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    run(&mut session, &["CREATE TEMP TABLE t AS SELECT 1 AS a", "BEGIN", "DISCARD TEMP"]).await;
    let error = refusal(&mut session, "SELECT * FROM t").await;
    assert_eq!(error.state(), SqlState::UNDEFINED_TABLE);
    run(&mut session, &["ROLLBACK"]).await;
    assert_eq!(rows(&mut session, "SELECT a FROM t").await, ["1"]);
    assert!(database.size().0 > 0);
    run(&mut session, &["DISCARD ALL"]).await;
    assert_eq!(database.size().0, 0);
}

#[tokio::test]
async fn a_role_without_rights_on_schemas_has_its_own_tables() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    run(&mut session, &["CREATE ROLE ann LOGIN", "CREATE ROLE bob LOGIN"]).await;
    let mut ann = database.session_as("ann").unwrap();
    run(
        &mut ann,
        &[
            "CREATE TEMP TABLE t (a serial PRIMARY KEY, b text)",
            "INSERT INTO t (b) VALUES ('mine')",
            "UPDATE t SET b = b || '!'",
            "CREATE INDEX ON t (b)",
            "CREATE TEMP VIEW v AS SELECT b FROM t",
            "COPY t TO STDOUT",
        ],
    )
    .await;
    assert_eq!(rows(&mut ann, "SELECT b FROM v").await, ["mine!"]);
    let owner = "SELECT tableowner FROM pg_tables WHERE tablename = 't'";
    assert_eq!(rows(&mut ann, owner).await, ["ann"]);
    run(&mut session, &["REVOKE TEMPORARY ON DATABASE thalweg FROM PUBLIC"]).await;
    let mut bob = database.session_as("bob").unwrap();
    let error = refusal(&mut bob, "CREATE TEMP TABLE t (a integer)").await;
    assert_eq!(error.state(), SqlState::INSUFFICIENT_PRIVILEGE);
    let message = "permission denied to create temporary tables in database \"thalweg\"";
    assert_eq!(error.message(), message);
}

/// Blocks at READ COMMITTED lock rows in the database's engine, which knows no temporary table.
#[tokio::test]
async fn blocks_beside_others_change_temporary_tables() {
    let database = Database::builder().threads(2).open().unwrap();
    let (mut session, mut other) = (database.session(), database.session());
    run(
        &mut session,
        &[
            "CREATE TABLE p (a integer PRIMARY KEY, n integer)",
            "INSERT INTO p VALUES (1, 0), (2, 0)",
            "CREATE TEMP TABLE t (a integer PRIMARY KEY, n integer)",
            "INSERT INTO t VALUES (1, 0)",
            "BEGIN",
            "CREATE TEMP TABLE of_block (a serial PRIMARY KEY, n integer) ON COMMIT DROP",
            "ALTER TABLE of_block ADD COLUMN m integer",
            "UPDATE p SET n = n + 1 WHERE a = 1",
            "UPDATE t SET n = n + 1",
            "INSERT INTO of_block (n) SELECT n FROM t",
            "INSERT INTO t VALUES (2, 5)",
        ],
    )
    .await;
    run(&mut other, &["UPDATE p SET n = n + 1 WHERE a = 2"]).await;
    let joined = "SELECT p.a, p.n, t.n FROM p JOIN t USING (a) ORDER BY 1";
    assert_eq!(rows(&mut session, joined).await, ["1 1 1", "2 1 5"]);
    assert_eq!(rows(&mut session, "SELECT a, n FROM of_block").await, ["1 1"]);
    // The row is locked, although the block has defined something.
    let locked = "SELECT * FROM p WHERE a = 1 FOR UPDATE NOWAIT";
    assert_eq!(refusal(&mut other, locked).await.state(), SqlState::LOCK_NOT_AVAILABLE);
    let error = refusal(&mut session, "INSERT INTO t VALUES (2, 6)").await;
    assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION);
    run(&mut session, &["ROLLBACK"]).await;
    assert_eq!(rows(&mut session, joined).await, ["1 0 0"]);
}

/// Rows that others have locked are hidden from a statement and shown again, which must not bring
/// back the columns that a temporary table had before the block altered it.
#[tokio::test]
async fn a_block_that_skips_locked_rows_keeps_its_altered_tables() {
    let database = Database::builder().threads(2).open().unwrap();
    let (mut session, mut other) = (database.session(), database.session());
    run(
        &mut session,
        &[
            "CREATE TABLE p (a integer PRIMARY KEY)",
            "INSERT INTO p VALUES (1), (2)",
            "CREATE TEMP TABLE t (a integer)",
            "INSERT INTO t VALUES (7)",
        ],
    )
    .await;
    run(&mut other, &["BEGIN", "SELECT a FROM p WHERE a = 1 FOR UPDATE"]).await;
    run(&mut session, &["BEGIN", "ALTER TABLE t ADD COLUMN b integer DEFAULT 5"]).await;
    let free = "SELECT a FROM p ORDER BY a FOR UPDATE SKIP LOCKED";
    assert_eq!(rows(&mut session, free).await, ["2"]);
    assert_eq!(rows(&mut session, "SELECT a, b FROM t").await, ["7 5"]);
    run(&mut session, &["INSERT INTO t VALUES (8, 6)", "COMMIT"]).await;
    assert_eq!(rows(&mut session, "SELECT a, b FROM t ORDER BY a").await, ["7 5", "8 6"]);
}

#[tokio::test]
async fn temporary_views_read_permanent_tables() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    let definitions = [
        "CREATE TABLE p (a integer PRIMARY KEY)",
        "CREATE TEMP TABLE t (a integer)",
        "CREATE TEMP VIEW v AS SELECT * FROM p",
        "CREATE TEMP VIEW w AS SELECT p.a, t.a AS other FROM p JOIN t ON p.a = t.a",
        "CREATE TEMP VIEW x AS SELECT t.* FROM t JOIN p USING (a)",
        "CREATE TEMP VIEW y AS SELECT * FROM t JOIN p USING (a)",
        "INSERT INTO p VALUES (1), (2)",
        "INSERT INTO t VALUES (2)",
    ];
    run(&mut session, &definitions).await;
    assert_eq!(rows(&mut session, "SELECT x.a, y.a FROM x, y").await, ["2 2"]);
    assert_eq!(rows(&mut session, "SELECT * FROM v ORDER BY a").await, ["1", "2"]);
    assert_eq!(rows(&mut session, "SELECT * FROM w").await, ["2 2"]);
    let refused = refusal(&mut session, "DROP TABLE p").await;
    assert_eq!(refused.state().0, "2BP01");
    run(&mut session, &["DROP TABLE p CASCADE"]).await;
    assert_eq!(refusal(&mut session, "SELECT * FROM v").await.state(), SqlState::UNDEFINED_TABLE);
}
