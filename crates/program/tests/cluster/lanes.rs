//! More workers than each has a partition for: a few partitions read all of them.

use super::support::*;

const WORKERS: u64 = 70;

const SETUP: [&str; 4] = [
    "CREATE TABLE orders (id int PRIMARY KEY, customer int, item text)",
    "CREATE TABLE customers (id int PRIMARY KEY, name text)",
    "INSERT INTO orders SELECT i, i % 7, 'item' || (i % 500) \
     FROM generate_series(1, 20000) AS g(i)",
    "INSERT INTO customers SELECT i, 'customer ' || i FROM generate_series(0, 5) AS g(i)",
];

/// Each with rows in an order.
const QUERIES: [&str; 8] = [
    "SELECT count(*), sum(id), min(item), avg(customer) FROM orders",
    "SELECT item, count(*), sum(id) FROM orders GROUP BY item ORDER BY item",
    "SELECT customer, count(DISTINCT item) FROM orders GROUP BY customer ORDER BY customer",
    "SELECT name, count(*) FROM orders JOIN customers ON customer = customers.id \
     GROUP BY name ORDER BY name",
    "SELECT id, item FROM orders ORDER BY item DESC, id LIMIT 20",
    "SELECT DISTINCT customer FROM orders WHERE id > 19000 ORDER BY customer",
    "SELECT count(*) FROM (SELECT id FROM orders LIMIT 50) AS some",
    "SELECT item FROM orders WHERE id = 777",
];

#[tokio::test(flavor = "multi_thread")]
async fn many_workers_answer_as_one_database_does() {
    let cluster = Cluster::start(WORKERS).await;
    let mut session = cluster.session();
    let mut alone = memory().session();
    for sql in SETUP {
        done(&mut session, sql).await;
        done(&mut alone, sql).await;
    }
    for mode in ["hybrid", "async", "sync"] {
        done(&mut session, &format!("SET fan_in = {mode}")).await;
        let grouping = plan(&mut session, QUERIES[1]).await;
        assert!(grouping.contains("lanes=2"), "{grouping}");
        answer_alike(&mut session, &mut alone, &QUERIES, mode).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_unread_ends_on_all_workers() {
    let cluster = Cluster::start(WORKERS).await;
    let mut session = cluster.session();
    for sql in SETUP {
        done(&mut session, sql).await;
    }
    let pairs = "SELECT count(*) FROM orders AS a JOIN orders AS b ON a.customer = b.customer";
    for mode in ["hybrid", "async", "sync"] {
        done(&mut session, &format!("SET fan_in = {mode}")).await;
        drop(session.execute(pairs).await.unwrap());
    }
    cluster.until_nothing_is_open().await;
}
