//! The side of a node that answers: connections taken in, calls told apart.
//!
//! Calls for chunks are answered here, whatever service a node has beside them: their answers are
//! bytes that nobody encodes or copies on the way out.

mod accept;
mod gathered;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response};
use thalweg_protocol::{Malformed, Messages, errors};
use thalweg_types::{Error, Result, SqlState};
use tonic::body::Body;
use tonic::service::Routes;
use tower::ServiceExt as _;

use crate::chunks::{ChunkBody, Pool, Source};

pub use accept::{NodeServer, ServeOptions};

/// Asks a node for chunks. The question is a message of its own kind, which the node knows.
pub const FETCH: &str = "/thalweg.cluster.v1.Chunks/Fetch";

/// Questions are plans at most.
const QUESTION_BYTES_MAX: usize = 64 << 20;
const ONE_MESSAGE: &str = "a question is one message";

/// What answers calls for chunks.
pub trait Chunks: Send + Sync + 'static {
    /// Begins to answer a question that was asked of this node.
    fn fetch(&self, question: Bytes) -> BoxFuture<'_, Result<Response<Body>>>;
}

/// An answer whose chunks come from a source.
pub fn chunks(pool: &Pool, source: impl Source) -> Response<Body> {
    answer(Body::new(ChunkBody::new(pool.clone(), source)))
}

/// An answer whose body is gRPC's already.
#[must_use]
pub fn answer(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// An answer that is an error.
#[must_use]
pub fn refusal(error: &Error) -> Response<Body> {
    errors::status(error).into_http()
}

/// A node's services.
#[derive(Clone)]
pub struct Services {
    chunks: Arc<dyn Chunks>,
    /// Those of tonic's making.
    routes: Routes,
}

impl Services {
    #[must_use]
    pub fn new(chunks: Arc<dyn Chunks>, routes: Routes) -> Services {
        Services { chunks, routes: routes.prepare() }
    }

    async fn call(self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        if request.uri().path() != FETCH {
            return self.routes.oneshot(request).await;
        }
        let answered = match question(request).await {
            Ok(question) => self.chunks.fetch(question).await,
            Err(error) => Err(error),
        };
        Ok(answered.unwrap_or_else(|error| refusal(&error)))
    }
}

/// The only message of a request.
///
/// # Errors
/// Where it is another number of them, or breaks off.
pub async fn question(request: Request<Incoming>) -> Result<Bytes> {
    use hyper::body::Body as _;
    let mut body = request.into_body();
    let mut messages = Messages::new(QUESTION_BYTES_MAX);
    let mut found = None;
    loop {
        let frame =
            std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context));
        match frame.await {
            None => break,
            Some(Err(error)) => {
                let message = format!("the question broke off: {error}");
                return Err(Error::new(SqlState::CONNECTION_FAILURE, message));
            }
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                messages
                    .feed(&data, |message| match found.replace(Bytes::copy_from_slice(message)) {
                        None => Ok(()),
                        Some(_) => Err(Malformed(ONE_MESSAGE)),
                    })
                    .map_err(|error| malformed(&error.to_string()))?;
            }
        }
    }
    found.filter(|_| messages.begun_bytes() == 0).ok_or_else(|| malformed(ONE_MESSAGE))
}

fn malformed(what: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, what)
}
