//! Questions as bytes, for whoever works on them elsewhere.
//!
//! A question is written part by part: a byte that says what comes, then what it is made of.
//! Numbers have fixed lengths, little-endian; lists and texts begin with how long they are. What a
//! number is computed in follows from where it stands, so that it is read as what it must be:
//! nothing can be read that could not be asked.
//!
//! Promises: whatever the bytes, reading ends with a question that can be asked of a table with
//! these columns or with an error, does not panic, and takes no more memory than the bytes are
//! worth. What comes back from elsewhere can be checked before it is merged
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

/// The first byte: who knows another form does not read on.
const FORM: u8 = 1;

/// Whoever reads gives up where more than so many parts lie in each other.
const DEPTH_MAX: usize = 200;

const KEYS_MAX: usize = 256;
const MEASURES_MAX: usize = 4_096;

/// Sets of keys may take more memory than their bytes.
const KEY_SETS_MAX: usize = 16;

impl Aggregation {
    /// The question as bytes; `None` where it is larger than anybody reads.
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        encode::encode(self)
    }

    /// A question that was asked elsewhere, of a table with columns of these types.
    ///
    /// # Errors
    /// Where the bytes are no question, or none for such a table (08P01).
    pub fn from_bytes(bytes: &[u8], types: &[DataType]) -> Result<Aggregation> {
        decode::decode(bytes, types)
    }
}

fn malformed(what: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, format!("a question is malformed: {what}"))
}
