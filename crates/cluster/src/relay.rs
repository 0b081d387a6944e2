//! Relays a worker's answer to a client.
//!
//! If a gateway has nothing to compute, the worker encodes the rows in the client's format: as
//! messages of Arrow Flight or of PostgreSQL. The gateway forwards the pieces of the HTTP/2 body as
//! they arrive, without looking for messages in them. The cost of encoding is then paid by the
//! workers, of which there are many.
//!
//! If several workers answer one client, their bodies are cut between messages ([`Parts`]).
//!
//! Invariants: a client that stops reading stops the worker, and meanwhile the gateway buffers no
//! more than the window of one stream. A lost worker is reported in the trailers. A lost client
//! cancels the worker's work.

mod parts;
mod recode;
mod strip;
mod unopened;

use hyper::Response;
use tonic::body::Body;

use crate::link::Answer;
use crate::node::answer as response;

pub use parts::{COUNT_BYTES, Part, Parts};
pub use strip::write_messages;

/// The way of rows from a worker to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// Forwarded without decoding.
    #[default]
    Unopened,
    /// Decoded and encoded again, for comparison.
    Recoded,
}

/// The response to a Flight client, made of a worker's answer.
#[must_use]
pub fn relay(answer: Answer, way: Way) -> Response<Body> {
    response(match way {
        Way::Unopened => Body::new(unopened::RelayBody::new(answer)),
        Way::Recoded => Body::new(recode::recoded(answer)),
    })
}

#[cfg(test)]
mod tests;
