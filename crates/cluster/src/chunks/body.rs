//! The body of a worker's answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame};
use hyper::header::HeaderValue;
use thalweg_protocol::errors;
use thalweg_types::{Error, Result};
use tonic::Status;

use super::{ChunkWriter, Pool};

/// State of a source after it was polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// There is more, or may be.
    More,
    /// The source has ended.
    End,
}

/// A source of messages.
pub trait Source: Send + 'static {
    /// Writes messages until a chunk is full, or as many as are available. It is called again when
    /// the network has taken a chunk, so a slow reader slows the source down.
    ///
    /// # Errors
    /// An error ends the answer, after the messages written before.
    fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut ChunkWriter,
    ) -> Poll<Result<Fill>>;
}

/// A body of chunks, with the status of the answer in its trailers.
pub struct ChunkBody<S> {
    source: S,
    writer: ChunkWriter,
    end: Option<Result<()>>,
    done: bool,
}

impl<S: Source> ChunkBody<S> {
    /// A body that takes its buffers from `pool`.
    pub fn new(pool: Pool, source: S) -> ChunkBody<S> {
        ChunkBody { source, writer: ChunkWriter::new(pool), end: None, done: false }
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while self.end.is_none() && !self.writer.is_full() {
            match self.source.poll_fill(context, &mut self.writer) {
                Poll::Ready(Ok(Fill::More)) => {}
                Poll::Ready(Ok(Fill::End)) => self.end = Some(Ok(())),
                Poll::Ready(Err(error)) => self.end = Some(Err(error)),
                // Chunks are sent before they are full if the source has to wait.
                Poll::Pending => {
                    return match self.writer.take_any() {
                        Some(chunk) => Poll::Ready(Some(chunk)),
                        None => Poll::Pending,
                    };
                }
            }
        }
        Poll::Ready(match self.end {
            None => self.writer.take_full(),
            Some(_) => self.writer.take_any(),
        })
    }
}

// The source is never pinned.
impl<S> Unpin for ChunkBody<S> {}

impl<S: Source> Body for ChunkBody<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.done {
            return Poll::Ready(None);
        }
        let Poll::Ready(chunk) = self.poll_chunk(context) else { return Poll::Pending };
        Poll::Ready(Some(Ok(match chunk {
            Some(chunk) => Frame::data(chunk),
            None => {
                self.done = true;
                Frame::trailers(trailers(self.end.take().unwrap_or(Ok(()))))
            }
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.done
    }
}

/// gRPC trailers with the status of an answer.
#[must_use]
pub fn trailers(end: Result<(), Error>) -> HeaderMap {
    let status = end.map_or_else(|error| errors::status(&error), |()| Status::ok(""));
    let mut trailers = HeaderMap::new();
    if let Err(unsaid) = status.add_header(&mut trailers) {
        // Only the message cannot be a header, so the code is sent alone.
        trailers.insert("grpc-status", HeaderValue::from(unsaid.code() as i32));
    }
    trailers
}
