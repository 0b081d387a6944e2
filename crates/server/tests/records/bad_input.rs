//! What is wrong hurts nobody but who sent it, and is told exactly.

use futures::{StreamExt, stream};
use thalweg_client::v1::{Operation, Rows, WriteRequest, WriteResponse};
use thalweg_protocol::{put_prefix, v1};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tower::ServiceExt as _;

use crate::support::{World, account, announce, codes, config, id, int, packed, text, values};

async fn write(world: &World, requests: Vec<WriteRequest>) -> Vec<WriteResponse> {
    let mut records = world.client().await.records();
    let replies = records.write(stream::iter(requests)).await.unwrap().into_inner();
    replies.map(Result::unwrap).collect().await
}

/// Each failure's place and SQLSTATE.
fn failures(replies: &[WriteResponse]) -> Vec<(u64, String)> {
    let all = replies.iter().flat_map(|reply| &reply.failures);
    all.map(|failure| (failure.index, failure.sqlstate.clone())).collect()
}

fn failed(index: u64, sqlstate: &str) -> (u64, String) {
    (index, sqlstate.to_owned())
}

#[tokio::test]
async fn unknown_tables_and_columns_fail_their_rows_alone() {
    let world = World::new().await;
    world.sql("CREATE TABLE keyless (id integer)").await;
    world.sql("CREATE VIEW seen AS SELECT 1 AS id").await;
    for (name, columns, sqlstate) in [
        ("nowhere", vec![], "42P01"),
        ("nospace.account", vec![], "3F000"),
        ("a.b.c.d", vec![], "42601"),
        ("", vec![], "08P01"),
        ("account", vec!["nothing"], "42703"),
        ("account", vec!["id", "id"], "42701"),
        ("keyless", vec![], "55000"),
        ("seen", vec![], "42809"),
    ] {
        let mut request = announce(name);
        request.tables[0].columns = columns.into_iter().map(str::to_owned).collect();
        let mut known = announce("account").tables.remove(0);
        known.number = 1;
        request.tables.push(known);
        let rows =
            |table| Rows { table, packed: vec![account(1, 1, "a").into()], ..Rows::default() };
        request.rows = vec![rows(0), rows(1), rows(2)];
        let replies = write(&world, vec![request]).await;
        assert_eq!(replies.last().unwrap().durable, 3, "{name}");
        assert_eq!(failures(&replies), [failed(0, sqlstate), failed(2, "08P01")], "{name}");
    }
}

#[tokio::test]
async fn wrong_values_fail_their_rows_alone() {
    let world = World::new().await;
    let rows = [
        account(1, 1, "a"),
        account(2, 2, "zero\0"),
        id(3),
        [account(4, 4, "d"), vec![0]].concat(),
        vec![],
        account(6, 6, "f"),
    ];
    let replies = write(&world, vec![announce("account"), packed(rows)]).await;
    let expected = [failed(1, "22021"), failed(2, "22P03"), failed(3, "22P03"), failed(4, "22P03")];
    assert_eq!(failures(&replies), expected);
    assert_eq!(world.sql("SELECT id FROM account ORDER BY id").await, ["1", "6"]);
}

/// A row without bytes takes two bytes of a message, and what is told of it a hundred.
#[tokio::test]
async fn a_stream_ends_where_more_rows_are_refused_than_are_told() {
    let world = World::new().await;
    world.sql("CREATE TABLE keyless (id integer)").await;
    for (table, sqlstate) in [("account", "22P03"), ("keyless", "55000"), ("nowhere", "42P01")] {
        let few = vec![announce(table), packed(vec![Vec::new(); 5_000])];
        let replies = write(&world, few).await;
        assert_eq!(failures(&replies).len(), 5_000, "{table}");
        assert_eq!(failures(&replies)[4_999], failed(4_999, sqlstate));

        let many = vec![announce(table), packed(vec![Vec::new(); 100_000])];
        let mut records = world.client().await.records();
        let replies = records.write(stream::iter(many)).await.unwrap().into_inner();
        let replies: Vec<_> = replies.collect().await;
        let ended = replies.last().unwrap().as_ref().unwrap_err();
        assert_eq!(ended.metadata().get("sqlstate").unwrap(), sqlstate, "{table}: {ended:?}");
    }
    let replies = write(&world, vec![announce("account"), packed([account(1, 1, "a")])]).await;
    assert_eq!(replies.last().unwrap().durable, 1);
}

#[tokio::test]
async fn rows_without_their_key_fail_alone() {
    let world = World::new().await;
    let whole = || values([int(1), int(1), text("a")]);
    let nobodys = || values([None, int(1), text("a")]);
    let key_only = Operation::Remove.into();
    let short = || values([int(1), int(1)]);
    let mut request = announce("account");
    request.rows = vec![
        Rows { values: vec![whole(), nobodys(), short()], ..Rows::default() },
        Rows { operation: key_only, values: vec![values([None]), whole()], ..Rows::default() },
    ];
    let replies = write(&world, vec![request]).await;
    let expected = [failed(1, "23502"), failed(2, "08P01"), failed(3, "23502"), failed(4, "08P01")];
    assert_eq!(failures(&replies), expected);
    assert_eq!(world.sql("SELECT id FROM account").await, ["1"]);
}

