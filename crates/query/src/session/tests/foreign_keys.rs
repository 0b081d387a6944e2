//! Random sessions that add and remove the two ends of foreign keys. No snapshot may show a row
//! without the row that it refers to.

use futures::StreamExt;
use thalweg_types::SqlState;

use crate::{Database, Session};

const SESSIONS: u64 = 4;
const STEPS: u64 = 60;
const KEYS: u64 = 6;

/// Xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

async fn database() -> Database {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    for sql in [
        "CREATE TABLE p (id integer PRIMARY KEY, n integer)",
        "CREATE TABLE c (id integer, p integer REFERENCES p)",
        "CREATE TABLE follows (id integer, p integer REFERENCES p ON DELETE CASCADE \
         ON UPDATE CASCADE)",
        "CREATE TABLE later (id integer, p integer REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
        "CREATE INDEX ON c (p)",
        "INSERT INTO p SELECT g, 0 FROM generate_series(0, 5) s(g)",
    ] {
        session.execute(sql).await.unwrap();
    }
    database
}

fn statement(random: &mut Random) -> String {
    let (key, other) = (random.below(KEYS), random.below(KEYS));
    match random.below(12) {
        0 | 1 => format!("INSERT INTO c VALUES (1, {key})"),
        2 => format!("INSERT INTO follows VALUES (1, {key})"),
        3 => format!("INSERT INTO later VALUES (1, {key})"),
        4 => format!("DELETE FROM c WHERE p = {key}"),
        5 => format!("DELETE FROM later WHERE p = {key}"),
        6 | 7 => format!("DELETE FROM p WHERE id = {key}"),
        8 => format!("UPDATE p SET n = n + 1 WHERE id = {key}"),
        9 => format!("UPDATE p SET id = {other} WHERE id = {key}"),
        10 => format!("UPDATE c SET p = {other} WHERE p = {key}"),
        _ => format!("INSERT INTO p VALUES ({key}, 0) ON CONFLICT DO NOTHING"),
    }
}

/// Runs a statement, which may fail only for these reasons.
async fn run(session: &mut Session, sql: &str) -> bool {
    let Err(error) = session.execute(sql).await else { return true };
    let expected = [
        SqlState::FOREIGN_KEY_VIOLATION,
        SqlState::UNIQUE_VIOLATION,
        SqlState::SERIALIZATION_FAILURE,
        SqlState::DEADLOCK_DETECTED,
    ];
    assert!(expected.contains(&error.state()), "{sql}: {error:?}");
    false
}

async fn client(database: Database, seed: u64) {
    let (mut session, mut random) = (database.session(), Random(seed));
    for _ in 0..STEPS {
        if random.below(2) == 0 {
            run(&mut session, &statement(&mut random)).await;
            continue;
        }
        let level = ["READ COMMITTED", "REPEATABLE READ"][random.below(2) as usize];
        run(&mut session, &format!("BEGIN ISOLATION LEVEL {level}")).await;
        let mut is_open = true;
        for _ in 0..=random.below(3) {
            is_open = is_open && run(&mut session, &statement(&mut random)).await;
            tokio::task::yield_now().await;
        }
        run(&mut session, if is_open { "COMMIT" } else { "ROLLBACK" }).await;
    }
}

/// Number of rows without the row that they refer to.
async fn orphans(session: &mut Session) -> usize {
    let mut count = 0;
    for table in ["c", "follows", "later"] {
        let sql =
            format!("SELECT id FROM {table} WHERE p IS NOT NULL AND p NOT IN (SELECT id FROM p)");
        let mut rows = session.execute(&sql).await.unwrap().rows.unwrap();
        while let Some(batch) = rows.next().await {
            count += batch.unwrap().num_rows();
        }
    }
    count
}

/// Runs random sessions beside a reader. Returns the greatest number of orphans that it saw.
async fn orphans_of(database: Database, seed: u64) -> usize {
    let clients = (1..=SESSIONS).map(|number| {
        let seed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number) | 1;
        client(database.clone(), seed)
    });
    let mut clients = std::pin::pin!(futures::future::join_all(clients));
    let mut reader = database.session();
    let mut most = 0;
    loop {
        let is_over = futures::poll!(clients.as_mut()).is_ready();
        most = most.max(orphans(&mut reader).await);
        if is_over {
            return most;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_snapshot_shows_an_orphan() {
    for seed in 1..=8 {
        assert_eq!(orphans_of(database().await, seed).await, 0, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_without_the_check_are_noticed() {
    let mut found = false;
    for seed in 1..=8 {
        let database = database().await;
        database.shared.engine.skip_foreign_keys();
        found |= orphans_of(database, seed).await > 0;
    }
    assert!(found);
}

/// Definitions and their enforcement survive the end of a database.
#[tokio::test]
async fn definitions_are_recovered() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Database::builder().directory(directory.path()).open().unwrap();
    let check = async |session: &mut Session| {
        for sql in ["INSERT INTO c VALUES (9)", "DELETE FROM p WHERE id = 1"] {
            let error = session.execute(sql).await.err().unwrap();
            assert_eq!(error.state(), SqlState::FOREIGN_KEY_VIOLATION);
        }
    };
    let database = open();
    let mut session = database.session();
    for sql in [
        "CREATE TABLE p (id integer PRIMARY KEY)",
        "CREATE TABLE c (p integer REFERENCES p)",
        "INSERT INTO p VALUES (1)",
        "INSERT INTO c VALUES (1)",
    ] {
        session.execute(sql).await.unwrap();
    }
    check(&mut session).await;
    drop((session, database));
    let database = open();
    let mut session = database.session();
    check(&mut session).await;
    database.shared.engine.checkpoint().unwrap();
    drop((session, database));
    check(&mut open().session()).await;
}
