//! The record API over a gateway. What one machine promises of single rows is asked of it by the
//! same tests ([`crate::writing`], [`crate::updating`], [`crate::search`]); this is what is left.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures::stream;
use thalweg_client::v1::Keys;
use thalweg_client::{Client, Error, Operation, RowWriter, Written};
use thalweg_types::bucket_of;
use tonic::Code;

use super::processes::Processes;
use super::support::*;

async fn failed(written: Written) -> String {
    match written.await.unwrap_err() {
        Error::Refused(failure) => failure.sqlstate,
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_to_all_workers_and_are_answered_once() {
    let world = World::new().await;
    let mut records = world.client().await.records();
    let rows = (0..100).map(|n| packed((n * 50..n * 50 + 50).map(|id| account(id, id, "a"))));
    let requests = stream::iter(std::iter::once(announce("account")).chain(rows));
    assert_eq!(records.create(requests).await.unwrap().into_inner().rows, 5_000);
    let rows = [announce("account"), packed((0..100).map(|n| account(n, 1, "b")))];
    assert_eq!(records.update(stream::iter(rows.clone())).await.unwrap().into_inner().rows, 100);
    assert_eq!(records.upsert(stream::iter(rows)).await.unwrap().into_inner().rows, 100);
    let keys = [announce("account"), packed((0..4_000).map(id))];
    assert_eq!(records.remove(stream::iter(keys)).await.unwrap().into_inner().rows, 4_000);
    assert_eq!(world.sql("SELECT count(*), min(id) FROM account").await, ["1000|4000"]);
    let seen = world.cluster.status.status().await;
    let rows = seen.iter().map(|worker| worker.seen.as_ref().unwrap().tables[0].rows);
    assert!(rows.clone().all(|rows| rows > 100) && rows.sum::<u64>() == 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_rows_before_the_first_failure_are_written() {
    let world = World::new().await;
    world.sql("INSERT INTO account VALUES (700, 7, 'there')").await;
    let mut records = world.client().await.records();
    // The stream has no end: it is the server that ends it.
    let rows = (0..).map(|n| packed((n * 10..n * 10 + 10).map(|id| account(id, 1, "a"))));
    let requests = stream::iter(std::iter::once(announce("account")).chain(rows));
    let status = records.create(requests).await.unwrap_err();
    assert_eq!(codes(&status), (Code::AlreadyExists, "23505".to_owned()));
    assert_eq!((number(&status, "record-index"), number(&status, "record-written")), (700, 700));
    assert!(status.message().contains("perhaps some behind them"), "{status}");
    assert_eq!(world.sql("SELECT count(*) FROM account WHERE id < 700").await, ["700"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_fail_are_told_by_their_places() {
    let world = World::new().await;
    let taken = "INSERT INTO account SELECT n * 7, 0, 'taken' FROM generate_series(0, 2857) g(n)";
    world.sql(taken).await;
    let mut writer = world.client().await.writer().await.unwrap();
    let table = writer.table("account", &[]).await.unwrap();
    // Each key once, in no order.
    let keys: Vec<i32> = (0..20_000).map(|n| n * 7_919 % 20_000).collect();
    let mut written = Vec::new();
    for key in &keys {
        written.push(writer.create(table, account(*key, 1, "new")).await.unwrap());
    }
    for (key, written) in keys.iter().zip(written) {
        match key % 7 {
            0 => assert_eq!(failed(written).await, "23505", "{key}"),
            _ => written.await.unwrap(),
        }
    }
    assert_eq!(writer.acknowledged(), 20_000);
    assert_eq!(world.sql("SELECT count(*), sum(amount) FROM account").await, ["20000|17142"]);
}

/// Which worker has which of the first keys.
async fn keys_of_workers(world: &World) -> BTreeMap<String, Vec<i32>> {
    let buckets = world.sql("SELECT bucket, node FROM thalweg_cluster.buckets").await;
    let owners: HashMap<&str, &str> =
        buckets.iter().filter_map(|row| row.split_once('|')).collect();
    let mut keys: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for key in 0..100 {
        let bucket = bucket_of(&i64::from(key).to_le_bytes()).0.to_string();
        keys.entry(owners[bucket.as_str()].to_owned()).or_default().push(key);
    }
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_message_is_one_workers() {
    let world = World::new().await;
    let keys = keys_of_workers(&world).await;
    let [one, other, ..] = keys.values().collect::<Vec<_>>()[..] else { panic!("{keys:?}") };
    let mut writer = world.client().await.writer().await.unwrap();
    let table = writer.table("account", &[]).await.unwrap();
    let create = |key: i32| table.change(Operation::Create, account(key, 1, "a"));
    let together = writer.atomic(one[..3].iter().map(|key| create(*key)).collect()).await.unwrap();
    together.await.unwrap();
    let taken = vec![create(one[3]), create(one[0]), create(one[4])];
    let taken = writer.atomic(taken).await.unwrap();
    assert_eq!(failed(taken).await, "25P02", "the last fails with the one before it");
    let apart = writer.atomic(vec![create(one[5]), create(other[0])]).await.unwrap();
    assert_eq!(failed(apart).await, "0A000");
    // The stream goes on.
    writer.create(table, account(other[0], 1, "a")).await.unwrap().await.unwrap();
    let mut there: Vec<i32> = one[..3].iter().copied().chain([other[0]]).collect();
    there.sort_unstable();
    let there: Vec<String> = there.iter().map(ToString::to_string).collect();
    assert_eq!(world.sql("SELECT id FROM account ORDER BY id").await, there);
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_those_of_the_owners() {
    let world = World::new().await;
    world.sql("INSERT INTO account SELECT n, n, 'a' FROM generate_series(0, 999) g(n)").await;
    let client = world.client().await;
    let (mut writer, mut searcher) =
        (client.writer().await.unwrap(), client.searcher().await.unwrap());
    let number = searcher.table("account", &[]);
    let found = searcher.look_up(number, (0..1_000).map(id).collect()).await.unwrap();
    world.sql("UPDATE account SET owner = 'b' WHERE id % 3 = 0").await;
    let table = writer.table("account", &[]).await.unwrap();
    let mut written = Vec::new();
    for (key, row) in (0..).zip(found) {
        let row = row.unwrap();
        assert_eq!(row.packed, account(key, key, "a"));
        let change = table.change(Operation::Update, account(key, -1, "c"));
        written.push(writer.change(change.expecting(row.version)).await.unwrap());
    }
    for (key, written) in written.into_iter().enumerate() {
        match key % 3 {
            0 => assert_eq!(failed(written).await, "40001", "{key}"),
            _ => written.await.unwrap(),
        }
    }
    let owners = "SELECT owner, count(*) FROM account GROUP BY owner ORDER BY owner";
    assert_eq!(world.sql(owners).await, ["b|334", "c|666"]);
}

/// Rows of `t`, whose keys are `bigint`.
fn row(key: i64, value: i64) -> Vec<u8> {
    RowWriter::new(2, false).int8(key).int8(value).finish()
}

fn is_of_a_worker(error: &Error) -> bool {
    matches!(error, Error::Refused(failure)
        if failure.sqlstate == "08006" && failure.message.contains("worker "))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_killed_worker_and_the_stream_goes_on() {
    let mut cluster = Processes::start(4).await;
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY, v bigint NOT NULL)").await.unwrap();
    let client = Client::connect(&format!("http://{}", cluster.grpc)).await.unwrap();
    let mut writer = client.writer().await.unwrap();
    let table = writer.table("t", &[]).await.unwrap();
    let mut written = Vec::new();
    for key in 0..30_000 {
        if key == 10_000 {
            // Some are acknowledged, others under way. SIGKILL.
            cluster.workers[2] = None;
        }
        written.push(writer.upsert(table, row(key, 1)).await.unwrap());
    }
    let (mut acknowledged, mut lost) = (Vec::new(), HashSet::new());
    for (key, written) in (0_i64..).zip(written) {
        match written.await {
            Ok(()) => acknowledged.push(key),
            Err(error) if is_of_a_worker(&error) => {
                lost.insert(key);
            }
            Err(error) => panic!("row {key}: {error}"),
        }
    }
    assert_eq!(writer.acknowledged(), 30_000);
    let behind = acknowledged.iter().filter(|key| **key >= 10_000).count();
    assert!(behind > 10_000 && lost.len() > 4_000, "{behind} and {} lost", lost.len());
    let mut searcher = client.searcher().await.unwrap();
    one_worker_fails_its_keys_alone(&client, &acknowledged, &lost).await;
    cluster.restart(2);
    cluster.until_joined(4).await;
    // The same stream writes what was lost.
    let mut again = Vec::new();
    for key in &lost {
        again.push(writer.upsert(table, row(*key, 2)).await.unwrap());
    }
    for written in again {
        written.await.unwrap();
    }
    let number = searcher.table("t", &[]);
    let keys = (0..30_000_i64).map(|key| key.to_le_bytes().to_vec()).collect();
    let rows = searcher.look_up(number, keys).await.unwrap();
    for (key, found) in (0..).zip(rows) {
        let value = if lost.contains(&key) { 2 } else { 1 };
        let found = found.unwrap_or_else(|| panic!("row {key} was acknowledged and is gone"));
        assert_eq!(found.packed, row(key, value));
    }
    let counts = cluster.ask("SELECT count(*) FROM t").await.unwrap();
    assert_eq!(counts, ["30000"]);
}

/// While a worker is away, look-ups of others' keys are answered.
async fn one_worker_fails_its_keys_alone(client: &Client, there: &[i64], lost: &HashSet<i64>) {
    let last_lost = *lost.iter().max().expect("some were lost");
    let keys = [there[there.len() - 1], last_lost];
    let packed = keys.map(|key| key.to_le_bytes().to_vec().into());
    let keys = Keys { packed: packed.to_vec(), ..Keys::default() };
    let tables = announce("t").tables;
    let request = thalweg_client::v1::SearchRequest { tables, keys: vec![keys], ranges: vec![] };
    let mut answers = client.records().search(stream::iter([request])).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    assert_eq!((answer.answered, answer.found.len()), (2, 2));
    assert!(answer.found[0].failure.is_none());
    assert_eq!(answer.found[1].failure.as_ref().unwrap().sqlstate, "08006");
}
