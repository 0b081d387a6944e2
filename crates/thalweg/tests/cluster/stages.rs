//! Joins and groupings between workers: the answers are those of one machine, and each trap that
//! stages have is stepped over.

use futures::TryStreamExt as _;
use thalweg::{Session, SqlState};

use super::support::*;

pub const TABLES: [&str; 6] = [
    "CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, price numeric(12, 2), note text)",
    "CREATE TABLE customers (id bigint PRIMARY KEY, code bigint, name text, region int)",
    "CREATE TABLE regions (id int PRIMARY KEY, name text)",
    "INSERT INTO orders SELECT n, (n * 7919) % 3000, n * 1.25, \
     CASE WHEN n % 11 = 0 THEN NULL ELSE 'order ' || n END FROM generate_series(1, 12000) AS s(n)",
    "INSERT INTO customers SELECT n, (n * 31) % 4000, 'customer ' || n, n % 7 \
     FROM generate_series(1, 3000) AS s(n)",
    "INSERT INTO regions SELECT n, 'region ' || n FROM generate_series(0, 4) AS s(n)",
];

/// Questions whose stages have several tasks.
const STAGED: &[&str] = &[
    "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.code",
    "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.code",
    "SELECT o.id, c.name FROM orders o RIGHT JOIN customers c ON o.customer = c.code",
    "SELECT o.id, c.id FROM orders o FULL JOIN customers c ON o.customer = c.code",
    "SELECT id FROM orders o WHERE EXISTS \
     (SELECT 1 FROM customers c WHERE c.code = o.customer AND c.region < 3)",
    "SELECT id FROM orders o WHERE NOT EXISTS \
     (SELECT 1 FROM customers c WHERE c.code = o.customer)",
    "SELECT count(*) FROM orders o JOIN customers c ON o.customer = c.code",
    "SELECT o.id FROM orders o JOIN customers c ON o.customer = c.code AND o.price > c.id * 2",
    "SELECT r.name, count(*), sum(o.price), avg(o.price), min(o.note), max(upper(c.name)) \
     FROM orders o JOIN customers c ON o.customer = c.code JOIN regions r ON c.region = r.id \
     GROUP BY r.name",
    "SELECT customer, count(*), sum(price), avg(price), count(note) FROM orders GROUP BY customer",
    "SELECT count(*), sum(n) FROM (SELECT customer, count(*) AS n FROM orders GROUP BY customer) g",
    "SELECT DISTINCT customer % 1000, note IS NULL FROM orders",
    "SELECT customer, count(DISTINCT note), string_agg(note, '') IS NULL \
     FROM orders GROUP BY customer",
    "SELECT id, row_number() OVER (PARTITION BY customer ORDER BY id), \
     sum(price) OVER (PARTITION BY customer ORDER BY id), \
     lag(id) OVER (PARTITION BY customer ORDER BY id) FROM orders",
    "SELECT customer, count(*) FROM (SELECT customer FROM orders UNION ALL \
     SELECT code FROM customers) u GROUP BY customer",
    "SELECT a.id, b.id FROM orders a JOIN orders b ON a.customer = b.customer WHERE a.id < 400",
    "WITH sums AS (SELECT customer, sum(price) AS s FROM orders GROUP BY customer) \
     SELECT a.customer, b.s FROM sums a JOIN sums b ON a.s = b.s",
    "SELECT o.id / c.id, o.price * c.region, coalesce(o.note, c.name) \
     FROM orders o JOIN customers c ON o.customer = c.code",
    "SELECT c.region, o.customer, count(*) FROM orders o JOIN customers c ON o.customer = c.code \
     GROUP BY GROUPING SETS ((c.region), (o.customer))",
    // By shard keys.
    "SELECT o.id, c.name FROM orders o JOIN customers c ON o.id = c.id",
    "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.id = c.id AND c.region > 2",
    "SELECT o.id, c.name, d.code FROM orders o JOIN customers c ON o.id = c.id \
     JOIN customers d ON d.id = o.id",
    "SELECT c.region, count(*) FROM orders o JOIN customers c ON o.id = c.id GROUP BY c.region",
    "SELECT a.id, a.n, b.n FROM (SELECT id, count(*) AS n FROM orders GROUP BY id) a \
     JOIN (SELECT customer, count(*) AS n FROM orders GROUP BY customer) b ON a.id = b.customer",
    // Some of the sides are one worker's, or empty.
    "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.code WHERE c.id = 17",
    "SELECT count(*) FROM orders o JOIN customers c ON o.customer = c.code WHERE c.region = 99",
];

