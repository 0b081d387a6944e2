//! Serialization of aggregations, for other nodes.
//!
//! Each part is written as a type byte followed by its fields. Numbers have fixed lengths,
//! little-endian; lists and texts start with their length. The lane of a number follows from its
//! context and is not repeated, so that ill-typed aggregations cannot be expressed.
//!
//! Invariants: for any bytes, decoding ends with an aggregation that is valid for a table with
//! these columns or with an error. It does not panic, and it takes no more memory than the input
//! justifies. A partial result from another node can be checked before it is merged
//! ([`Aggregation::check`]).

mod bytes;
mod codes;
mod decode;
mod encode;
mod found;
#[cfg(test)]
mod tests;

use arrow::datatypes::DataType;
use thalweg_types::{Error, Result, SqlState};

use crate::aggregate::Aggregation;

/// The first byte: the version of the format. Other versions are refused.
const FORM: u8 = 1;

/// Maximum nesting depth. Deeper aggregations are refused.
const DEPTH_MAX: usize = 200;

const KEYS_MAX: usize = 256;
const MEASURES_MAX: usize = 4_096;

/// Maximum number of key sets, which may take more memory than their bytes.
const KEY_SETS_MAX: usize = 16;

impl Aggregation {
    /// Encodes the aggregation; `None` if it exceeds the limits of the decoder.
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        encode::encode(self)
    }

    /// Decodes an aggregation over a table with columns of these types.
    ///
    /// # Errors
    /// If the bytes are malformed or do not suit the table (`08P01`).
    pub fn from_bytes(bytes: &[u8], types: &[DataType]) -> Result<Aggregation> {
        decode::decode(bytes, types)
    }
}

fn malformed(what: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, format!("a question is malformed: {what}"))
}
