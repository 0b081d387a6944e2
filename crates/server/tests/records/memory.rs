//! Streams that wait: for memory, and for clients that do not read.

use futures::future::join_all;
use futures::{StreamExt, stream};
use thalweg_client::v1::WriteRequest;
use thalweg_client::v1::records_client::RecordsClient;
use thalweg_client::{Client, Operation};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;

use crate::support::{ACCOUNT, World, account, announce, config, id, packed};

const ROWS: i32 = 2_000;

/// Writes rows with keys from `first` on, each in a message that is written whole or not at all.
async fn write_atomic(client: Client, first: i32) -> u64 {
    let atomic = |key| WriteRequest { atomic: true, ..packed([account(key, 1, "a")]) };
    let mut requests = vec![announce("account")];
    requests.extend((first..first + ROWS).map(atomic));
    let mut records = client.records();
    let replies = records.write(stream::iter(requests)).await.unwrap().into_inner();
    let durable: Vec<u64> = replies.map(|reply| reply.unwrap().durable).collect().await;
    durable.last().copied().unwrap_or(0)
}

#[tokio::test]
async fn streams_wait_neither_for_themselves_nor_for_each_other() {
    let mut config = config();
    // A read brings hundreds of groups that together take more, and some are longer alone.
    config.limits.record_bytes = 8 << 10;
    let world = World::empty(config).await;
    world.sql(ACCOUNT).await;
    let mut streams = Vec::new();
    for number in 0..6 {
        streams.push(write_atomic(world.client().await, number * ROWS));
    }
    assert_eq!(join_all(streams).await, [ROWS as u64; 6]);
    let mut records = world.client().await.records();
    let long = packed((0..6 * ROWS).map(|key| account(key, 2, "longer than before")));
    let requests = stream::iter([announce("account"), long]);
    assert_eq!(records.update(requests).await.unwrap().into_inner().rows, 6 * ROWS as u64);
    assert_eq!(world.sql("SELECT count(*), sum(amount) FROM account").await, ["12000|24000"]);
}

#[tokio::test]
async fn a_stream_whose_client_reads_nothing_can_be_ended() {
    let world = World::new().await;
    let endpoint = Endpoint::from_shared(world.url()).unwrap();
    let endpoint = endpoint.initial_stream_window_size(64 << 10);
    let mut deaf = RecordsClient::new(endpoint.connect().await.unwrap());
    let (sender, requests) = mpsc::channel(100);
    sender.send(announce("account")).await.unwrap();
    let unread = deaf.write(ReceiverStream::new(requests)).await.unwrap();
    // Each of these rows is told to have failed.
    for _ in 0..30 {
        let mut missing = packed((0..1_000).map(id));
        missing.rows[0].operation = Operation::Remove.into();
        sender.send(missing).await.unwrap();
    }
    let mut writer = world.client().await.writer().await.unwrap();
    let table = writer.table("account", &[]).await.unwrap();
    for amount in 0..100 {
        writer.upsert(table, account(1, amount, "a")).await.unwrap().await.unwrap();
    }
    drop(writer);
    let listed = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'thalweg.v1%'";
    while world.sql(listed).await != ["1"] {}
    let end = listed.replace("count(*)", "pg_terminate_backend(pid)");
    assert_eq!(world.sql(&end).await.len(), 1);
    while world.sql(listed).await != ["0"] {}
    drop((unread, sender));
}
