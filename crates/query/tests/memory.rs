//! Limits of memory: of the process, as the system counts it, and of one statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use thalweg_env::{Env, Memory};
use thalweg_query::{Database, Session};
use thalweg_types::{Error, Result, SqlState};

const LIMIT: u64 = 160 << 20;
/// Of which rows may have seven eighths.
const OF_ROWS: u64 = 140 << 20;

/// A system that says what it is told.
#[derive(Default)]
struct Says(AtomicU64);

impl Memory for Says {
    fn give_back(&self) {}

    fn used_bytes(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed))
    }
}

fn database(says: &Arc<Says>) -> Database {
    let (env, ..) = Env::simulated(1);
    let env = Env { memory: Arc::clone(says) as _, ..env };
    Database::builder().threads(2).env(env).process_memory_limit(LIMIT).open().unwrap()
}

/// How many rows a statement gives, all of them read.
async fn rows(session: &mut Session, sql: &str) -> Result<usize> {
    let Some(mut batches) = session.execute(sql).await?.rows else { return Ok(0) };
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

async fn refused(session: &mut Session, sql: &str) -> Error {
    rows(session, sql).await.expect_err(sql)
}

const MANY: &str =
    "INSERT INTO t SELECT i, repeat('x', 20) || i FROM generate_series(100, 400000) s(i)";

#[tokio::test]
async fn rows_are_refused_where_the_process_has_too_much() {
    let says = Arc::new(Says::default());
    let database = database(&says);
    let mut session = database.session();
    for sql in [
        "CREATE TABLE t (id bigint PRIMARY KEY, name text)",
        "INSERT INTO t SELECT i, 'a' FROM generate_series(1, 10) s(i)",
    ] {
        session.execute(sql).await.unwrap();
    }
    session.execute(MANY).await.unwrap();
    session.execute("DELETE FROM t WHERE id >= 100").await.unwrap();
    says.0.store(OF_ROWS + 1, Ordering::Relaxed);
    // What was taken by then makes it ask the system again.
    let error = refused(&mut session, MANY).await;
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    assert_eq!(error.message(), "out of memory for rows");
    let told = "For rows, the process has 141 MiB of memory, of which 140 MiB are allowed.";
    assert_eq!(error.detail(), Some(told));
    for sql in [
        "INSERT INTO t VALUES (11, 'b')",
        "UPDATE t SET name = 'b'",
        "CREATE TABLE u AS SELECT * FROM t",
    ] {
        assert_eq!(refused(&mut session, sql).await.state(), SqlState::OUT_OF_MEMORY, "{sql}");
    }
    // Nothing of it happened, looking goes on, and so does deleting, which makes room.
    assert_eq!(rows(&mut session, "SELECT * FROM t ORDER BY name, id").await.unwrap(), 10);
    rows(&mut session, "DELETE FROM t WHERE id > 5").await.unwrap();
    says.0.store(OF_ROWS - (1 << 20), Ordering::Relaxed);
    rows(&mut session, "INSERT INTO t VALUES (11, 'b')").await.unwrap();
    assert_eq!(rows(&mut session, "SELECT * FROM t").await.unwrap(), 6);
}

#[tokio::test]
async fn blocks_do_not_gather_rows_without_end() {
    let says = Arc::new(Says(AtomicU64::new(OF_ROWS - (6 << 20))));
    let database = database(&says);
    let mut session = database.session();
    session.execute("CREATE TABLE t (id bigint, name text)").await.unwrap();
    session.execute("BEGIN").await.unwrap();
    let sql = "INSERT INTO t SELECT i, 'a' FROM generate_series(1, 50000) s(i)";
    let mut statements = 0;
    let error = loop {
        match rows(&mut session, sql).await {
            Ok(_) => statements += 1,
            Err(error) => break error,
        }
        says.0.fetch_add(2 << 20, Ordering::Relaxed);
        assert!(statements < 100, "nobody stops it");
    };
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    session.execute("ROLLBACK").await.unwrap();
    assert_eq!(rows(&mut session, "SELECT * FROM t").await.unwrap(), 0);
}

#[tokio::test]
async fn statements_that_cannot_spill_fail_alone() {
    let says = Arc::new(Says(AtomicU64::new(LIMIT)));
    let database = database(&says);
    let mut session = database.session();
    let join = "SELECT * FROM generate_series(1, 300000) a(x) \
                JOIN generate_series(1, 300000) b(y) ON a.x = b.y";
    let error = refused(&mut session, join).await;
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    assert!(error.message().starts_with("out of memory in "), "{}", error.message());
    let hint = error.hint().unwrap();
    assert!(hint.starts_with("Raise database.process_memory_limit"), "{hint}");
    says.0.store(0, Ordering::Relaxed);
    assert_eq!(rows(&mut session, join).await.unwrap(), 300_000);
}

#[tokio::test]
async fn one_statement_has_its_part() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    session.execute("SET query_memory_limit = '3MB'").await.unwrap();
    let mut other = database.session();
    let sorted =
        "SELECT x, repeat('x', 50) AS y FROM generate_series(1, 200000) a(x) ORDER BY y, x";
    let joined = "SELECT * FROM generate_series(1, 300000) a(x) \
                  JOIN generate_series(1, 300000) b(y) ON a.x = b.y";
    assert_eq!(rows(&mut session, sorted).await.unwrap(), 200_000, "it spills");
    let error = refused(&mut session, joined).await;
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    let hint = error.hint().unwrap();
    assert!(hint.starts_with("Raise query_memory_limit"), "{hint}");
    assert_eq!(rows(&mut other, joined).await.unwrap(), 300_000);
    session.execute("SET query_memory_limit = 0").await.unwrap();
    assert_eq!(rows(&mut session, joined).await.unwrap(), 300_000);
}
