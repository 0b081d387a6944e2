//! Transactions and savepoints by calls.

use arrow_flight::Action;
use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionEndSavepointRequest, Any,
    EndTransaction, ProstMessageExt,
};
use bytes::Bytes;
use prost::Message;
use tonic::{Code, IntoRequest};

use crate::support::{Client, client, codes, refusal, rows, server};

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
