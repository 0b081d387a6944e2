//! Incoming requests of a stream: the body is read as far as available, then cut into messages.
//!
//! Reading and decoding are two steps, because a stream waits in between for the memory that the
//! decoded columns will take.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::Body as _;
use thalweg_protocol::{Malformed, Messages};
use thalweg_types::{Error, Result, SqlState};

use super::values::malformed;
use crate::grpc::Upload;

/// Group size in bytes from which the next read begins another group, so that other streams get
/// their turn in between.
pub(super) const GROUP_BYTES: usize = 64 << 10;

/// A consumer of messages.
pub(super) trait Reader {
    /// # Errors
    /// If the message is malformed, which ends the stream.
    fn message(&mut self, bytes: &[u8]) -> Result<(), Malformed>;
}

pub(super) struct Incoming<R> {
    body: Upload,
    messages: Messages,
    pub(super) reader: R,
    /// Bytes that were read but not decoded yet, and their number.
    pieces: Vec<Bytes>,
    read_bytes: usize,
    /// Set when nothing more is read, with an error if the stream did not end regularly.
    end: Option<Result<()>>,
}

impl<R: Reader> Incoming<R> {
    pub(super) fn new(body: Upload, message_bytes_max: usize, reader: R) -> Incoming<R> {
        let messages = Messages::new(message_bytes_max);
        Incoming { body, messages, reader, pieces: Vec::new(), read_bytes: 0, end: None }
    }

    /// Reads all bytes that are available, and waits if there are none. Cancel-safe: dropping the
    /// future loses no data.
    pub(super) async fn read(&mut self) {
        std::future::poll_fn(|context| self.poll_read(context)).await;
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.end.is_none() && self.read_bytes < GROUP_BYTES {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers of a request carry no data.
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

    /// True if read bytes are not decoded yet.
    pub(super) fn has_read(&self) -> bool {
        self.read_bytes > 0
    }

    /// Number of bytes in messages that the read bytes complete.
    pub(super) fn whole_bytes(&self) -> usize {
        self.messages.whole_bytes_with(self.read_bytes)
    }

    /// Decodes the bytes read so far and returns their number.
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

    /// Stops reading, with an error that becomes the stream's end unless it has one already.
    pub(super) fn stop(&mut self, why: Error) {
        self.end.get_or_insert(Err(why));
    }

    /// True if nothing more is read.
    pub(super) fn has_stopped(&self) -> bool {
        self.end.is_some()
    }

    /// True if nothing more is read and all read bytes are decoded.
    pub(super) fn has_ended(&self) -> bool {
        self.has_stopped() && !self.has_read()
    }

    /// The result of the stream. A stream that ends within a message is an error.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.end.take() {
            Some(Ok(())) if self.messages.begun_bytes() > 0 => {
                Err(malformed(Malformed("the stream ends within a message")))
            }
            ended => ended.unwrap_or(Ok(())),
        }
    }
}
