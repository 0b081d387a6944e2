use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use prost::Message as _;
use thalweg_types::{Error, ErrorKind, Result, SqlState};
use tokio::task::JoinHandle;
use tonic::service::Routes;

use super::*;
use crate::chunks::{Cutter, framed, trailers};
use crate::link::{Link, NodeName, ReconnectingLink};
use crate::node::{Chunks, FETCH, NodeServer, ServeOptions, Services};
use crate::tests::*;

/// A gateway that only relays.
struct Relaying {
    worker: ReconnectingLink,
    way: Way,
}

impl Chunks for Relaying {
    fn fetch(&self, question: Bytes) -> BoxFuture<'_, Result<Response<Body>>> {
        Box::pin(async move { Ok(relay(self.worker.call(FETCH, &question).await?, self.way)) })
    }
}

struct Node {
    name: NodeName,
    task: JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn node(chunks: impl Chunks) -> Node {
    let server = NodeServer::bind(anywhere(), ServeOptions::default()).unwrap();
    let name = NodeName { id: 99, address: server.address().unwrap() };
    let services = Services::new(Arc::new(chunks), Routes::default());
    Node { name, task: tokio::spawn(server.serve(services)) }
}

fn gateway(worker: &NodeName, way: Way) -> Node {
    node(Relaying { worker: ReconnectingLink::new(worker.clone(), Arc::new(impatient())), way })
}

async fn link(node: &Node) -> Link {
    Link::connect(node.name.clone(), &impatient()).await.unwrap()
}

async fn messages(mut answer: Answer) -> Result<Vec<Bytes>> {
    let (mut cutter, mut found) = (Cutter::new(64 << 20), Vec::new());
    while let Some(piece) = answer.piece().await? {
        cutter.feed(&piece, |message| {
            found.push(message.to_bytes());
            Ok::<_, Error>(())
        })?;
    }
    Ok(found)
}

#[tokio::test]
async fn a_client_gets_what_the_worker_sent() {
    let worker = TestWorker::start(1);
    let gateway = gateway(&worker.name, Way::Unopened);
    for bytes in [0, 10, 3_000, 600_000] {
        let wanted = Wanted { messages: 20, bytes, end: End::Well };
        let answer = link(&gateway).await.call(FETCH, &wanted.question()).await.unwrap();
        let expected: Vec<Vec<u8>> = (0..20).map(|number| message(number, bytes)).collect();
        assert_eq!(messages(answer).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn an_error_of_the_worker_is_the_clients() {
    let worker = TestWorker::start(1);
    let gateway = gateway(&worker.name, Way::Unopened);
    let wanted = Wanted { messages: 3, bytes: 10, end: End::Badly };
    let answer = link(&gateway).await.call(FETCH, &wanted.question()).await.unwrap();
    let error = messages(answer).await.unwrap_err();
    assert_eq!(error.state(), SqlState::DIVISION_BY_ZERO);
}

#[tokio::test]
async fn a_worker_that_is_lost_is_an_error_at_the_client() {
    for state in [WireState::Cut, WireState::Dead] {
        let worker = TestWorker::start(7);
        let wire = Wire::to(&worker.name).await;
        let gateway = gateway(&wire.name, Way::Unopened);
        let wanted = Wanted { messages: 3, bytes: 10, end: End::Never };
        let mut answer = link(&gateway).await.call(FETCH, &wanted.question()).await.unwrap();
        answer.piece().await.unwrap();
        wire.set(state);
        let error = answer.piece().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains("worker 7"), "{error}");
    }
}

#[tokio::test]
async fn a_client_that_stops_reading_stops_the_worker() {
    let worker = TestWorker::start(1);
    let gateway = gateway(&worker.name, Way::Unopened);
    let wanted = Wanted { messages: u64::MAX, bytes: 10_000, end: End::Never };
    let mut answer = link(&gateway).await.call(FETCH, &wanted.question()).await.unwrap();
    answer.piece().await.unwrap();
    let written = || worker.counters.written_bytes.load(Ordering::Relaxed);
    // The worker has stopped when it has written nothing for several ticks.
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(200));
    let (mut before, mut still) = (0, 0);
    while still < 3 {
        ticks.tick().await;
        still = if written() == before { still + 1 } else { 0 };
        before = written();
        assert!(before < 64 << 20, "the worker goes on for nobody");
    }
    // It goes on when the client does.
    for _ in 0..400 {
        answer.piece().await.unwrap();
    }
    until("the worker goes on", || written() > before).await;
    drop(answer);
    until("the worker stops", || worker.counters.open.load(Ordering::Relaxed) == 0).await;
}

#[tokio::test]
async fn a_client_without_grpc_gets_the_contents() {
    let worker = TestWorker::start(1);
    let link = Link::connect(worker.name.clone(), &impatient()).await.unwrap();
    let wanted = Wanted { messages: 50, bytes: 30_000, end: End::Well };
    let mut client = Vec::new();
    let answer = link.call(FETCH, &wanted.question()).await.unwrap();
    let written = write_messages(answer, &mut client).await.unwrap();
    let expected: Vec<u8> = (0..50).flat_map(|number| message(number, 30_000)).collect();
    assert_eq!((written, client), (1_500_000, expected));
    let bad = Wanted { end: End::Badly, ..wanted };
    let answer = link.call(FETCH, &bad.question()).await.unwrap();
    assert!(write_messages(answer, &mut Vec::new()).await.is_err());
}

/// Answers with batches, as a worker does for Flight clients.
struct Batches {
    batches: Vec<RecordBatch>,
    asked: AtomicUsize,
}

impl Chunks for Batches {
    fn fetch(&self, _: Bytes) -> BoxFuture<'_, Result<Response<Body>>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let batches = stream::iter(self.batches.clone().into_iter().map(Ok));
        let encoded = FlightDataEncoderBuilder::new().build(batches);
        let frames = encoded.map_ok(|data| hyper::body::Frame::data(framed(&data.encode_to_vec())));
        let end = stream::iter([Ok(hyper::body::Frame::trailers(trailers(Ok(()))))]);
        let body = StreamBody(frames.chain(end).boxed());
        Box::pin(async { Ok(crate::node::answer(Body::new(body))) })
    }
}

type Frames = stream::BoxStream<'static, Result<hyper::body::Frame<Bytes>, FlightError>>;

struct StreamBody(Frames);

impl hyper::body::Body for StreamBody {
    type Data = Bytes;
    type Error = FlightError;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, FlightError>>> {
        self.0.poll_next_unpin(context)
    }
}

#[tokio::test]
async fn both_ways_give_a_client_the_same_rows() {
    let batch = |from: i64| {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 5_000));
        let texts = (from..from + 5_000).map(|number| format!("text {number}"));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap()
    };
    let batches: Vec<RecordBatch> = (0..4).map(|place| batch(place * 5_000)).collect();
    let worker = node(Batches { batches: batches.clone(), asked: AtomicUsize::new(0) });
    for way in [Way::Unopened, Way::Recoded] {
        let gateway = gateway(&worker.name, way);
        let answer = link(&gateway).await.call(FETCH, b"").await.unwrap();
        let found = messages(answer).await.unwrap().into_iter();
        let data = found.map(|message| FlightData::decode(message).map_err(FlightError::from));
        let rows = FlightRecordBatchStream::new_from_flight_data(stream::iter(data));
        let rows: Vec<RecordBatch> = rows.try_collect().await.unwrap();
        assert_eq!(rows, batches, "{way:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_decoded_is_an_error() {
    let worker = TestWorker::start(1);
    let gateway = gateway(&worker.name, Way::Recoded);
    let wanted = Wanted { messages: 3, bytes: 100, end: End::Well };
    let answer = link(&gateway).await.call(FETCH, &wanted.question()).await.unwrap();
    assert_eq!(messages(answer).await.unwrap_err().state(), SqlState::PROTOCOL_VIOLATION);
}
