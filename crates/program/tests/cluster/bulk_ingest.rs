//! Rows that come into a cluster in bulk: over `COPY`, and over Flight SQL.

use std::io::Cursor;
use std::pin::pin;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{
    CommandStatementIngest, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
};
use futures::{SinkExt as _, stream};
use thalweg::SqlState;
use tokio_postgres::Client;
use tonic::transport::Endpoint;

use super::processes::{connect, error_text};
use super::support::*;

/// So many rows are there, and each worker has its share.
async fn are_dealt_out(world: &World, rows: u64) {
    let shares = "SELECT sum(rows), count(*) FILTER (WHERE rows > 1000) FROM thalweg_cluster.nodes";
    assert_eq!(world.sql(shares).await, [format!("{rows}|4")]);
}

/// Copies lines; how many rows came in, or what was said.
pub async fn copy(client: &Client, lines: impl IntoIterator<Item = String>) -> Result<u64, String> {
    let sink = client.copy_in::<_, Cursor<Vec<u8>>>("COPY account FROM STDIN").await.unwrap();
    let mut sink = pin!(sink);
    for line in lines {
        sink.send(Cursor::new(line.into_bytes())).await.unwrap();
    }
    sink.finish().await.map_err(|error| error_text(&error))
}

#[tokio::test(flavor = "multi_thread")]
async fn copied_rows_go_to_their_owners_all_or_none() {
    let world = World::new().await;
    let client = connect(&world.server.addresses().postgres.to_string()).await;
    let line = |id: u32| format!("{id}\t1\towner {id}\n");
    assert_eq!(copy(&client, (0..10_000).map(line)).await, Ok(10_000));
    are_dealt_out(&world, 10_000).await;
    let refused = copy(&client, (20_000..20_100).chain([5]).map(line)).await.unwrap_err();
    assert!(refused.contains("duplicate key"), "{refused}");
    are_dealt_out(&world, 10_000).await;
    assert_eq!(world.sql("SELECT owner FROM account WHERE id = 77").await, ["owner 77"]);
}

/// More rows than a gateway gathers before it sends some ahead.
const MANY: u32 = 300_000;

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_went_ahead_are_seen_once_all_are_there() {
    let world = World::new().await;
    let client = connect(&world.server.addresses().postgres.to_string()).await;
    let name = "o".repeat(400);
    let line = |id: u32| format!("{id}\t1\t{name}{id}\n");
    assert_eq!(copy(&client, [line(MANY)]).await, Ok(1));
    let sink = client.copy_in::<_, Cursor<Vec<u8>>>("COPY account FROM STDIN").await.unwrap();
    {
        let mut sink = pin!(sink);
        for id in 0..MANY {
            sink.send(Cursor::new(line(id).into_bytes())).await.unwrap();
        }
        assert_eq!(world.sql("SELECT count(*) FROM account").await, ["1"]);
        // Nobody finishes it.
    }
    let refused = copy(&client, (0..=MANY).map(line)).await.unwrap_err();
    assert!(refused.contains("duplicate key"), "{refused}");
    assert_eq!(world.sql("SELECT count(*) FROM account").await, ["1"]);
    assert_eq!(copy(&client, (0..MANY).map(line)).await, Ok(u64::from(MANY)));
    are_dealt_out(&world, u64::from(MANY) + 1).await;
    let last = format!("SELECT length(owner) FROM account WHERE id = {}", MANY - 1);
    assert_eq!(world.sql(&last).await, ["406"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_files_and_queries_go_ahead_all_or_none() {
    let world = World::new().await;
    let mut session = world.cluster.session();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("accounts.csv");
    let many = format!(
        "SELECT id, 1 AS amount, repeat('o', 400) || id AS owner \
         FROM generate_series(0, {}) AS s(id)",
        MANY - 1,
    );
    done(&mut session, &format!("COPY ({many}) TO '{}'", path.display())).await;
    let load = format!("COPY account FROM '{}'", path.display());
    let insert = format!("INSERT INTO account (id, amount, owner) {many}");
    let part = format!("WITH added AS ({insert}) SELECT 1");
    for statement in [&load, &insert, &part] {
        done(&mut session, &format!("INSERT INTO account VALUES ({}, 1, 'x')", MANY - 1)).await;
        let refused = rows(&mut session, statement).await.unwrap_err();
        assert_eq!(refused.state(), SqlState::UNIQUE_VIOLATION, "{refused}");
        assert_eq!(rows(&mut session, "SELECT count(*) FROM account").await.unwrap(), ["1"]);
        done(&mut session, "DELETE FROM account").await;
        done(&mut session, statement).await;
        are_dealt_out(&world, u64::from(MANY)).await;
        let sum = "SELECT sum(id), min(length(owner)), max(length(owner)) FROM account";
        let total = u64::from(MANY) * u64::from(MANY - 1) / 2;
        assert_eq!(rows(&mut session, sum).await.unwrap(), [format!("{total}|401|406")]);
        done(&mut session, "DELETE FROM account").await;
    }
    // In a block, rows wait for its end.
    done(&mut session, "BEGIN").await;
    let few = "INSERT INTO account SELECT id, 1, 'o' FROM generate_series(1, 10) AS s(id)";
    done(&mut session, few).await;
    assert_eq!(world.sql("SELECT count(*) FROM account").await, ["0"]);
    done(&mut session, "ROLLBACK").await;
    assert_eq!(world.sql("SELECT count(*) FROM account").await, ["0"]);
}

const BATCHES: i64 = 4;
const BATCH_ROWS: i64 = 25_000;

fn batch(number: i64) -> Result<RecordBatch, FlightError> {
    let first = number * BATCH_ROWS;
    let numbers = Int64Array::from_iter_values(first..first + BATCH_ROWS);
    let names = StringArray::from_iter_values(numbers.values().iter().map(|n| format!("name {n}")));
    let columns: [(&str, ArrayRef); 2] = [("n", Arc::new(numbers)), ("name", Arc::new(names))];
    Ok(RecordBatch::try_from_iter(columns).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn ingested_rows_come_with_their_table() {
    let world = World::new().await;
    let address = format!("http://{}", world.server.addresses().grpc);
    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    let mut client = FlightSqlServiceClient::new(channel);
    client.handshake("thalweg", "").await.unwrap();
    let options = TableDefinitionOptions {
        if_not_exist: TableNotExistOption::Create as i32,
        if_exists: TableExistsOption::Append as i32,
    };
    let command = CommandStatementIngest {
        table_definition_options: Some(options),
        table: "numbers".to_owned(),
        ..CommandStatementIngest::default()
    };
    let (rows, mut there) = (BATCHES * BATCH_ROWS, 0);
    for _ in 0..2 {
        let batches = stream::iter((0..BATCHES).map(batch));
        assert_eq!(client.execute_ingest(command.clone(), batches).await.unwrap(), rows);
        there += rows;
        are_dealt_out(&world, there.unsigned_abs()).await;
    }
    let counted = "SELECT count(*), count(DISTINCT name), max(n) FROM numbers";
    assert_eq!(world.sql(counted).await, [format!("{there}|{rows}|{}", rows - 1)]);
}
