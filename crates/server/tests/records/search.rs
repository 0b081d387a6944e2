//! `Search` and `Describe`.

use futures::{StreamExt, stream};
use prost::Message;
use thalweg_client::v1::value::Kind;
use thalweg_client::v1::{Keys, Range, SearchRequest, Table};
use thalweg_client::{Error, PackedRow, RowWriter};

use crate::support::{World, account, id, int, text, values};

#[tokio::test]
async fn keys_are_answered_in_their_order() {
    let world = World::new().await;
    world
        .sql("INSERT INTO account SELECT i, i * 2, 'o' || i FROM generate_series(1, 5000) g(i)")
        .await;
    let mut searcher = world.client().await.searcher().await.unwrap();
    let table = searcher.table("account", &[]);
    let keys = vec![id(5000), id(0), id(17), id(17)];
    let rows = searcher.look_up(table, keys).await.unwrap();
    assert_eq!(rows[0].as_ref().unwrap().packed, account(5000, 10_000, "o5000"));
    assert!(rows[1].is_none());
    assert_eq!(rows[2], rows[3]);
    let many = searcher.look_up(table, (1..=4_000).map(id).collect()).await.unwrap();
    assert!(
        many.iter().zip(1..).all(|(row, n)| {
            row.as_ref().unwrap().packed == account(n, n * 2, &format!("o{n}"))
        })
    );
    let owners = searcher.table("account", &["owner"]);
    let rows = searcher.look_up(owners, vec![id(3)]).await.unwrap();
    let packed = rows[0].as_ref().unwrap().packed.clone();
    assert_eq!(PackedRow::new(&packed, 1, false).unwrap().text().unwrap(), Some("o3"));
}

#[tokio::test]
async fn keys_are_rounded_as_their_columns_are() {
    let world = World::new().await;
    world.sql("CREATE TABLE tick (at timestamp(0) PRIMARY KEY, n integer NOT NULL)").await;
    let client = world.client().await;
    let (mut writer, mut searcher) =
        (client.writer().await.unwrap(), client.searcher().await.unwrap());
    let (written, read) = (writer.table("tick", &[]).await.unwrap(), searcher.table("tick", &[]));
    let key = |micros: i64| micros.to_le_bytes().to_vec();
    let row = |micros, n| RowWriter::new(2, false).int8(micros).int4(n).finish();
    for (micros, n) in [(1_400_000, 1), (2_000_001, 2)] {
        writer.upsert(written, row(micros, n)).await.unwrap().await.unwrap();
    }
    let keys = [1_400_000, 1_000_000, 1_600_000, 2_600_000].map(key).to_vec();
    let found = searcher.look_up(read, keys).await.unwrap();
    let found: Vec<_> = found.into_iter().map(|row| row.map(|row| row.packed.to_vec())).collect();
    let (first, second) = (Some(row(1_000_000, 1)), Some(row(2_000_000, 2)));
    assert_eq!(found, [first.clone(), first, second, None]);
    writer.remove(written, key(1_700_000)).await.unwrap().await.unwrap();
    assert_eq!(world.sql("SELECT n FROM tick").await, ["1"]);
}

#[tokio::test]
async fn a_search_sees_what_was_acknowledged() {
    let world = World::new().await;
    let client = world.client().await;
    let (mut writer, mut searcher) =
        (client.writer().await.unwrap(), client.searcher().await.unwrap());
    let (written, read) =
        (writer.table("account", &[]).await.unwrap(), searcher.table("account", &[]));
    for amount in 0..50 {
        let row = account(1, amount, "a");
        writer.upsert(written, row.clone()).await.unwrap().await.unwrap();
        let found = searcher.look_up(read, vec![id(1)]).await.unwrap();
        assert_eq!(found[0].as_ref().unwrap().packed, row);
    }
}

