//! A worker's answer handed on to a client.
//!
//! Where a gateway has nothing to compute, the worker has encoded the rows already as the client
//! reads them: as messages of Arrow Flight, or as PostgreSQL's. The gateway hands on what it never
//! opens: the pieces of an HTTP/2 body as they came, in which it does not even look for messages.
//! What encoding costs is then paid by workers, of which there are many.
//!
//! Where several workers answer one client, their bodies are cut between messages ([`Parts`]).
//!
//! Promises: a client that stops reading stops the worker, and meanwhile the gateway holds no more
//! than the window of one stream; a worker that is lost is an error in the trailers, and a client
//! that is lost ends the worker's work.

mod parts;
mod recode;
mod strip;
mod unopened;

use hyper::Response;
use tonic::body::Body;

use crate::link::Answer;
use crate::node::answer as response;

pub use parts::{COUNT_BYTES, Part, Parts};
pub use strip::pour;

/// How rows go from a worker to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// As they came.
    #[default]
    Unopened,
    /// Decoded and encoded again, to compare.
    Recoded,
}

/// The response to a Flight client that a worker's answer is.
#[must_use]
pub fn relay(answer: Answer, way: Way) -> Response<Body> {
    response(match way {
        Way::Unopened => Body::new(unopened::RelayBody::new(answer)),
        Way::Recoded => Body::new(recode::recoded(answer)),
    })
}

#[cfg(test)]
mod tests;
