//! The record API over gRPC: rows written and looked up by their primary keys.
//!
//! Requests are not made into objects: the bytes of a body are cut into messages and those into
//! columns where they lie ([`incoming`], `thalweg-protocol`). All that one read brought is one
//! group for the database and, at the end, one reply.
//!
//! Promises: rows that were acknowledged are as durable as was asked; all streams together hold no
//! more memory than they may, and whoever sends faster than the disk takes rows, or reads no
//! replies, holds up nobody else.

mod calls;
mod describe;
mod door;
mod guest;
mod incoming;
mod memory;
mod ranges;
mod search;
mod tables;
mod values;
mod writers;
mod writes;

pub(crate) use door::Door;
