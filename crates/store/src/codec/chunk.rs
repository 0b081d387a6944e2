//! Encodes closed chunks with their dictionaries and zones, so that decoding recomputes neither:
//! as a whole, or each column for itself.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::datatypes::DataType as ArrowType;
use thalweg_types::{Result, RowId, TableSchema};

use super::input::{Input, put_varint};
use super::values::{get_nulls, put_nulls};
use super::{column, damaged, text, values};
use crate::closed::{Column, Values};
use crate::{ClosedChunk, Codes, Dictionary, Zone};
use thalweg_columns::arrow_type;

const PLAIN: u8 = 0;
const CODES_U8: u8 = 1;
const CODES_U16: u8 = 2;

/// Encodes a closed chunk.
#[must_use]
pub fn encode_chunk(chunk: &ClosedChunk) -> Vec<u8> {
    let mut out = Vec::with_capacity(chunk.memory_bytes() / 3);
    put_varint(&mut out, chunk.rows() as u64);
    put_varint(&mut out, chunk.column_count() as u64);
    for column in chunk.column_parts() {
        put_column(column, &mut out);
    }
    out
}

/// Encodes one column of a closed chunk.
#[must_use]
pub fn encode_chunk_column(chunk: &ClosedChunk, index: usize) -> Vec<u8> {
    let column = &chunk.column_parts()[index];
    let mut out = Vec::with_capacity(column.memory_bytes() / 3);
    put_column(column, &mut out);
    out
}

/// Decodes a chunk from [`encode_chunk`].
pub fn decode_chunk(schema: &TableSchema, bytes: &[u8]) -> Result<ClosedChunk> {
    let mut input = Input::new(bytes);
    let rows = input.length()?;
    let columns = input.length()?;
    if rows > RowId::CHUNK_ROWS || columns != schema.columns.len() {
        return Err(damaged("a chunk has another form than its table"));
    }
    let mut parts = Vec::with_capacity(columns);
    for column in &schema.columns {
        parts.push(Arc::new(get_column(&arrow_type(&column.data_type), rows, &mut input)?));
    }
    input.end()?;
    Ok(ClosedChunk::from_columns(parts, rows))
}

/// Decodes a chunk whose columns were encoded by [`encode_chunk_column`]. `read` returns the bytes
/// of the column at a position of the schema.
pub fn decode_chunk_columns(
    schema: &TableSchema,
    rows: usize,
    mut read: impl FnMut(usize) -> Result<Vec<u8>>,
) -> Result<ClosedChunk> {
    if rows > RowId::CHUNK_ROWS {
        return Err(damaged("a chunk has another form than its table"));
    }
    let mut parts = Vec::with_capacity(schema.columns.len());
    for (index, column) in schema.columns.iter().enumerate() {
        let bytes = read(index)?;
        let mut input = Input::new(&bytes);
        parts.push(Arc::new(get_column(&arrow_type(&column.data_type), rows, &mut input)?));
        input.end()?;
    }
    Ok(ClosedChunk::from_columns(parts, rows))
}

fn put_column(column: &Column, out: &mut Vec<u8>) {
    put_zone(&column.zone, out);
    match &column.values {
        Values::Plain(array) => {
            out.push(PLAIN);
            column::encode(array, out);
        }
        Values::Dictionary(dictionary) => put_dictionary(dictionary, out),
    }
}

fn get_column(data_type: &ArrowType, rows: usize, input: &mut Input<'_>) -> Result<Column> {
    let zone = get_zone(data_type, input)?;
    let values = match input.byte()? {
        PLAIN => Values::Plain(column::decode(data_type, rows, input)?),
        form => Values::Dictionary(get_dictionary(form, data_type, rows, input)?),
    };
    Ok(Column { values, zone })
}

fn put_zone(zone: &Zone, out: &mut Vec<u8>) {
    put_varint(out, zone.null_count as u64);
    out.push(u8::from(zone.range.is_some()));
    if let Some((least, greatest)) = &zone.range {
        values::encode(least, out);
        values::encode(greatest, out);
    }
}

fn get_zone(data_type: &ArrowType, input: &mut Input<'_>) -> Result<Zone> {
    let null_count = input.length()?;
    let range = match input.byte()? {
        0 => None,
        1 => {
            let least: ArrayRef = values::decode(data_type, 1, input)?;
            Some((least, values::decode(data_type, 1, input)?))
        }
        _ => return Err(damaged("a zone begins with an unknown byte")),
    };
    Ok(Zone { range, null_count })
}

fn put_dictionary(dictionary: &Dictionary, out: &mut Vec<u8>) {
    let codes = match &dictionary.codes {
        Codes::U8(codes) => {
            out.push(CODES_U8);
            codes.inner().as_slice()
        }
        Codes::U16(codes) => {
            out.push(CODES_U16);
            codes.inner().as_slice()
        }
    };
    put_nulls(dictionary.nulls.as_ref(), out);
    out.extend_from_slice(codes);
    put_varint(out, dictionary.values.len() as u64);
    text::encode(&dictionary.values, out);
}

fn get_dictionary(
    form: u8,
    data_type: &ArrowType,
    rows: usize,
    input: &mut Input<'_>,
) -> Result<Dictionary> {
    if data_type != &ArrowType::Utf8View || !matches!(form, CODES_U8 | CODES_U16) {
        return Err(damaged("a column has a form that its type can't have"));
    }
    let nulls = get_nulls(rows, input)?;
    let codes = if form == CODES_U8 {
        Codes::U8(ScalarBuffer::new(Buffer::from(input.bytes(rows)?), 0, rows))
    } else {
        Codes::U16(ScalarBuffer::new(Buffer::from(input.bytes(rows * 2)?), 0, rows))
    };
    let count = input.length()?;
    if count > RowId::CHUNK_ROWS {
        return Err(damaged("a dictionary is too long"));
    }
    let values = text::decode(data_type, count, None, input)?;
    Dictionary::checked(codes, nulls, &values)
        .ok_or_else(|| damaged("a code has no value in its dictionary"))
}