#[tokio::test]
async fn answers_are_cut_where_rows_are_wide() {
    let world = World::new().await;
    world
        .sql(
            "INSERT INTO account SELECT i, i, repeat('w', 200000) FROM generate_series(1, 50) g(i)",
        )
        .await;
    let table = || Table { number: 0, name: "account".to_owned(), columns: Vec::new() };
    let packed = (0..4).flat_map(|_| 1..=50).map(|n| id(n).into()).collect();
    let keys = vec![Keys { packed, ..Keys::default() }];
    let ranges = vec![Range::default()];
    for (request, wanted, look_ups) in [
        (SearchRequest { tables: vec![table()], keys, ..SearchRequest::default() }, 200, 200),
        (SearchRequest { tables: vec![table()], ranges, ..SearchRequest::default() }, 50, 1),
    ] {
        let mut records = world.client().await.records();
        let answers = records.search(stream::iter([request])).await.unwrap().into_inner();
        let answers: Vec<_> = answers.map(Result::unwrap).collect().await;
        // A little more than a mebibyte, where one row goes beyond it.
        assert!(answers.iter().all(|response| response.encoded_len() < 1_500_000));
        let found = answers.iter().flat_map(|response| &response.found);
        assert_eq!(found.map(|found| found.packed.len()).sum::<usize>(), wanted);
        assert!(answers.is_sorted_by_key(|response| response.answered));
        assert_eq!(answers.last().unwrap().answered, look_ups);
    }
}

#[tokio::test]
async fn look_ups_that_fail_end_nothing() {
    let world = World::new().await;
    world.sql("INSERT INTO account VALUES (1, 2, 'a')").await;
    let mut searcher = world.client().await.searcher().await.unwrap();
    let missing = searcher.table("nowhere", &[]);
    let state = |error: Error| error.sqlstate().unwrap().to_owned();
    assert_eq!(state(searcher.look_up(missing, vec![id(1)]).await.unwrap_err()), "42P01");
    let column = searcher.table("account", &["nothing"]);
    assert_eq!(state(searcher.look_up(column, vec![id(1)]).await.unwrap_err()), "42703");
    let table = searcher.table("account", &[]);
    assert_eq!(state(searcher.look_up(table, vec![vec![1, 2]]).await.unwrap_err()), "22P03");
    assert_eq!(state(searcher.look_up(99, vec![id(1)]).await.unwrap_err()), "08P01");
    assert!(searcher.look_up(table, vec![id(1)]).await.unwrap()[0].is_some());
}

#[tokio::test]
async fn values_come_back_as_values() {
    let world = World::new().await;
    world
        .sql(
            "CREATE TABLE item (name text, size integer, price numeric(6, 2), since date, \
             data bytea, PRIMARY KEY (name, size)); ",
        )
        .await;
    world.sql("INSERT INTO item VALUES ('it''s', 7, 1.5, '2024-02-29', '\\x00ff')").await;
    let table = Table { number: 5, name: "public.item".to_owned(), columns: Vec::new() };
    let key = values([text("it's"), int(7)]);
    let keys = Keys { table: 5, values: vec![key], ..Keys::default() };
    let request =
        SearchRequest { tables: vec![table], keys: vec![keys], ..SearchRequest::default() };
    let mut records = world.client().await.records();
    let mut answers = records.search(stream::iter([request])).await.unwrap().into_inner();
    let response = answers.next().await.unwrap().unwrap();
    let bytes = Some(Kind::Bytes(vec![0, 255].into()));
    let row = values([text("it's"), int(7), text("1.50"), text("2024-02-29"), bytes]);
    assert_eq!((response.answered, &response.found[0].values), (1, &vec![row]));
    assert!(answers.next().await.is_none());
}

async fn ids(searcher: &mut thalweg_client::Searcher, range: Range) -> Vec<i32> {
    let rows = searcher.range(range).await.unwrap();
    rows.iter().map(|row| PackedRow::new(row, 1, false).unwrap().int4().unwrap().unwrap()).collect()
}

#[tokio::test]
async fn ranges_have_bounds_limits_and_an_order() {
    let world = World::new().await;
    world.sql("INSERT INTO account SELECT i, i, '' FROM generate_series(1, 3000) g(i)").await;
    let mut searcher = world.client().await.searcher().await.unwrap();
    let table = searcher.table("account", &["id"]);
    let from = |n| Some(values([int(n)]));
    let whole = Range { table, ..Range::default() };
    assert_eq!(ids(&mut searcher, whole.clone()).await, (1..=3000).collect::<Vec<_>>());
    let some = Range { from: from(10), to: from(13), from_excluded: true, ..whole.clone() };
    assert_eq!(ids(&mut searcher, some).await, [11, 12, 13]);
    let last = Range { to: from(13), to_excluded: true, descending: true, limit: 2, ..whole };
    assert_eq!(ids(&mut searcher, last).await, [12, 11]);
}

