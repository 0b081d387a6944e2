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
    "WITH sums AS NOT MATERIALIZED \
     (SELECT customer, sum(price) AS s FROM orders GROUP BY customer) \
     SELECT a.customer, b.s FROM sums a JOIN sums b ON a.s = b.s",
    "SELECT o.id / c.id, o.price * c.region, coalesce(o.note, c.name) \
     FROM orders o JOIN customers c ON o.customer = c.code",
    "SELECT c.region, o.customer, count(*) FROM orders o JOIN customers c ON o.customer = c.code \
     GROUP BY GROUPING SETS ((c.region), (o.customer))",
    // Functions that DataFusion has others of the same names of.
    "SELECT o.id FROM orders o JOIN customers c ON o.customer = c.code \
     WHERE to_char(o.id, '00000') <> to_char(c.id, '00000')",
    "SELECT to_char(o.id % 7, '09'), count(*), max(to_char(c.id, '9999')) \
     FROM orders o JOIN customers c ON o.customer = c.code GROUP BY 1",
    "SELECT customer, string_agg(left(note, 5), ',') FROM orders GROUP BY customer",
    "SELECT array_length(ARRAY[o.id, c.id], 1), array_to_string(ARRAY[o.id, c.id], '-'), \
     array_dims(ARRAY[o.id, c.id]) FROM orders o JOIN customers c ON o.customer = c.code",
    // Groups without a value.
    "SELECT customer, avg(CASE WHEN customer % 5 > 0 THEN id END::float8), count(*) FROM orders \
     GROUP BY customer",
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
    "WITH sums AS (SELECT customer, sum(price) AS s FROM orders GROUP BY customer) \
     SELECT a.customer, b.s FROM sums a JOIN sums b ON a.s = b.s",
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
    "SELECT id, count(*) FILTER (WHERE price > 500) OVER (PARTITION BY customer), \
     sum(price) FILTER (WHERE note IS NOT NULL) \
     OVER (PARTITION BY customer ORDER BY id ROWS 2 PRECEDING) FROM orders",
    "SELECT id, first_value(id) OVER (PARTITION BY customer ORDER BY id DESC), \
     last_value(id) OVER (PARTITION BY customer ORDER BY id), \
     lag(id) OVER (PARTITION BY customer ORDER BY id DESC) FROM orders",
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
    let (cluster, mut staged, _) = both(3).await;
    cluster.status.status().await;
    let join = "SELECT o.id FROM orders o JOIN customers c ON o.customer = c.code LIMIT 17";
    let limited = plan(&mut staged, join).await;
    assert!(limited.contains("Stages: "), "{limited}");
    assert_eq!(answer(&mut staged, join).await.len(), 17);
    // Each worker would take other rows of the side that is sent to all.
    let built = "SELECT DISTINCT c.id FROM \
                 (SELECT id, code FROM customers LIMIT 3) c JOIN orders o ON o.customer >= c.code";
    assert_eq!(answer(&mut staged, built).await.len(), 3);
    let built = "SELECT DISTINCT c.id FROM \
                 (SELECT id, code FROM customers WHERE code < 2000 LIMIT 3) c \
                 JOIN orders o ON o.customer = c.code";
    let gathered = plan(&mut staged, built).await;
    assert!(gathered.contains("gathered=[a limit lies below a join]"), "{gathered}");
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
    assert!(!shuffled.contains("NetworkBroadcast"), "{shuffled}");
    assert_eq!(answer(&mut session, join).await, ["600000|v1"]);
    // A small side goes to all workers, and the large one stays where it is.
    let small = "SELECT count(*), min(a.v), count(b.k) FROM a \
                 LEFT JOIN (SELECT k FROM b WHERE id < 100) b ON a.k = b.k";
    let broadcast = plan(&mut session, small).await;
    assert!(broadcast.contains("NetworkBroadcast"), "{broadcast}");
    assert!(!broadcast.contains("NetworkShuffle"), "{broadcast}");
    assert_eq!(answer(&mut session, small).await, ["300000|v1|198"]);
    // Where rows that meet none are left out, few of the large side have keys of the small one.
    let inner = small.replace("LEFT JOIN", "JOIN");
    let reduced = plan(&mut session, &inner).await;
    assert!(reduced.contains("among=[k]") && reduced.contains(" are few]"), "{reduced}");
    assert_eq!(answer(&mut session, &inner).await, ["198|v1|198"]);
    // All rows come to the gateway in any case.
    let whole = plan(&mut session, "SELECT a.*, b.* FROM a JOIN b ON a.k = b.k").await;
    assert!(whole.contains("gathered=["), "{whole}");
}

/// Tables of which neither is taken for small. Rows of one meet none of the other, one or several,
/// and some have no key.
const LARGE: [&str; 4] = [
    "CREATE TABLE a (id bigint PRIMARY KEY, t text)",
    "CREATE TABLE b (id bigint PRIMARY KEY, t text, v text)",
    "INSERT INTO a SELECT n, CASE WHEN n % 11 > 0 THEN 't' || (n % 100000) END \
     FROM generate_series(1, 135000) AS s(n)",
    "INSERT INTO b SELECT n, CASE WHEN n % 13 > 0 THEN 't' || (n % 65000 + 50000) END, 'v' || n \
     FROM generate_series(1, 135000) AS s(n)",
];

