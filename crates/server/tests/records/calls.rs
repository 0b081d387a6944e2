//! `Create`, `Update`, `Upsert` and `Remove`: one reply.

use futures::stream;
use thalweg_client::RowWriter;
use thalweg_client::v1::{Operation, Rows, WriteRequest};
use tonic::Code;

use crate::support::{World, account, announce, codes, id, number, packed};

#[tokio::test]
async fn a_stream_is_answered_once_at_its_end() {
    let world = World::new().await;
    let mut records = world.client().await.records();
    let rows = (0..5_000).map(|n| packed([account(n, n, "a")]));
    let requests = stream::iter(std::iter::once(announce("account")).chain(rows));
    assert_eq!(records.create(requests).await.unwrap().into_inner().rows, 5_000);
    let rows = [announce("account"), packed((0..10).map(|n| account(n, 1, "b")))];
    assert_eq!(records.update(stream::iter(rows.clone())).await.unwrap().into_inner().rows, 10);
    assert_eq!(records.upsert(stream::iter(rows)).await.unwrap().into_inner().rows, 10);
    let keys = [announce("account"), packed((0..4_000).map(id))];
    assert_eq!(records.remove(stream::iter(keys)).await.unwrap().into_inner().rows, 4_000);
    assert_eq!(world.sql("SELECT count(*), min(id) FROM account").await, ["1000|4000"]);
}

#[tokio::test]
async fn the_first_failure_ends_the_stream_and_names_the_row() {
    let world = World::new().await;
    world.sql("INSERT INTO account VALUES (7, 7, 'seven')").await;
    let mut records = world.client().await.records();
    // The stream has no end: it is the server that ends it.
    let rows = (0..).map(|n| packed([account(n, 1, "a")]));
    let requests = stream::iter(std::iter::once(announce("account")).chain(rows));
    let status = records.create(requests).await.unwrap_err();
    assert_eq!(codes(&status), (Code::AlreadyExists, "23505".to_owned()));
    assert!(status.message().contains("Key (id)=(7) already exists."), "{status}");
    assert_eq!((number(&status, "record-index"), number(&status, "record-written")), (7, 7));
    assert_eq!(world.sql("SELECT count(*), max(id) FROM account").await, ["8|7"]);
}

#[tokio::test]
async fn each_call_names_the_first_row_that_failed_and_its_key() {
    let world = World::new().await;
    world.sql("CREATE TABLE pair (a integer PRIMARY KEY, b integer NOT NULL UNIQUE)").await;
    world.sql("INSERT INTO pair VALUES (0, 0), (1, 1), (2, 2), (103, 3)").await;
    let mut records = world.client().await.records();
    let row = |a, b| RowWriter::new(2, false).int4(a).int4(b).finish();
    let requests = |rows: Vec<Vec<u8>>| stream::iter([announce("pair"), packed(rows)]);
    let row_by_row = |from| (from..from + 9).map(|n| row(n, n + 100)).collect::<Vec<_>>();
    let pairs = "SELECT * FROM pair ORDER BY a";

    let status = records.update(requests(row_by_row(0))).await.unwrap_err();
    assert_eq!(codes(&status), (Code::NotFound, "P0002".to_owned()));
    assert!(status.message().contains("Key (a)=(3) is not there."), "{status}");
    assert_eq!((number(&status, "record-index"), number(&status, "record-written")), (3, 3));
    assert_eq!(world.sql(pairs).await, ["0|100", "1|101", "2|102", "103|3"]);

    let same = (0..9).map(|n| row(n, n)).collect();
    let status = records.upsert(requests(same)).await.unwrap_err();
    assert_eq!(codes(&status), (Code::AlreadyExists, "23505".to_owned()));
    assert!(status.message().contains("Key (b)=(3) already exists."), "{status}");
    assert_eq!((number(&status, "record-index"), number(&status, "record-written")), (3, 3));
    assert_eq!(world.sql(pairs).await, ["0|0", "1|1", "2|2", "103|3"]);

    let status = records.create(requests(row_by_row(99))).await.unwrap_err();
    assert_eq!(codes(&status), (Code::AlreadyExists, "23505".to_owned()));
    assert!(status.message().contains("Key (a)=(103) already exists."), "{status}");
    assert_eq!((number(&status, "record-index"), number(&status, "record-written")), (4, 4));
    assert_eq!(world.sql("SELECT count(*) FROM pair WHERE a > 98").await, ["5"]);

    let keys = [0, 1, 7, 2].map(id).to_vec();
    let status = records.remove(requests(keys)).await.unwrap_err();
    assert_eq!(codes(&status), (Code::NotFound, "P0002".to_owned()));
    assert!(status.message().contains("Key (a)=(7) is not there."), "{status}");
    assert_eq!((number(&status, "record-index"), number(&status, "record-written")), (2, 2));
    assert_eq!(world.sql("SELECT a FROM pair WHERE a < 99").await, ["2"]);
}

