//! Prepared statements and their parameters.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, NullArray, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use tonic::Code;

use crate::support::{client, codes, fetch, lines, refusal, rows, server, update};

fn parameters(columns: Vec<ArrayRef>) -> RecordBatch {
    let names = (1..).map(|number| format!("${number}"));
    RecordBatch::try_from_iter(names.zip(columns)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_and_parameters_are_told_and_values_bound() {
    let server = server().await;
    let mut client = client(&server).await;
    update(&mut client, "CREATE TABLE t (n bigint, name text)").await;
    update(&mut client, "INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')").await;
    let sql = "SELECT name FROM t WHERE n = $1 OR name = $2 ORDER BY n";
    let mut prepared = client.prepare(sql.to_owned(), None).await.unwrap();
    let types: Vec<DataType> = prepared
        .parameter_schema()
        .unwrap()
        .fields()
        .iter()
        .map(|field| field.data_type().clone())
        .collect();
    assert_eq!(types, [DataType::Int64, DataType::Utf8]);
    assert_eq!(prepared.dataset_schema().unwrap().field(0).name(), "name");
    for (n, name, expected) in [(1, "two", vec!["one", "two"]), (9, "three", vec!["three"])] {
        let values = parameters(vec![
            Arc::new(Int64Array::from(vec![n])),
            Arc::new(StringArray::from(vec![name])),
        ]);
        prepared.set_parameters(values).unwrap();
        let info = prepared.execute().await.unwrap();
        assert_eq!(lines(&fetch(&mut client, info).await.unwrap()), expected);
    }
    prepared.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn several_rows_of_parameters_change_all_or_nothing() {
    let server = server().await;
    let mut client = client(&server).await;
    update(&mut client, "CREATE TABLE t (n bigint PRIMARY KEY)").await;
    let mut insert = client.prepare("INSERT INTO t VALUES ($1)".to_owned(), None).await.unwrap();
    let values = |numbers: Vec<i64>| parameters(vec![Arc::new(Int64Array::from(numbers))]);
    insert.set_parameters(values(vec![1, 2, 3])).unwrap();
    assert_eq!(insert.execute_update().await.unwrap(), 3);
    insert.set_parameters(values(vec![4, 2])).unwrap();
    let status = refusal(insert.execute_update().await.unwrap_err());
    assert_eq!(codes(&status), (Code::AlreadyExists, "23505".to_owned()));
    assert_eq!(rows(&mut client, "SELECT count(*) FROM t").await, ["3"]);
    let select = "SELECT $1::bigint * 10 AS tens";
    let mut select = client.prepare(select.to_owned(), None).await.unwrap();
    select.set_parameters(values(vec![1, 2, 3])).unwrap();
    let info = select.execute().await.unwrap();
    assert_eq!(lines(&fetch(&mut client, info).await.unwrap()), ["10", "20", "30"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_other_types_are_converted() {
    let server = server().await;
    let mut client = client(&server).await;
    update(&mut client, "CREATE TABLE t (n int PRIMARY KEY, name text, d numeric(9,2))").await;
    let sql = "INSERT INTO t VALUES ($1, $2, $3)";
    let mut insert = client.prepare(sql.to_owned(), None).await.unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec!["1", "2"])),
        Arc::new(Int64Array::from(vec![Some(10), None])),
        Arc::new(NullArray::new(2)),
    ];
    insert.set_parameters(parameters(columns)).unwrap();
    assert_eq!(insert.execute_update().await.unwrap(), 2);
    let found = rows(&mut client, "SELECT * FROM t ORDER BY n").await;
    assert_eq!(found, ["1|10|NULL", "2|NULL|NULL"]);
    let sql = "SELECT name FROM t WHERE n = $1";
    let mut select = client.prepare(sql.to_owned(), None).await.unwrap();
    select.set_parameters(parameters(vec![Arc::new(Int64Array::from(vec![1]))])).unwrap();
    let info = select.execute().await.unwrap();
    assert_eq!(lines(&fetch(&mut client, info).await.unwrap()), ["10"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_closed_or_bound_wrongly_is_refused() {
    let server = server().await;
    let mut client = client(&server).await;
    let mut prepared = client.prepare("SELECT $1::int AS n".to_owned(), None).await.unwrap();
    let status = refusal(prepared.execute().await.unwrap_err());
    assert_eq!(codes(&status).1, "08P01");
    let values = parameters(vec![Arc::new(StringArray::from(vec!["many"]))]);
    prepared.set_parameters(values).unwrap();
    let status = refusal(prepared.execute().await.unwrap_err());
    assert_eq!(codes(&status), (Code::InvalidArgument, "22P02".to_owned()));
    prepared.clone().close().await.unwrap();
    let status = refusal(prepared.execute().await.unwrap_err());
    assert_eq!(codes(&status), (Code::NotFound, "26000".to_owned()));
}
