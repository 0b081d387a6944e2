//! Queries, changes, errors, cancelling.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use arrow_flight::{CancelFlightInfoRequest, FlightClient, FlightInfo};
use futures::{StreamExt, TryStreamExt};
use tonic::Code;

use crate::support::{
    client, codes, connected, fetch, lines, query, refusal, rows, server, update,
};

#[tokio::test(flavor = "multi_thread")]
async fn queries_give_what_they_promise() {
    let server = server().await;
    let mut client = client(&server).await;
    let sql = "SELECT 1::bigint AS n, 'a text longer than a view'::text AS t, \
               NULL::text AS nothing, 1.50::numeric(5,2) AS d, '{a,NULL}'::text[] AS l, \
               '\\x00ff'::bytea AS b, '2026-01-02 03:04:05'::timestamp AS ts";
    let batches = query(&mut client, sql).await.unwrap();
    let types: Vec<DataType> =
        batches[0].schema().fields().iter().map(|field| field.data_type().clone()).collect();
    assert_eq!(types[1], DataType::Utf8);
    assert_eq!(types[3], DataType::Decimal128(5, 2));
    assert!(matches!(&types[4], DataType::List(item) if item.data_type() == &DataType::Utf8));
    assert_eq!(types[5], DataType::Binary);
    assert_eq!(
        lines(&batches),
        ["1|a text longer than a view|NULL|1.50|{a,NULL}|\\x00ff|2026-01-02 03:04:05"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_rows_come_in_messages_that_clients_take() {
    let server = server().await;
    let mut client = client(&server).await;
    let sql = "SELECT i::bigint, repeat('x', 1000) AS t FROM generate_series(1, 20000) AS g(i)";
    let batches = query(&mut client, sql).await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 20_000);
    let numbers = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>());
    assert_eq!(numbers.map(Option::unwrap).sum::<i64>(), 20_000 * 20_001 / 2);
    assert!(query(&mut client, "SELECT 1 AS one WHERE false").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_counted_and_made_once() {
    let server = server().await;
    let mut client = client(&server).await;
    assert_eq!(update(&mut client, "CREATE TABLE t (n bigint PRIMARY KEY)").await, 0);
    assert_eq!(update(&mut client, "INSERT INTO t VALUES (1), (2), (3)").await, 3);
    // As clients do that know of queries only: the change is made when its ticket is given out.
    let info = client.execute("DELETE FROM t WHERE n = 3".to_owned(), None).await.unwrap();
    assert_eq!(info.total_records, 1);
    assert!(fetch(&mut client, info).await.unwrap().is_empty());
    let returning = "INSERT INTO t VALUES (7) RETURNING n * 2 AS twice";
    let info = client.execute(returning.to_owned(), None).await.unwrap();
    assert_eq!(rows(&mut client, "SELECT count(*) FROM t").await, ["3"]);
    assert_eq!(lines(&fetch(&mut client, info.clone()).await.unwrap()), ["14"]);
    let again = refusal(fetch(&mut client, info).await.unwrap_err());
    assert_eq!(codes(&again), (Code::FailedPrecondition, "55000".to_owned()));
    assert_eq!(rows(&mut client, "SELECT count(*) FROM t").await, ["3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_querys_ticket_is_good_again() {
    let server = server().await;
    let mut client = client(&server).await;
    update(&mut client, "CREATE TABLE t AS SELECT 1 AS n").await;
    let info = client.execute("SELECT n FROM t".to_owned(), None).await.unwrap();
    assert_eq!(lines(&fetch(&mut client, info.clone()).await.unwrap()), ["1"]);
    assert_eq!(lines(&fetch(&mut client, info.clone()).await.unwrap()), ["1"]);
    update(&mut client, "DROP TABLE t").await;
    update(&mut client, "CREATE TABLE t AS SELECT 'other'::text AS n").await;
    let changed = refusal(fetch(&mut client, info).await.unwrap_err());
    assert_eq!(codes(&changed), (Code::Unimplemented, "0A000".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_say_what_where_and_what_to_do() {
    let server = server().await;
    let mut client = client(&server).await;
    for (sql, code, sqlstate) in [
        ("SELECT * FROM nowhere", Code::NotFound, "42P01"),
        ("SELEKT", Code::InvalidArgument, "42601"),
        ("SELECT 1; SELECT 2", Code::InvalidArgument, "42601"),
        ("DROP SCHEMA nowhere", Code::NotFound, "3F000"),
    ] {
        let status = refusal(query(&mut client, sql).await.unwrap_err());
        assert_eq!(codes(&status), (code, sqlstate.to_owned()), "{sql}: {status:?}");
    }
    let status =
        refusal(query(&mut client, "SELECT nothing FROM (SELECT 1 AS n) a").await.unwrap_err());
    assert_eq!(status.metadata().get("error-position").unwrap(), "8");
    assert!(status.message().starts_with("column \"nothing\" does not exist (SQLSTATE 42703)"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_among_the_rows_is_told_at_their_end() {
    let server = server().await;
    let mut client = client(&server).await;
    let sql = "SELECT 1 / (50000 - i) AS n FROM generate_series(1, 100000) AS g(i)";
    let info = client.execute(sql.to_owned(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let stream = client.do_get(ticket).await.unwrap();
    let status = refusal(stream.try_collect::<Vec<_>>().await.unwrap_err());
    assert_eq!(codes(&status), (Code::InvalidArgument, "22012".to_owned()));
}

/// More rows than anybody waits for.
const ENDLESS: &str = "SELECT a.i FROM generate_series(1, 1000000) AS a(i), \
                       generate_series(1, 1000000) AS b(i)";

async fn cancel(client: &crate::support::Client, info: FlightInfo) -> i32 {
    let mut calls = FlightClient::new_from_inner(client.inner().clone());
    calls.cancel_flight_info(CancelFlightInfoRequest::new(info)).await.unwrap().status
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_ends_the_rows() {
    const CANCELLED: i32 = 1;
    const NOT_CANCELLABLE: i32 = 3;
    let server = server().await;
    let mut client = client(&server).await;
    let info = client.execute(ENDLESS.to_owned(), None).await.unwrap();
    let mut stream = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    assert_eq!(cancel(&client, info.clone()).await, CANCELLED);
    let status = refusal(stream.try_collect::<Vec<_>>().await.unwrap_err());
    assert_eq!(codes(&status), (Code::Cancelled, "57014".to_owned()));
    assert_eq!(cancel(&client, info).await, NOT_CANCELLABLE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_ends_its_statement() {
    let mut config = crate::support::config();
    config.limits.statements = 1;
    let database = thalweg_query::Database::in_memory().unwrap();
    let server = thalweg_server::Server::start(config, database).await.unwrap();
    let mut client = client(&server).await;
    let info = client.execute(ENDLESS.to_owned(), None).await.unwrap();
    let mut stream = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    // There is a place for one statement: this one waits until the other has ended.
    assert_eq!(rows(&mut client, "SELECT 1 AS one").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_kept_of_clients_that_leave() {
    const NOT_CANCELLABLE: i32 = 3;
    let mut config = crate::support::config();
    config.limits.statements = 1;
    let database = thalweg_query::Database::in_memory().unwrap();
    let server = thalweg_server::Server::start(config, database).await.unwrap();
    let mut client = client(&server).await;
    let mut left = Vec::new();
    for _ in 0..20 {
        let info = client.execute(ENDLESS.to_owned(), None).await.unwrap();
        let mut stream = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
        assert!(stream.next().await.unwrap().is_ok());
        drop(stream);
        left.push(info);
    }
    // A superuser has four places: these come one by one while the last of the others end.
    for _ in 0..100 {
        assert_eq!(rows(&mut client, "SELECT 1 AS one").await, ["1"]);
    }
    for info in left {
        assert_eq!(cancel(&client, info).await, NOT_CANCELLABLE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_last_in_a_connection() {
    let server = server().await;
    let mut connected = connected(&server).await;
    update(&mut connected, "SET application_name = 'mine'").await;
    assert_eq!(rows(&mut connected, "SHOW application_name").await, ["mine"]);
    update(&mut connected, "BEGIN").await;
    update(&mut connected, "CREATE TABLE t (n int)").await;
    update(&mut connected, "ROLLBACK").await;
    assert!(query(&mut connected, "SELECT * FROM t").await.is_err());
    let mut alone = client(&server).await;
    let status = refusal(alone.execute("BEGIN".to_owned(), None).await.unwrap_err());
    assert_eq!(codes(&status), (Code::FailedPrecondition, "25P01".to_owned()));
}
