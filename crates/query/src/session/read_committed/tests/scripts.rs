//! Scripts in the manner of PostgreSQL's isolation tester. The expected outcomes are those of
//! PostgreSQL 15, except where a comment names a difference.

use super::*;

/// Runs a script. Each line is `client: statement => outcome`. Outcomes are the rows, joined by
/// blanks; a number of rows; `ok`; a SQLSTATE; `waits`; or, for a client that waits, `client: =>
/// outcome` for the end of its statement.
async fn run(setup: &[&str], script: &str) {
    let database = Database::builder().threads(2).open().unwrap();
    let mut first = Client::new(&database);
    for sql in setup {
        let answer = first.start(&database, sql).await;
        assert!(!matches!(answer, None | Some(Answer::Failed(_))), "{sql}: {answer:?}");
    }
    let mut clients: std::collections::BTreeMap<String, Client> = Default::default();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (step, expected) = line.split_once(" => ").expect("an outcome");
        let (name, sql) = step.split_once(':').expect("a client");
        let client = clients.entry(name.to_owned()).or_insert_with(|| Client::new(&database));
        let answer = match sql.trim() {
            "" => client.go_on(&database).await,
            sql => client.start(&database, sql).await,
        };
        let shown = match answer {
            None => "waits".to_owned(),
            Some(Answer::Done) => "ok".to_owned(),
            Some(Answer::Count(count)) => count.to_string(),
            Some(Answer::Rows(rows)) if rows.is_empty() => "none".to_owned(),
            Some(Answer::Rows(rows)) => rows.join(" "),
            Some(Answer::Failed(state)) => state.0.to_owned(),
        };
        assert_eq!(shown, expected.trim(), "{line}");
    }
}

const TABLE: &[&str] = &[
    "CREATE TABLE t (id integer PRIMARY KEY, v integer)",
    "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)",
];

#[tokio::test]
async fn the_ends_of_a_foreign_key_wait_for_each_other() {
    let setup = [
        "CREATE TABLE p (id integer PRIMARY KEY, n integer)",
        "CREATE TABLE c (p integer REFERENCES p)",
        "INSERT INTO p VALUES (1, 0), (2, 0), (3, 0)",
    ];
    let script = "
        a: BEGIN => ok
        a: INSERT INTO c VALUES (1) => 1
        b: UPDATE p SET n = 1 WHERE id = 1 => 1
        b: DELETE FROM p WHERE id = 1 => waits
        a: UPDATE p SET n = 2 WHERE id = 1 => 1
        a: COMMIT => ok
        b: => 23503
        a: BEGIN => ok
        a: DELETE FROM p WHERE id = 2 => 1
        b: INSERT INTO c VALUES (2) => waits
        a: ROLLBACK => ok
        b: => 1
        a: BEGIN => ok
        a: DELETE FROM p WHERE id = 3 => 1
        b: BEGIN => ok
        b: INSERT INTO c VALUES (3) => waits
        a: COMMIT => ok
        b: => 23503
        b: ROLLBACK => ok
        a: BEGIN => ok
        a: INSERT INTO c VALUES (1) => 1
        b: BEGIN => ok
        b: INSERT INTO c VALUES (1) => 1
        a: UPDATE p SET n = 3 WHERE id = 1 => 1
        a: COMMIT => ok
        b: UPDATE p SET n = 4 WHERE id = 1 => 1
        b: COMMIT => ok
        a: BEGIN => ok
        a: INSERT INTO p VALUES (9, 0) => 1
        b: INSERT INTO c VALUES (9) => 23503
        a: COMMIT => ok
    ";
    run(&setup, script).await;
}

