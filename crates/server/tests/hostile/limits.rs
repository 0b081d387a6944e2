//! Limits of connections and results hold on every port.

use futures::StreamExt;
use tokio_postgres::SimpleQueryMessage;

use crate::support::*;

const EVE: &str = "Authorization: Basic ZXZlOnNlY3JldA==\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_role_has_as_many_connections_as_it_may_on_all_ports_together() {
    let server = server(|_| {}).await;
    let admin = admin(&server).await;
    admin.batch_execute("ALTER ROLE eve CONNECTION LIMIT 1").await.unwrap();
    let eve = connect(&server, "user=eve").await.unwrap();
    let refused = connect(&server, "user=eve").await.err().unwrap();
    assert_eq!(state(&refused), "53300");
    let message = refused.as_db_error().unwrap().message().to_owned();
    assert_eq!(message, "too many connections for role \"eve\"");
    let mut flight = flight(&server).await;
    flight.handshake("eve", "secret").await.unwrap();
    assert!(flight_rows(&mut flight, "SELECT 1").await.is_err());
    let answer = post(&server, EVE, b"SELECT 1").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("53300"), "{answer}");
    // The limit is eve's alone.
    serves(&server).await;
    drop(eve);
    eventually("eve may connect again", async || connect(&server, "user=eve").await.is_ok()).await;
    eventually("and over HTTP", async || {
        post(&server, EVE, b"SELECT 1").await.starts_with("HTTP/1.1 200")
    })
    .await;
    drop(admin);
    quiet(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_has_as_many_connections_as_it_may() {
    let server = server(|config| config.limits.connections = 1).await;
    let eve = connect(&server, "user=eve").await.unwrap();
    assert_eq!(state(&connect(&server, "user=eve").await.err().unwrap()), "53300");
    // Somebody has to be able to look.
    let admin = admin(&server).await;
    assert_eq!(admin.query("SELECT * FROM pg_stat_activity", &[]).await.unwrap().len(), 2);
    drop((eve, admin));
    quiet(&server).await;
    connect(&server, "user=eve").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_over_the_limit_ends_with_an_error_over_postgres() {
    let server = server(|config| config.limits.result_bytes = 200_000).await;
    let client = admin(&server).await;
    let small = "SELECT n FROM generate_series(1, 100) AS g(n)";
    let error = client.simple_query(ENDLESS).await.err().unwrap();
    assert_eq!(state(&error), "54000");
    assert!(error.as_db_error().unwrap().hint().unwrap().contains("limits.result_bytes"));
    assert_eq!(state(&client.query(ENDLESS, &[]).await.err().unwrap()), "54000");
    let copy = client.copy_out(&format!("COPY ({ENDLESS}) TO STDOUT")).await.unwrap();
    let mut copy = std::pin::pin!(copy);
    let error = loop {
        match copy.next().await.expect("an endless copy does not end well") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(state(&error), "54000");
    assert_eq!(client.query(small, &[]).await.unwrap().len(), 100);
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(state(&client.simple_query(ENDLESS).await.err().unwrap()), "54000");
    let failed = client.simple_query("SELECT 1").await.err().unwrap();
    assert_eq!(state(&failed), "25P02", "the block has failed as with any other error");
    client.batch_execute("ROLLBACK").await.unwrap();
    // Each statement counts on its own: a cursor reads as much as it likes, in parts.
    client.batch_execute(&format!("BEGIN; DECLARE c CURSOR FOR {ENDLESS}")).await.unwrap();
    for _ in 0..5 {
        let rows = client.simple_query("FETCH 100 FROM c").await.unwrap();
        let rows = rows.iter().filter(|row| matches!(row, SimpleQueryMessage::Row(_)));
        assert_eq!(rows.count(), 100);
    }
    drop(client);
    quiet(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_over_the_limit_ends_with_an_error_over_flight_and_http() {
    let server = server(|config| config.limits.result_bytes = 200_000).await;
    let mut client = flight(&server).await;
    let error = flight_rows(&mut client, ENDLESS).await.unwrap_err();
    assert_eq!(flight_state(error), "54000");
    assert_eq!(flight_rows(&mut client, "SELECT 1").await.unwrap(), 1);
    let answer = post(&server, "", ENDLESS.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("54000"), "{answer}");
    assert!(answer.contains("limits.result_bytes"), "{answer}");
    serves(&server).await;
    quiet(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_full_can_still_be_put_in_order_on_every_port() {
    let server = server(|config| {
        config.limits.statements = 1;
        config.limits.queue_timeout_ms = 200;
    })
    .await;
    let busy = connect(&server, "user=eve").await.unwrap();
    let toil = tokio::spawn(async move { busy.query(TOIL, &[]).await });
    let other = connect(&server, "user=eve").await.unwrap();
    eventually("the server is full", async || other.query("SELECT 1", &[]).await.is_err()).await;
    serves(&server).await;
    toil.abort();
}
