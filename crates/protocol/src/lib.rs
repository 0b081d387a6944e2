//! What clients and servers of the record API say to each other: the messages as protobuf defines
//! them ([`v1`]), how they lie in a gRPC body ([`Messages`]), and how a row is packed
//! ([`RowWriter`]).
//!
//! A server that takes a million rows a second in cannot make an object of each. [`WriteRef`] and
//! [`SearchRef`] look at a message where it lies, and agree with the generated types on every one.
//!
//! Promises: whatever the bytes, decoding neither panics nor allocates.

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

/// The service as reflection tells of it.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The service's name in paths.
pub const SERVICE: &str = "thalweg.v1.Records";

/// Tables are numbered below this.
pub const TABLE_NUMBERS: u32 = 1_024;
