//! One thread that loads a server through any number of connections, over any protocol.
//!
//! Requests are encoded ahead or cheaply, replies are only counted, and sockets are polled in a
//! loop without waiting. The load thus adds nothing to latencies and is no bottleneck.

pub mod grpc;
pub mod iproto;
mod line;
pub mod postgres;
pub mod redis;
mod run;

use std::ops::Range;

use bytes::Bytes;
use thalweg_types::Result;

pub use line::Line;
pub use run::{Pace, alternate, flood, latencies, offer};

/// A protocol on one connection: turns requests into bytes and counts replies.
pub trait Wire {
    /// Writes the opening messages of the connection.
    fn greet(&mut self, out: &mut Vec<u8>);

    /// Writes requests in the protocol's framing; returns how many of their bytes may be sent by
    /// now.
    fn send(&mut self, requests: &[u8], out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(requests);
        requests.len()
    }

    /// Signals that no more requests follow.
    fn finish(&mut self, _out: &mut Vec<u8>) {}

    /// Reads received bytes and writes any immediate answers; returns how many of the bytes it has
    /// consumed.
    ///
    /// # Errors
    /// If a request failed: a load contains only valid requests.
    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize>;

    /// Number of answered operations, counted from the first.
    fn answered(&self) -> u64;

    /// Number of rows in the answers.
    fn found(&self) -> u64 {
        0
    }
}

/// A server and its load: numbered operations.
pub trait Target {
    /// The server's name in the report.
    fn name(&self) -> &str;

    /// The process that is charged for the server's work, together with its descendants.
    fn process(&self) -> u32;

    /// # Errors
    /// If the server cannot be reached.
    fn connect(&self) -> Result<Line>;

    /// The requests for some operations.
    fn requests(&self, numbers: Range<u64>, out: &mut Vec<u8>);

    /// Number of connections with which the server reaches its maximum.
    fn lines(&self) -> usize {
        1
    }
}

/// Operations that are encoded at once: whole messages of a hundred or of a thousand.
const PIECE_OPERATIONS: u64 = 2_000;

/// The requests for this many operations, in pieces, each with its number of operations.
pub fn pieces(target: &dyn Target, operations: u64) -> Vec<(Bytes, u64)> {
    let starts = (0..operations).step_by(PIECE_OPERATIONS as usize);
    let piece = |start: u64| {
        let end = operations.min(start + PIECE_OPERATIONS);
        let mut out = Vec::new();
        target.requests(start..end, &mut out);
        (Bytes::from(out), end - start)
    };
    starts.map(piece).collect()
}