#[tokio::test]
async fn a_stream_that_ends_within_a_message_says_how_many_rows_are_written() {
    let world = World::new().await;
    let mut body = Vec::new();
    let rows = packed([account(1, 1, "a"), account(2, 2, "b")]);
    for message in [announce("account"), rows, packed([account(3, 3, "c")])] {
        let message = prost::Message::encode_to_vec(&message);
        body.extend(put_prefix(message.len()));
        body.extend(message);
    }
    body.pop();
    let channel = Endpoint::from_shared(world.url()).unwrap().connect().await.unwrap();
    let request = hyper::Request::post("/thalweg.v1.Records/Upsert")
        .header("content-type", "application/grpc")
        .body(tonic::body::Body::new(axum::body::Body::from(body)))
        .unwrap();
    let response = channel.oneshot(request).await.unwrap();
    let told = |name: &str| response.headers().get(name).unwrap().to_str().unwrap().to_owned();
    let ended = ["grpc-status", "sqlstate", "record-written"].map(told);
    assert_eq!(ended, ["3", "08P01", "2"]);
    assert_eq!(world.sql("SELECT id FROM account ORDER BY id").await, ["1", "2"]);
}

/// Bytes as they are, in place of messages.
#[derive(Clone, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = WriteResponse;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, bytes: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(out, &bytes);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = WriteResponse;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<WriteResponse>, Status> {
        let response = prost::Message::decode(bytes);
        response.map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

async fn raw(world: &World, messages: Vec<Vec<u8>>) -> Result<Streaming<WriteResponse>, Status> {
    let channel: Channel = Endpoint::from_shared(world.url()).unwrap().connect().await.unwrap();
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let path = "/thalweg.v1.Records/Write".parse().unwrap();
    let replies = grpc.streaming(Request::new(stream::iter(messages)), path, Raw).await;
    replies.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn a_malformed_message_ends_the_stream_behind_the_rows_before_it() {
    let world = World::new().await;
    for malformed in [
        vec![0x1A, 200],
        vec![0xFF; 12],
        vec![0x08],
        b"\x12\x03\x12\x05a".to_vec(),
        prost::Message::encode_to_vec(&WriteRequest {
            rows: vec![Rows {
                packed: vec![id(1).into()],
                values: vec![v1::Values::default()],
                ..Rows::default()
            }],
            ..announce("account")
        }),
    ] {
        let before = packed([account(1, 1, "a"), account(2, 2, "b")]);
        let before = [announce("account"), before].map(|m| prost::Message::encode_to_vec(&m));
        let messages = [before.to_vec(), vec![malformed.clone()]].concat();
        let mut replies = raw(&world, messages).await.unwrap();
        let mut durable = 0;
        let status = loop {
            match replies.message().await {
                Ok(reply) => durable = reply.expect("it ends with an error").durable,
                Err(status) => break status,
            }
        };
        assert_eq!(durable, 2, "{malformed:?}");
        assert_eq!(codes(&status), (Code::InvalidArgument, "08P01".to_owned()));
    }
    assert_eq!(world.sql("SELECT count(*) FROM account").await, ["2"]);
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_the_stream() {
    let mut config = config();
    config.limits.record_message_bytes = 1_000;
    let world = World::empty(config).await;
    world.sql(crate::support::ACCOUNT).await;
    let long = packed([account(1, 1, &"x".repeat(1_000))]);
    let mut records = world.client().await.records();
    let requests = stream::iter([announce("account"), long]);
    let status = records.upsert(requests).await.unwrap_err();
    assert_eq!(codes(&status), (Code::InvalidArgument, "08P01".to_owned()));
}

#[tokio::test]
async fn a_stream_that_is_cut_leaves_what_was_acknowledged() {
    let world = World::new().await;
    let client = world.client().await;
    let (sender, requests) = mpsc::channel(8);
    let replies = client.records().write(ReceiverStream::new(requests)).await.unwrap();
    let mut replies = replies.into_inner();
    sender.send(announce("account")).await.unwrap();
    sender.send(packed((0..100).map(|n| account(n, n, "a")))).await.unwrap();
    while replies.message().await.unwrap().unwrap().durable < 100 {}
    drop((replies, sender, client));
    let mut writer = world.client().await.writer().await.unwrap();
    let table = writer.table("account", &[]).await.unwrap();
    writer.create(table, account(100, 0, "b")).await.unwrap().await.unwrap();
    assert_eq!(world.sql("SELECT count(*) FROM account").await, ["101"]);
}

#[tokio::test]
async fn a_client_that_reads_no_replies_holds_up_nobody() {
    let mut config = config();
    config.limits.record_bytes = 64 << 10;
    let world = World::empty(config).await;
    world.sql(crate::support::ACCOUNT).await;
    let silent = world.client().await;
    let (sender, requests) = mpsc::channel(1);
    let unread = silent.records().write(ReceiverStream::new(requests)).await.unwrap();
    sender.send(announce("account")).await.unwrap();
    for group in 0..200 {
        let rows = (0..100).map(|n| account(group * 100 + n, 0, &"y".repeat(100)));
        let sent = tokio::time::timeout(SOON, sender.send(packed(rows))).await;
        if sent.is_err() {
            break;
        }
    }
    let mut writer = world.client().await.writer().await.unwrap();
    let table = writer.table("account", &[]).await.unwrap();
    for n in 0..100 {
        writer.upsert(table, account(-n, 0, "z")).await.unwrap();
    }
    writer.flush().await.unwrap();
    drop(unread);
}

/// Long enough for whoever gets on at all.
const SOON: std::time::Duration = std::time::Duration::from_millis(500);