#[tokio::test]
async fn ranges_of_keys_of_several_columns_are_lexicographic() {
    let world = World::new().await;
    world.sql("CREATE TABLE grid (x integer, y integer, PRIMARY KEY (x, y))").await;
    world.sql("INSERT INTO grid SELECT i / 10, i % 10 FROM generate_series(0, 99) g(i)").await;
    let mut searcher = world.client().await.searcher().await.unwrap();
    let table = searcher.table("grid", &[]);
    let (from, to) = (Some(values([int(2), int(8)])), Some(values([int(3)])));
    let range = Range { table, from, to, ..Range::default() };
    let rows = searcher.range(range).await.unwrap();
    let (first, last) = (rows.first().unwrap(), rows.last().unwrap());
    assert_eq!(
        (rows.len(), &first[..], &last[..]),
        (12, &b"\x02\0\0\0\x08\0\0\0"[..], &b"\x03\0\0\0\x09\0\0\0"[..])
    );
    let long = Some(values([int(1), int(2), int(3)]));
    let range = Range { table, from: long, ..Range::default() };
    assert_eq!(searcher.range(range).await.unwrap_err().sqlstate(), Some("08P01"));
}

#[tokio::test]
async fn ranges_that_come_again_find_their_own_rows() {
    let world = World::new().await;
    world.sql("INSERT INTO account SELECT i, i, '' FROM generate_series(1, 9000) g(i)").await;
    world.sql("CREATE TABLE grid (x integer, y text, PRIMARY KEY (x, y))").await;
    world
        .sql("INSERT INTO grid SELECT i / 10, 'y' || i % 10 FROM generate_series(0, 99) g(i)")
        .await;
    for index in [None, Some("ON account (id)"), Some("ON grid (x, y)")] {
        if let Some(index) = index {
            world.sql(&format!("CREATE INDEX {index}")).await;
        }
        let mut searcher = world.client().await.searcher().await.unwrap();
        let (table, grid) = (searcher.table("account", &["id"]), searcher.table("grid", &[]));
        for n in [5, 4_000, 1, 8_998, 9_100] {
            let from = Some(values([int(n)]));
            let range = Range { table, from, limit: 3, ..Range::default() };
            let expected: Vec<i32> = (n as i32..=9_000).take(3).collect();
            assert_eq!(ids(&mut searcher, range).await, expected, "from {n}, {index:?}");
        }
        for x in [0, 3, 9] {
            let bound = |y: &str| Some(values([int(x), text(y)]));
            let (from, to) = (bound("y2"), bound("y5"));
            let range = Range { table: grid, from, to, to_excluded: true, ..Range::default() };
            assert_eq!(searcher.range(range).await.unwrap().len(), 3, "x {x}, {index:?}");
        }
        // What is no integer of the column's size is compared all the same.
        let from = Some(values([int(5_000_000_000)]));
        let range = Range { table, from, ..Range::default() };
        assert_eq!(ids(&mut searcher, range).await, [0; 0]);
    }
}

#[tokio::test]
async fn ranges_that_come_again_see_other_columns() {
    let world = World::new().await;
    world.sql("CREATE TABLE growing (id integer PRIMARY KEY)").await;
    world.sql("CREATE INDEX ON growing (id)").await;
    world.sql("INSERT INTO growing SELECT i FROM generate_series(1, 10) g(i)").await;
    let mut searcher = world.client().await.searcher().await.unwrap();
    let table = searcher.table("growing", &[]);
    let range = Range { table, from: Some(values([int(9)])), ..Range::default() };
    for _ in 0..3 {
        let rows = searcher.range(range.clone()).await.unwrap();
        assert_eq!(rows, [&b"\x09\0\0\0"[..], &b"\x0a\0\0\0"[..]]);
    }
    world.sql("ALTER TABLE growing ADD COLUMN more integer NOT NULL DEFAULT 7").await;
    for _ in 0..3 {
        let rows = searcher.range(range.clone()).await.unwrap();
        assert_eq!(rows, [&b"\x09\0\0\0\x07\0\0\0"[..], &b"\x0a\0\0\0\x07\0\0\0"[..]]);
    }
}

#[tokio::test]
async fn tables_are_described() {
    let world = World::new().await;
    let client = world.client().await;
    let table = client.describe("account").await.unwrap();
    let columns: Vec<_> =
        table.columns.iter().map(|c| (c.name.as_str(), c.r#type.as_str(), c.nullable)).collect();
    assert_eq!(
        columns,
        [("id", "integer", false), ("amount", "integer", false), ("owner", "text", false)]
    );
    assert_eq!(table.key, ["id"]);
    assert_eq!(client.describe("nowhere").await.unwrap_err().sqlstate(), Some("42P01"));
}
