//! Messages of the record API and between the nodes of a cluster: the types that protobuf defines
//! ([`v1`], [`cluster`]), their layout in a gRPC body ([`Messages`]), the packing of rows
//! ([`RowWriter`]), and errors on the wire ([`errors`]).
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

/// Messages between the nodes of a cluster; rows travel beside them.
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
