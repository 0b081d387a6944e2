//! Rows that are found as they are taken, and look-ups of which many are under way.

use futures::StreamExt;
use futures::future::join_all;
use thalweg_client::{Range, Rows};

use crate::support::{World, account, id, int, values};

/// Many more bytes than lie ready for a client that takes none.
pub const WIDE: &str =
    "INSERT INTO account SELECT i, i, repeat('w', 200000) FROM generate_series(1, 150) g(i)";
pub const WIDE_ROWS: i32 = 150;

/// The first column of a packed row of `account`.
pub fn key(packed: &[u8]) -> i32 {
    i32::from_le_bytes(packed[..4].try_into().unwrap())
}

/// How many calls of the record API are under way.
const LISTED: &str = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'thalweg.v1%'";

async fn until_listed(world: &World, calls: &str) {
    while world.sql(LISTED).await != [calls] {
        tokio::task::yield_now().await;
    }
}

async fn wide() -> World {
    let world = World::new().await;
    world.sql(WIDE).await;
    world
}

/// What comes before the end, or before an error.
async fn all<T: Unpin>(rows: Rows<T>) -> Vec<T> {
    rows.map(Result::unwrap).collect().await
}

#[tokio::test]
async fn streamed_ranges_have_the_rows_of_gathered_ones() {
    let world = wide().await;
    let mut searcher = world.client().await.searcher().await.unwrap();
    let table = searcher.table("account", &[]);
    for (from, descending, limit) in [(1, false, 0), (7, true, 0), (3, false, 40), (999, true, 0)] {
        let from = Some(values([int(from)]));
        let range = Range { table, from, descending, limit, ..Range::default() };
        let gathered = searcher.range(range.clone()).await.unwrap();
        assert!(all(searcher.stream_range(range)).await == gathered);
    }
    // Who asks for values is given packed rows.
    let range = Range { table, as_values: true, limit: 2, ..Range::default() };
    let keys: Vec<i32> = all(searcher.stream_range(range)).await.iter().map(|r| key(r)).collect();
    assert_eq!(keys, [1, 2]);
    let mut refused = searcher.stream_range(Range { table: 99, ..Range::default() });
    let why = refused.next().await.unwrap().unwrap_err();
    assert_eq!(why.sqlstate(), Some("08P01"));
    assert!(refused.next().await.is_none());
}

#[tokio::test]
async fn streams_of_rows_that_are_dropped_end_on_the_server() {
    let world = wide().await;
    let mut searcher = world.client().await.searcher().await.unwrap();
    let table = searcher.table("account", &[]);
    for _ in 0..3 {
        let mut range = searcher.stream_range(Range { table, ..Range::default() });
        let mut keys = searcher.stream_look_up(table, (1..=WIDE_ROWS).map(id).collect());
        assert_eq!(key(&range.next().await.unwrap().unwrap()), 1);
        assert_eq!(key(&keys.next().await.unwrap().unwrap().unwrap().packed), 1);
        // They cannot have been answered: so much was not taken.
        assert_eq!(world.sql(LISTED).await, ["3"]);
        drop(range);
        until_listed(&world, "2").await;
        drop(keys);
        until_listed(&world, "1").await;
        let found = searcher.look_up(table, vec![id(5)]).await.unwrap();
        assert_eq!(key(&found[0].as_ref().unwrap().packed), 5);
    }
}

#[tokio::test]
async fn streams_that_nobody_reads_wait_and_hold_up_no_others() {
    let world = wide().await;
    let mut searcher = world.client().await.searcher().await.unwrap();
    let table = searcher.table("account", &[]);
    let whole = Range { table, ..Range::default() };
    let mut unread = Vec::new();
    for _ in 0..4 {
        let mut rows = searcher.stream_range(whole.clone());
        assert_eq!(key(&rows.next().await.unwrap().unwrap()), 1);
        unread.push(rows);
    }
    for n in 1..=WIDE_ROWS {
        let found = searcher.look_up(table, vec![id(n)]).await.unwrap();
        assert_eq!(key(&found[0].as_ref().unwrap().packed), n);
    }
    assert_eq!(searcher.range(whole).await.unwrap().len(), 150);
    assert_eq!(world.sql(LISTED).await, ["5"]);
    for rows in unread {
        let keys: Vec<i32> = all(rows).await.iter().map(|row| key(row)).collect();
        assert_eq!(keys, (2..=WIDE_ROWS).collect::<Vec<_>>());
    }
    until_listed(&world, "1").await;
}

