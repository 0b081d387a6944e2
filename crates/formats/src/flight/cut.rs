//! Extracts some of the rows of an encoded message by decoding it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::root_as_message;
use thalweg_types::{Error, Result, SqlState};

use super::{DATA_BODY, DATA_HEADER, Encoder, Frame, GRPC_PREFIX_BYTES, key};

/// Some of the rows of a message, as new messages. `wire` is the schema that clients see.
///
/// # Errors
/// If the message is not one of an [`Encoder`] for these columns, or has too few rows.
pub fn rows_among(message: &[u8], wire: &SchemaRef, wanted: Range<usize>) -> Result<Vec<Frame>> {
    let (header, body) = parts(message).ok_or_else(|| damaged(&"it has no rows"))?;
    let header = root_as_message(header).map_err(|error| damaged(&error))?;
    let rows = header.header_as_record_batch().ok_or_else(|| damaged(&"it has no rows"))?;
    let (body, version) = (Buffer::from(body), header.version());
    let known = HashMap::new();
    let rows = read_record_batch(&body, rows, Arc::clone(wire), &known, None, &version);
    let rows = rows.map_err(|error| damaged(&error))?;
    if wanted.end > rows.num_rows() {
        return Err(damaged(&"it has fewer rows"));
    }
    Encoder::new(Arc::clone(wire))?.encode(&rows.slice(wanted.start, wanted.len()))
}

/// The header and the body of a gRPC message.
fn parts(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let fields = message.get(GRPC_PREFIX_BYTES..)?;
    let (header, fields) = field(DATA_HEADER, fields)?;
    let (body, fields) = field(DATA_BODY, fields)?;
    fields.is_empty().then_some((header, body))
}

/// The next field, which must have this number, and the rest after it.
fn field(number: u32, fields: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, rest) = varint(fields)?;
    let (length, rest) = varint(rest)?;
    let length = usize::try_from(length).ok().filter(|_| found == key(number))?;
    rest.split_at_checked(length)
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    const BYTES_MAX: usize = 10;
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(BYTES_MAX) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if *byte < 0x80 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

fn damaged(why: &dyn std::fmt::Display) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, format!("a message of rows is damaged: {why}"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int64Array, ListBuilder, RecordBatch};
    use arrow::array::{StringViewArray, StringViewBuilder};
    use arrow::datatypes::{Int64Type, Schema};

    use super::*;
    use crate::flight::wire_field;

    /// Ten numbered rows, and the schema that clients see.
    fn numbered() -> (RecordBatch, SchemaRef) {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        let texts = (0..10).map(|row| (row % 3 > 0).then(|| format!("the text of row {row}")));
        let texts: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        for row in 0..10 {
            lists.append_value((0..row).map(|item| Some(format!("{row}, {item}"))));
        }
        let lists: ArrayRef = Arc::new(lists.finish());
        let columns = [("n", numbers), ("t", texts), ("l", lists)];
        let rows = RecordBatch::try_from_iter_with_nullable(
            columns.map(|(name, column)| (name, column, true)),
        );
        let rows = rows.unwrap();
        let schema = rows.schema();
        let fields: Vec<_> = schema.fields().iter().map(|field| wire_field(field)).collect();
        (rows, Arc::new(Schema::new(fields)))
    }

    fn bytes_of(frames: Vec<Frame>) -> Vec<u8> {
        let [frame] = <[Frame; 1]>::try_from(frames).expect("few rows are one message");
        let bytes: Vec<u8> = frame.pieces.iter().flatten().copied().collect();
        assert_eq!(bytes.len(), frame.bytes);
        bytes
    }

    #[test]
    fn rows_are_those_that_were_wanted() {
        let (rows, wire) = numbered();
        let encoded = |rows: &RecordBatch| {
            bytes_of(Encoder::new(Arc::clone(&wire)).unwrap().encode(rows).unwrap())
        };
        let whole = encoded(&rows);
        for wanted in [0..10, 0..1, 3..7, 9..10] {
            let found = bytes_of(rows_among(&whole, &wire, wanted.clone()).unwrap());
            let (header, body) = parts(&found).unwrap();
            let header = root_as_message(header).unwrap();
            let batch = header.header_as_record_batch().unwrap();
            let (body, known) = (Buffer::from(body), HashMap::new());
            let version = header.version();
            let wire = Arc::clone(&wire);
            let found = read_record_batch(&body, batch, wire, &known, None, &version).unwrap();
            let numbers = found.column(0).as_primitive::<Int64Type>().values();
            assert_eq!(numbers.to_vec(), (0..10).collect::<Vec<i64>>()[wanted.clone()]);
            let texts = rows.column(1).as_string_view().iter().skip(wanted.start);
            assert!(found.column(1).as_string::<i32>().iter().eq(texts.take(wanted.len())));
            for (at, row) in wanted.enumerate() {
                let list = found.column(2).as_list::<i32>().value(at);
                assert_eq!(list.len(), row);
                assert!(list.as_string::<i32>().iter().all(|item| {
                    item.is_some_and(|item| item.starts_with(&format!("{row}, ")))
                }));
            }
        }
        assert!(rows_among(&whole, &wire, 5..11).is_err());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let (rows, wire) = numbered();
        let whole = bytes_of(Encoder::new(Arc::clone(&wire)).unwrap().encode(&rows).unwrap());
        for end in [0, 4, 7, 40, whole.len() - 1] {
            assert!(rows_among(&whole[..end], &wire, 0..1).is_err(), "{end}");
        }
    }
}