#[tokio::test]
async fn each_statement_sees_what_was_committed_before_it() {
    let script = "
        a: BEGIN => ok
        a: SELECT v FROM t WHERE id = 1 => 10
        b: UPDATE t SET v = 11 WHERE id = 1 => 1
        a: SELECT v FROM t WHERE id = 1 => 11
        a: INSERT INTO t VALUES (4, 40) => 1
        b: INSERT INTO t VALUES (5, 50) => 1
        a: SELECT id FROM t ORDER BY id => 1 2 3 4 5
        b: SELECT count(*) FROM t => 4
        a: SHOW transaction_isolation => read committed
        a: COMMIT => ok
        a: BEGIN ISOLATION LEVEL REPEATABLE READ => ok
        a: SELECT v FROM t WHERE id = 2 => 20
        b: UPDATE t SET v = 21 WHERE id = 2 => 1
        a: SELECT v FROM t WHERE id = 2 => 20
        a: UPDATE t SET v = 22 WHERE id = 2 => 1
        a: COMMIT => 40001";
    run(TABLE, script).await;
}

#[tokio::test]
async fn a_change_of_a_changed_row_waits_and_builds_on_it() {
    let script = "
        a: BEGIN => ok
        b: BEGIN => ok
        a: UPDATE t SET v = v + 1 WHERE id = 1 => 1
        b: UPDATE t SET v = v + 5 WHERE id = 1 => waits
        a: COMMIT => ok
        b: => 1
        b: SELECT v FROM t WHERE id = 1 => 16
        b: COMMIT => ok
        a: BEGIN => ok
        a: DELETE FROM t WHERE id = 2 => 1
        b: UPDATE t SET v = 0 WHERE id = 2 => waits
        a: COMMIT => ok
        b: => 0
        a: BEGIN => ok
        a: UPDATE t SET v = 0 WHERE id = 3 => 1
        b: DELETE FROM t WHERE v = 30 => waits
        a: ROLLBACK => ok
        b: => 1";
    run(TABLE, script).await;
}

#[tokio::test]
async fn a_row_that_no_longer_matches_is_left_out() {
    let script = "
        a: BEGIN => ok
        a: UPDATE t SET v = 99 WHERE id = 1 => 1
        b: BEGIN => ok
        b: UPDATE t SET v = v + 1 WHERE v < 50 => waits
        a: COMMIT => ok
        b: => 2
        b: SELECT id, v FROM t ORDER BY id => 1|99 2|21 3|31
        b: ROLLBACK => ok";
    run(TABLE, script).await;
}

/// Such an insert looks for duplicates before its commit does.
#[tokio::test]
async fn an_insert_with_returning_waits_for_the_rows_key_outside_of_a_block() {
    let script = "
        a: BEGIN => ok
        a: DELETE FROM t WHERE id = 1 => 1
        b: INSERT INTO t VALUES (1, 5) RETURNING id => waits
        a: COMMIT => ok
        b: => 1
        a: BEGIN => ok
        a: UPDATE t SET v = 6 WHERE id = 1 => 1
        b: INSERT INTO t VALUES (1, 7) RETURNING id => waits
        a: ROLLBACK => ok
        b: => 23505
        b: SELECT v FROM t WHERE id = 1 => 5";
    run(TABLE, script).await;
}

#[tokio::test]
async fn inserts_of_one_key_wait_for_each_other() {
    let script = "
        a: BEGIN => ok
        b: BEGIN => ok
        a: INSERT INTO t VALUES (7, 1) => 1
        b: INSERT INTO t VALUES (7, 2) => waits
        a: COMMIT => ok
        b: => 23505
        b: ROLLBACK => ok
        a: BEGIN => ok
        a: INSERT INTO t VALUES (8, 1) => 1
        b: INSERT INTO t VALUES (8, 2) => waits
        a: ROLLBACK => ok
        b: => 1
        a: BEGIN => ok
        b: BEGIN => ok
        a: INSERT INTO t VALUES (9, 1) => 1
        b: INSERT INTO t VALUES (9, 2) ON CONFLICT DO NOTHING => waits
        c: INSERT INTO t VALUES (9, 3) ON CONFLICT (id) DO UPDATE SET v = t.v + 100 => waits
        a: COMMIT => ok
        b: => 0
        c: => 1
        b: SELECT v FROM t WHERE id = 9 => 101
        b: COMMIT => ok
        a: BEGIN => ok
        a: DELETE FROM t WHERE id = 9 => 1
        b: BEGIN => ok
        b: INSERT INTO t VALUES (9, 4) => waits
        a: COMMIT => ok
        b: => 1
        b: COMMIT => ok";
    run(TABLE, script).await;
}

