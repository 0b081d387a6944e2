//! Shared parts of the gRPC services: recognizing a gRPC request, distinguishing an interrupted
//! upload from a complete one, and sending responses whose frames no layer below copies.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use hyper::body::Frame as BodyFrame;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Response};
pub(crate) use thalweg_protocol::errors;
use tonic::body::Body;
use tonic::{Code, Status};

use self::errors::status;
use crate::read_ahead::ReadAhead;

/// True if a request has gRPC's content type. Requests that browsers let web pages send without a
/// preflight (CORS) never have it.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let rest = kind.and_then(|kind| kind.strip_prefix("application/grpc"));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ';']))
}

/// The request body of an upload. tonic treats a cancelled upload as one that ended regularly,
/// which would turn half of the rows into a complete upload; this wrapper returns an error instead.
pub(crate) struct Upload(pub(crate) Body);

impl hyper::body::Body for Upload {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Status>>> {
        let translate_error = |broken: Status| match broken.code() {
            Code::Cancelled => Status::aborted("the client has left"),
            _ => broken,
        };
        Pin::new(&mut self.0)
            .poll_frame(context)
            .map(|frame| frame.map(|f| f.map_err(translate_error)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}

/// A response frame as byte buffers, which are sent without a copy.
pub(crate) trait Pieces: Send + 'static {
    fn pieces(self) -> VecDeque<Bytes>;
}

impl Pieces for Bytes {
    fn pieces(self) -> VecDeque<Bytes> {
        [self].into()
    }
}

/// A streaming gRPC response; its trailers carry the final status.
pub(crate) fn streamed<F: Pieces>(frames: ReadAhead<F>) -> Response<Body> {
    let state = Sent { frames, pieces: VecDeque::new(), ended: false };
    response(futures::stream::unfold(state, Sent::next))
}

/// A gRPC response of one message, which already has its length prefix.
pub(crate) fn answered(message: Bytes) -> Response<Body> {
    let end = BodyFrame::trailers(trailers(&Status::ok("")));
    response(futures::stream::iter([BodyFrame::data(message), end]))
}

fn response(pieces: impl Stream<Item = BodyFrame<Bytes>> + Send + 'static) -> Response<Body> {
    let mut response = Response::new(Body::new(Frames(Box::pin(pieces))));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

struct Sent<F> {
    frames: ReadAhead<F>,
    pieces: VecDeque<Bytes>,
    ended: bool,
}

impl<F: Pieces> Sent<F> {
    async fn next(mut self) -> Option<(BodyFrame<Bytes>, Sent<F>)> {
        while self.pieces.is_empty() && !self.ended {
            let end = match self.frames.next().await {
                Some(Ok(frame)) => {
                    self.pieces = frame.pieces();
                    continue;
                }
                Some(Err(error)) => status(&error),
                None => Status::ok(""),
            };
            self.ended = true;
            return Some((BodyFrame::trailers(trailers(&end)), self));
        }
        let piece = self.pieces.pop_front()?;
        Some((BodyFrame::data(piece), self))
    }
}

fn trailers(end: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    if let Err(unsaid) = end.add_header(&mut trailers) {
        // The message is no valid header value, so only the code is sent.
        trailers.insert("grpc-status", HeaderValue::from(unsaid.code() as i32));
    }
    trailers
}

type FrameStream = Pin<Box<dyn Stream<Item = BodyFrame<Bytes>> + Send>>;

struct Frames(FrameStream);

impl hyper::body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        self.0.as_mut().poll_next(context).map(|frame| frame.map(Ok))
    }
}
