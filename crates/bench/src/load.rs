//! One thread that loads a server through any number of connections, whatever their protocol.
//!
//! Requests are encoded ahead or cheaply, answers are only counted, and sockets are asked again
//! and again instead of waited for: so the load adds nothing to latencies, and is no bottleneck.

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

/// What a protocol does with the bytes of one connection.
pub trait Wire {
    /// What is said before anything else.
    fn greet(&mut self, out: &mut Vec<u8>);

    /// Puts requests as they go over the socket; tells how many of their bytes may go by now.
    fn send(&mut self, requests: &[u8], out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(requests);
        requests.len()
    }

    /// Says that no more requests come.
    fn finish(&mut self, _out: &mut Vec<u8>) {}

    /// Looks at what came, and says what has to be said to it at once; tells how many of the bytes
    /// it is done with.
    ///
    /// # Errors
    /// Where a request failed: no load is meant to.
    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize>;

    /// How many operations are answered, counted from the first.
    fn answered(&self) -> u64;

    /// How many rows came as answers.
    fn found(&self) -> u64 {
        0
    }
}

/// A server and what is asked of it: numbered operations.
pub trait Target {
    /// How the server is called in the report.
    fn name(&self) -> &str;

    /// The process to whose account the server's work goes, with those that it started.
    fn process(&self) -> u32;

    /// # Errors
    /// Where nobody is there.
    fn connect(&self) -> Result<Line>;

    /// The requests for some operations.
    fn requests(&self, numbers: Range<u64>, out: &mut Vec<u8>);

    /// How many connections it takes to get the most out of it.
    fn lines(&self) -> usize {
        1
    }
}

/// Operations that are encoded at once. Whole messages of a hundred, or of a thousand.
const PIECE_OPERATIONS: u64 = 2_000;

/// The requests for so many operations, with how many are in each piece.
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