#[tokio::test]
async fn deadlocks_end() {
    let script = "
        a: BEGIN => ok
        b: BEGIN => ok
        a: UPDATE t SET v = 0 WHERE id = 1 => 1
        b: UPDATE t SET v = 0 WHERE id = 2 => 1
        a: UPDATE t SET v = 0 WHERE id = 2 => waits
        b: UPDATE t SET v = 0 WHERE id = 1 => 40P01
        a: => 1
        b: SELECT 1 => 25P02
        a: COMMIT => ok
        b: COMMIT => ok
        a: SELECT id, v FROM t ORDER BY id => 1|0 2|0 3|30";
    run(TABLE, script).await;
}

#[tokio::test]
async fn locking_clauses() {
    let script = "
        a: BEGIN => ok
        a: SELECT v FROM t WHERE id = 1 FOR UPDATE => 10
        b: SELECT v FROM t WHERE id = 1 => 10
        b: BEGIN => ok
        b: SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT => 55P03
        b: ROLLBACK => ok
        b: SELECT v FROM t WHERE id = 1 FOR SHARE NOWAIT => 55P03
        b: SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED => 2
        b: BEGIN => ok
        b: SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED => 2
        c: BEGIN => ok
        c: SELECT id FROM t ORDER BY id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED => 3
        d: SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED => none
        c: COMMIT => ok
        d: DELETE FROM t WHERE id = (SELECT id FROM t LIMIT 1 FOR UPDATE SKIP LOCKED) => 1
        d: UPDATE t SET v = 5 WHERE id = 1 => waits
        a: UPDATE t SET v = 4 WHERE id = 1 => 1
        a: COMMIT => ok
        d: => 1
        b: COMMIT => ok
        a: BEGIN => ok
        b: BEGIN => ok
        a: SELECT v FROM t WHERE id = 1 FOR SHARE => 5
        b: SELECT v FROM t WHERE id = 1 FOR KEY SHARE => 5
        c: SELECT v FROM t WHERE id = 1 FOR UPDATE => waits
        a: COMMIT => ok
        c: => waits
        b: COMMIT => ok
        c: => 5";
    run(TABLE, script).await;
}

#[tokio::test]
async fn savepoints_release_later_locks() {
    let script = "
        a: BEGIN => ok
        a: UPDATE t SET v = 1 WHERE id = 1 => 1
        a: SAVEPOINT s => ok
        b: UPDATE t SET v = 33 WHERE id = 3 => 1
        a: UPDATE t SET v = 2 WHERE id = 2 => 1
        b: UPDATE t SET v = v + 1 WHERE id = 2 => waits
        a: ROLLBACK TO s => ok
        b: => 1
        b: UPDATE t SET v = v + 1 WHERE id = 1 => waits
        a: SELECT id, v FROM t ORDER BY id => 1|1 2|21 3|33
        a: INSERT INTO t VALUES (1, 1) => 23505
        a: ROLLBACK TO s => ok
        a: COMMIT => ok
        b: => 1
        b: SELECT id, v FROM t ORDER BY id => 1|2 2|21 3|33";
    run(TABLE, script).await;
}

