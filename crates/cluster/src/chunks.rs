//! Rows on their way between nodes: messages concatenated into chunks, which nobody in between
//! takes apart.
//!
//! A message is opaque bytes behind gRPC's prefix. The side that has rows writes them with a
//! [`ChunkWriter`] into pooled buffers of about [`CHUNK_BYTES`], and each buffer goes out as one
//! piece, as it lies in memory. The side that reads cuts messages out of what arrives with a
//! [`Cutter`], in place, and copies only those that are split between two pieces.
//!
//! Promises: a message comes out as it went in, however it was cut on the way; nothing waits for a
//! chunk to fill; and as many bytes as flow control lets through are held, not more.

mod body;
mod cutter;
mod pool;
mod writer;

pub(crate) use body::trailers;
pub use body::{ChunkBody, Fill, Source};
pub use cutter::{Cutter, Message};
pub use pool::Pool;
pub use writer::{ChunkWriter, framed};

/// How large chunks are.
pub const CHUNK_BYTES: usize = 256 << 10;
/// How large the first chunk of an answer is, so that the first row comes early.
pub const FIRST_CHUNK_BYTES: usize = 8 << 10;
/// A message that is longer is an error: whoever reads must hold one in memory. There is room for a
/// value of 1 GiB, which is PostgreSQL's limit, and what is around it.
pub const MESSAGE_BYTES_MAX: usize = (1 << 30) + (1 << 20);

#[cfg(test)]
mod tests;
