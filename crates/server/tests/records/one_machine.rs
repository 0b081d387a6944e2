//! What is promised of one machine alone: see the cluster's tests for what several do.

use thalweg_client::{Error, Operation, RowWriter, Written};

use crate::support::{World, account, id};

async fn failed(written: Written) -> String {
    match written.await.unwrap_err() {
        Error::Refused(failure) => failure.sqlstate,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn an_atomic_message_is_written_whole_or_not_at_all() {
    let world = World::new().await;
    world.sql("CREATE TABLE other (id integer PRIMARY KEY)").await;
    let mut writer = world.client().await.writer().await.unwrap();
    let table = writer.table("account", &[]).await.unwrap();
    let other = writer.table("other", &[]).await.unwrap();
    writer.create(table, account(1, 1, "a")).await.unwrap();
    let create = |n| table.change(Operation::Create, account(n, 2, "b"));
    let both = vec![create(2), other.change(Operation::Create, id(2)), create(1)];
    let refused = writer.atomic(both).await.unwrap();
    let remove = table.change(Operation::Remove, id(1));
    let written = writer.atomic(vec![remove, create(1), create(3)]).await.unwrap();
    assert_eq!(failed(refused).await, "23505");
    written.await.unwrap();
    assert!(writer.flush().await.is_err(), "the others of the group failed with it");
    assert_eq!(world.sql("SELECT id, amount FROM account ORDER BY id").await, ["1|2", "3|2"]);
    assert!(world.sql("SELECT * FROM other").await.is_empty());
}

#[tokio::test]
async fn further_unique_keys_hold() {
    let world = World::new().await;
    world.sql("CREATE TABLE pair (a integer PRIMARY KEY, b integer NOT NULL UNIQUE)").await;
    let mut writer = world.client().await.writer().await.unwrap();
    let table = writer.table("pair", &[]).await.unwrap();
    let row = |a, b| RowWriter::new(2, false).int4(a).int4(b).finish();
    writer.upsert(table, row(1, 1)).await.unwrap();
    writer.upsert(table, row(2, 2)).await.unwrap();
    let taken = writer.upsert(table, row(1, 2)).await.unwrap();
    writer.upsert(table, row(1, 3)).await.unwrap();
    let free = writer.upsert(table, row(2, 1)).await.unwrap();
    free.await.unwrap();
    assert_eq!(failed(taken).await, "23505");
    assert_eq!(world.sql("SELECT * FROM pair ORDER BY a").await, ["1|3", "2|1"]);
}