#[tokio::test]
async fn no_table_gets_a_row_behind_the_first_failure() {
    let world = World::new().await;
    world.sql("CREATE TABLE other (id integer PRIMARY KEY)").await;
    let mut request = announce("account");
    let mut other = announce("other").tables.remove(0);
    other.number = 1;
    request.tables.push(other);
    let mut push = |table, row: Vec<u8>| {
        request.rows.push(Rows { table, packed: vec![row.into()], ..Rows::default() });
    };
    push(1, id(1));
    push(0, account(1, 1, "a"));
    push(1, id(2));
    push(0, account(1, 2, "b"));
    push(1, id(3));
    let mut records = world.client().await.records();
    let status = records.create(stream::iter([request])).await.unwrap_err();
    assert_eq!(number(&status, "record-index"), 3);
    assert_eq!(world.sql("SELECT id FROM other ORDER BY id").await, ["1", "2"]);
    assert_eq!(world.sql("SELECT id, amount FROM account").await, ["1|1"]);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_a_failure_like_others() {
    let world = World::new().await;
    let mut records = world.client().await.records();
    let rows = [account(1, 1, "a"), account(2, 2, "b")[..5].to_vec(), account(3, 3, "c")];
    let requests = stream::iter([announce("account"), packed(rows)]);
    let status = records.upsert(requests).await.unwrap_err();
    assert_eq!(codes(&status), (Code::InvalidArgument, "22P03".to_owned()));
    assert_eq!(number(&status, "record-index"), 1);
    assert_eq!(world.sql("SELECT id FROM account").await, ["1"]);
}

#[tokio::test]
async fn a_call_takes_no_other_operation() {
    let world = World::new().await;
    let rows =
        Rows { operation: Operation::Remove.into(), packed: vec![id(1).into()], ..Rows::default() };
    let request = WriteRequest { rows: vec![rows], ..announce("account") };
    let status = world.client().await.records().create(stream::iter([request])).await.unwrap_err();
    assert_eq!(codes(&status), (Code::InvalidArgument, "08P01".to_owned()));
}

#[tokio::test]
async fn an_empty_stream_writes_nothing() {
    let world = World::new().await;
    let mut records = world.client().await.records();
    assert_eq!(records.create(stream::iter([])).await.unwrap().into_inner().rows, 0);
}

#[tokio::test]
async fn atomic_messages_end_such_a_stream_whole() {
    let world = World::new().await;
    let mut records = world.client().await.records();
    let mut atomic = packed([account(2, 1, "a"), account(1, 1, "a")]);
    atomic.atomic = true;
    let requests =
        [announce("account"), packed([account(1, 1, "a")]), atomic, packed([account(9, 1, "a")])];
    let status = records.create(stream::iter(requests)).await.unwrap_err();
    assert_eq!(number(&status, "record-written"), 1);
    assert_eq!(world.sql("SELECT id FROM account").await, ["1"]);
}
