//! Bulk ingestion.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, Time64MicrosecondArray};
use arrow_flight::FlightData;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    CommandStatementIngest, EndTransaction, TableDefinitionOptions, TableExistsOption,
    TableNotExistOption,
};
use bytes::Bytes;
use futures::StreamExt;
use tonic::Code;

use crate::support::{Client, client, codes, refusal, rows, server, update};

const ROWS: i64 = 200_000;

/// Several batches of numbers from `first` on, with their names.
fn batches(first: i64) -> Vec<Result<RecordBatch, FlightError>> {
    let batch = |from: i64| {
        let numbers = Int64Array::from_iter_values(from..from + ROWS / 4);
        let names = numbers.iter().map(|number| number.map(|number| format!("name {number}")));
        let columns: Vec<(&str, ArrayRef)> =
            vec![("name", Arc::new(names.collect::<StringArray>())), ("n", Arc::new(numbers))];
        Ok(RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )
        .unwrap())
    };
    (0..4).map(|part| batch(first + part * ROWS / 4)).collect()
}

fn command(
    (missing, there): (TableNotExistOption, TableExistsOption),
    transaction_id: Option<Bytes>,
) -> CommandStatementIngest {
    let options = TableDefinitionOptions { if_not_exist: missing as i32, if_exists: there as i32 };
    CommandStatementIngest {
        table_definition_options: Some(options),
        table: "Numbers".to_owned(),
        transaction_id,
        ..CommandStatementIngest::default()
    }
}

async fn ingest(
    client: &mut Client,
    mode: (TableNotExistOption, TableExistsOption),
    transaction_id: Option<Bytes>,
    first: i64,
) -> Result<i64, FlightError> {
    let command = command(mode, transaction_id);
    client.execute_ingest(command, futures::stream::iter(batches(first))).await
}

const COUNT: &str = "SELECT count(*), sum(n), count(DISTINCT name) FROM \"Numbers\"";
const CREATE: (TableNotExistOption, TableExistsOption) =
    (TableNotExistOption::Create, TableExistsOption::Fail);
const APPEND: (TableNotExistOption, TableExistsOption) =
    (TableNotExistOption::Fail, TableExistsOption::Append);
const REPLACE: (TableNotExistOption, TableExistsOption) =
    (TableNotExistOption::Create, TableExistsOption::Replace);

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_created_appended_to_and_replaced() {
    let server = server().await;
    let mut client = client(&server).await;
    let status = refusal(ingest(&mut client, APPEND, None, 0).await.unwrap_err());
    assert_eq!(codes(&status), (Code::NotFound, "42P01".to_owned()));
    assert_eq!(ingest(&mut client, CREATE, None, 0).await.unwrap(), ROWS);
    let status = refusal(ingest(&mut client, CREATE, None, 0).await.unwrap_err());
    assert_eq!(codes(&status), (Code::AlreadyExists, "42P07".to_owned()));
    assert_eq!(ingest(&mut client, APPEND, None, ROWS).await.unwrap(), ROWS);
    let all = 2 * ROWS;
    let sum = all * (all - 1) / 2;
    assert_eq!(rows(&mut client, COUNT).await, [format!("{all}|{sum}|{all}")]);
    assert_eq!(ingest(&mut client, REPLACE, None, 1).await.unwrap(), ROWS);
    let sum = ROWS * (ROWS + 1) / 2;
    assert_eq!(rows(&mut client, COUNT).await, [format!("{ROWS}|{sum}|{ROWS}")]);
}

/// Columns without a row: the table is made, and nothing is in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_rows_is_ingested() {
    let server = server().await;
    let mut client = client(&server).await;
    let none = batches(0)[0].as_ref().unwrap().slice(0, 0);
    let command = command(CREATE, None);
    let ingested = client.execute_ingest(command, futures::stream::iter([Ok(none)])).await;
    assert_eq!(ingested.unwrap(), 0);
    assert_eq!(rows(&mut client, "SELECT count(*) FROM \"Numbers\"").await, ["0"]);
    // Without a message, there is not even a name.
    let nothing = futures::stream::iter(Vec::<FlightData>::new());
    let status = client.inner_mut().do_put(nothing).await.err().unwrap();
    assert_eq!(codes(&status), (Code::InvalidArgument, "08P01".to_owned()));
    assert!(status.message().contains("one batch without rows"), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_there_all_or_none() {
    let server = server().await;
    let mut client = client(&server).await;
    update(&mut client, "CREATE TABLE \"Numbers\" (n bigint CHECK (n < 100000), name text)").await;
    let status = refusal(ingest(&mut client, APPEND, None, 0).await.unwrap_err());
    assert_eq!(codes(&status), (Code::FailedPrecondition, "23514".to_owned()));
    assert_eq!(rows(&mut client, "SELECT count(*) FROM \"Numbers\"").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_no_table_has_are_refused() {
    let server = server().await;
    let mut client = client(&server).await;
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["zero\0within"]));
    let times = |time| Arc::new(Time64MicrosecondArray::from(vec![0, time])) as ArrayRef;
    for (column, code) in [(texts, "22021"), (times(-1), "22008"), (times(i64::MIN), "22008")] {
        let batch = RecordBatch::try_from_iter([("value", column)]).unwrap();
        let ingested =
            client.execute_ingest(command(CREATE, None), futures::stream::iter([Ok(batch)])).await;
        let status = refusal(ingested.unwrap_err());
        assert_eq!(codes(&status), (Code::InvalidArgument, code.to_owned()));
        assert!(client.execute(COUNT.to_owned(), None).await.is_err(), "no table is left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_belong_to_the_transaction_that_is_named() {
    let server = server().await;
    let mut client = client(&server).await;
    let transaction = client.begin_transaction().await.unwrap();
    let ingested = ingest(&mut client, CREATE, Some(transaction.clone()), 0).await;
    assert_eq!(ingested.unwrap(), ROWS);
    assert!(client.execute(COUNT.to_owned(), None).await.is_err());
    client.end_transaction(transaction, EndTransaction::Rollback).await.unwrap();
    assert!(client.execute(COUNT.to_owned(), None).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_breaks_off_leaves_nothing() {
    let server = server().await;
    let mut client = client(&server).await;
    let options = TableDefinitionOptions {
        if_not_exist: TableNotExistOption::Create as i32,
        if_exists: TableExistsOption::Fail as i32,
    };
    let command = CommandStatementIngest {
        table_definition_options: Some(options),
        table: "Numbers".to_owned(),
        ..CommandStatementIngest::default()
    };
    // Some batches, then nothing more: when that is noticed, the call is given up.
    let (asked, mut was_asked) = tokio::sync::mpsc::channel(1);
    let begun = futures::stream::iter(batches(0).into_iter().take(2));
    let never = futures::stream::once(async move {
        asked.send(()).await.unwrap();
        std::future::pending().await
    });
    let stream = begun.chain(never);
    let mut uploader = client.clone();
    let upload = tokio::spawn(async move { uploader.execute_ingest(command, stream).await });
    was_asked.recv().await.unwrap();
    upload.abort();
    assert!(upload.await.unwrap_err().is_cancelled());
    assert!(client.execute(COUNT.to_owned(), None).await.is_err());
    // The name is free: nothing holds it.
    assert_eq!(ingest(&mut client, CREATE, None, 0).await.unwrap(), ROWS);
}
