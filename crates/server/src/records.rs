//! The record API over gRPC: rows written and looked up by their primary keys.
//!
//! Requests are decoded in place: the bytes of a body are cut into messages and the messages into
//! columns ([`incoming`], `thalweg-protocol`), without an object per row. The rows of one socket
//! read form one group for the database and get one reply.
//!
//! Promises: acknowledged rows are as durable as the client asked. All streams together stay within
//! a memory limit. A client that sends faster than the disk accepts rows, or reads no replies,
//! delays no other client.

mod caller;
mod calls;
mod describe;
mod incoming;
pub(crate) mod memory;
mod ranges;
mod resuming_writers;
mod search;
mod service;
mod tables;
mod values;
mod writes;

pub(crate) use service::RecordsConnection;
