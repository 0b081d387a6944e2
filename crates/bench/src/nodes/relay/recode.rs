//! The way of a gateway that computes: it decodes every row and encodes it again.
//!
//! The workload measures what relaying without decoding saves.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use hyper::body::{Body, Frame};
use prost::Message as _;
use thalweg_cluster::chunks::{ChunkWriter, Cutter, MESSAGE_BYTES_MAX, Pool, trailers};
use thalweg_cluster::link::Answer;
use thalweg_protocol::errors;
use thalweg_types::{Error, Result, SqlState};

/// An answer of Flight messages, decoded and encoded again.
pub(super) fn recoded(answer: Answer) -> impl Body<Data = Bytes, Error = Infallible> + Send {
    let batches = FlightRecordBatchStream::new_from_flight_data(messages(answer));
    let encoded = FlightDataEncoderBuilder::new().build(batches);
    let writer = ChunkWriter::new(Pool::new(2));
    let frames = futures::stream::unfold((encoded, Some(writer)), |(mut encoded, writer)| async {
        let mut writer = writer?;
        let frame = match encoded.next().await {
            Some(Ok(data)) => {
                writer.message_with(data.encoded_len(), |bytes| {
                    data.encode(bytes).expect("a vector grows");
                });
                let chunk = writer.take_any().expect("something was written");
                return Some((Frame::data(chunk), (encoded, Some(writer))));
            }
            Some(Err(error)) => Frame::trailers(trailers(Err(told(error)))),
            None => Frame::trailers(trailers(Ok(()))),
        };
        Some((frame, (encoded, None)))
    });
    Frames(Box::pin(frames))
}

/// The messages of an answer.
fn messages(answer: Answer) -> impl Stream<Item = Result<FlightData, FlightError>> + Send {
    let start = (answer, Cutter::new(MESSAGE_BYTES_MAX));
    let groups = futures::stream::unfold(Some(start), |state| async {
        let (mut answer, mut cutter) = state?;
        let piece = match answer.piece().await {
            Ok(piece) => piece?,
            Err(error) => return Some((vec![Err(lost(&error))], None)),
        };
        let mut found = Vec::new();
        let fed = cutter.feed(&piece, |message| {
            found.push(FlightData::decode(message.to_bytes()).map_err(FlightError::from));
            Ok::<_, Error>(())
        });
        found.extend(fed.err().map(|error| Err(lost(&error))));
        Some((found, Some((answer, cutter))))
    });
    groups.flat_map(futures::stream::iter)
}

fn lost(error: &Error) -> FlightError {
    FlightError::from(errors::status(error))
}

fn told(error: FlightError) -> Error {
    match error {
        FlightError::Tonic(status) => errors::error(&status),
        other => Error::new(SqlState::PROTOCOL_VIOLATION, format!("rows are damaged: {other}")),
    }
}

type FrameStream = Pin<Box<dyn Stream<Item = Frame<Bytes>> + Send>>;

struct Frames(FrameStream);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.as_mut().poll_next(context).map(|frame| frame.map(Ok))
    }
}
