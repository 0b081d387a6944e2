//! Workers of one process, which are asked by one stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thalweg::Session;
use thalweg_distributed::WorkerStatus;
use thalweg_query::Gathering;

use super::support::*;

/// Three workers in a process, two in another one, and one by itself.
const PROCESSES: [u64; 3] = [3, 2, 1];

const SETUP: [&str; 6] = [
    "CREATE TABLE orders (id int PRIMARY KEY, customer int, item text, mail text) \
     WITH (shard_key = 'id')",
    "CREATE INDEX orders_mail ON orders (mail)",
    "CREATE TABLE customers (id int PRIMARY KEY, name text)",
    "INSERT INTO orders SELECT i, i % 7, 'item' || (i % 500), i || '@example.com' \
     FROM generate_series(1, 60000) AS g(i)",
    "INSERT INTO customers SELECT i, 'customer ' || i FROM generate_series(0, 5) AS g(i)",
    "DELETE FROM orders WHERE id % 10 = 3",
];

/// Each with rows in an order.
const QUERIES: [&str; 22] = [
    "SELECT count(*), sum(id), min(item), avg(customer) FROM orders",
    "SELECT item, count(*), sum(id) FROM orders GROUP BY item ORDER BY item",
    "SELECT customer, count(DISTINCT item) FROM orders GROUP BY customer ORDER BY customer",
    "SELECT id, count(*) FROM orders GROUP BY id ORDER BY id LIMIT 3",
    "SELECT to_timestamp_millis(customer), count(*), max(to_timestamp_seconds(id)) FROM orders \
     GROUP BY 1 ORDER BY 1",
    "SELECT name, count(*) FROM orders JOIN customers ON customer = customers.id \
     GROUP BY name ORDER BY name",
    "SELECT name, count(*) FROM orders JOIN customers USING (id) GROUP BY name ORDER BY name",
    "SELECT id, item FROM orders ORDER BY item DESC, id LIMIT 20 OFFSET 5",
    "SELECT id, mail FROM orders ORDER BY mail LIMIT 5",
    "SELECT DISTINCT customer FROM orders WHERE id > 19000 ORDER BY customer",
    "SELECT count(*) FROM (SELECT id FROM orders LIMIT 50) AS some",
    "SELECT count(*) FROM (SELECT id FROM orders WHERE id % 2 = 0 LIMIT 50) AS some",
    "SELECT count(*) FROM (SELECT id FROM orders WHERE customer < 5 LIMIT 20 OFFSET 7) AS some",
    "SELECT count(*) FROM (SELECT id + 1 FROM orders WHERE item <> 'item7' LIMIT 10) AS some",
    "SELECT count(*) FROM (SELECT DISTINCT item FROM orders WHERE id > 9 LIMIT 20) AS some",
    "SELECT count(*) FROM (SELECT item, sum(id) FROM orders GROUP BY item LIMIT 20) AS some",
    "SELECT count(*) FROM (SELECT id FROM orders WHERE customer IN (SELECT id FROM customers) \
     LIMIT 20) AS some",
    "SELECT count(*) FROM (SELECT orders.id FROM orders JOIN customers ON customer = customers.id \
     WHERE orders.id > 9 LIMIT 20) AS some",
    "SELECT count(*) FROM ((SELECT id FROM orders WHERE id > 9 LIMIT 20) UNION ALL \
     (SELECT id FROM orders WHERE id < 9000 LIMIT 5)) AS some",
    "SELECT item FROM orders WHERE id = 777",
    "SELECT id FROM orders WHERE id IN (1, 2, 3, 50, 51, 52, 59999) ORDER BY id",
    "SELECT id FROM orders WHERE mail IN ('5@example.com', '41@example.com') ORDER BY id",
];

async fn in_processes() -> (Cluster, Session) {
    in_these(&PROCESSES).await
}

