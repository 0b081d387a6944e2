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

async fn run_all(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        session.execute(sql).await.unwrap();
    }
}

/// A constraint that another session adds while a block has removed a key without a constraint.
#[tokio::test]
async fn a_constraint_that_appears_in_a_block_leaves_no_orphan() {
    let definitions: [&[&str]; 3] = [
        &["ALTER TABLE follows ADD FOREIGN KEY (p) REFERENCES late"],
        &[
            "BEGIN",
            "CREATE TABLE c (id integer, p integer REFERENCES late)",
            "INSERT INTO c VALUES (1, 1)",
            "COMMIT",
        ],
        &[
            "BEGIN",
            "ALTER TABLE follows ADD FOREIGN KEY (p) REFERENCES late NOT VALID",
            "INSERT INTO follows VALUES (2, 1)",
            "COMMIT",
        ],
    ];
    for definition in definitions {
        for removal in ["DELETE FROM late WHERE id = 1", "UPDATE late SET id = 3 WHERE id = 1"] {
            let database = Database::in_memory().unwrap();
            let mut block = database.session();
            let prepared = [
                "CREATE TABLE late (id integer PRIMARY KEY)",
                "CREATE TABLE follows (id integer, p integer)",
                "INSERT INTO late VALUES (1), (2)",
                "INSERT INTO follows VALUES (1, 1)",
                "BEGIN",
                removal,
            ];
            run_all(&mut block, &prepared).await;
            let mut other = database.session();
            let defining = thalweg_runtime::spawn(async move {
                for sql in definition {
                    other.execute(sql).await.map(drop)?;
                }
                Ok::<(), thalweg_types::Error>(())
            });
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            run_all(&mut block, &["SELECT 1", "COMMIT"]).await;
            let error = defining.await.unwrap().unwrap_err();
            let expected = [SqlState::FOREIGN_KEY_VIOLATION, SqlState::SERIALIZATION_FAILURE];
            assert!(expected.contains(&error.state()), "{definition:?}: {error:?}");
        }
    }
}

/// Rows for an older form of the table are a conflict, not an internal error.
#[tokio::test]
async fn a_referring_table_that_is_altered_meanwhile_is_a_conflict() {
    for other_type in ["interval", "uuid", "text", "bytea", "integer[]"] {
        let database = Database::in_memory().unwrap();
        let (mut block, mut other) = (database.session(), database.session());
        let table =
            format!("CREATE TABLE c (first integer, other {other_type}, p integer REFERENCES p)");
        run_all(&mut other, &["CREATE TABLE p (id integer PRIMARY KEY)", &table]).await;
        run_all(&mut other, &["INSERT INTO p VALUES (1)"]).await;
        run_all(&mut block, &["BEGIN", "INSERT INTO c VALUES (1, NULL, 1)"]).await;
        let altering = ["ALTER TABLE c DROP COLUMN first", "ALTER TABLE c ADD COLUMN last integer"];
        run_all(&mut other, &altering).await;
        let error = block.execute("COMMIT").await.err().unwrap();
        assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE, "{other_type}: {error:?}");
    }
}

/// A long chain of cascades yields the thread for each link, so that a cancel ends it.
#[tokio::test]
async fn cascades_yield_their_thread() {
    const LINKS: usize = 50;
    let database = Database::builder().threads(1).open().unwrap();
    let mut session = database.session();
    let prepared = [
        "CREATE TABLE chain (id integer PRIMARY KEY, \
         up integer REFERENCES chain ON DELETE CASCADE)",
        "INSERT INTO chain SELECT g, nullif(g - 1, 0) FROM generate_series(1, 50) s(g)",
    ];
    run_all(&mut session, &prepared).await;
    let handle = session.cancel_handle();
    let mut deleting = Box::pin(session.execute("DELETE FROM chain WHERE id = 1"));
    let mut waits = 0;
    while futures::poll!(deleting.as_mut()).is_pending() {
        waits += 1;
        tokio::task::yield_now().await;
    }
    drop(deleting);
    assert!(waits >= LINKS, "{waits}");
    run_all(&mut session, &[prepared[1]]).await;
    let mut deleting = Box::pin(session.execute("DELETE FROM chain WHERE id = 1"));
    for _ in 0..LINKS / 2 {
        assert!(futures::poll!(deleting.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    handle.cancel();
    assert_eq!(deleting.await.err().unwrap().state(), SqlState::QUERY_CANCELED);
    let mut rows = session.execute("SELECT id FROM chain").await.unwrap().rows.unwrap();
    let mut count = 0;
    while let Some(batch) = rows.next().await {
        count += batch.unwrap().num_rows();
    }
    assert_eq!(count, LINKS);
}
