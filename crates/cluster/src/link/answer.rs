//! The answer of a call.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use hyper::HeaderMap;
use thalweg_protocol::errors;
use thalweg_types::{Error, ErrorKind, Result, SqlState};
use tonic::{Code, Status};

use super::{NodeName, Open, Peer};
use crate::chunks::{Cutter, MESSAGE_BYTES_MAX};

/// The body of an answer, piece by piece.
pub struct Answer {
    stream: RecvStream,
    open: Open,
    /// Length of the last piece. The node may send as many bytes again once the next piece is
    /// requested.
    taken_bytes: usize,
    data_ended: bool,
}

impl Answer {
    pub(super) fn new(stream: RecvStream, open: Open) -> Answer {
        Answer { stream, open, taken_bytes: 0, data_ended: false }
    }

    /// The node that answers.
    #[must_use]
    pub fn from(&self) -> &NodeName {
        &self.open.0.name
    }

    /// The next piece as it arrived, cut anywhere. `None` means that the answer ended without an
    /// error.
    pub fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        if self.taken_bytes > 0 {
            let taken = std::mem::take(&mut self.taken_bytes);
            // It fails only if the stream is gone, which is reported next.
            let _ = self.stream.flow_control().release_capacity(taken);
        }
        if !self.data_ended {
            match ready!(self.stream.poll_data(context)) {
                Some(Ok(piece)) => {
                    self.taken_bytes = piece.len();
                    self.open.0.pieces.fetch_add(1, Ordering::Relaxed);
                    return Poll::Ready(Some(Ok(piece)));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(self.open.0.failed(error)))),
                None => self.data_ended = true,
            }
        }
        let end = match ready!(self.stream.poll_trailers(context)) {
            Ok(trailers) => status(&trailers.unwrap_or_default(), &self.open.0)
                .unwrap_or_else(|| Err(self.open.0.failed("the answer broke off"))),
            Err(error) => Err(self.open.0.failed(error)),
        };
        Poll::Ready(end.err().map(Err))
    }

    /// Waits for the next piece.
    ///
    /// # Errors
    /// If the answer ends with an error.
    pub async fn piece(&mut self) -> Result<Option<Bytes>> {
        poll_fn(|context| self.poll_piece(context)).await.transpose()
    }

    /// Reads the only message of the answer.
    ///
    /// # Errors
    /// If the answer ends with an error, or has another number of messages.
    pub async fn message(mut self) -> Result<Bytes> {
        let mut cutter = Cutter::new(MESSAGE_BYTES_MAX);
        let mut found = None;
        while let Some(piece) = self.piece().await? {
            cutter
                .feed(&piece, |message| match found.replace(message.to_bytes()) {
                    None => Ok(()),
                    Some(_) => Err(no_one_message()),
                })
                .map_err(|error| damaged(error, self.from()))?;
        }
        found.ok_or_else(no_one_message).map_err(|error| damaged(error, self.from()))
    }
}

fn no_one_message() -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, "it is not one message")
}

/// Adds the node's name to an error of decoding its answer. Errors that the node sent stay
/// unchanged.
#[must_use]
pub fn damaged(error: Error, from: &NodeName) -> Error {
    match error.state() {
        SqlState::PROTOCOL_VIOLATION => {
            let message = format!("the answer of {from} is damaged: {}", error.message());
            Error::new(SqlState::PROTOCOL_VIOLATION, message)
        }
        _ => error,
    }
}

/// The status of a call in its headers, if it is there. Errors caused by the node's state name the
/// node.
pub(super) fn status(headers: &HeaderMap, peer: &Peer) -> Option<Result<()>> {
    let status = Status::from_header_map(headers)?;
    if status.code() == Code::Ok {
        return Some(Ok(()));
    }
    let error = errors::error(&status);
    let is_of_the_node = matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::OutOfResources | ErrorKind::Corrupt
    ) || error.state() == SqlState::INTERNAL_ERROR;
    Some(Err(match is_of_the_node {
        true => {
            let place = format!("This happened on {}.", peer.name);
            let detail = match error.detail() {
                Some(detail) => format!("{detail} {place}"),
                None => place,
            };
            error.with_detail(detail)
        }
        false => error,
    }))
}
