//! Encodes rows and chunks for logs and checkpoints.
//!
//! Batches have two forms. Small ones are lists of varints: a row of two integers and a short text
//! takes about as many bytes as a hand-written encoding. Large ones, and chunks, are columns:
//! integers as differences from the minimum in as few bytes as the largest difference needs, texts
//! as lengths and (compressed) bytes, dictionaries as in memory.
//!
//! Decoding copies, so the result does not keep the input alive. It never panics, whatever the
//! bytes. It does not detect damaged values; callers verify a checksum first.

mod chunk;
mod column;
mod input;
mod integers;
mod text;
mod values;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use thalweg_types::{Error, Result};

pub use chunk::{decode_chunk, decode_chunk_columns, encode_chunk, encode_chunk_column};
use input::{Input, put_varint};
pub(crate) use values::{decode_values, encode_value};

/// The first byte of a batch whose columns are lists of varints.
const SMALL: u8 = 0;
/// The first byte of a batch of encoded columns.
const COLUMNAR: u8 = 1;

/// Minimum number of rows of a columnar batch.
const COLUMNAR_ROWS_MIN: usize = 256;

/// Largest number of rows of a batch; bounds what damaged bytes can make the decoder allocate.
const BATCH_ROWS_MAX: usize = 1 << 24;

/// Encodes a batch of at most 16 M rows of column types that tables have.
#[must_use]
pub fn encode_batch(batch: &RecordBatch) -> Vec<u8> {
    let rows = batch.num_rows();
    assert!(rows <= BATCH_ROWS_MAX, "the caller splits what is larger");
    let mut out = Vec::with_capacity(16);
    let columnar = rows >= COLUMNAR_ROWS_MIN;
    out.push(if columnar { COLUMNAR } else { SMALL });
    put_varint(&mut out, rows as u64);
    put_varint(&mut out, batch.num_columns() as u64);
    for column in batch.columns() {
        if columnar {
            column::encode(column, &mut out);
        } else {
            values::encode(column, &mut out);
        }
    }
    out
}

/// Decodes a batch from [`encode_batch`].
pub fn decode_batch(schema: &SchemaRef, bytes: &[u8]) -> Result<RecordBatch> {
    let mut input = Input::new(bytes);
    let form = input.byte()?;
    let rows = input.length()?;
    let columns = input.length()?;
    if columns != schema.fields().len() || rows > BATCH_ROWS_MAX || form > COLUMNAR {
        return Err(damaged("a batch has another form than its table"));
    }
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns);
    for field in schema.fields() {
        arrays.push(match form {
            SMALL => values::decode(field.data_type(), rows, &mut input)?,
            _ => column::decode(field.data_type(), rows, &mut input)?,
        });
    }
    input.end()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options)
        .map_err(|error| damaged("a batch does not match its table").with_source(error))
}

fn damaged(what: &str) -> Error {
    Error::corrupt(format!("{what}: its bytes are damaged"))
}

#[cfg(test)]
mod tests;
