//! Rows whose encodings workers keep: what changed meanwhile is what comes.

use super::*;

const KEPT: [&str; 2] = [
    "CREATE TABLE kept (id bigint PRIMARY KEY, n integer, t text, v text)",
    "INSERT INTO kept SELECT n, n % 50, 'text ' || n, 'v' || (n % 9) \
     FROM generate_series(1, 60000) AS s(n)",
];

/// Each leaves rows as the one before it had them, but for what it changes.
const CHANGES: [&str; 9] = [
    "UPDATE kept SET t = 'another' WHERE id = 17",
    "DELETE FROM kept WHERE id BETWEEN 100 AND 199",
    "INSERT INTO kept SELECT n, n, 'new', NULL FROM generate_series(60001, 90000) AS s(n)",
    "ALTER TABLE kept RENAME COLUMN t TO told",
    "ALTER TABLE kept ADD COLUMN more integer DEFAULT 7",
    "ALTER TABLE kept DROP COLUMN v",
    "UPDATE kept SET more = 8",
    "TRUNCATE kept",
    "INSERT INTO kept SELECT n, n, 'again', 1 FROM generate_series(1, 50000) AS s(n)",
];

/// What comes in each form, twice: as it is made, and as it was kept.
async fn in_all_forms(
    client: &Client,
    flight: &mut FlightSqlServiceClient<Channel>,
) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for _ in 0..2 {
        found.push(texts(client, "SELECT * FROM kept").await.0);
        found.push(texts(client, "SELECT told.* FROM kept AS told").await.0);
        let rows = client.query("SELECT * FROM kept", &[]).await.unwrap();
        let mut rows: Vec<String> = rows.iter().map(binary).collect();
        rows.sort();
        found.push(rows);
        let copied = client.copy_out("COPY kept TO STDOUT").await.unwrap();
        let copied: Vec<_> = copied.try_collect().await.unwrap();
        let copied = String::from_utf8(copied.concat()).unwrap();
        let mut lines: Vec<String> = copied.lines().map(str::to_owned).collect();
        lines.sort();
        found.push(lines);
        found.push(over_flight(flight, "SELECT * FROM kept").await);
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_is_never_sent_as_it_was() {
    let (served, client) = filled(2).await;
    let mut flight = flight_client(&served).await;
    for sql in KEPT {
        client.batch_execute(sql).await.unwrap();
    }
    for change in ["SELECT 1"].iter().chain(&CHANGES) {
        client.batch_execute(change).await.unwrap();
        let mut found = Vec::new();
        for relay in ["on", "off"] {
            client.batch_execute(&format!("SET relay = {relay}")).await.unwrap();
            over_flight(&mut flight, &format!("SET relay = {relay}")).await;
            found.push(in_all_forms(&client, &mut flight).await);
        }
        assert!(found[0] == found[1], "{change}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_ask_at_once_get_all_rows_each() {
    let (served, client) = filled(2).await;
    for sql in KEPT {
        client.batch_execute(sql).await.unwrap();
    }
    let asked = (0..6).map(|number| {
        let (address, column) = (served.server.addresses().postgres, ["*", "id"][number % 2]);
        tokio::spawn(async move {
            let client = super::client(address).await;
            texts(&client, &format!("SELECT {column} FROM kept")).await.0
        })
    });
    let found = futures::future::join_all(asked).await;
    let found: Vec<Vec<String>> = found.into_iter().map(Result::unwrap).collect();
    for rows in &found {
        assert_eq!(rows.len(), 60_000);
    }
    assert!(found[0] == found[2] && found[2] == found[4]);
    assert!(found[1] == found[3] && found[3] == found[5]);
}