/// Questions of which some part speaks against stages, or that have none.
const ANY: &[&str] = &[
    "SELECT id FROM orders WHERE customer NOT IN (SELECT code FROM customers WHERE region < 2)",
    "SELECT o.id, r.name FROM orders o, regions r WHERE o.id < r.id * 100",
    "SELECT count(*) FROM customers a CROSS JOIN regions b",
    "SELECT o.id FROM orders o JOIN (SELECT * FROM customers ORDER BY id LIMIT 40) c \
     ON o.customer = c.code",
    "SELECT count(*) FROM orders o JOIN (SELECT customer FROM orders ORDER BY id LIMIT 5) c \
     ON o.customer = c.customer",
    "SELECT id FROM orders WHERE price > (SELECT avg(id) FROM customers)",
    "SELECT o.id, (SELECT max(c.name) FROM customers c WHERE c.code = o.customer) FROM orders o \
     WHERE o.id < 500",
    "SELECT * FROM orders o JOIN (VALUES (1, 'one'), (2, 'two')) v (k, t) ON o.customer = v.k",
    "SELECT c.name, now() > o.id * interval '1 second' + '2000-01-01'::timestamptz \
     FROM orders o JOIN customers c ON o.customer = c.code",
];

/// Questions whose rows come in an order.
const ORDERED: &[&str] = &[
    "SELECT customer, count(*) FROM orders GROUP BY customer ORDER BY count(*) DESC, customer",
    "SELECT customer, sum(price) FROM orders GROUP BY customer ORDER BY sum(price) DESC, customer \
     LIMIT 20 OFFSET 3",
    "SELECT o.id, c.id FROM orders o JOIN customers c ON o.customer = c.code ORDER BY o.id, c.id",
    "SELECT o.id, c.id FROM orders o JOIN customers c ON o.customer = c.code \
     ORDER BY c.name DESC, o.id LIMIT 100",
    "SELECT id, rank() OVER (PARTITION BY customer ORDER BY price DESC) FROM orders ORDER BY id",
    "SELECT array_agg(id ORDER BY id DESC) FROM orders GROUP BY customer ORDER BY min(id) LIMIT 9",
];

pub async fn fill(session: &mut Session) {
    for statement in TABLES {
        done(session, statement).await;
    }
}

/// A cluster, a session that wants stages, and one of a single machine.
async fn both(workers: u64) -> (Cluster, Session, Session) {
    let cluster = Cluster::start(workers).await;
    let mut staged = cluster.session();
    fill(&mut staged).await;
    done(&mut staged, "SET stages = on").await;
    let mut alone = memory().session();
    fill(&mut alone).await;
    (cluster, staged, alone)
}

