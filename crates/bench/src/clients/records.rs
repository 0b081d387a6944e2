//! The record API at its limits: rows are encoded ahead, and of replies only the counts are read.

use std::ops::Range;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use prost::Message as _;
use prost::encoding::{WireType, decode_key, decode_varint};
use thalweg_protocol::{Malformed, PREFIX_BYTES, RowWriter, put_prefix, v1};

use crate::account::{Account, key};
use crate::load::grpc::Replies;

/// A message with its prefix.
pub fn framed(message: &impl prost::Message, out: &mut Vec<u8>) {
    let length = message.encoded_len();
    out.reserve(PREFIX_BYTES + length);
    out.extend_from_slice(&put_prefix(length));
    message.encode(out).expect("a vector grows as it is written to");
}

/// The announcement of a table as number 0.
pub fn announced(table: &str, durability: v1::Durability, out: &mut Vec<u8>) {
    let table = v1::Table { number: 0, name: table.to_owned(), columns: Vec::new() };
    let request = v1::WriteRequest {
        durability: durability.into(),
        tables: vec![table],
        ..v1::WriteRequest::default()
    };
    framed(&request, out);
}

/// Like [`announced`], for a search.
pub fn searched(table: &str, out: &mut Vec<u8>) {
    let table = v1::Table { number: 0, name: table.to_owned(), columns: Vec::new() };
    framed(&v1::SearchRequest { tables: vec![table], ..v1::SearchRequest::default() }, out);
}

/// A message of packed upserts.
pub fn upserts(rows: impl IntoIterator<Item = Vec<u8>>, out: &mut Vec<u8>) {
    let packed = rows.into_iter().map(Bytes::from).collect();
    let rows = v1::Rows { packed, ..v1::Rows::default() };
    framed(&v1::WriteRequest { rows: vec![rows], ..v1::WriteRequest::default() }, out);
}

/// A row in the record API's encoding.
pub fn packed(row: &Account) -> Vec<u8> {
    let mut packed = RowWriter::new(3, false);
    packed.int4(row.key.cast_signed()).int4(row.amount.cast_signed()).bytes(row.owner()).finish()
}

/// A message of an Arrow batch of upserts.
pub fn batch(rows: &[Account], out: &mut Vec<u8>) {
    let text = |row: &Account| String::from_utf8_lossy(row.owner()).into_owned();
    let columns: [(&str, ArrayRef); 3] = [
        ("id", numbers(rows, |row| row.key)),
        ("amount", numbers(rows, |row| row.amount)),
        ("owner", std::sync::Arc::new(StringArray::from_iter_values(rows.iter().map(text)))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).expect("it is in memory");
    writer.write(&batch).expect("it is in memory");
    let arrow = Bytes::from(writer.into_inner().expect("it is in memory"));
    let rows = v1::Rows { arrow, ..v1::Rows::default() };
    framed(&v1::WriteRequest { rows: vec![rows], ..v1::WriteRequest::default() }, out);
}

fn numbers(rows: &[Account], value: impl Fn(&Account) -> u32) -> ArrayRef {
    let values = rows.iter().map(|row| value(row).cast_signed());
    std::sync::Arc::new(Int32Array::from_iter_values(values))
}

/// A message of look-ups of accounts.
pub fn look_ups(numbers: Range<u64>, keys: u64, out: &mut Vec<u8>) {
    let key = |number| Bytes::copy_from_slice(&key(number, keys).to_le_bytes());
    looked_up(numbers.map(key).collect(), out);
}

/// A message of look-ups of packed keys.
pub fn looked_up(packed: Vec<Bytes>, out: &mut Vec<u8>) {
    let keys = v1::Keys { packed, ..v1::Keys::default() };
    framed(&v1::SearchRequest { keys: vec![keys], ..v1::SearchRequest::default() }, out);
}

/// Replies to a `Write`.
#[derive(Default)]
pub struct Durable(u64);

impl Replies for Durable {
    fn reply(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let reply = v1::WriteResponse::decode(message).map_err(|_| Malformed("it is none"))?;
        if !reply.failures.is_empty() {
            return Err(Malformed("a row failed"));
        }
        self.0 = reply.durable;
        Ok(())
    }

    fn answered(&self) -> u64 {
        self.0
    }

    fn found(&self) -> u64 {
        0
    }
}

/// Replies to an `Upsert`: none until its end.
#[derive(Default)]
pub struct Summary(u64);

impl Replies for Summary {
    fn reply(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let reply = v1::WriteSummary::decode(message).map_err(|_| Malformed("it is none"))?;
        self.0 = reply.rows;
        Ok(())
    }

    fn answered(&self) -> u64 {
        self.0
    }

    fn found(&self) -> u64 {
        0
    }
}

/// Replies to a `Search`.
#[derive(Default)]
pub struct Found {
    answered: u64,
    found: u64,
}

impl Replies for Found {
    /// Rows are skipped without decoding: decoding them would cost more than the look-up.
    fn reply(&mut self, mut message: &[u8]) -> Result<(), Malformed> {
        const ANSWERED: u32 = 1;
        let cut = |_| Malformed("it is cut");
        while !message.is_empty() {
            let (tag, kind) = decode_key(&mut message).map_err(cut)?;
            let value = decode_varint(&mut message).map_err(cut)?;
            match kind {
                WireType::Varint if tag == ANSWERED => self.answered = value,
                WireType::LengthDelimited => {
                    let length = usize::try_from(value).map_err(|_| Malformed("it is cut"))?;
                    message = message.get(length..).ok_or(Malformed("it is cut"))?;
                    self.found += 1;
                }
                _ => return Err(Malformed("it is none")),
            }
        }
        Ok(())
    }

    fn answered(&self) -> u64 {
        self.answered
    }

    fn found(&self) -> u64 {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_found_are_counted_without_reading_them() {
        let found = |index| v1::Found {
            index,
            packed: vec![Bytes::from_static(b"row")],
            ..v1::Found::default()
        };
        let response = v1::SearchResponse { answered: 7, found: vec![found(2), found(6)] };
        let mut counted = Found::default();
        counted.reply(&response.encode_to_vec()).unwrap();
        assert_eq!((counted.answered, counted.found), (7, 2));
    }
}