#[tokio::test]
async fn streamed_keys_are_answered_in_their_order() {
    let world = World::new().await;
    world
        .sql("INSERT INTO account SELECT i * 2, i, 'o' || i FROM generate_series(1, 5000) g(i)")
        .await;
    let mut searcher = world.client().await.searcher().await.unwrap();
    let table = searcher.table("account", &[]);
    let keys: Vec<i32> = (1..=10_001).rev().chain([7, 8, 8, 9]).collect();
    let rows = searcher.stream_look_up(table, keys.iter().copied().map(id).collect());
    let rows = all(rows).await;
    assert_eq!(rows.len(), keys.len());
    for (n, row) in keys.iter().zip(rows) {
        let half = n / 2;
        let expected = (n % 2 == 0).then(|| account(*n, half, &format!("o{half}")));
        assert_eq!(row.as_ref().map(|row| &row.packed[..]), expected.as_deref(), "{n}");
        assert!(row.is_none_or(|row| row.version > 0));
    }
    assert!(all(searcher.stream_look_up(table, Vec::new())).await.is_empty());
    let keys = vec![id(1), id(2), vec![1, 2], id(4)];
    let mut rows = searcher.stream_look_up(table, keys);
    assert!(rows.next().await.unwrap().unwrap().is_none());
    assert_eq!(key(&rows.next().await.unwrap().unwrap().unwrap().packed), 2);
    assert_eq!(rows.next().await.unwrap().unwrap_err().sqlstate(), Some("22P03"));
    assert!(rows.next().await.is_none());
}

#[tokio::test]
async fn many_look_ups_are_under_way_at_once() {
    let world = World::new().await;
    world.sql("INSERT INTO account SELECT i, i, 'o' || i FROM generate_series(1, 5000) g(i)").await;
    let searcher = world.client().await.pipelined_searcher().await.unwrap();
    let (table, ids) = (searcher.table("account", &[]), searcher.table("account", &["id"]));
    let (mut rows, mut ranges) = (Vec::new(), Vec::new());
    for n in 1..=5_000 {
        // Some find a row, some none, and some both.
        rows.push(searcher.look_up(table, vec![id(n), id(-n)]).await.unwrap());
        if n % 50 == 0 {
            let from = Some(values([int(n.into())]));
            let range = Range { table: ids, from, limit: 3, ..Range::default() };
            ranges.push(searcher.range(range).await.unwrap());
        }
    }
    for (n, found) in (1..).zip(join_all(rows).await) {
        let found = found.unwrap();
        assert_eq!(found[0].as_ref().unwrap().packed, account(n, n, &format!("o{n}")));
        assert_eq!((found.len(), &found[1]), (2, &None));
    }
    for (place, found) in (1..).zip(join_all(ranges).await) {
        let keys: Vec<i32> = found.unwrap().iter().map(|row| key(row)).collect();
        let first = place * 50;
        assert_eq!(keys, (first..=5_000).take(3).collect::<Vec<_>>());
    }
    let tasks = (0..50).map(|task| {
        let searcher = searcher.clone();
        tokio::spawn(async move {
            for n in task * 100 + 1..=task * 100 + 100 {
                let found = searcher.look_up(ids, vec![id(n)]).await.unwrap().await.unwrap();
                assert_eq!(found[0].as_ref().unwrap().packed, id(n));
            }
        })
    });
    assert!(join_all(tasks).await.iter().all(Result::is_ok));
    drop(searcher);
    until_listed(&world, "0").await;
}

#[tokio::test]
async fn a_look_up_that_fails_leaves_those_beside_it_alone() {
    let world = World::new().await;
    world.sql("INSERT INTO account VALUES (1, 2, 'a')").await;
    let searcher = world.client().await.pipelined_searcher().await.unwrap();
    let (table, missing) = (searcher.table("account", &[]), searcher.table("nowhere", &[]));
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        found.push(searcher.look_up(table, vec![id(1)]).await.unwrap());
        refused.push(searcher.look_up(missing, vec![id(1)]).await.unwrap());
        refused.push(searcher.look_up(table, vec![id(1), vec![1, 2], id(1)]).await.unwrap());
        // Nobody waits for this one.
        drop(searcher.range(Range { table, ..Range::default() }).await.unwrap());
    }
    assert!(searcher.look_up(table, Vec::new()).await.unwrap().await.unwrap().is_empty());
    for found in join_all(found).await {
        assert_eq!(found.unwrap()[0].as_ref().unwrap().packed, account(1, 2, "a"));
    }
    for (place, refused) in join_all(refused).await.into_iter().enumerate() {
        let expected = ["42P01", "22P03"][place % 2];
        assert_eq!(refused.unwrap_err().sqlstate(), Some(expected));
    }
}
