//! Clients that leave in the midst of something: it ends, and nothing of it stays.

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    CommandStatementIngest, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
};
use futures::{StreamExt, TryStreamExt};
use thalweg_server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::raw::{Raw, message, query};
use crate::support::*;

async fn count(server: &Server) -> i64 {
    admin(server).await.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_result_of_postgres() {
    let server = server(|_| {}).await;
    for sql in [ENDLESS.to_owned(), format!("COPY ({ENDLESS}) TO STDOUT")] {
        let mut raw = Raw::session(&server).await;
        raw.send(&query(&sql)).await;
        raw.until(if sql.starts_with("COPY") { b'd' } else { b'D' }).await;
        drop(raw);
        quiet(&server).await;
    }
    serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn from_work_that_has_no_row_yet() {
    let server = server(|_| {}).await;
    let mut raw = Raw::session(&server).await;
    raw.send(&query(TOIL)).await;
    running(&server).await;
    drop(raw);
    quiet(&server).await;
}

/// Waits until a statement runs.
async fn running(server: &Server) {
    let admin = admin(server).await;
    let sql = "SELECT count(*) FROM pg_stat_activity \
               WHERE state = 'active' AND query LIKE '%n % 7 = 8%' AND pid <> pg_backend_pid()";
    eventually("the statement runs", async || {
        admin.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_copy_that_it_sends() {
    let server = server(|_| {}).await;
    for rows in [&b""[..], b"1\tone\n2\ttw"] {
        let mut raw = Raw::session(&server).await;
        raw.send(&query("COPY t FROM STDIN")).await;
        raw.until(b'G').await;
        raw.send(&message(b'd', rows)).await;
        drop(raw);
        quiet(&server).await;
        assert_eq!(count(&server).await, 0);
    }
    serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn from_the_middle_of_a_message() {
    let server = server(|_| {}).await;
    let whole = query("INSERT INTO t VALUES (1, 'one')");
    for end in 1..whole.len() {
        let mut raw = Raw::session(&server).await;
        raw.send(&whole[..end]).await;
    }
    quiet(&server).await;
    assert_eq!(count(&server).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_transaction() {
    let server = server(|_| {}).await;
    let mut raw = Raw::session(&server).await;
    raw.send(&query("BEGIN; INSERT INTO t VALUES (1, 'one')")).await;
    raw.until(b'Z').await;
    drop(raw);
    quiet(&server).await;
    assert_eq!(count(&server).await, 0);
    admin(&server).await.batch_execute("INSERT INTO t VALUES (1, 'another')").await.unwrap();
}

/// Over Flight, a transaction is nobody's connection: it goes soon after its client's last one.
#[tokio::test(flavor = "multi_thread")]
async fn from_a_transaction_of_flight() {
    let server = server(|_| {}).await;
    let insert = |id| format!("INSERT INTO t VALUES ({id}, 'one')");
    let mut client = flight(&server).await;
    let transaction = client.begin_transaction().await.unwrap();
    client.execute_update(insert(1), Some(transaction.clone())).await.unwrap();
    // What was prepared in it does not keep it.
    let prepared = client.prepare(insert(2), Some(transaction.clone())).await.unwrap();
    let mut named = flight(&server).await;
    named.handshake("thalweg", "").await.unwrap();
    named.execute_update("BEGIN".to_owned(), None).await.unwrap();
    named.execute_update(insert(3), None).await.unwrap();
    let mut idle = flight(&server).await;
    idle.handshake("thalweg", "").await.unwrap();
    idle.execute_update("SET application_name = 'mine'".to_owned(), None).await.unwrap();
    let tokens = [&named, &idle].map(|client| client.token().unwrap().clone());
    drop((client, prepared, named, idle));
    let admin = admin(&server).await;
    let open = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
    eventually("transactions are rolled back", async || {
        admin.query_one(open, &[]).await.unwrap().get::<_, i64>(0) == 0
    })
    .await;
    assert_eq!(count(&server).await, 0);
    // Who comes back on another connection is told, and does not go on halfway. A session without a
    // transaction is there as it was.
    let [named, idle] = tokens;
    let mut back = flight(&server).await;
    back.set_token(named);
    let refused = back.execute_update(insert(4), None).await.unwrap_err();
    assert_eq!(flight_state(refused), "25P03");
    back.set_token(idle);
    let mine = "SELECT 1 WHERE current_setting('application_name') = 'mine'";
    assert_eq!(flight_rows(&mut back, mine).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_waits_for_its_client_can_be_ended() {
    let server = server(|_| {}).await;
    let mut raw = Raw::session(&server).await;
    raw.send(&query("COPY t FROM STDIN")).await;
    raw.until(b'G').await;
    let admin = admin(&server).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY%'";
    assert_eq!(admin.query(end, &[]).await.unwrap().len(), 1);
    assert_eq!(raw.refusal().await, "57P01");
    assert!(raw.next().await.is_none());
    drop(admin);
    quiet(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_result_of_flight() {
    let server = server(|_| {}).await;
    let mut client = flight(&server).await;
    let info = client.execute(ENDLESS.to_owned(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let mut rows = client.do_get(ticket).await.unwrap();
    assert!(rows.try_next().await.unwrap().is_some());
    drop((rows, client));
    quiet(&server).await;
    let mut client = flight(&server).await;
    let toil = format!("INSERT INTO t SELECT count, '' FROM ({TOIL}) AS s(count)");
    let work = tokio::spawn(async move { client.execute_update(toil, None).await });
    running(&server).await;
    work.abort();
    quiet(&server).await;
    serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn from_an_upload() {
    let server = server(|_| {}).await;
    let mut client = flight(&server).await;
    let options = TableDefinitionOptions {
        if_not_exist: TableNotExistOption::Fail as i32,
        if_exists: TableExistsOption::Append as i32,
    };
    let command = CommandStatementIngest {
        table: "t".to_owned(),
        table_definition_options: Some(options),
        ..Default::default()
    };
    let ids: ArrayRef = std::sync::Arc::new(Int64Array::from_iter_values(0..1_000));
    let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    let first = futures::stream::once(async { Ok::<_, FlightError>(batch) });
    let stalled = first.chain(futures::stream::pending());
    let work = tokio::spawn(async move { client.execute_ingest(command, stalled).await });
    let admin = admin(&server).await;
    eventually("the upload is under way", async || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid()";
        admin.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 0
    })
    .await;
    drop(admin);
    work.abort();
    quiet(&server).await;
    assert_eq!(count(&server).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn from_http() {
    let server = server(|_| {}).await;
    for sql in [ENDLESS, TOIL] {
        let mut socket = TcpStream::connect(server.addresses().http).await.unwrap();
        let length = sql.len();
        let request = format!(
            "POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{sql}"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        match sql {
            ENDLESS => drop(socket.read_exact(&mut [0; 10_000]).await.unwrap()),
            _ => running(&server).await,
        }
        drop(socket);
        quiet(&server).await;
    }
    // Half of a request.
    let mut socket = TcpStream::connect(server.addresses().http).await.unwrap();
    let half = b"POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nSELECT";
    socket.write_all(half).await.unwrap();
    drop(socket);
    quiet(&server).await;
    serves(&server).await;
}
