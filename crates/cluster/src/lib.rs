//! Many machines as one database: gateways plan and hold no rows, workers hold the rows.
//!
//! Nodes speak HTTP/2 in the way of gRPC. Their requests are messages of
//! `thalweg_protocol::cluster`. Rows are sent in [`chunks`], which forwarding nodes do not decode.
//! A gateway has a [`link`] to each worker. If it has nothing to compute, it forwards the rows with
//! [`relay`]. A [`map`] says which worker owns which bucket. Nodes remember how far they have
//! [`seen`] each other's logs, and refuse older copies of directories. Timers, tasks and sockets
//! come from `thalweg_runtime`, so that links run in a simulation.
//!
//! Invariants: whatever a worker does, a gateway gets an answer or an error that names the worker
//! within a deadline. Rows that a slow client does not read are not fetched. A node beyond this
//! machine gets no access without proof of its identity.

mod checked_file;
pub mod chunks;
pub mod link;
pub mod map;
pub mod membership;
pub mod node;
pub mod relay;
pub mod security;
pub mod seen;
#[cfg(test)]
#[expect(clippy::disallowed_types, reason = "the wires between nodes are real sockets")]
mod tests;
pub mod times;
pub mod worker;
