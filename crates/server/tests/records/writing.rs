//! `Write`: rows of all kinds, their acknowledgements and their failures.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use futures::{StreamExt, stream};
use thalweg_client::v1::value::Kind;
use thalweg_client::v1::{Rows, WriteRequest};
use thalweg_client::{Durability, Error, Operation, RowWriter, Written};

use crate::support::{World, account, announce, id, int, text, values};

async fn failed(written: Written) -> String {
    match written.await.unwrap_err() {
        Error::Refused(failure) => failure.sqlstate,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn rows_are_written_and_seen_by_sql() {
    let world = World::new().await;
    let mut writer = world.client().await.writer().await.unwrap();
    let table = writer.table("account", &[]).await.unwrap();
    for number in 0..10_000 {
        writer.upsert(table, account(number % 4_000, number, "somebody")).await.unwrap();
    }
    writer.flush().await.unwrap();
    assert_eq!(writer.acknowledged(), 10_000);
    let summary = world.sql("SELECT count(*), min(amount), max(amount) FROM account").await;
    assert_eq!(summary, ["4000|6000|9999"]);
}

#[tokio::test]
async fn each_row_fails_by_itself() {
    let world = World::new().await;
    let mut writer = world.client().await.writer().await.unwrap();
    let table = writer.table("account", &[]).await.unwrap();
    let created = writer.create(table, account(1, 10, "a")).await.unwrap();
    let again = writer.create(table, account(1, 11, "b")).await.unwrap();
    let updated = writer.update(table, account(1, 12, "c")).await.unwrap();
    let missing = writer.update(table, account(2, 13, "d")).await.unwrap();
    let upserted = writer.upsert(table, account(3, 14, "e")).await.unwrap();
    let removed = writer.remove(table, id(3)).await.unwrap();
    let gone = writer.remove(table, id(3)).await.unwrap();
    let back = writer.create(table, account(3, 15, "f")).await.unwrap();
    for written in [created, updated, upserted, removed, back] {
        written.await.unwrap();
    }
    assert_eq!(failed(again).await, "23505");
    assert_eq!(failed(missing).await, "P0002");
    assert_eq!(failed(gone).await, "P0002");
    assert_eq!(world.sql("SELECT * FROM account ORDER BY id").await, ["1|12|c", "3|15|f"]);
}

#[tokio::test]
async fn values_are_read_as_their_columns_types_are_written() {
    let world = World::new().await;
    world
        .sql(
            "CREATE TABLE event (id uuid PRIMARY KEY, at timestamptz NOT NULL, \
             price numeric(9, 2), tags text[], note varchar(5), extra jsonb)",
        )
        .await;
    let mut writer = world.client().await.writer().await.unwrap();
    let event = writer.table("event", &[]).await.unwrap();
    let key = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11";
    let row = |price: Option<Kind>, note: &str| {
        let at = "2024-02-29 12:00:00+02";
        values([text(key), text(at), price, text("{a,b}"), text(note), text("{\"b\": 1}")])
    };
    writer.upsert(event, row(int(7), "five!")).await.unwrap();
    let long = writer.upsert(event, row(None, "six!!!")).await.unwrap();
    let large = writer.upsert(event, row(int(10_000_000), "")).await.unwrap();
    let odd = writer.upsert(event, row(Some(Kind::Bool(true)), "")).await.unwrap();
    assert_eq!(failed(long).await, "22001");
    assert_eq!(failed(large).await, "22003");
    assert_eq!(failed(odd).await, "42804");
    assert_eq!(
        world.sql("SELECT * FROM event").await,
        ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|2024-02-29 10:00:00+00|7.00|{a,b}|five!|{\"b\": 1}"]
    );
}

#[tokio::test]
async fn tables_mix_and_missing_columns_get_their_defaults() {
    let world = World::new().await;
    world
        .sql(
            "CREATE TABLE log (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
             line text NOT NULL CHECK (line <> 'bad'), level integer DEFAULT 3)",
        )
        .await;
    let mut writer = world.client().await.writer().await.unwrap();
    writer.durability(Durability::None).await.unwrap();
    let accounts = writer.table("account", &["owner", "id", "amount"]).await.unwrap();
    let log = writer.table("log", &["line"]).await.unwrap();
    let mut row = RowWriter::new(3, false);
    for number in 0..100 {
        let packed = row.text("x").int4(number).int4(1).finish();
        writer.upsert(accounts, packed).await.unwrap();
        writer.create(log, RowWriter::new(1, false).text("line").finish()).await.unwrap();
    }
    let bad = writer.create(log, RowWriter::new(1, false).text("bad").finish()).await.unwrap();
    assert_eq!(failed(bad).await, "23514");
    let partial = writer.upsert(log, RowWriter::new(1, false).text("x").finish()).await.unwrap();
    assert_eq!(failed(partial).await, "23502", "it has no key");
    writer.flush().await.unwrap();
    assert_eq!(world.sql("SELECT count(*), sum(amount) FROM account").await, ["100|100"]);
    let logged = "SELECT count(*), count(DISTINCT id), min(level) FROM log";
    assert_eq!(world.sql(logged).await, ["100|100|3"]);
}

#[tokio::test]
async fn an_expected_version_that_is_gone_loses() {
    let world = World::new().await;
    let client = world.client().await;
    let (mut writer, mut searcher) =
        (client.writer().await.unwrap(), client.searcher().await.unwrap());
    let table = writer.table("account", &[]).await.unwrap();
    let upsert = |amount| table.change(Operation::Upsert, account(1, amount, "a"));
    writer.change(upsert(1).expecting(0)).await.unwrap().await.unwrap();
    let number = searcher.table("account", &[]);
    let found = searcher.look_up(number, vec![id(1)]).await.unwrap();
    let version = found[0].as_ref().unwrap().version;
    let first = writer.change(upsert(2).expecting(version)).await.unwrap();
    let second = writer.change(upsert(3).expecting(version)).await.unwrap();
    let absent = writer.change(upsert(4).expecting(0)).await.unwrap();
    first.await.unwrap();
    assert_eq!(failed(second).await, "40001");
    assert_eq!(failed(absent).await, "40001");
    assert_eq!(world.sql("SELECT amount FROM account").await, ["2"]);
}

#[tokio::test]
async fn an_altered_table_is_noticed() {
    let world = World::new().await;
    let mut writer = world.client().await.writer().await.unwrap();
    let table = writer.table("account", &[]).await.unwrap();
    writer.upsert(table, account(1, 1, "a")).await.unwrap().await.unwrap();
    world.sql("ALTER TABLE account ADD COLUMN more integer").await;
    let old = writer.upsert(table, account(2, 1, "a")).await.unwrap();
    assert!(old.await.is_err());
    let row = RowWriter::new(4, true).int4(3).int4(1).text("a").int4(9).finish();
    writer.upsert(table, row).await.unwrap().await.unwrap();
    assert_eq!(world.sql("SELECT id, more FROM account ORDER BY id").await, ["1|NULL", "3|9"]);
}

#[tokio::test]
async fn many_streams_write_at_once() {
    let world = World::new().await;
    let client = world.client().await;
    let streams = (0..20).map(|stream| {
        let client = client.clone();
        async move {
            let mut writer = client.writer().await.unwrap();
            let table = writer.table("account", &[]).await.unwrap();
            for number in 0..500 {
                writer.upsert(table, account(stream * 500 + number, stream, "a")).await.unwrap();
            }
            writer.flush().await.unwrap();
        }
    });
    futures::future::join_all(streams).await;
    assert_eq!(world.sql("SELECT count(*), sum(amount) FROM account").await, ["10000|95000"]);
}

/// A stream of one batch.
fn arrow(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn arrow_rows(operation: Operation, columns: Vec<(&str, ArrayRef)>, expected: Vec<u64>) -> Rows {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let arrow = arrow(&batch).into();
    Rows { operation: operation.into(), arrow, expected, ..Rows::default() }
}

#[tokio::test]
async fn record_batches_are_rows_by_the_names_of_their_columns() {
    let world = World::new().await;
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 1 << 40, 4]));
    let amounts: ArrayRef = Arc::new(Int32Array::from(vec![Some(10), Some(20), Some(30), None]));
    let owners: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d"]));
    let all = vec![("owner", owners.clone()), ("id", ids.clone()), ("amount", amounts)];
    let keys: ArrayRef = Arc::new(Int32Array::from(vec![2, 9]));
    let rows = vec![
        arrow_rows(Operation::Upsert, all, Vec::new()),
        arrow_rows(Operation::Remove, vec![("id", keys)], Vec::new()),
        arrow_rows(Operation::Remove, vec![("owner", owners)], Vec::new()),
        arrow_rows(Operation::Create, vec![("id", ids), ("nothing", amount_of(4))], Vec::new()),
    ];
    let request = WriteRequest { rows, ..announce("account") };
    let mut records = world.client().await.records();
    let replies = records.write(stream::iter([request])).await.unwrap().into_inner();
    let replies: Vec<_> = replies.map(Result::unwrap).collect().await;
    let failures: Vec<_> = replies.iter().flat_map(|reply| &reply.failures).collect();
    let failed: Vec<_> =
        failures.iter().map(|failure| (failure.index, failure.sqlstate.as_str())).collect();
    let expected = [
        vec![(2, "22003"), (3, "23502"), (5, "P0002")],
        (6..10).map(|index| (index, "23502")).collect(),
        (10..14).map(|index| (index, "42703")).collect(),
    ];
    assert_eq!(failed, expected.concat());
    assert_eq!(world.sql("SELECT * FROM account").await, ["1|10|a"]);
}

fn amount_of(rows: usize) -> ArrayRef {
    Arc::new(Int32Array::from(vec![1; rows]))
}
