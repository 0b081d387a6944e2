//! Forwards pieces as they arrive.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use thalweg_cluster::chunks::trailers;
use thalweg_cluster::link::Answer;

/// The body of an answer as the body of another one.
///
/// A piece is requested when the client's connection has room for it, and only then the worker may
/// send as much again.
pub(super) struct RelayBody {
    answer: Option<Answer>,
}

impl RelayBody {
    pub(super) fn new(answer: Answer) -> RelayBody {
        RelayBody { answer: Some(answer) }
    }
}

impl Body for RelayBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(answer) = &mut self.answer else { return Poll::Ready(None) };
        let end = match ready!(answer.poll_piece(context)) {
            Some(Ok(piece)) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
            Some(Err(error)) => Err(error),
            None => Ok(()),
        };
        self.answer = None;
        Poll::Ready(Some(Ok(Frame::trailers(trailers(end)))))
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_none()
    }
}