#[tokio::test]
async fn waits_end_with_their_timeouts() {
    let script = "
        a: BEGIN => ok
        a: UPDATE t SET v = 1 WHERE id = 1 => 1
        b: SET lock_timeout = '50ms' => ok
        b: BEGIN => ok
        b: UPDATE t SET v = 2 WHERE id = 1 => waits";
    let database = Database::builder().threads(2).open().unwrap();
    let mut clients = [Client::new(&database), Client::new(&database)];
    for sql in TABLE {
        clients[0].start(&database, sql).await;
    }
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let sql = line.split_once(" => ").expect("an outcome").0;
        let client = usize::from(sql.starts_with('b'));
        clients[client].start(&database, &sql[3..]).await;
    }
    let [holder, waiter] = &mut clients;
    let answer = waiter.running.take().expect("it waits").await;
    assert_eq!(answer.1, Answer::Failed(SqlState::LOCK_NOT_AVAILABLE));
    waiter.idle = Some(answer.0);
    waiter.start(&database, "ROLLBACK").await;
    // Outside of a block, in a commit that waits.
    assert_eq!(waiter.start(&database, "UPDATE t SET v = 2 WHERE id = 1").await, None);
    let answer = waiter.running.take().expect("it waits").await;
    assert_eq!(answer.1, Answer::Failed(SqlState::LOCK_NOT_AVAILABLE));
    waiter.idle = Some(answer.0);
    waiter.start(&database, "SET lock_timeout = 0").await;
    waiter.start(&database, "SET statement_timeout = '50ms'").await;
    for sql in ["UPDATE t SET v = 2 WHERE id = 1", "UPDATE t SET v = 2 WHERE id = $1 $$ 1"] {
        assert_eq!(waiter.start(&database, sql).await, None);
        let answer = waiter.running.take().expect("it waits").await;
        assert_eq!(answer.1, Answer::Failed(SqlState::QUERY_CANCELED));
        waiter.idle = Some(answer.0);
    }
    assert_eq!(holder.start(&database, "COMMIT").await, Some(Answer::Done));
    assert!(!database.shared.engine.has_row_locks());
}

/// TPC-B: eight clients move amounts between accounts. No block fails, and no amount is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_of_eight_clients_all_succeed() {
    const CLIENTS: i32 = 8;
    const BLOCKS: i32 = 20;
    let database = Database::builder().threads(2).open().unwrap();
    let mut setup = database.session();
    for sql in [
        "CREATE TABLE accounts (aid integer PRIMARY KEY, abalance integer NOT NULL)",
        "CREATE TABLE tellers (tid integer PRIMARY KEY, tbalance integer NOT NULL)",
        "CREATE TABLE branches (bid integer PRIMARY KEY, bbalance integer NOT NULL)",
        "CREATE TABLE history (tid integer, aid integer, delta integer)",
        "INSERT INTO accounts SELECT g, 0 FROM generate_series(1, 100) s(g)",
        "INSERT INTO tellers SELECT g, 0 FROM generate_series(1, 10) s(g)",
        "INSERT INTO branches VALUES (1, 0)",
    ] {
        setup.execute(sql).await.unwrap();
    }
    let client = |number: i32| {
        let mut session = database.session();
        async move {
            for block in 0..BLOCKS {
                let (aid, tid, delta) =
                    (1 + (number * 7 + block * 13) % 100, 1 + block % 10, block);
                for sql in [
                    "BEGIN".to_owned(),
                    format!("UPDATE accounts SET abalance = abalance + {delta} WHERE aid = {aid}"),
                    format!("SELECT abalance FROM accounts WHERE aid = {aid}"),
                    format!("UPDATE tellers SET tbalance = tbalance + {delta} WHERE tid = {tid}"),
                    format!("UPDATE branches SET bbalance = bbalance + {delta} WHERE bid = 1"),
                    format!("INSERT INTO history VALUES ({tid}, {aid}, {delta})"),
                    "COMMIT".to_owned(),
                ] {
                    session.execute(&sql).await.unwrap();
                }
            }
        }
    };
    futures::future::join_all((0..CLIENTS).map(client)).await;
    let mut session = database.session();
    let sql = "SELECT (SELECT sum(abalance) FROM accounts), (SELECT sum(tbalance) FROM tellers), \
               (SELECT bbalance FROM branches), (SELECT sum(delta) FROM history)";
    let sum = CLIENTS * (0..BLOCKS).sum::<i32>();
    let expected = format!("{sum}|{sum}|{sum}|{sum}");
    assert_eq!(answer(&mut session, sql).await, Answer::Rows(vec![expected]));
}
