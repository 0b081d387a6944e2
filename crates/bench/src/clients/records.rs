//! The record API at its limits: rows encoded ahead, so that the load costs its core little, and
//! acknowledgements followed as they come.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context as Poller, Poll};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper::body::Frame;
use prost::Message as _;
use thalweg_protocol::{Messages, PREFIX_BYTES, RowWriter, put_prefix, v1};
use thalweg_types::{Error, Result};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tonic::body::Body;
use tonic::client::GrpcService as _;
use tonic::codegen::http;
use tonic::transport::{Channel, Endpoint};

use crate::errors::while_doing;

/// Pieces of a body that may be under way between the load and its connection.
const PIECES_AHEAD: usize = 8;

type Answer =
    BoxFuture<'static, std::result::Result<http::Response<Body>, tonic::transport::Error>>;

/// A stream of the record API, spoken in bytes.
pub struct RecordStream {
    pieces: Option<Sender<Bytes>>,
    /// Until the server has begun to answer.
    answer: Option<Answer>,
    replies: Body,
    messages: Messages,
    ready: VecDeque<Vec<u8>>,
}

impl RecordStream {
    /// Opens a call.
    pub async fn open(port: u16, call: &str) -> Result<RecordStream> {
        let failed = || format!("opening {call}");
        let address = Endpoint::from_shared(format!("http://127.0.0.1:{port}"));
        let endpoint = address.map_err(while_doing(failed()))?.tcp_nodelay(true);
        let endpoint =
            endpoint.initial_stream_window_size(4 << 20).initial_connection_window_size(16 << 20);
        let mut channel: Channel = endpoint.connect().await.map_err(while_doing(failed()))?;
        let (pieces, waiting) = channel_of_pieces();
        let request = http::Request::post(format!(
            "http://127.0.0.1:{port}/{}/{call}",
            thalweg_protocol::SERVICE
        ))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Upload(waiting)))
        .map_err(while_doing(failed()))?;
        std::future::poll_fn(|context| channel.poll_ready(context))
            .await
            .map_err(while_doing(failed()))?;
        Ok(RecordStream {
            pieces: Some(pieces),
            answer: Some(channel.call(request).boxed()),
            replies: Body::empty(),
            messages: Messages::new(64 << 20),
            ready: VecDeque::new(),
        })
    }

    /// Where pieces of the body go, to be used beside [`reply`](Self::reply). The body ends when it
    /// is dropped.
    ///
    /// Panics the second time.
    pub fn pieces(&mut self) -> Sender<Bytes> {
        self.pieces.take().expect("the body has one source")
    }

    /// The next reply's bytes; nothing at the end.
    pub async fn reply(&mut self) -> Result<Option<Vec<u8>>> {
        if let Some(answer) = &mut self.answer {
            let answer = answer.await.map_err(while_doing("reading replies"))?;
            self.answer = None;
            if let Some(status) = answer.headers().get("grpc-message") {
                return Err(Error::internal(format!("the call failed: {status:?}")));
            }
            self.replies = answer.into_body();
        }
        loop {
            if let Some(reply) = self.ready.pop_front() {
                return Ok(Some(reply));
            }
            let frame = std::future::poll_fn(|context| {
                hyper::body::Body::poll_frame(Pin::new(&mut self.replies), context)
            });
            let Some(frame) = frame.await else { return Ok(None) };
            if let Ok(data) = frame.map_err(while_doing("reading replies"))?.into_data() {
                let ready = &mut self.ready;
                let fed = self.messages.feed(&data, |reply| {
                    ready.push_back(reply.to_vec());
                    Ok::<_, thalweg_protocol::Malformed>(())
                });
                fed.map_err(while_doing("reading replies"))?;
            }
        }
    }
}

fn channel_of_pieces() -> (Sender<Bytes>, Receiver<Bytes>) {
    channel(PIECES_AHEAD)
}

struct Upload(Receiver<Bytes>);

