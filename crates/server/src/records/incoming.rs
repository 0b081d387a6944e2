//! What a client sends: its body read as far as it is there, then cut into messages.
//!
//! Reading and cutting are two steps: in between, the memory is waited for that messages take once
//! they are columns.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::Body as _;
use thalweg_protocol::{Malformed, Messages};
use thalweg_types::{Error, Result, SqlState};

use super::values::malformed;
use crate::grpc::Upload;

/// From so many bytes on a group is large enough: the next read begins another one. Those of other
/// streams get their turn in between.
pub(super) const GROUP_BYTES: usize = 64 << 10;

/// Something that takes messages in.
pub(super) trait Reader {
    /// # Errors
    /// Where the message cannot be read, which ends the stream.
    fn message(&mut self, bytes: &[u8]) -> Result<(), Malformed>;
}

pub(super) struct Incoming<R> {
    body: Upload,
    messages: Messages,
    pub(super) reader: R,
    /// What was read and is not taken apart yet, and how many bytes that is.
    pieces: Vec<Bytes>,
    read_bytes: usize,
    /// Whether nothing more comes, and why where that is no good end.
    end: Option<Result<()>>,
}

impl<R: Reader> Incoming<R> {
    pub(super) fn new(body: Upload, message_bytes_max: usize, reader: R) -> Incoming<R> {
        let messages = Messages::new(message_bytes_max);
        Incoming { body, messages, reader, pieces: Vec::new(), read_bytes: 0, end: None }
    }

    /// Reads all that is there, and waits where that is nothing. Dropped halfway, it has lost
    /// nothing.
    pub(super) async fn read(&mut self) {
        std::future::poll_fn(|context| self.poll_read(context)).await;
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.end.is_none() && self.read_bytes < GROUP_BYTES {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers of a request mean nothing.
                    if let Ok(data) = frame.into_data() {
                        self.read_bytes += data.len();
                        self.pieces.push(data);
                    }
                }
                Poll::Ready(Some(Err(status))) => {
                    let message = format!("the stream broke off: {}", status.message());
                    self.end = Some(Err(Error::new(SqlState::CONNECTION_FAILURE, message)));
                }
                Poll::Ready(None) => self.end = Some(Ok(())),
                Poll::Pending if self.read_bytes > 0 => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }

    /// Whether something was read that is not taken apart yet.
    pub(super) fn has_read(&self) -> bool {
        self.read_bytes > 0
    }

    /// How many bytes of requests are whole with what was read.
    pub(super) fn whole_bytes(&self) -> usize {
        self.messages.whole_bytes_with(self.read_bytes)
    }

    /// Takes apart what was read; returns how many bytes that were.
    pub(super) fn take_apart(&mut self) -> usize {
        let (messages, reader) = (&mut self.messages, &mut self.reader);
        let mut pieces = self.pieces.drain(..);
        let taken =
            pieces.try_for_each(|piece| messages.feed(&piece, |message| reader.message(message)));
        if let Err(error) = taken {
            self.end = Some(Err(malformed(error)));
        }
        std::mem::take(&mut self.read_bytes)
    }

    /// Reads no more.
    pub(super) fn stop(&mut self, why: Error) {
        self.end.get_or_insert(Err(why));
    }

    /// Whether nothing more is read.
    pub(super) fn has_stopped(&self) -> bool {
        self.end.is_some()
    }

    /// Whether nothing more is read, and all that was is taken apart.
    pub(super) fn has_ended(&self) -> bool {
        self.has_stopped() && !self.has_read()
    }

    /// How it ended.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.end.take() {
            Some(Ok(())) if self.messages.begun_bytes() > 0 => {
                Err(malformed(Malformed("the stream ends within a message")))
            }
            ended => ended.unwrap_or(Ok(())),
        }
    }
}
