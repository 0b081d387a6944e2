//! Updates and upserts that give some columns of a row: the others stay as they are.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use futures::stream;
use thalweg_client::v1::{Operation, Rows, Table, WriteRequest};
use thalweg_client::{Error, RowWriter, Written};
use tonic::Code;

use crate::support::{World, codes, number, packed};

const STOCK: &str = "CREATE TABLE stock (id integer PRIMARY KEY, place varchar(4) NOT NULL, \
    pieces integer NOT NULL, ordered integer NOT NULL, note text, \
    CONSTRAINT enough CHECK (pieces >= ordered))";

async fn stock() -> World {
    let world = World::new().await;
    world.sql(STOCK).await;
    world
        .sql(
            "INSERT INTO stock SELECT i, 'a' || i::text, 10, 5, 'note ' || i::text \
             FROM generate_series(0, 199) AS s(i)",
        )
        .await;
    world
}

async fn refused(written: Written) -> String {
    match written.await.unwrap_err() {
        Error::Refused(failure) => failure.sqlstate,
        other => panic!("{other}"),
    }
}

fn pair(id: i32, value: i32) -> Vec<u8> {
    RowWriter::new(2, false).int4(id).int4(value).finish()
}

#[tokio::test]
async fn rows_of_one_key_add_up() {
    let world = stock().await;
    let mut writer = world.client().await.writer().await.unwrap();
    let pieces = writer.table("stock", &["id", "pieces"]).await.unwrap();
    let ordered = writer.table("stock", &["ordered", "id"]).await.unwrap();
    let place = writer.table("stock", &["id", "place"]).await.unwrap();
    for id in 0..200 {
        writer.update(pieces, pair(id, 20)).await.unwrap();
        writer.update(ordered, pair(15, id)).await.unwrap();
        writer.update(pieces, pair(id, 30)).await.unwrap();
    }
    let named = RowWriter::new(2, false).int4(7).text("b7").finish();
    writer.update(place, named).await.unwrap().await.unwrap();
    writer.flush().await.unwrap();
    let summary = "SELECT count(*), min(pieces), max(pieces), min(ordered), max(ordered), \
        count(DISTINCT note) FROM stock";
    assert_eq!(world.sql(summary).await, ["200|30|30|15|15|200"]);
    let row = world.sql("SELECT * FROM stock WHERE id = 7").await;
    assert_eq!(row, ["7|b7|30|15|note 7"]);
}

#[tokio::test]
async fn constraints_hold_of_whole_rows() {
    let world = stock().await;
    let mut writer = world.client().await.writer().await.unwrap();
    let ordered = writer.table("stock", &["id", "ordered"]).await.unwrap();
    let place = writer.table("stock", &["id", "place"]).await.unwrap();
    let keyless = writer.table("stock", &["ordered"]).await.unwrap();
    let too_many = writer.update(ordered, pair(1, 11)).await.unwrap();
    let enough = writer.update(ordered, pair(2, 10)).await.unwrap();
    let missing = writer.update(ordered, pair(500, 1)).await.unwrap();
    let named = |name: &str| RowWriter::new(2, false).int4(3).text(name).finish();
    let too_long = writer.update(place, named("far too long")).await.unwrap();
    let row = RowWriter::new(1, false).int4(1).finish();
    let no_key = writer.update(keyless, row).await.unwrap();
    let partial = writer.upsert(ordered, pair(1, 1)).await.unwrap();
    enough.await.unwrap();
    assert_eq!(refused(too_many).await, "23514");
    assert_eq!(refused(missing).await, "P0002");
    assert_eq!(refused(too_long).await, "22001");
    assert_eq!(refused(no_key).await, "23502");
    assert_eq!(refused(partial).await, "23502");
    let rows = world.sql("SELECT id, ordered, place FROM stock WHERE id < 4 ORDER BY id").await;
    assert_eq!(rows, ["0|5|a0", "1|5|a1", "2|10|a2", "3|5|a3"]);
}

