use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use prost::Message as _;
use thalweg_cluster::chunks::{Cutter, framed, trailers};
use thalweg_cluster::link::{Link, LinkOptions, NodeName, ReconnectingLink};
use thalweg_cluster::node::{Chunks, FETCH, NodeServer, ServeOptions, Services};
use thalweg_types::{Error, Result};
use tokio::task::JoinHandle;
use tonic::service::Routes;

use super::*;
use crate::nodes::local;

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
    let server = NodeServer::bind(local(0), ServeOptions::default()).unwrap();
    let name = NodeName { id: 99, address: server.address().unwrap() };
    let services = Services::new(Arc::new(chunks), Routes::default());
    Node { name, task: tokio::spawn(server.serve(services)) }
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

/// Answers with batches, as a worker does for Flight clients.
struct Batches(Vec<RecordBatch>);

impl Chunks for Batches {
    fn fetch(&self, _: Bytes) -> BoxFuture<'_, Result<Response<Body>>> {
        let batches = stream::iter(self.0.clone().into_iter().map(Ok));
        let encoded = FlightDataEncoderBuilder::new().build(batches);
        let frames = encoded.map_ok(|data| hyper::body::Frame::data(framed(&data.encode_to_vec())));
        let end = stream::iter([Ok(hyper::body::Frame::trailers(trailers(Ok(()))))]);
        let body = StreamBody(frames.chain(end).boxed());
        Box::pin(async { Ok(thalweg_cluster::node::answer(Body::new(body))) })
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
    let worker = node(Batches(batches.clone()));
    for way in [Way::Unopened, Way::Recoded] {
        let worker = ReconnectingLink::new(worker.name.clone(), Arc::new(LinkOptions::default()));
        let gateway = node(Relaying { worker, way });
        let link = Link::connect(gateway.name.clone(), &LinkOptions::default()).await.unwrap();
        let answer = link.call(FETCH, b"").await.unwrap();
        let found = messages(answer).await.unwrap().into_iter();
        let data = found.map(|message| FlightData::decode(message).map_err(FlightError::from));
        let rows = FlightRecordBatchStream::new_from_flight_data(stream::iter(data));
        let rows: Vec<RecordBatch> = rows.try_collect().await.unwrap();
        assert_eq!(rows, batches, "{way:?}");
    }
}
