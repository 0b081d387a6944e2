//! The answer of one worker as the answer to one client: forwarded as it is, or decoded and encoded
//! again, for comparison.

mod recode;
mod strip;
mod unopened;

use hyper::Response;
use thalweg_cluster::link::Answer;
use thalweg_cluster::node::answer as response;
use tonic::body::Body;

pub(super) use strip::write_messages;

/// The way of rows from a worker to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Forwarded without decoding.
    Unopened,
    /// Decoded and encoded again.
    Recoded,
}

/// The response to a Flight client, made of a worker's answer.
pub(super) fn relay(answer: Answer, way: Way) -> Response<Body> {
    response(match way {
        Way::Unopened => Body::new(unopened::RelayBody::new(answer)),
        Way::Recoded => Body::new(recode::recoded(answer)),
    })
}

#[cfg(test)]
mod tests;
