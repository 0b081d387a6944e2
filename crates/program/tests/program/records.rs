//! Records of a server that is killed: what was acknowledged is there, and nothing else.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use thalweg_client::v1::{Rows, Table, WriteRequest};
use thalweg_client::{Client, RowWriter};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::run::{command, sql_on, text};

const KEYS: u64 = 100;
const MESSAGE_ROWS: u64 = 50;
/// How often the server is killed, and after how many acknowledged rows.
const KILLS: [u64; 3] = [1, 5_000, 60_000];

/// A server, and the address of its records.
pub fn serve(data: &Path) -> (Child, String) {
    let ports = ["--postgres-port=0", "--grpc-port=0", "--http-port=0"];
    let arguments = [&["serve", "--data", text(data)][..], &ports].concat();
    let mut server = command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut address = None;
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    for line in lines.by_ref() {
        let line = line.unwrap();
        if let Some(grpc) = line.strip_prefix("Flight SQL, records ") {
            address = Some(format!("http://{grpc}"));
        }
        if line.starts_with("Ready.") {
            break;
        }
    }
    // What is told later goes nowhere, and does not stop the server.
    std::mem::forget(lines);
    (server, address.expect("a server tells where it listens"))
}

/// Row `number` is about key `number % KEYS`: the last one of each counts.
fn message(first: u64) -> WriteRequest {
    let mut row = RowWriter::new(2, false);
    let packed = (first..first + MESSAGE_ROWS)
        .map(|number| row.int8((number % KEYS) as i64).int8(number as i64).finish().into());
    let rows = Rows { packed: packed.collect(), ..Rows::default() };
    WriteRequest { rows: vec![rows], ..WriteRequest::default() }
}

/// Writes until so many rows are acknowledged, kills the server, and returns how many were
/// acknowledged, and how many sent, at most.
async fn write_and_kill(client: Client, mut server: Child, rows: u64) -> (u64, u64) {
    let (sender, requests) = mpsc::channel(64);
    let replies = client.records().write(ReceiverStream::new(requests)).await.unwrap();
    let mut replies = replies.into_inner();
    let load = tokio::spawn(async move {
        let name = "counter".to_owned();
        let table = Table { number: 0, name, columns: Vec::new() };
        let announced = WriteRequest { tables: vec![table], ..WriteRequest::default() };
        let mut sent = 0;
        if sender.send(announced).await.is_ok() {
            while sender.send(message(sent)).await.is_ok() {
                sent += MESSAGE_ROWS;
            }
        }
        sent + MESSAGE_ROWS
    });
    let mut durable = 0;
    let mut killed = false;
    while let Ok(Some(reply)) = replies.message().await {
        assert!(reply.failures.is_empty(), "{reply:?}");
        durable = reply.durable;
        if durable >= rows && !killed {
            server.kill().unwrap();
            killed = true;
        }
    }
    assert!(killed, "only the killing ends the stream");
    server.wait().unwrap();
    drop(replies);
    (durable, load.await.unwrap())
}

#[test]
fn a_killed_server_keeps_what_it_acknowledged() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for rows in KILLS {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        sql_on(&data, "CREATE TABLE counter (key bigint PRIMARY KEY, number bigint NOT NULL)");
        let (server, address) = serve(&data);
        let (durable, sent) = runtime.block_on(async {
            let client = Client::connect(&address).await.unwrap();
            write_and_kill(client, server, rows).await
        });
        let all = "COPY (SELECT key, number FROM counter) TO STDOUT (FORMAT csv)";
        let kept = sql_on(&data, all);
        let mut numbers = vec![None; KEYS as usize];
        for line in kept.lines() {
            let (key, number) = line.split_once(',').unwrap();
            numbers[key.parse::<usize>().unwrap()] = Some(number.parse::<u64>().unwrap());
        }
        for (key, number) in (0..KEYS).zip(numbers) {
            // The last acknowledged row with this key.
            let acknowledged = (0..durable).rev().find(|number| number % KEYS == key);
            assert!(number >= acknowledged, "key {key}: {number:?}, {acknowledged:?}");
            assert!(number.is_none_or(|number| number < sent && number % KEYS == key));
        }
    }
}
