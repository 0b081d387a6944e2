//! Answers encoded directly as protobuf, without an object for each.

use bytes::Bytes;
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use thalweg_protocol::{PREFIX_BYTES, put_prefix, v1};
use thalweg_types::Error;

use crate::records::values::failure;

/// Size in bytes from which a response is sent. Many clients accept at most 4 MiB.
const RESPONSE_BYTES: usize = 1 << 20;

/// The response under construction.
pub(in crate::records) struct Answers {
    /// Space for the prefix, then the encoded answers.
    bytes: Vec<u8>,
    /// Number of look-ups answered so far, counted from the stream's first.
    answered: u64,
    answered_before: u64,
}

// Field numbers in `SearchResponse` and `Found`.
const ANSWERED: u32 = 1;
const FOUND: u32 = 2;
const INDEX: u32 = 1;
const PACKED: u32 = 2;
const VERSIONS: u32 = 4;

impl Answers {
    /// For a stream with this many answered look-ups.
    pub(super) fn new(answered: u64) -> Answers {
        Answers { bytes: vec![0; PREFIX_BYTES], answered, answered_before: answered }
    }

    /// Marks the look-up at `index`, and all before it, as answered.
    pub(in crate::records) fn pass(&mut self, index: u64) {
        self.answered = index + 1;
    }

    /// Appends one packed row that a look-up found.
    pub(super) fn found(&mut self, index: u64, row: &[u8], version: Option<u64>) {
        let index_bytes = if index == 0 { 0 } else { 1 + encoded_len_varint(index) };
        let row_bytes = 1 + encoded_len_varint(row.len() as u64) + row.len();
        let version_bytes = if version.is_some() { 2 + 8 } else { 0 };
        let out = &mut self.bytes;
        encode_key(FOUND, WireType::LengthDelimited, out);
        encode_varint((index_bytes + row_bytes + version_bytes) as u64, out);
        if index != 0 {
            encode_key(INDEX, WireType::Varint, out);
            encode_varint(index, out);
        }
        encode_key(PACKED, WireType::LengthDelimited, out);
        encode_varint(row.len() as u64, out);
        out.extend_from_slice(row);
        if let Some(version) = version {
            encode_key(VERSIONS, WireType::LengthDelimited, out);
            encode_varint(8, out);
            out.extend_from_slice(&version.to_le_bytes());
        }
        self.pass(index);
    }

    /// Appends the answer of a look-up.
    pub(in crate::records) fn add(&mut self, found: &v1::Found) {
        encode_key(FOUND, WireType::LengthDelimited, &mut self.bytes);
        found.encode_length_delimited(&mut self.bytes).expect("a vector grows as it is written to");
    }

    pub(in crate::records) fn fail(&mut self, index: u64, error: &Error) {
        let failure = Some(failure(index, error));
        self.add(&v1::Found { index, failure, ..v1::Found::default() });
        self.pass(index);
    }

    pub(in crate::records) fn is_long(&self) -> bool {
        self.bytes.len() >= RESPONSE_BYTES
    }

    /// The response so far, with its prefix; `None` if it contains nothing new.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        if self.bytes.len() == PREFIX_BYTES && self.answered == self.answered_before {
            return None;
        }
        self.answered_before = self.answered;
        let mut bytes = std::mem::replace(&mut self.bytes, vec![0; PREFIX_BYTES]);
        encode_key(ANSWERED, WireType::Varint, &mut bytes);
        encode_varint(self.answered, &mut bytes);
        let prefix = put_prefix(bytes.len() - PREFIX_BYTES);
        bytes[..PREFIX_BYTES].copy_from_slice(&prefix);
        Some(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use thalweg_protocol::v1::{Found, SearchResponse};

    use super::*;

    #[test]
    fn a_response_is_what_prost_reads() {
        let mut answers = Answers::new(0);
        assert!(answers.take().is_none());
        answers.found(0, b"row", None);
        answers.found(300, &[7; 200], Some(u64::MAX));
        answers.fail(301, &Error::internal("why"));
        answers.pass(400);
        let bytes = answers.take().unwrap();
        assert_eq!(bytes[..PREFIX_BYTES], put_prefix(bytes.len() - PREFIX_BYTES));
        let response = SearchResponse::decode(&bytes[PREFIX_BYTES..]).unwrap();
        let found = |index, row: &'static [u8], versions| Found {
            index,
            packed: vec![Bytes::from_static(row)],
            versions,
            ..Found::default()
        };
        assert_eq!(response.answered, 401);
        assert_eq!(response.found[0], found(0, b"row", vec![]));
        assert_eq!(response.found[1], found(300, &[7; 200], vec![u64::MAX]));
        assert_eq!(response.found[2].failure.as_ref().unwrap().sqlstate, "XX000");
        assert!(answers.take().is_none());
        answers.pass(401);
        let bytes = answers.take().unwrap();
        assert_eq!(SearchResponse::decode(&bytes[PREFIX_BYTES..]).unwrap().answered, 402);
    }
}