/// Joins with a side that is sent to all workers where it is small, and dealt out otherwise.
const SENT_OR_DEALT_OUT: &[&str] = &[
    "SELECT count(*), sum(a.id), sum(s.id) FROM a JOIN SIDE s ON a.t = s.t",
    "SELECT count(*), sum(a.id), sum(s.id) FROM a LEFT JOIN SIDE s ON a.t = s.t",
    "SELECT count(*), sum(a.id), sum(s.id) FROM SIDE s RIGHT JOIN a ON a.t = s.t",
    "SELECT count(*), sum(id) FROM a WHERE EXISTS (SELECT 1 FROM SIDE s WHERE s.t = a.t)",
    "SELECT count(*), sum(id) FROM a WHERE NOT EXISTS (SELECT 1 FROM SIDE s WHERE s.t = a.t)",
];

/// Of a row that was sent to all workers, none would know whether it met another one's.
const DEALT_OUT: &str =
    "SELECT count(*), sum(a.id), sum(s.id) FROM a FULL JOIN SIDE s ON a.t = s.t";

#[tokio::test(flavor = "multi_thread")]
async fn joins_are_the_same_whichever_way_their_rows_go() {
    let cluster = Cluster::start(3).await;
    let (mut staged, mut alone) = (cluster.session(), memory().session());
    for statement in LARGE {
        done(&mut staged, statement).await;
        done(&mut alone, statement).await;
    }
    cluster.status.status().await;
    done(&mut staged, "SET stages = on").await;
    // A condition is taken to leave few rows, and this one leaves all.
    let few = "(SELECT * FROM b WHERE v <> '')";
    let joins = SENT_OR_DEALT_OUT.iter().map(|sql| (*sql, true)).chain([(DEALT_OUT, false)]);
    for (sql, may_be_sent) in joins {
        let expected = answer(&mut alone, &sql.replace("SIDE", "b")).await;
        for (side, is_sent) in [("b", false), (few, may_be_sent)] {
            let sql = sql.replace("SIDE", side);
            let plan = plan(&mut staged, &sql).await;
            assert!(plan.contains("Stages: "), "{sql}\n{plan}");
            assert_eq!(plan.contains("NetworkBroadcast"), is_sent, "{sql}\n{plan}");
            assert_eq!(plan.contains("NetworkShuffle"), !is_sent, "{sql}\n{plan}");
            assert_eq!(answer(&mut staged, &sql).await, expected, "{sql}");
        }
    }
}

/// Orders with four items each, of which one in 25 has many.
const ITEMS: [&str; 6] = [
    "CREATE TABLE customers (id bigint PRIMARY KEY, name text)",
    "CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, price numeric(12, 2))",
    "CREATE TABLE items (order_id bigint, line int, quantity numeric(12, 2), note text, mark text, \
     PRIMARY KEY (order_id, line))",
    "INSERT INTO customers SELECT n, 'customer ' || n FROM generate_series(1, 4000) AS s(n)",
    "INSERT INTO orders SELECT n, n % 4000 + 1, n * 1.25 FROM generate_series(1, 40000) AS s(n)",
    "INSERT INTO items SELECT n / 4 + 1, n % 4, (n * 7919) % 50, 'note ' || n, 'm' || (n % 100) \
     FROM generate_series(0, 159999) AS s(n)",
];

#[tokio::test(flavor = "multi_thread")]
async fn rows_with_the_keys_of_a_subquery_are_few_enough_to_be_gathered() {
    let cluster = Cluster::start(3).await;
    let mut session = cluster.session();
    for statement in ITEMS {
        done(&mut session, statement).await;
    }
    cluster.status.status().await;
    // Without these keys 13 MB would come to the gateway, which were better left to stages.
    let large = "SELECT c.name, o.id, max(o.price), sum(i.quantity), min(i.note), max(i.mark) \
                 FROM customers c, orders o, items i WHERE o.id IN \
                 (SELECT order_id FROM items GROUP BY order_id HAVING sum(quantity) > 133) \
                 AND c.id = o.customer AND o.id = i.order_id GROUP BY c.name, o.id ORDER BY o.id";
    let gathered = plan(&mut session, large).await;
    assert!(gathered.contains("gathered=[") && !gathered.contains("Stages: "), "{gathered}");
    for (table, key) in [("orders", "id"), ("items", "order_id")] {
        let (scan, among) = (format!("RemoteScan: {table} "), format!(" among=[{key}]"));
        let waits = gathered.lines().any(|line| line.contains(&scan) && line.contains(&among));
        assert!(waits, "{table}: {gathered}");
    }
    let found = answer(&mut session, large).await;
    assert_eq!(found.len(), 1_600);
    done(&mut session, "SET stages = on").await;
    let staged = plan(&mut session, large).await;
    assert!(staged.contains("Stages: ["), "{staged}");
    assert!(answer(&mut session, large).await == found, "in stages");
    done(&mut session, "SET stages = off").await;
    assert!(answer(&mut session, large).await == found, "without stages");
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
    cluster.until_nothing_is_open().await;
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
