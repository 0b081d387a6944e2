//! Transactions and savepoints by calls.

use arrow_flight::Action;
use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionEndSavepointRequest, Any,
    EndTransaction, ProstMessageExt,
};
use bytes::Bytes;
use prost::Message;
use tonic::{Code, IntoRequest};

use crate::support::{Client, client, codes, connected, refusal, rows, server, update};

async fn update_in(client: &mut Client, transaction: &Bytes, sql: &str) -> i64 {
    client.execute_update(sql.to_owned(), Some(transaction.clone())).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_seen_when_it_is_committed() {
    let server = server().await;
    let (mut writer, mut reader) = (client(&server).await, client(&server).await);
    writer.execute_update("CREATE TABLE t (n int)".to_owned(), None).await.unwrap();
    let transaction = writer.begin_transaction().await.unwrap();
    assert_eq!(update_in(&mut writer, &transaction, "INSERT INTO t VALUES (1)").await, 1);
    assert_eq!(rows(&mut reader, "SELECT count(*) FROM t").await, ["0"]);
    writer.end_transaction(transaction.clone(), EndTransaction::Commit).await.unwrap();
    assert_eq!(rows(&mut reader, "SELECT count(*) FROM t").await, ["1"]);
    let status =
        refusal(writer.execute("SELECT 1".to_owned(), Some(transaction)).await.unwrap_err());
    assert_eq!(codes(&status), (Code::FailedPrecondition, "25P01".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_rolled_back_leaves_nothing() {
    let server = server().await;
    let mut client = client(&server).await;
    let transaction = client.begin_transaction().await.unwrap();
    update_in(&mut client, &transaction, "CREATE TABLE t (n int)").await;
    client.end_transaction(transaction, EndTransaction::Rollback).await.unwrap();
    assert!(client.execute("SELECT * FROM t".to_owned(), None).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn committing_after_an_error_tells_that_nothing_was() {
    let server = server().await;
    let mut client = client(&server).await;
    let transaction = client.begin_transaction().await.unwrap();
    let in_it = Some(transaction.clone());
    client.execute("SELECT * FROM nowhere".to_owned(), in_it).await.unwrap_err();
    let ended = client.end_transaction(transaction, EndTransaction::Commit).await;
    assert_eq!(codes(&refusal(ended.unwrap_err())).1, "25P02");
}

async fn act(client: &mut Client, kind: &str, request: &impl ProstMessageExt) -> Option<Bytes> {
    let action = Action::new(kind, request.as_any().encode_to_vec());
    let calls = client.inner_mut();
    let mut results = calls.do_action(action.into_request()).await.unwrap().into_inner();
    results.message().await.unwrap().map(|result| result.body)
}

#[tokio::test(flavor = "multi_thread")]
async fn savepoints_are_rolled_back_to_and_released() {
    const RELEASE: i32 = 1;
    const ROLLBACK: i32 = 2;
    let server = server().await;
    let mut client = client(&server).await;
    client.execute_update("CREATE TABLE t (n int)".to_owned(), None).await.unwrap();
    let transaction_id = client.begin_transaction().await.unwrap();
    let mut savepoints = Vec::new();
    for number in 1..=2 {
        let name = "same name".to_owned();
        let request = ActionBeginSavepointRequest { transaction_id: transaction_id.clone(), name };
        let body = act(&mut client, "BeginSavepoint", &request).await.unwrap();
        let result: ActionBeginSavepointResult =
            Any::decode(body).unwrap().unpack().unwrap().unwrap();
        savepoints.push(result.savepoint_id);
        update_in(&mut client, &transaction_id, &format!("INSERT INTO t VALUES ({number})")).await;
    }
    for (index, action) in [(1, ROLLBACK), (0, RELEASE)] {
        let savepoint_id = savepoints[index].clone();
        let request = ActionEndSavepointRequest { savepoint_id, action };
        act(&mut client, "EndSavepoint", &request).await;
    }
    client.end_transaction(transaction_id, EndTransaction::Commit).await.unwrap();
    assert_eq!(rows(&mut client, "SELECT n FROM t").await, ["1"]);
}

/// Sessions in which a transaction is open.
const OPEN: &str = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_began_ends_with_it() {
    let server = server().await;
    let (mut leaving, mut other) = (connected(&server).await, connected(&server).await);
    let mut watching = client(&server).await;
    update(&mut watching, "CREATE TABLE t (n int)").await;
    let transaction = leaving.begin_transaction().await.unwrap();
    update_in(&mut leaving, &transaction, "INSERT INTO t VALUES (1)").await;
    // What waits in it to be executed or fetched does not keep it.
    let sql = "INSERT INTO t VALUES (2)".to_owned();
    let prepared = leaving.prepare(sql, Some(transaction.clone())).await.unwrap();
    let waiting = leaving.execute("SELECT n FROM t".to_owned(), Some(transaction.clone())).await;
    update(&mut leaving, "BEGIN").await;
    update(&mut leaving, "INSERT INTO t VALUES (3)").await;
    let others = other.begin_transaction().await.unwrap();
    assert_eq!(rows(&mut watching, OPEN).await, ["3"]);
    close_session(&mut leaving).await;
    assert_eq!(rows(&mut watching, OPEN).await, ["1"]);
    assert_eq!(rows(&mut watching, "SELECT count(*) FROM t").await, ["0"]);
    let status =
        refusal(watching.end_transaction(transaction, EndTransaction::Commit).await.err().unwrap());
    assert_eq!(codes(&status).1, "25P01");
    drop((prepared, waiting));
    update_in(&mut other, &others, "INSERT INTO t VALUES (4)").await;
    other.end_transaction(others, EndTransaction::Commit).await.unwrap();
    assert_eq!(rows(&mut watching, "SELECT n FROM t").await, ["4"]);
}

async fn close_session(client: &mut Client) {
    let token = client.token().unwrap().clone();
    let close = Action { r#type: "CloseSession".to_owned(), body: Bytes::new() };
    let mut close = close.into_request();
    close.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    client.inner_mut().do_action(close).await.unwrap();
}

/// Drivers keep a statement that they prepared in one transaction for the next, and name neither
/// when they run it.
#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_never_leaves_transactions() {
    let server = server().await;
    let mut client = connected(&server).await;
    update(&mut client, "CREATE TABLE t (n int)").await;
    let first = client.begin_transaction().await.unwrap();
    let sql = "INSERT INTO t VALUES (1)".to_owned();
    let mut prepared = client.prepare(sql, Some(first.clone())).await.unwrap();
    assert_eq!(prepared.execute_update().await.unwrap(), 1);
    client.end_transaction(first, EndTransaction::Commit).await.unwrap();
    let status = refusal(prepared.execute_update().await.unwrap_err());
    assert_eq!(codes(&status).1, "25P01");
    let second = client.begin_transaction().await.unwrap();
    assert_eq!(prepared.execute_update().await.unwrap(), 1);
    client.end_transaction(second, EndTransaction::Rollback).await.unwrap();
    assert_eq!(rows(&mut client, "SELECT count(*) FROM t").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_its_connections() {
    let server = server().await;
    let (mut one, mut other) = (connected(&server).await, connected(&server).await);
    let lock = "SELECT pg_try_advisory_lock(1)";
    assert_eq!(rows(&mut one, lock).await, ["t"]);
    assert_eq!(rows(&mut other, lock).await, ["f"]);
    assert_eq!(rows(&mut one, "SELECT pg_advisory_unlock(1)").await, ["t"]);
    assert_eq!(rows(&mut other, lock).await, ["t"]);
}
