//! What a gateway answers is what one machine answers.

use thalweg::SqlState;
use thalweg_types::bucket_of;

use super::support::*;

/// Rows on all workers, with and without keys.
async fn filled(cluster: &Cluster) -> thalweg::Session {
    let mut session = cluster.session();
    done(
        &mut session,
        "CREATE TABLE orders \
         (id bigint PRIMARY KEY, customer int, price numeric(12, 2), note text)",
    )
    .await;
    done(
        &mut session,
        "INSERT INTO orders SELECT n, n % 10, n * 1.25, 'order ' || n \
         FROM generate_series(1, 1000) AS s(n)",
    )
    .await;
    done(&mut session, "CREATE TABLE customers (id int PRIMARY KEY, name text)").await;
    done(
        &mut session,
        "INSERT INTO customers SELECT n, 'customer ' || n FROM generate_series(0, 9) AS s(n)",
    )
    .await;
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_lie_on_workers_and_are_found_again() {
    let cluster = Cluster::start(4).await;
    let mut session = filled(&cluster).await;
    let all =
        rows(&mut session, "SELECT count(*), sum(price), min(note), max(id) FROM orders").await;
    assert_eq!(all.unwrap(), ["1000|625625.00|order 1|1000"]);
    let one = rows(&mut session, "SELECT note, price FROM orders WHERE id = 77").await;
    assert_eq!(one.unwrap(), ["order 77|96.25"]);
    let some =
        rows(&mut session, "SELECT id FROM orders WHERE id IN (5, 900, 17) ORDER BY id").await;
    assert_eq!(some.unwrap(), ["5", "17", "900"]);
    let top = "SELECT id FROM orders ORDER BY price DESC LIMIT 3";
    assert_eq!(rows(&mut session, top).await.unwrap(), ["1000", "999", "998"]);
    let sorted = rows(&mut session, "SELECT id FROM orders ORDER BY id").await.unwrap();
    assert_eq!(sorted.len(), 1_000);
    assert!(sorted.iter().enumerate().all(|(place, id)| *id == (place + 1).to_string()));
    let groups = "SELECT customer, count(*), avg(price) FROM orders GROUP BY customer \
                  HAVING count(*) > 1 ORDER BY customer LIMIT 2";
    let groups = rows(&mut session, groups).await.unwrap();
    assert_eq!(groups.len(), 2);
    assert!(groups[0].starts_with("0|100|631.25"), "{groups:?}");
    let joined = "SELECT c.name, count(*) FROM orders o JOIN customers c ON o.customer = c.id \
                  WHERE o.id <= 20 GROUP BY c.name ORDER BY c.name LIMIT 1";
    assert_eq!(rows(&mut session, joined).await.unwrap(), ["customer 0|2"]);
    let limited = rows(&mut session, "SELECT id FROM orders LIMIT 7").await.unwrap();
    assert_eq!(limited.len(), 7);
    let seen = cluster.status.status().await;
    let rows_there: Vec<u64> = seen
        .iter()
        .map(|worker| worker.seen.as_ref().unwrap().tables.iter().map(|table| table.rows).sum())
        .collect();
    assert_eq!(rows_there.iter().sum::<u64>(), 1_010);
    assert!(rows_there.iter().all(|rows| *rows > 100), "{rows_there:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_say_who_is_asked_and_for_what() {
    let cluster = Cluster::start(4).await;
    let mut session = filled(&cluster).await;
    let all = plan(
        &mut session,
        "SELECT customer, sum(price) FROM orders WHERE customer > 3 GROUP BY customer",
    )
    .await;
    assert!(all.contains("workers=all 4/4"), "{all}");
    assert!(all.contains("filter") && all.contains("partial aggregate"), "{all}");
    let one = plan(&mut session, "SELECT note FROM orders WHERE id = 8").await;
    assert!(one.contains("workers=one 1/4"), "{one}");
    let whole = plan(&mut session, "SELECT sum(price) FROM orders WHERE id = 8").await;
    assert!(whole.contains("aggregate [") && !whole.contains("AggregateExec"), "{whole}");
    let top = plan(&mut session, "SELECT id FROM orders ORDER BY price LIMIT 5").await;
    assert!(top.contains("top 5 by") && top.contains("SortPreservingMergeExec"), "{top}");
    let analyzed =
        rows(&mut session, "EXPLAIN ANALYZE SELECT id FROM orders").await.unwrap().join("\n");
    for figure in ["open_time", "first_row_time", "read_time", "output_rows", "output_bytes"] {
        assert!(analyzed.contains(figure), "{analyzed}");
    }
    assert!(!analyzed.contains("output_bytes=0"), "{analyzed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_on_keys_ask_the_owners_of_these_alone() {
    let cluster = Cluster::start(4).await;
    let mut session = filled(&cluster).await;
    let map = cluster.node.as_ref().unwrap().map().current();
    let owner = |key: i64| map.owner(bucket_of(&key.to_le_bytes())).unwrap();
    let beside: Vec<i64> = (9..=1_000).filter(|key| owner(*key) == owner(8)).take(3).collect();
    let [one, two, three] = beside[..] else { panic!("worker {} has few rows", owner(8)) };
    let away = (9..=1_000).find(|key| owner(*key) != owner(8)).unwrap();
    let (alone, owners, all) = ("workers=one 1/4", "workers=owners 2/4", "workers=all 4/4");
    for (condition, workers, rows_there) in [
        (format!("id = 8 OR id = {away}"), owners, 2),
        (format!("id = 8 OR {one} = id"), alone, 2),
        (format!("id = 8 OR id = {away} OR id = {one}"), owners, 3),
        (format!("id IN (8, {away})"), owners, 2),
        (format!("id IN (8, {one})"), alone, 2),
        (format!("id IN (8, {one}, {two}, {three})"), alone, 4),
        (format!("id IN (8, {one}, {two}, {three}, {away})"), owners, 5),
        (format!("id IN (8, {away}) OR id = {two}"), owners, 3),
        (format!("(id = 8 OR id = {away}) AND note <> ''"), owners, 2),
        ("id = 8 OR customer = 3".to_owned(), all, 101),
        (format!("id NOT IN (8, {away})"), all, 998),
        ("id <> 8".to_owned(), all, 999),
    ] {
        let plan = plan(&mut session, &format!("SELECT note FROM orders WHERE {condition}")).await;
        assert!(plan.contains(workers), "{condition}: {plan}");
        let count = format!("SELECT count(*) FROM orders WHERE {condition}");
        assert_eq!(rows(&mut session, &count).await.unwrap(), [rows_there.to_string()], "{count}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_change_where_they_lie() {
    let cluster = Cluster::start(3).await;
    let mut session = filled(&cluster).await;
    done(&mut session, "UPDATE orders SET price = price + 1 WHERE customer = 3").await;
    let sum = rows(&mut session, "SELECT sum(price) FROM orders").await.unwrap();
    assert_eq!(sum, ["625725.00"]);
    let back =
        rows(&mut session, "DELETE FROM orders WHERE id BETWEEN 10 AND 12 RETURNING id, note")
            .await;
    let mut back = back.unwrap();
    back.sort();
    assert_eq!(back, ["10|order 10", "11|order 11", "12|order 12"]);
    let upsert = "INSERT INTO orders VALUES (1, 5, 7, 'new'), (5000, 6, 8, 'fresh') \
                  ON CONFLICT (id) DO UPDATE SET note = excluded.note || ' was ' || orders.note \
                  RETURNING id, note";
    let mut error_text = rows(&mut session, upsert).await.unwrap();
    error_text.sort();
    assert_eq!(error_text, ["1|new was order 1", "5000|fresh"]);
    let taken =
        rows(&mut session, "INSERT INTO orders (id) VALUES (6000), (2), (6001)").await.unwrap_err();
    assert_eq!(taken.state(), SqlState::UNIQUE_VIOLATION);
    let nothing = rows(&mut session, "SELECT id FROM orders WHERE id >= 6000").await.unwrap();
    assert!(nothing.is_empty(), "{nothing:?}");
    let from = "UPDATE orders SET note = c.name FROM customers c \
                WHERE c.id = orders.customer AND orders.id < 4";
    done(&mut session, from).await;
    let notes =
        rows(&mut session, "SELECT note FROM orders WHERE id < 4 ORDER BY id").await.unwrap();
    assert_eq!(notes, ["customer 1", "customer 2", "customer 3"]);
    done(&mut session, "TRUNCATE orders").await;
    assert_eq!(rows(&mut session, "SELECT count(*) FROM orders").await.unwrap(), ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cluster_cannot_do_is_refused_with_words() {
    let cluster = Cluster::start(2).await;
    let mut session = filled(&cluster).await;
    for refused in [
        "CREATE TABLE pairs (a int, b int PRIMARY KEY) WITH (shard_key = 'a')",
        "CREATE TABLE keys (a int PRIMARY KEY, b int UNIQUE)",
        "UPDATE orders SET id = id + 1",
    ] {
        let error = rows(&mut session, refused).await.unwrap_err();
        assert!(error.hint().is_some(), "{refused}: {error}");
    }
    done(&mut session, "BEGIN").await;
    done(&mut session, "DELETE FROM orders").await;
    assert_eq!(rows(&mut session, "SELECT count(*) FROM orders").await.unwrap(), ["0"]);
    let error = rows(&mut session, "COMMIT").await.unwrap_err();
    assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED);
    assert_eq!(rows(&mut session, "SELECT count(*) FROM orders").await.unwrap(), ["1000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_about_one_shard_key_are_transactions() {
    let cluster = Cluster::start(3).await;
    let mut session = filled(&cluster).await;
    done(&mut session, "BEGIN").await;
    done(&mut session, "UPDATE orders SET price = 0 WHERE id = 9").await;
    done(&mut session, "UPDATE orders SET note = 'free' WHERE id = 9 AND price = 0").await;
    let own = rows(&mut session, "SELECT note, price FROM orders WHERE id = 9").await.unwrap();
    assert_eq!(own, ["free|0.00"]);
    let mut other = cluster.session();
    let theirs = rows(&mut other, "SELECT note FROM orders WHERE id = 9").await.unwrap();
    assert_eq!(theirs, ["order 9"]);
    done(&mut session, "COMMIT").await;
    let theirs = rows(&mut other, "SELECT note, price FROM orders WHERE id = 9").await.unwrap();
    assert_eq!(theirs, ["free|0.00"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_comes_late_follows_all_definitions() {
    let cluster = Cluster::start(2).await;
    let mut session = filled(&cluster).await;
    done(&mut session, "ALTER TABLE orders ADD COLUMN paid boolean DEFAULT false").await;
    done(&mut session, "ALTER TABLE orders RENAME COLUMN note TO remark").await;
    let unpaid = "SELECT count(*) FROM orders WHERE NOT paid AND remark LIKE 'order 1%'";
    assert_eq!(rows(&mut session, unpaid).await.unwrap(), ["112"]);
    done(&mut session, "CREATE TABLE copy AS SELECT * FROM orders").await;
    assert_eq!(rows(&mut session, "SELECT count(*) FROM copy").await.unwrap(), ["1000"]);
    done(&mut session, "DROP TABLE copy").await;
    done(&mut session, "CREATE TABLE numbered (id serial PRIMARY KEY, t text)").await;
    done(&mut session, "INSERT INTO numbered (t) VALUES ('a'), ('b'), ('c')").await;
    let numbers = rows(&mut session, "SELECT id, t FROM numbered ORDER BY id").await.unwrap();
    assert_eq!(numbers, ["1|a", "2|b", "3|c"]);
}