impl hyper::body::Body for Upload {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Poller<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// A message with its prefix.
pub fn framed(message: &impl prost::Message, out: &mut Vec<u8>) {
    let length = message.encoded_len();
    out.reserve(PREFIX_BYTES + length);
    out.extend_from_slice(&put_prefix(length));
    message.encode(out).expect("a vector grows as it is written to");
}

/// The announcement of a table as number 0.
pub fn announcement(table: &str, durability: v1::Durability) -> Bytes {
    let table = v1::Table { number: 0, name: table.to_owned(), columns: Vec::new() };
    let request = v1::WriteRequest {
        durability: durability.into(),
        tables: vec![table],
        ..v1::WriteRequest::default()
    };
    let mut out = Vec::new();
    framed(&request, &mut out);
    out.into()
}

/// Messages of so many upserts each, whose keys are met in no order. `keys` is a power of ten.
pub fn upserts(keys: u32, message_rows: usize, piece_bytes: usize) -> Vec<(Bytes, u64)> {
    let mut pieces = Vec::new();
    let (mut piece, mut piece_rows) = (Vec::with_capacity(piece_bytes + 8_192), 0);
    let mut row = RowWriter::new(3, false);
    let mut packed = Vec::with_capacity(message_rows);
    for number in 0..keys {
        // Prime to the number of keys: each is met once.
        let key = (u64::from(number) * 7_919 % u64::from(keys)) as i32;
        row.int4(key).int4(number as i32).text(&format!("{:08}", number % 100_000_000));
        packed.push(Bytes::from(row.finish()));
        if packed.len() == message_rows || number + 1 == keys {
            piece_rows += packed.len() as u64;
            let rows = v1::Rows { packed: std::mem::take(&mut packed), ..v1::Rows::default() };
            framed(
                &v1::WriteRequest { rows: vec![rows], ..v1::WriteRequest::default() },
                &mut piece,
            );
        }
        if piece.len() >= piece_bytes || number + 1 == keys {
            pieces.push((std::mem::take(&mut piece).into(), std::mem::take(&mut piece_rows)));
        }
    }
    pieces
}

/// How many rows a reply says are durable, where none failed.
pub fn durable(reply: &[u8]) -> Result<u64> {
    let reply = v1::WriteResponse::decode(reply).map_err(while_doing("reading a reply"))?;
    match reply.failures.first() {
        None => Ok(reply.durable),
        Some(failure) => Err(Error::internal(failure.message.clone())),
    }
}

/// Messages of one look-up each, in pieces with the numbers of look-ups in them.
pub fn look_ups(keys: u32, piece_bytes: usize) -> Vec<(Bytes, u64)> {
    let (mut pieces, mut piece, mut piece_keys) = (Vec::new(), Vec::new(), 0);
    for number in 0..keys {
        let key = (u64::from(number) * 7_919 % u64::from(keys)) as i32;
        let packed = vec![Bytes::copy_from_slice(&key.to_le_bytes())];
        let keys_asked = v1::Keys { packed, ..v1::Keys::default() };
        framed(
            &v1::SearchRequest { keys: vec![keys_asked], ..v1::SearchRequest::default() },
            &mut piece,
        );
        piece_keys += 1;
        if piece.len() >= piece_bytes || number + 1 == keys {
            pieces.push((std::mem::take(&mut piece).into(), std::mem::take(&mut piece_keys)));
        }
    }
    pieces
}

/// The announcement of a table as number 0 to a search.
pub fn searched(table: &str) -> Bytes {
    let table = v1::Table { number: 0, name: table.to_owned(), columns: Vec::new() };
    let mut out = Vec::new();
    framed(&v1::SearchRequest { tables: vec![table], ..v1::SearchRequest::default() }, &mut out);
    out.into()
}

/// How many look-ups are answered with a response, and how many rows it has.
pub fn answered(reply: &[u8]) -> Result<(u64, u64)> {
    let reply = v1::SearchResponse::decode(reply).map_err(while_doing("reading a reply"))?;
    Ok((reply.answered, reply.found.len() as u64))
}
