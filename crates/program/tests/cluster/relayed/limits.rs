//! Limits over the rows of several workers: the gateway counts rows, and opens none but those of
//! the part in which the limit lies.

use super::*;

/// Limits, and how many of 3,001 rows they leave.
const LIMITS: [(&str, u64); 7] = [
    ("LIMIT 1", 1),
    ("LIMIT 2000", 2_000),
    ("LIMIT 5000", 3_001),
    ("LIMIT 700 OFFSET 2500", 501),
    ("LIMIT 30 OFFSET 1", 30),
    ("OFFSET 3000", 1),
    ("LIMIT 10 OFFSET 4000", 0),
];

/// Whether rows are some of others, each once.
fn are_some_of(rows: &[String], all: &[String]) -> bool {
    rows.windows(2).all(|pair| pair[0] < pair[1])
        && rows.iter().all(|row| all.binary_search(row).is_ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_rows_come_as_are_asked_for() {
    let (_served, client) = filled(4).await;
    for columns in ["*", "id", "t, n, id, t AS again, 1 AS one"] {
        let all = texts(&client, &format!("SELECT {columns} FROM things")).await.0;
        for (limit, count) in LIMITS {
            let sql = format!("SELECT {columns} FROM things {limit}");
            for fan_in in ["hybrid", "sync", "async"] {
                client.batch_execute(&format!("SET fan_in = {fan_in}")).await.unwrap();
                let plan = plan_of(&client, &sql).await;
                assert!(plan.contains(" relayed"), "{sql}: {plan}");
                let (rows, counted) = texts(&client, &sql).await;
                assert_eq!((rows.len() as u64, counted), (count, count), "{sql} {fan_in}");
                assert!(are_some_of(&rows, &all), "{sql} {fan_in}: {rows:?}");
            }
        }
    }
    let sql = "SELECT id FROM things WHERE n % 3 = 0 LIMIT 2000";
    assert!(plan_of(&client, sql).await.contains(" relayed"));
    assert_eq!(texts(&client, sql).await.1, 1_000);
    client.batch_execute("SET relay = off").await.unwrap();
    assert!(!plan_of(&client, sql).await.contains(" relayed"));
    assert_eq!(texts(&client, sql).await.1, 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_fail_beyond_the_limit_is_computed_above_it() {
    let (_served, client) = filled(3).await;
    let sql = "SELECT id, 1000 / (n - 2000) FROM things LIMIT 5";
    let plan = plan_of(&client, sql).await;
    assert!(!plan.contains(" relayed"), "{plan}");
    assert_eq!(texts(&client, sql).await.1, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn limited_values_come_in_binary() {
    let (_served, client) = filled(3).await;
    let columns = "id, b, s, n, d, t, y, a";
    let prepared = client.prepare(&format!("SELECT {columns} FROM things")).await.unwrap();
    let mut all: Vec<String> =
        client.query(&prepared, &[]).await.unwrap().iter().map(binary).collect();
    all.sort();
    for (limit, count) in LIMITS {
        let sql = format!("SELECT {columns} FROM things {limit}");
        let prepared = client.prepare(&sql).await.unwrap();
        let rows = client.query(&prepared, &[]).await.unwrap();
        let mut rows: Vec<String> = rows.iter().map(binary).collect();
        rows.sort();
        assert_eq!(rows.len() as u64, count, "{sql}");
        assert!(are_some_of(&rows, &all), "{sql}: {rows:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flight_clients_get_limited_rows() {
    let (served, postgres) = filled(4).await;
    let mut client = flight_client(&served).await;
    let all = over_flight(&mut client, "SELECT * FROM things").await;
    for (limit, count) in LIMITS {
        let sql = format!("SELECT * FROM things {limit}");
        assert!(plan_of(&postgres, &sql).await.contains(" relayed"), "{sql}");
        let rows = over_flight(&mut client, &sql).await;
        assert_eq!(rows.len() as u64, count, "{sql}");
        assert!(are_some_of(&rows, &all), "{sql}: {rows:?}");
    }
    assert_eq!(over_flight(&mut client, "SELECT FROM things LIMIT 7").await.len(), 7);
}
