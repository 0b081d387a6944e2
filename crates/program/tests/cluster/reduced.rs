//! Scans that wait for the keys of joins, and groups that lie on one worker: the answers are those
//! of one machine.

use super::stages::{answer, fill};
use super::support::*;

/// Joins of which one side is filtered.
const REDUCED: &[&str] = &[
    "SELECT o.id, c.name FROM customers c JOIN orders o ON o.customer = c.id WHERE c.region = 3",
    "SELECT c.id, o.id FROM (SELECT * FROM customers WHERE region = 3) c \
     LEFT JOIN orders o ON o.customer = c.id",
    "SELECT c.id FROM customers c WHERE region = 2 AND EXISTS \
     (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.price > 100)",
    "SELECT c.id FROM customers c WHERE region = 2 AND NOT EXISTS \
     (SELECT 1 FROM orders o WHERE o.customer = c.id)",
    "SELECT o.id FROM orders o WHERE EXISTS \
     (SELECT 1 FROM customers c WHERE c.id = o.customer AND c.name = 'customer 5')",
    // Keys by which rows lie on their workers.
    "SELECT c.id, o.price FROM customers c JOIN orders o ON o.id = c.id WHERE c.code < 100",
    // No key at all, and more than there are rows.
    "SELECT c.id, o.id FROM customers c JOIN orders o ON o.customer = c.id WHERE c.name = 'nobody'",
    "SELECT c.id, o.id FROM customers c JOIN orders o ON o.customer = c.id WHERE c.id > 0",
    // One join's rows have the next one's keys.
    "SELECT r.name, count(*), sum(o.price) FROM regions r JOIN customers c ON c.region = r.id \
     JOIN orders o ON o.customer = c.id WHERE r.name = 'region 1' GROUP BY r.name",
    // Keys of groups, before and behind other steps.
    "SELECT c.id, g.n FROM customers c JOIN \
     (SELECT customer, count(*) AS n FROM orders WHERE price > 50 GROUP BY customer) g \
     ON g.customer = c.id WHERE c.region = 1",
    "SELECT c.id, g.n FROM customers c JOIN \
     (SELECT customer + 1 AS next, count(*) AS n FROM orders GROUP BY customer) g \
     ON g.next = c.id WHERE c.region = 1",
    "SELECT c.id, g.id FROM customers c JOIN \
     (SELECT id, customer FROM orders ORDER BY id LIMIT 50) g ON g.customer = c.id \
     WHERE c.region = 1",
    // Rows that meet nothing stay.
    "SELECT o.id, c.id FROM orders o LEFT JOIN (SELECT * FROM customers WHERE region = 3) c \
     ON o.customer = c.id",
    "SELECT o.id, c.id FROM (SELECT * FROM customers WHERE region = 3) c FULL JOIN orders o \
     ON o.customer = c.id",
    "SELECT o.id FROM orders o WHERE o.customer NOT IN \
     (SELECT c.id FROM customers c WHERE c.region = 3)",
    "SELECT count(*) FROM orders o JOIN customers c ON o.note IS NOT DISTINCT FROM c.name \
     WHERE c.region = 3",
];

/// Groups that lie on one worker each.
const WHOLE: &[&str] = &[
    "SELECT id, count(*), sum(price), avg(price), count(DISTINCT note) FROM orders GROUP BY id",
    "SELECT id FROM orders GROUP BY id HAVING sum(price) > 14000",
    "SELECT id % 7, count(*) FROM (SELECT id, customer, max(price) FROM orders \
     GROUP BY id, customer) g GROUP BY id % 7",
    "SELECT id, sum(price) FILTER (WHERE customer > 10) FROM orders GROUP BY id \
     ORDER BY id DESC LIMIT 10",
    "SELECT o.id, g.n FROM orders o JOIN (SELECT id, count(*) AS n FROM customers GROUP BY id) g \
     ON g.id = o.customer",
    "SELECT DISTINCT id, customer FROM orders",
];

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_one_machine() {
    let cluster = Cluster::start(3).await;
    let mut session = cluster.session();
    fill(&mut session).await;
    cluster.status.status().await;
    let mut alone = memory().session();
    fill(&mut alone).await;
    for fan_in in ["hybrid", "sync", "async"] {
        done(&mut session, &format!("SET fan_in = {fan_in}")).await;
        for sql in REDUCED.iter().chain(WHOLE) {
            // The second time with a plan that was kept.
            for _ in 0..2 {
                let mut found = answer(&mut session, sql).await;
                let mut expected = answer(&mut alone, sql).await;
                found.sort();
                expected.sort();
                assert_eq!(found, expected, "{sql}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_tell_of_keys_and_groups() {
    let cluster = Cluster::start(3).await;
    let mut session = cluster.session();
    fill(&mut session).await;
    let join = plan(&mut session, REDUCED[0]).await;
    assert!(join.contains("CollectKeys: [id]") && join.contains("among=[customer]"), "{join}");
    let outer = plan(&mut session, REDUCED[REDUCED.len() - 3]).await;
    assert!(!outer.contains("among="), "{outer}");
    let having = plan(&mut session, WHOLE[1]).await;
    assert!(having.contains("steps=[aggregate [sum(orders.price)] by [id@0]; filter"), "{having}");
    assert!(!having.contains("RepartitionExec"), "{having}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_ends_early_keeps_nobody_waiting() {
    let cluster = Cluster::start(3).await;
    let mut session = cluster.session();
    fill(&mut session).await;
    for _ in 0..5 {
        let sql = format!("{} LIMIT 1", REDUCED[0]);
        assert_eq!(answer(&mut session, &sql).await.len(), 1);
        let fails = "SELECT o.id FROM (SELECT * FROM customers WHERE 1 / (region - 3) > 5) c \
                     JOIN orders o ON o.customer = c.id";
        rows(&mut session, fails).await.unwrap_err();
    }
}