async fn in_these(processes: &[u64]) -> (Cluster, Session) {
    let cluster = Cluster::start_in(processes, Gathering::default()).await;
    let mut session = cluster.session();
    for sql in SETUP {
        done(&mut session, sql).await;
    }
    (cluster, session)
}

#[tokio::test(flavor = "multi_thread")]
async fn they_answer_as_one_database_does() {
    // One stream has nothing behind it that would keep a limit, or an order.
    for processes in [&PROCESSES[..], &[4], &[1]] {
        answer_as_one(processes).await;
    }
}

async fn answer_as_one(processes: &[u64]) {
    let (_cluster, mut session) = in_these(processes).await;
    let mut alone = memory().session();
    for sql in SETUP {
        done(&mut alone, sql).await;
    }
    for settings in [
        ["SET fan_in = hybrid", "SET stages = auto"],
        ["SET fan_in = async", "SET stages = auto"],
        ["SET fan_in = sync", "SET stages = auto"],
        ["SET fan_in = hybrid", "SET stages = on"],
    ] {
        for setting in settings {
            done(&mut session, setting).await;
        }
        let context = format!("{processes:?} {}", settings.join("; "));
        answer_alike(&mut session, &mut alone, &QUERIES, &context).await;
    }
}

/// A sort below a window leaves out what is constant, which whoever takes the place of an aggregate
/// has to tell, and stages forget.
#[tokio::test(flavor = "multi_thread")]
async fn columns_that_are_constant_are_known_above_groups() {
    let (_cluster, mut session) = in_processes().await;
    let mut alone = memory().session();
    for sql in SETUP {
        done(&mut alone, sql).await;
    }
    let queries = [
        "SELECT customer, item, sum(id), row_number() OVER (PARTITION BY customer ORDER BY item) \
         FROM orders WHERE customer = 5 GROUP BY customer, item ORDER BY item LIMIT 5",
        "SELECT id, customer, count(*), row_number() OVER (PARTITION BY customer ORDER BY id) \
         FROM orders WHERE customer = 5 GROUP BY id, customer ORDER BY id LIMIT 5",
    ];
    for stages in ["SET stages = off", "SET stages = on"] {
        done(&mut session, stages).await;
        answer_alike(&mut session, &mut alone, &queries, stages).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_tell_how_many_streams_there_are() {
    let (_cluster, mut session) = in_processes().await;
    let all = plan(&mut session, QUERIES[1]).await;
    assert!(all.contains("workers=all 6/6 streams=3"), "{all}");
    let many: Vec<String> = (1..200).map(|id| id.to_string()).collect();
    let owners = format!("SELECT item FROM orders WHERE id IN ({})", many.join(", "));
    let owners = plan(&mut session, &owners).await;
    assert!(owners.contains("workers=owners 6/6 streams=3"), "{owners}");
    let one = plan(&mut session, "SELECT item FROM orders WHERE id = 777").await;
    assert!(one.contains("workers=one 1/6") && !one.contains("streams"), "{one}");
    // Where a row lies, each worker says for itself.
    let places = plan(&mut session, "DELETE FROM orders WHERE customer = 3").await;
    assert!(places.contains("workers=all 6/6") && !places.contains("streams"), "{places}");
    done(&mut session, "SET together = off").await;
    let each = plan(&mut session, QUERIES[1]).await;
    assert!(each.contains("workers=all 6/6") && !each.contains("streams"), "{each}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_another_column_is_looked_for_in_all_processes() {
    let (_cluster, mut session) = in_processes().await;
    let found = "EXPLAIN ANALYZE SELECT id FROM orders WHERE mail = '41@example.com'";
    let error_text = rows(&mut session, found).await.unwrap().join("\n");
    assert!(error_text.contains("streams=3"), "{error_text}");
    assert!(error_text.contains("output_rows=1"), "{error_text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_of_all_workers_leaves_nothing_to_be_done() {
    let (_cluster, mut session) = in_these(&[4]).await;
    let groups = plan(&mut session, QUERIES[1]).await;
    assert!(groups.contains("workers=all 4/4 streams=1"), "{groups}");
    assert!(!groups.contains("AggregateExec"), "{groups}");
    let found = rows(&mut session, QUERIES[1]).await.unwrap();
    assert_eq!((found.len(), found[0].as_str()), (450, "item0|120|3630000"));
}

/// A block sees what it changed, which workers leave out each for itself.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_see_their_own_changes() {
    let (_cluster, mut session) = in_processes().await;
    let count = "SELECT count(*), sum(customer) FROM orders WHERE id IN (777, 778)";
    for sql in ["BEGIN", "UPDATE orders SET customer = 100 WHERE id = 777"] {
        done(&mut session, sql).await;
    }
    assert_eq!(rows(&mut session, count).await.unwrap(), ["2|101"]);
    assert_eq!(rows(&mut session, "SELECT count(*) FROM orders").await.unwrap(), ["54000"]);
    done(&mut session, "ROLLBACK").await;
    assert_eq!(rows(&mut session, count).await.unwrap(), ["2|1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_altered_beside_questions() {
    let (cluster, mut session) = in_processes().await;
    let altered = Arc::new(AtomicBool::new(false));
    let is_altered = Arc::clone(&altered);
    let mut asking = cluster.session();
    let asked = tokio::spawn(async move {
        let mut answers = 0;
        while !is_altered.load(Ordering::Relaxed) {
            match rows(&mut asking, "SELECT count(*), sum(id) FROM orders").await {
                Ok(found) => assert_eq!(found, ["54000|1620042000"]),
                Err(error) => assert_eq!(error.state().0, "40001", "{error}"),
            }
            answers += 1;
        }
        answers
    });
    for number in 0..10 {
        for sql in [
            format!("ALTER TABLE orders ADD COLUMN c{number} int DEFAULT {number}"),
            format!("ALTER TABLE orders DROP COLUMN c{number}"),
        ] {
            done(&mut session, &sql).await;
        }
    }
    altered.store(true, Ordering::Relaxed);
    assert!(asked.await.unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_unread_ends_on_all_workers() {
    let (cluster, mut session) = in_processes().await;
    let pairs = "SELECT count(*) FROM orders AS a JOIN orders AS b ON a.customer = b.customer";
    for mode in ["hybrid", "async", "sync"] {
        done(&mut session, &format!("SET fan_in = {mode}")).await;
        drop(session.execute(pairs).await.unwrap());
    }
    cluster.until_nothing_is_open().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tells_what_it_has_also_where_another_one_is_gone() {
    let (mut cluster, _session) = in_processes().await;
    let rows_of = |database: &thalweg::Database| database.shards().rows();
    let wanted: Vec<u64> = cluster.workers.iter().map(rows_of).collect();
    assert!(wanted.iter().all(|rows| *rows > 0), "{wanted:?}");
    let seen = |status: Vec<WorkerStatus>| -> Vec<Option<u64>> {
        let rows = |sight: thalweg_protocol::cluster::Sight| {
            sight.tables.iter().map(|table| table.rows).sum()
        };
        status.into_iter().map(|worker| worker.seen.map(rows)).collect()
    };
    let mut error_text: Vec<Option<u64>> = wanted.iter().copied().map(Some).collect();
    assert_eq!(seen(cluster.status.status().await), error_text);
    // The one that is asked for the others, which are there still; then another one.
    for gone in [0, 4] {
        drop(cluster.running.remove(gone - usize::from(gone > 0)));
        error_text[gone] = None;
        // A node ends when its tasks have noticed.
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        for _ in 0..500 {
            if seen(cluster.status.status().await) == error_text {
                break;
            }
            ticks.tick().await;
        }
        assert_eq!(seen(cluster.status.status().await), error_text);
    }
}
