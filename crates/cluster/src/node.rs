//! The server side of a node: it accepts connections and dispatches calls.
//!
//! Calls for chunks are answered here and not by tonic, so that the bytes of answers are neither
//! encoded nor copied on the way out.

mod accept;
mod write_coalescing;

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

/// Path of the call that asks a node for chunks. The request's message is opaque to this crate.
pub const FETCH: &str = "/thalweg.cluster.v1.Chunks/Fetch";

/// Size limit of a request, in bytes. The largest requests are plans.
const QUESTION_BYTES_MAX: usize = 64 << 20;
const ONE_MESSAGE: &str = "a question is one message";

/// Handler of calls for chunks.
pub trait Chunks: Send + Sync + 'static {
    /// Starts to answer a request of another node.
    fn fetch(&self, question: Bytes) -> BoxFuture<'_, Result<Response<Body>>>;
}

/// A response whose chunks come from a source.
pub fn chunks(pool: &Pool, source: impl Source) -> Response<Body> {
    answer(Body::new(ChunkBody::new(pool.clone(), source)))
}

/// A response whose body has gRPC's framing and trailers already.
#[must_use]
pub fn answer(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// A response that is an error.
#[must_use]
pub fn refusal(error: &Error) -> Response<Body> {
    errors::status(error).into_http()
}

/// The services of a node.
#[derive(Clone)]
pub struct Services {
    chunks: Arc<dyn Chunks>,
    /// Services that tonic implements.
    routes: Routes,
}

impl Services {
    /// Serves calls for chunks from `chunks`, and all other calls from `routes`.
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

/// Reads the only message of a request.
///
/// # Errors
/// If the request has another number of messages, or is incomplete.
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
