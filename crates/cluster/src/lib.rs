//! Many machines as one: gateways that plan and hold no rows, workers that hold them.
//!
//! Between nodes runs HTTP/2, as gRPC has it. What nodes say to each other are messages of
//! `thalweg_protocol::cluster`; rows travel beside them in [`chunks`], which nobody in between
//! takes apart. A gateway keeps a [`link`] to each worker and reads from all of them at once with
//! [`fan_in`]; where it has nothing to compute it hands on what it never opens, with [`relay`]. Who
//! owns which bucket is said by a [`map`].
//!
//! Promises: whatever a worker does, a gateway knows within a deadline, and says which worker it
//! was; what a slow client does not read is not fetched; and nobody beyond this machine comes in
//! without showing who they are.

pub mod chunks;
pub mod fan_in;
pub mod link;
pub mod map;
pub mod membership;
pub mod node;
pub mod relay;
pub mod scatter;
pub mod security;
#[cfg(test)]
mod tests;
pub mod worker;
