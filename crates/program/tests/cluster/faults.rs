//! Workers that die, hang and come back, as processes.

use std::io::Cursor;
use std::pin::pin;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use thalweg::Database;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::Type;

use super::processes::*;

/// A statement that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(60);

/// Rows of which each worker makes as many bytes as asked for, from a small table.
async fn wide(cluster: &Processes) {
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY, v text)").await.unwrap();
    let insert = "INSERT INTO t SELECT n, 'value ' || n FROM generate_series(1, 5000) AS s(n)";
    cluster.ask(insert).await.unwrap();
}

/// More than 400 MB.
const WIDE: &str = "SELECT id, repeat(v, 8000) FROM t";

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_while_its_rows_are_relayed_is_named() {
    let mut cluster = Processes::start(3).await;
    wide(&cluster).await;
    let plan = cluster.ask(&format!("EXPLAIN {WIDE}")).await.unwrap().join("\n");
    assert!(plan.contains(" relayed"), "{plan}");
    let mut rows = pin!(cluster.client.simple_query_raw(WIDE).await.unwrap());
    let mut seen = 0;
    let error = loop {
        match rows.next().await.expect("it does not end well") {
            Ok(_) => seen += 1,
            Err(error) => break error,
        }
        if seen == 10 {
            cluster.workers[1] = None;
        }
    };
    assert!(error_text(&error).contains("worker "), "{error:?}");
    assert!((10..5_000).contains(&seen), "{seen} messages came before");
    assert_eq!(cluster.ask("SELECT 1").await.unwrap(), ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_while_rows_are_loaded_leaves_none_of_them() {
    let mut cluster = Processes::start(3).await;
    wide(&cluster).await;
    let client = connect(&cluster.postgres).await;
    let value = "v".repeat(400);
    let line = |id: u32| Cursor::new(format!("{id}\t{value}\n").into_bytes());
    let sink = client.copy_in::<_, Cursor<Vec<u8>>>("COPY t FROM STDIN").await.unwrap();
    let mut sink = pin!(sink);
    let mut refused = None;
    for id in 0..600_000 {
        if id == 300_000 {
            cluster.kill(1);
        }
        if let Err(error) = sink.send(line(10_000 + id)).await {
            refused = Some(error);
            break;
        }
    }
    let refused = match refused {
        Some(error) => error,
        None => sink.finish().await.unwrap_err(),
    };
    assert!(error_text(&refused).contains("worker "), "{refused:?}");
    cluster.restart(1);
    assert_eq!(cluster.at_last("SELECT count(*) FROM t").await, ["5000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_while_a_copy_is_relayed_is_named() {
    let mut cluster = Processes::start(3).await;
    wide(&cluster).await;
    let copy = format!("COPY ({WIDE}) TO STDOUT");
    let other = connect(&cluster.postgres).await;
    let mut lines = pin!(other.copy_out(&copy).await.unwrap());
    let mut seen = 0;
    let error = loop {
        match lines.next().await.expect("it does not end well") {
            Ok(_) => seen += 1,
            Err(error) => break error,
        }
        if seen == 10 {
            cluster.workers[1] = None;
        }
    };
    assert!(error_text(&error).contains("worker "), "{error:?}");
    assert!((10..5_000).contains(&seen), "{seen} messages came before");
    assert_eq!(ask(&other, "SELECT 1").await.unwrap(), ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_ahead_of_a_limit_is_named() {
    let mut cluster = Processes::start(3).await;
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY, v text)").await.unwrap();
    let insert = "INSERT INTO t SELECT n, repeat('value ' || n, 4000) FROM \
                  generate_series(1, 2000) AS s(n)";
    cluster.ask(insert).await.unwrap();
    let most = "SELECT id, v FROM t LIMIT 1990";
    let plan = cluster.ask(&format!("EXPLAIN {most}")).await.unwrap().join("\n");
    assert!(plan.contains(" relayed"), "{plan}");
    let mut rows = pin!(cluster.client.simple_query_raw(most).await.unwrap());
    let mut seen = 0;
    let error = loop {
        match rows.next().await.expect("it does not end well") {
            Ok(_) => seen += 1,
            Err(error) => break error,
        }
        if seen == 10 {
            cluster.workers[1] = None;
        }
    };
    assert!(error_text(&error).contains("worker "), "{error:?}");
    assert!((10..1_990).contains(&seen), "{seen} messages came before");
    assert_eq!(cluster.ask("SELECT 1").await.unwrap(), ["1"]);
}

/// Memory of a process in bytes, by the kernel's name for it.
fn memory(node: &Node, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let kilobytes = line.trim_start_matches(':').trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().unwrap() << 10
}

/// From now on the kernel's peak is that of what follows.
#[expect(clippy::disallowed_methods, reason = "the kernel's word on a process")]
fn forget_peak(node: &Node) {
    std::fs::write(format!("/proc/{}/clear_refs", node.child.id()), "5").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_reading_takes_no_memory_of_the_gateway() {
    let cluster = Processes::start(3).await;
    wide(&cluster).await;
    cluster.ask("SELECT count(*) FROM t").await.unwrap();
    let before = memory(&cluster.gateway, "VmRSS");
    forget_peak(&cluster.gateway);
    let other = connect(&cluster.postgres).await;
    let mut rows = pin!(other.simple_query_raw(WIDE).await.unwrap());
    rows.next().await.unwrap().unwrap();
    // Everybody else is served meanwhile.
    for _ in 0..200 {
        assert_eq!(cluster.ask("SELECT count(*) FROM t").await.unwrap(), ["5000"]);
    }
    let mut seen = 0;
    while let Some(message) = rows.next().await {
        if let SimpleQueryMessage::Row(_) = message.unwrap() {
            seen += 1;
        }
    }
    assert_eq!(seen, 5_000);
    let added = memory(&cluster.gateway, "VmHWM").saturating_sub(before);
    assert!(added < 64 << 20, "{added} bytes more");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_stop_reading_hold_up_nobody_else() {
    let cluster = Processes::start(2).await;
    wide(&cluster).await;
    let mut stopped = Vec::new();
    for _ in 0..8 {
        let client = connect(&cluster.postgres).await;
        let mut rows = Box::pin(client.simple_query_raw(WIDE).await.unwrap());
        rows.next().await.unwrap().unwrap();
        stopped.push((client, rows));
    }
    for _ in 0..200 {
        let count = timeout(LONGEST, cluster.ask("SELECT count(*) FROM t")).await;
        assert_eq!(count.expect("it does not hang").unwrap(), ["5000"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_killed_has_its_rows_when_it_is_back() {
    let mut cluster = Processes::start(3).await;
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY, v text)").await.unwrap();
    let insert = "INSERT INTO t SELECT n, 'value ' || n FROM generate_series(1, 3000) AS s(n)";
    cluster.ask(insert).await.unwrap();
    let sum = "SELECT sum(id) FROM t";
    assert_eq!(cluster.ask(sum).await.unwrap(), ["4501500"]);
    // SIGKILL.
    cluster.workers[1] = None;
    let error = cluster.ask(sum).await.unwrap_err();
    assert!(error_text(&error).contains("worker "), "{}", error_text(&error));
    // What the others can do goes on meanwhile.
    cluster.ask("CREATE TABLE other (id int PRIMARY KEY)").await.unwrap();
    cluster.restart(1);
    cluster.until_joined(3).await;
    assert_eq!(cluster.ask(sum).await.unwrap(), ["4501500"]);
    cluster.ask("INSERT INTO other SELECT n FROM generate_series(1, 100) AS s(n)").await.unwrap();
    assert_eq!(cluster.ask("SELECT count(*) FROM other").await.unwrap(), ["100"]);
}

/// Empties a table of the only worker, which is started again with nothing but a checkpoint, and
/// gives the table as many rows as it had before.
async fn begin_anew(cluster: &mut Processes, table: &str) {
    cluster.ask(&format!("TRUNCATE {table}")).await.unwrap();
    cluster.kill(0);
    let worker = Database::open(cluster.directory_of(0)).unwrap();
    worker.checkpoint().unwrap();
    worker.close().unwrap();
    cluster.restart(0);
    cluster.until_joined(1).await;
    let others = "SELECT n, 0 FROM generate_series(101, 200) AS s(n)";
    cluster.ask(&format!("INSERT INTO {table} {others}")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_changes_no_rows_that_came_after_its_worker_was_started_again() {
    let mut cluster = Processes::start(1).await;
    for (table, look) in [("a", "COMMIT"), ("b", "SELECT count(*) FROM b")] {
        let create = format!("CREATE TABLE {table} (id int PRIMARY KEY, v int)");
        cluster.ask(&create).await.unwrap();
        let insert = "SELECT n, 0 FROM generate_series(1, 100) AS s(n)";
        cluster.ask(&format!("INSERT INTO {table} {insert}")).await.unwrap();
        let block = connect(&cluster.postgres).await;
        ask(&block, "BEGIN").await.unwrap();
        ask(&block, &format!("UPDATE {table} SET v = 1 WHERE id = 5")).await.unwrap();
        begin_anew(&mut cluster, table).await;
        let refused = ask(&block, look).await.expect_err(look);
        assert_eq!(refused.code().unwrap().code(), "40001", "{look}: {}", error_text(&refused));
        for rows in [table, &format!("{table} WHERE id > 100 AND v = 0")] {
            let count = cluster.ask(&format!("SELECT count(*) FROM {rows}")).await.unwrap();
            assert_eq!(count, ["100"], "{look}: {rows}");
        }
        // Whoever runs it again finds the rows of now.
        cluster.ask(&format!("UPDATE {table} SET v = 1 WHERE id = 105")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_looks_at_rows_waits_for_all_of_them() {
    let mut cluster = Processes::start(3).await;
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY, v text)").await.unwrap();
    let insert = "INSERT INTO t SELECT n, 'value ' || n FROM generate_series(1, 3000) AS s(n)";
    cluster.ask(insert).await.unwrap();
    cluster.workers[1] = None;
    let looking = [
        "CREATE UNIQUE INDEX ON t (id, v)",
        "ALTER TABLE t ADD UNIQUE (v, id)",
        "ALTER TABLE t ALTER COLUMN v SET NOT NULL",
        "ALTER TABLE t ADD CHECK (id > 0)",
    ];
    for definition in looking {
        let error = cluster.ask(definition).await.expect_err(definition);
        assert!(error_text(&error).contains("worker "), "{definition}: {}", error_text(&error));
    }
    for definition in [
        "CREATE TABLE other (id int PRIMARY KEY, t text CHECK (t <> ''))",
        "ALTER TABLE t ADD COLUMN w int NOT NULL DEFAULT 5",
        "ALTER TABLE t ALTER COLUMN w DROP NOT NULL",
        "CREATE INDEX ON t (w)",
    ] {
        cluster.ask(definition).await.expect(definition);
    }
    let away = "SELECT count(*) FROM thalweg_cluster.nodes WHERE NOT answers AND rows IS NULL";
    assert_eq!(cluster.ask(away).await.unwrap(), ["1"]);
    cluster.restart(1);
    cluster.until_joined(3).await;
    for definition in looking {
        cluster.ask(definition).await.expect(definition);
    }
    assert_eq!(cluster.ask("SELECT sum(w) FROM t").await.unwrap(), ["15000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_for_one_key_asks_its_owner_alone() {
    let mut cluster = Processes::start(3).await;
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY)").await.unwrap();
    cluster.ask("INSERT INTO t SELECT n FROM generate_series(1, 100) AS s(n)").await.unwrap();
    cluster.workers[1] = None;
    let (mut found, mut lost) = (0, 0);
    for key in 1..=100 {
        match cluster.ask(&format!("SELECT id FROM t WHERE id = {key}")).await {
            Ok(row) => {
                assert_eq!(row, [key.to_string()]);
                found += 1;
            }
            Err(error) => {
                assert!(error_text(&error).contains("worker "), "{}", error_text(&error));
                lost += 1;
            }
        }
    }
    assert!(found > lost && lost > 10, "{found} and {lost}");
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_queries_for_a_few_keys_ask_their_owners_alone() {
    let mut cluster = Processes::start(3).await;
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY)").await.unwrap();
    cluster.ask("INSERT INTO t SELECT n FROM generate_series(1, 100) AS s(n)").await.unwrap();
    let client = connect(&cluster.postgres).await;
    let one = client.prepare("SELECT id FROM t WHERE id = $1").await.unwrap();
    let either = client.prepare("SELECT id FROM t WHERE id = $1 OR id = $2").await.unwrap();
    let listed = client.prepare("SELECT id FROM t WHERE id IN ($1, $2)").await.unwrap();
    // As clients ask that give a number the narrowest type which holds it.
    let narrow = [Type::INT2];
    let narrow = [
        client.prepare_typed("SELECT id FROM t WHERE id = $1", &narrow).await.unwrap(),
        client.prepare_typed("SELECT max(id) FROM t WHERE id = $1", &narrow).await.unwrap(),
    ];
    // The plans that are kept were made while all workers were there.
    assert_eq!(client.query(&one, &[&1_i64]).await.unwrap().len(), 1);
    for query in [&either, &listed] {
        assert_eq!(client.query(query, &[&1_i64, &2_i64]).await.unwrap().len(), 2);
    }
    for query in &narrow {
        assert_eq!(client.query_one(query, &[&1_i16]).await.unwrap().get::<_, i64>(0), 1);
    }
    cluster.workers[1] = None;
    let mut alive = Vec::new();
    for key in 1..=100_i64 {
        match client.query(&one, &[&key]).await {
            Ok(rows) => {
                assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), [key]);
                for query in &narrow {
                    let row = client.query_one(query, &[&(key as i16)]).await.unwrap();
                    assert_eq!(row.get::<_, i64>(0), key);
                }
                alive.push(key);
            }
            Err(error) => assert!(error_text(&error).contains("worker "), "{}", error_text(&error)),
        }
    }
    assert!((51..90).contains(&alive.len()), "{alive:?}");
    let mut found = 0;
    for key in (1..100_i64).step_by(3) {
        let next = key + 1;
        for query in [&either, &listed] {
            match client.query(query, &[&key, &next]).await {
                Ok(rows) => {
                    let mut keys: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
                    keys.sort_unstable();
                    assert_eq!(keys, [key, next]);
                    found += 1;
                }
                Err(error) => {
                    assert!(error_text(&error).contains("worker "), "{}", error_text(&error));
                    let is_lost = !alive.contains(&key) || !alive.contains(&next);
                    assert!(is_lost, "{key} and {next}: {}", error_text(&error));
                }
            }
        }
    }
    assert!(found > 10, "{found} pairs were found");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_outlives_a_killed_gateway() {
    let mut cluster = Processes::start(3).await;
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY, batch bigint NOT NULL)").await.unwrap();
    let insert = |batch: usize| {
        let (first, last) = (batch * 100, batch * 100 + 99);
        format!("INSERT INTO t SELECT n, {batch} FROM generate_series({first}, {last}) AS s(n)")
    };
    let client = connect(&cluster.postgres).await;
    let (tell, mut acknowledged) = mpsc::unbounded_channel();
    let writing = tokio::spawn(async move {
        let mut batches = 0;
        while client.simple_query(&insert(batches)).await.is_ok() {
            batches += 1;
            tell.send(batches).unwrap();
        }
        batches
    });
    // Some are acknowledged, and the next one is under way.
    while acknowledged.recv().await.unwrap() < 20 {}
    cluster.restart_gateway().await;
    let batches = writing.await.unwrap();
    cluster.until_joined(3).await;
    let counts = format!("SELECT count(*) FROM t WHERE batch < {batches} GROUP BY batch");
    assert_eq!(cluster.ask(&counts).await.unwrap(), vec!["100"; batches]);
    // Of the one that was under way nothing stands in anybody's way.
    let later = batches + 1;
    cluster.ask(&insert(later)).await.unwrap();
    let count = format!("SELECT count(*) FROM t WHERE batch = {later}");
    assert_eq!(cluster.ask(&count).await.unwrap(), ["100"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hangs_is_named() {
    let cluster = Processes::start(2).await;
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY)").await.unwrap();
    cluster.ask("INSERT INTO t SELECT n FROM generate_series(1, 1000) AS s(n)").await.unwrap();
    let worker = cluster.workers[0].as_ref().unwrap();
    worker.signal("-STOP");
    let error = cluster.ask("SELECT count(*) FROM t").await.unwrap_err();
    worker.signal("-CONT");
    assert!(error_text(&error).contains("does not answer"), "{}", error_text(&error));
    assert_eq!(cluster.at_last("SELECT count(*) FROM t").await, ["1000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hangs_is_waited_for_once() {
    let cluster = Processes::start(3).await;
    joined(&cluster).await;
    let worker = cluster.workers[0].as_ref().unwrap();
    worker.signal("-STOP");
    let count = "SELECT count(*) FROM a";
    let first = error_text(&cluster.ask(count).await.unwrap_err());
    assert!(first.contains("worker ") && first.contains("does not answer"), "{first}");
    // Were it waited for each time, these would take ten minutes.
    let write = "UPDATE a SET v = v || '!'";
    let again = async {
        for statement in [count, JOIN, write].into_iter().cycle().take(120) {
            let error = cluster.ask(statement).await.expect_err(statement);
            assert!(error_text(&error).contains(&first), "{statement}: {}", error_text(&error));
        }
        // Definitions that look at no rows need the others only, and all know who is away.
        cluster.ask("CREATE TABLE c (id bigint PRIMARY KEY)").await.unwrap();
        let away = "SELECT count(*) FROM thalweg_cluster.nodes WHERE NOT answers";
        assert_eq!(cluster.ask(away).await.unwrap(), ["1"]);
    };
    timeout(LONGEST, again).await.expect("nobody waits");
    worker.signal("-CONT");
    assert_eq!(cluster.at_last(count).await, ["5000"]);
    // From then on it is as good as the others.
    assert_eq!(cluster.ask(count).await.unwrap(), ["5000"]);
    cluster.ask(write).await.unwrap();
    cluster.ask("INSERT INTO c SELECT n FROM generate_series(1, 300) AS s(n)").await.unwrap();
    assert_eq!(cluster.ask("SELECT count(*) FROM c").await.unwrap(), ["300"]);
}

/// Two tables whose join is of keys that no row lies by.
async fn joined(cluster: &Processes) {
    for table in ["a", "b"] {
        cluster
            .ask(&format!("CREATE TABLE {table} (id bigint PRIMARY KEY, k bigint, v text)"))
            .await
            .unwrap();
        let insert = format!(
            "INSERT INTO {table} SELECT n, n % 2500, 'value ' || n \
             FROM generate_series(1, 5000) AS s(n)"
        );
        cluster.ask(&insert).await.unwrap();
    }
    cluster.ask("SET stages = on").await.unwrap();
}

const JOIN: &str = "SELECT count(*) FROM a JOIN b ON a.k = b.k";
/// Some 320 MB.
const WIDE_JOIN: &str = "SELECT a.id, repeat(b.v, 3000) FROM a JOIN b ON a.k = b.k";

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_fails_the_queries_of_which_it_has_a_stage() {
    let mut cluster = Processes::start(3).await;
    joined(&cluster).await;
    let plan = cluster.ask(&format!("EXPLAIN {JOIN}")).await.unwrap().join("\n");
    assert!(plan.contains("Stages: "), "{plan}");
    assert_eq!(cluster.ask(JOIN).await.unwrap(), ["10000"]);
    {
        let mut rows = pin!(cluster.client.simple_query_raw(WIDE_JOIN).await.unwrap());
        let mut seen = 0;
        let error = loop {
            match rows.next().await.expect("it does not end well") {
                Ok(_) => seen += 1,
                Err(error) => break error,
            }
            if seen == 10 {
                cluster.workers[1] = None;
            }
        };
        assert!(error_text(&error).contains("worker "), "{error:?}");
    }
    // It is named while it is away, too.
    let error = cluster.ask(JOIN).await.unwrap_err();
    assert!(error_text(&error).contains("worker "), "{}", error_text(&error));
    // What was defined meanwhile it learns before it has a task.
    cluster.ask("CREATE TABLE c (id bigint PRIMARY KEY, k bigint)").await.unwrap();
    cluster.restart(1);
    cluster.until_joined(3).await;
    let empty = "SELECT count(*) FROM a JOIN c ON a.k = c.k";
    assert_eq!(cluster.ask(empty).await.unwrap(), ["0"]);
    assert_eq!(cluster.ask(JOIN).await.unwrap(), ["10000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hangs_in_a_stage_is_named() {
    let cluster = Processes::start(2).await;
    joined(&cluster).await;
    assert_eq!(cluster.ask(JOIN).await.unwrap(), ["10000"]);
    let worker = cluster.workers[0].as_ref().unwrap();
    worker.signal("-STOP");
    let error = cluster.ask(JOIN).await.unwrap_err();
    worker.signal("-CONT");
    assert!(error_text(&error).contains("does not answer"), "{}", error_text(&error));
    assert_eq!(cluster.at_last(JOIN).await, ["10000"]);
}
