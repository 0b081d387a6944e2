//! Rows between nodes: messages concatenated into chunks, which forwarding nodes do not decode.
//!
//! A message is opaque bytes after gRPC's prefix. The sender writes messages with a [`ChunkWriter`]
//! into pooled buffers of about [`CHUNK_BYTES`], and each buffer is sent as one piece, without a
//! copy. The receiver cuts messages out of the pieces with a [`Cutter`], in place, and copies only
//! messages that are split between two pieces.
//!
//! Invariants: messages arrive unchanged, however they are cut on the way. No message waits for a
//! chunk to fill. No more bytes are buffered than flow control allows.

mod body;
mod cutter;
mod pool;
mod writer;

pub use body::{ChunkBody, Fill, Source, trailers};
pub use cutter::{Cutter, Message};
pub use pool::Pool;
pub use writer::{ChunkWriter, framed};

/// Target size of chunks, in bytes.
pub const CHUNK_BYTES: usize = 256 << 10;
/// Size of the first chunk of an answer, in bytes: small, so that the first row arrives early.
pub const FIRST_CHUNK_BYTES: usize = 8 << 10;
/// Size limit of a message, in bytes, since a reader must hold it in memory. It leaves room for a
/// value of 1 GiB, which is PostgreSQL's limit, and its overhead.
pub const MESSAGE_BYTES_MAX: usize = (1 << 30) + (1 << 20);

#[cfg(test)]
mod tests;
