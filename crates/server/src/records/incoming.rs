//! What a client sends: its body read as far as it is there, cut into messages.

use std::pin::Pin;
use std::task::{Context, Poll};

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
    /// Bytes that were read since somebody last asked.
    read_bytes: usize,
    /// Whether nothing more comes, and why where that is no good end.
    end: Option<Result<()>>,
}

impl<R: Reader> Incoming<R> {
    pub(super) fn new(body: Upload, message_bytes_max: usize, reader: R) -> Incoming<R> {
        let messages = Messages::new(message_bytes_max);
        Incoming { body, messages, reader, read_bytes: 0, end: None }
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
                        self.take(&data);
                    }
                }
                Poll::Ready(Some(Err(status))) => {
                    let message = format!("the stream broke off: {}", status.message());
                    self.end = Some(Err(Error::new(SqlState::CONNECTION_FAILURE, message)));
                }
                Poll::Ready(None) => self.end = Some(self.whole()),
                Poll::Pending if self.read_bytes > 0 => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }

    fn take(&mut self, data: &[u8]) {
        self.read_bytes += data.len();
        let reader = &mut self.reader;
        if let Err(error) = self.messages.feed(data, |message| reader.message(message)) {
            self.end = Some(Err(malformed(error)));
        }
    }

    fn whole(&self) -> Result<()> {
        match self.messages.begun_bytes() {
            0 => Ok(()),
            _ => Err(malformed(Malformed("the stream ends within a message"))),
        }
    }

    /// How many bytes were read since this was asked before.
    pub(super) fn take_read_bytes(&mut self) -> usize {
        std::mem::take(&mut self.read_bytes)
    }

    /// Reads no more.
    pub(super) fn stop(&mut self, why: Error) {
        self.end.get_or_insert(Err(why));
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// How it ended.
    pub(super) fn end(&mut self) -> Result<()> {
        self.end.take().unwrap_or(Ok(()))
    }
}