pub async fn answer(session: &mut Session, sql: &str) -> Vec<String> {
    match rows(session, sql).await {
        Ok(found) => found,
        Err(error) => panic!("{sql}: {} {error} {:?}", error.state().0, error.detail()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_one_machine() {
    let (_cluster, mut staged, mut alone) = both(3).await;
    for (sql, is_staged) in
        STAGED.iter().map(|sql| (sql, true)).chain(ANY.iter().map(|sql| (sql, false)))
    {
        if is_staged {
            let plan = plan(&mut staged, sql).await;
            assert!(plan.contains("Stages: "), "{sql}\n{plan}");
        }
        let (mut found, mut expected) =
            (answer(&mut staged, sql).await, answer(&mut alone, sql).await);
        found.sort();
        expected.sort();
        assert!(!expected.is_empty(), "{sql}");
        assert_eq!(found, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_survives_the_shuffle_below_it() {
    let (_cluster, mut staged, mut alone) = both(3).await;
    for sql in ORDERED {
        let found = answer(&mut staged, sql).await;
        assert_eq!(found, answer(&mut alone, sql).await, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_counts_the_rows_of_all_workers() {
    let (_cluster, mut staged, _) = both(3).await;
    let join = "SELECT o.id FROM orders o JOIN customers c ON o.customer = c.code LIMIT 17";
    let plan = plan(&mut staged, join).await;
    assert!(plan.contains("Stages: "), "{plan}");
    assert_eq!(answer(&mut staged, join).await.len(), 17);
    // Each worker would take other rows of the side that is sent to all.
    let built = "SELECT DISTINCT c.id FROM \
                 (SELECT id, code FROM customers LIMIT 3) c JOIN orders o ON o.customer >= c.code";
    assert_eq!(answer(&mut staged, built).await.len(), 3);
    let built = "SELECT DISTINCT c.id FROM \
                 (SELECT id, code FROM customers WHERE code < 2000 LIMIT 3) c \
                 JOIN orders o ON o.customer = c.code";
    assert!(answer(&mut staged, built).await.len() <= 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_worker_has_no_stages() {
    let (_cluster, mut staged, mut alone) = both(1).await;
    let join = STAGED[0];
    let plan = plan(&mut staged, join).await;
    assert!(plan.contains("gathered=[there is one worker]"), "{plan}");
    let (mut found, mut expected) =
        (answer(&mut staged, join).await, answer(&mut alone, join).await);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_tell_why_they_are_as_they_are() {
    let (cluster, mut staged, _) = both(2).await;
    let join = STAGED[0];
    assert!(plan(&mut staged, join).await.contains("Stages: ["));
    done(&mut staged, "SET stages = off").await;
    let off = plan(&mut staged, join).await;
    assert!(!off.contains("Stages: ") && !off.contains("gathered="), "{off}");
    // The rows are counted by now.
    cluster.status.status().await;
    done(&mut staged, "SET stages = auto").await;
    let few = plan(&mut staged, join).await;
    assert!(few.contains(" are few]"), "{few}");
    done(&mut staged, "SET stages = on").await;
    let limited = "SELECT count(*) FROM orders o JOIN (VALUES (1), (2)) v (k) ON o.customer = v.k";
    let limited = plan(&mut staged, limited).await;
    assert!(limited.contains("gathered=[some of the rows are the gateway's own]"), "{limited}");
    let analyzed = answer(&mut staged, &format!("EXPLAIN ANALYZE {join}")).await.join("\n");
    assert!(analyzed.contains("Stages: ["), "{analyzed}");
    let scan = plan(&mut staged, "SELECT id FROM orders WHERE price > 3").await;
    assert!(!scan.contains("gathered=") && scan.contains("relayed"), "{scan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_bytes_choose_stages() {
    let cluster = Cluster::start(3).await;
    let mut session = cluster.session();
    for table in ["a", "b"] {
        done(
            &mut session,
            &format!("CREATE TABLE {table} (id bigint PRIMARY KEY, k bigint, v text)"),
        )
        .await;
        let insert = format!(
            "INSERT INTO {table} SELECT n, n % 150000, 'v' || n \
             FROM generate_series(1, 300000) AS s(n)"
        );
        done(&mut session, &insert).await;
    }
    cluster.status.status().await;
    let join = "SELECT count(*), min(a.v) FROM a JOIN b ON a.k = b.k";
    let shuffled = plan(&mut session, join).await;
    assert!(shuffled.contains("Stages: [") && shuffled.contains("NetworkShuffle"), "{shuffled}");
    assert_eq!(answer(&mut session, join).await, ["600000|v1"]);
    // A small side goes to all workers, and the large one stays where it is.
    let small = "SELECT count(*) FROM a JOIN (SELECT k FROM b WHERE id < 100) b ON a.k = b.k";
    assert_eq!(answer(&mut session, small).await, ["198"]);
    // All rows come to the gateway in any case.
    let whole = plan(&mut session, "SELECT a.*, b.* FROM a JOIN b ON a.k = b.k").await;
    assert!(whole.contains("gathered=["), "{whole}");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_tell_how_many_groups_there_are() {
    let cluster = Cluster::start(3).await;
    let mut session = cluster.session();
    done(&mut session, "CREATE TABLE a (id bigint PRIMARY KEY, k bigint, t text, v text)").await;
    let insert = "INSERT INTO a SELECT n, n % 100, 't' || (n % 10), 'v' || n \
                  FROM generate_series(1, 300000) AS s(n)";
    done(&mut session, insert).await;
    cluster.status.status().await;
    for (keys, groups, is_known) in [
        ("k", 100, true),
        ("t", 10, true),
        ("k, t", 100, true),
        ("k % 7, upper(t)", 70, true),
        ("v", 300_000, false),
    ] {
        let grouped = format!("SELECT {keys}, count(*) FROM a GROUP BY {keys}");
        let plan = plan(&mut session, &grouped).await;
        assert_eq!(plan.contains("KiB are few"), is_known, "{plan}");
        let counted = format!("SELECT count(*), sum(count) FROM ({grouped}) AS g");
        assert_eq!(answer(&mut session, &counted).await, [format!("{groups}|300000")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_together_stays_where_it_is() {
    let (_cluster, mut staged, mut alone) = both(3).await;
    // Of rows that nobody has counted yet, none is sent to all workers.
    let join =
        "SELECT count(*), sum(o.id + c.code) FROM orders o FULL JOIN customers c ON o.id = c.id";
    let joined = plan(&mut staged, join).await;
    assert!(joined.contains("Stages: ") && !joined.contains("NetworkShuffle"), "{joined}");
    assert_eq!(answer(&mut staged, join).await, answer(&mut alone, join).await);
    let groups = "SELECT id, count(note) FROM orders GROUP BY id";
    let grouped = plan(&mut staged, groups).await;
    assert!(grouped.contains("steps=[aggregate [count(orders.note)] by [id@0]"), "{grouped}");
    assert!(grouped.contains("relayed"), "{grouped}");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_tasks_are_those_of_one_machine() {
    let (_cluster, mut staged, mut alone) = both(3).await;
    for sql in [
        "SELECT 1 / (c.id - 17) FROM orders o JOIN customers c ON o.customer = c.code",
        "SELECT (o.id * 4611686018427387904) + c.id \
         FROM orders o JOIN customers c ON o.customer = c.code",
        "SELECT c.name::int + o.id FROM orders o JOIN customers c ON o.customer = c.code",
    ] {
        let (found, expected) =
            (rows(&mut staged, sql).await.unwrap_err(), rows(&mut alone, sql).await.unwrap_err());
        assert_eq!(found.state(), expected.state(), "{sql}: {found}");
        assert_ne!(found.state(), SqlState::INTERNAL_ERROR, "{sql}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_query_that_nobody_reads() {
    let (cluster, mut staged, _) = both(3).await;
    let wide = "SELECT o.id, repeat(c.name, 100) FROM orders o JOIN customers c \
                ON o.customer % 100 = c.code % 100";
    let mut outcome = staged.execute(wide).await.unwrap();
    let mut batches = outcome.rows.take().unwrap();
    assert!(batches.try_next().await.unwrap().is_some());
    let streams = async || -> u64 {
        let seen = cluster.status.status().await;
        seen.iter().filter_map(|worker| worker.seen.as_ref()).map(|seen| seen.streams).sum()
    };
    assert!(streams().await > 0);
    drop(batches);
    drop(outcome);
    while streams().await > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(answer(&mut staged, "SELECT count(*) FROM customers").await, ["3000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_with_parameters_runs_again_and_again() {
    let (_cluster, mut staged, _) = both(2).await;
    done(
        &mut staged,
        "PREPARE q AS SELECT count(*) FROM orders o JOIN customers c ON o.customer = c.code \
         WHERE c.region = $1",
    )
    .await;
    let first = answer(&mut staged, "EXECUTE q(1)").await;
    for _ in 0..3 {
        assert_eq!(answer(&mut staged, "EXECUTE q(1)").await, first);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_change_by_what_stages_find() {
    let (_cluster, mut staged, mut alone) = both(3).await;
    for sql in [
        "UPDATE orders SET note = 'found' FROM customers c WHERE orders.customer = c.code \
         AND c.region = 3",
        "DELETE FROM orders USING customers c WHERE orders.customer = c.code AND c.region = 4",
        "INSERT INTO regions SELECT 100 + c.id, min(o.note) FROM orders o \
         JOIN customers c ON o.customer = c.code GROUP BY c.id",
    ] {
        done(&mut staged, sql).await;
        done(&mut alone, sql).await;
    }
    for sql in ["SELECT * FROM orders ORDER BY id", "SELECT * FROM regions ORDER BY id"] {
        assert_eq!(answer(&mut staged, sql).await, answer(&mut alone, sql).await);
    }
}
