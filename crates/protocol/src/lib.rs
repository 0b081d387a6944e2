//! What clients and servers of the record API say to each other, and the nodes of a cluster: the
//! messages as protobuf defines them ([`v1`], [`cluster`]), how they lie in a gRPC body
//! ([`Messages`]), how a row is packed ([`RowWriter`]), and how errors travel ([`errors`]).
//!
//! A server that takes a million rows a second in cannot make an object of each. [`WriteRef`] and
//! [`SearchRef`] look at a message where it lies, and agree with the generated types on every one.
//!
//! Promises: whatever the bytes, decoding neither panics nor allocates.

pub mod errors;
mod fields;
mod frames;
mod packed;
mod requests;

pub use fields::Malformed;
pub use frames::{Messages, PREFIX_BYTES, put_prefix};
pub use packed::{PackedRow, RowWriter};
pub use requests::{KeysRef, RowsRef, SearchRef, ValueRef, ValuesRef, WriteRef};

/// The messages and a client, as generated.
#[allow(clippy::all, clippy::disallowed_methods, reason = "generated")]
pub mod v1 {
    tonic::include_proto!("thalweg.v1");
}

/// What the nodes of a cluster say to each other, rows aside.
#[allow(clippy::all, clippy::disallowed_methods, reason = "generated")]
pub mod cluster {
    tonic::include_proto!("thalweg.cluster.v1");
}

/// The service as reflection tells of it.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The service's name in paths.
pub const SERVICE: &str = "thalweg.v1.Records";

/// The header in which a stream of rows bears the name of its writer. Where a stream comes with the
/// name of another one, that one ends first.
pub const WRITER_HEADER: &str = "thalweg-writer";

/// Tables are numbered below this.
pub const TABLE_NUMBERS: u32 = 1_024;