#[tokio::test]
async fn upserts_of_some_columns_leave_the_others_or_give_them_their_defaults() {
    let world = World::new().await;
    let columns = "id integer PRIMARY KEY, free integer NOT NULL DEFAULT 7, note text, \
        taken integer, CONSTRAINT enough CHECK (free >= taken)";
    world.sql(&format!("CREATE TABLE seat ({columns})")).await;
    world.sql("INSERT INTO seat VALUES (1, 60, 'there', 50), (2, 60, 'there', NULL)").await;
    let mut writer = world.client().await.writer().await.unwrap();
    let free = writer.table("seat", &["id", "free"]).await.unwrap();
    let note = writer.table("seat", &["note", "id"]).await.unwrap();
    let noted = |note: &str, id| RowWriter::new(2, true).text(note).int4(id).finish();
    let mut written = Vec::new();
    for id in 1..100 {
        written.push(writer.upsert(free, pair(id, 80)).await.unwrap());
        written.push(writer.upsert(note, noted("noted", id + 50)).await.unwrap());
    }
    let too_few = writer.upsert(free, pair(1, 40)).await.unwrap();
    let enough = writer.upsert(free, pair(2, 40)).await.unwrap();
    let expecting = free.change(Operation::Upsert, pair(2, 41)).expecting(0);
    let there = writer.change(expecting).await.unwrap();
    let expecting = free.change(Operation::Upsert, pair(200, 41)).expecting(0);
    let absent = writer.change(expecting).await.unwrap();
    written.extend([enough, absent]);
    for written in written {
        written.await.unwrap();
    }
    assert_eq!(refused(too_few).await, "23514");
    assert_eq!(refused(there).await, "40001");
    let rows = "SELECT * FROM seat WHERE id IN (1, 2, 3, 51, 99, 149, 200) ORDER BY id";
    let expected = [
        "1|80|there|50",
        "2|40|there|NULL",
        "3|80|NULL|NULL",
        "51|80|noted|NULL",
        "99|80|noted|NULL",
        "149|7|noted|NULL",
        "200|41|NULL|NULL",
    ];
    assert_eq!(world.sql(rows).await, expected);
    assert_eq!(world.sql("SELECT count(*) FROM seat").await, ["150"]);
    let keyless = writer.table("seat", &["free"]).await.unwrap();
    let row = RowWriter::new(1, false).int4(1).finish();
    assert_eq!(refused(writer.upsert(keyless, row).await.unwrap()).await, "23502");
}

#[tokio::test]
async fn the_first_that_fails_ends_an_update() {
    let world = stock().await;
    let table = Table {
        number: 0,
        name: "stock".to_owned(),
        columns: vec!["id".to_owned(), "ordered".to_owned()],
    };
    let announced = WriteRequest { tables: vec![table], ..WriteRequest::default() };
    let rows = packed((195..205).map(|id| pair(id, 6)));
    let mut records = world.client().await.records();
    let status = records.update(stream::iter([announced, rows])).await.unwrap_err();
    assert_eq!(codes(&status), (Code::NotFound, "P0002".to_owned()));
    assert_eq!((number(&status, "record-index"), number(&status, "record-written")), (5, 5));
    assert_eq!(world.sql("SELECT count(*) FROM stock WHERE ordered = 6").await, ["5"]);
}

#[tokio::test]
async fn arrow_batches_give_the_columns_that_they_have() {
    let world = stock().await;
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..200).chain(0..100)));
    let pieces: ArrayRef = Arc::new(Int32Array::from_iter_values(100..400));
    let batch = RecordBatch::try_from_iter([("pieces", pieces), ("id", ids)]).unwrap();
    let mut arrow = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    arrow.write(&batch).unwrap();
    let arrow = arrow.into_inner().unwrap().into();
    let operation = Operation::Update.into();
    let table = Table { name: "stock".to_owned(), ..Table::default() };
    let rows = vec![Rows { operation, arrow, ..Rows::default() }];
    let request = WriteRequest { tables: vec![table], rows, ..WriteRequest::default() };
    let mut records = world.client().await.records();
    let summary = records.update(stream::iter([request])).await.unwrap().into_inner();
    assert_eq!(summary.rows, 300);
    let summary = "SELECT min(pieces), max(pieces), sum(ordered), count(note) FROM stock";
    assert_eq!(world.sql(summary).await, ["200|399|1000|200"]);
}

#[tokio::test]
async fn rows_of_one_table_keep_their_order_whatever_they_are_announced_as() {
    let world = stock().await;
    let columns = ["id", "place", "pieces", "ordered", "note"];
    let mut writer = world.client().await.writer().await.unwrap();
    let one = writer.table("stock", &columns).await.unwrap();
    let other = writer.table("stock", &columns).await.unwrap();
    for value in 0..1_000 {
        let row = RowWriter::new(5, true).int4(1).text("a").int4(value).int4(0).text("x").finish();
        writer.upsert(if value % 3 == 0 { one } else { other }, row).await.unwrap();
    }
    writer.flush().await.unwrap();
    assert_eq!(world.sql("SELECT pieces FROM stock WHERE id = 1").await, ["999"]);
}
