//! `COPY` in binary: a signature, rows of values with their lengths, and a mark at the end.

use arrow::array::{ArrayRef, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use thalweg_types::{Error, Result, SqlState};

use super::decode::decode;
use super::row::{EncodedRows, RowEncoder, ValueFormat};

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// The signature, flags, and the length of an extension that nobody uses.
const HEADER_BYTES: usize = 19;
const END: [u8; 2] = (-1_i16).to_be_bytes();
/// No value is longer.
const VALUE_BYTES_MAX: usize = 1 << 30;

/// Rows to binary `COPY`.
pub struct BinaryCopyEncoder {
    rows: RowEncoder,
}

impl BinaryCopyEncoder {
    #[must_use]
    pub fn new(schema: SchemaRef) -> BinaryCopyEncoder {
        let formats = vec![ValueFormat::Binary; schema.fields().len()];
        BinaryCopyEncoder { rows: RowEncoder::new(schema, formats) }
    }

    pub fn begin(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(SIGNATURE);
        out.extend_from_slice(&[0; HEADER_BYTES - SIGNATURE.len()]);
    }

    /// # Errors
    /// As [`RowEncoder::batch`].
    pub fn batch(&self, batch: &RecordBatch) -> Result<EncodedRows> {
        self.rows.batch(batch)
    }

    pub fn row(rows: &mut EncodedRows, row: usize, out: &mut Vec<u8>) {
        rows.values(row, out);
    }

    pub fn end(out: &mut Vec<u8>) {
        out.extend_from_slice(&END);
    }
}

/// Binary `COPY` that comes in pieces, to rows.
pub struct BinaryCopyDecoder {
    schema: SchemaRef,
    buffer: Vec<u8>,
    /// Decoded rows that are not a batch yet: values column by column.
    columns: Vec<Vec<ArrayRef>>,
    rows: usize,
    batch_rows: usize,
    has_begun: bool,
    has_ended: bool,
}

impl BinaryCopyDecoder {
    #[must_use]
    pub fn new(schema: SchemaRef, batch_rows: usize) -> BinaryCopyDecoder {
        let columns = vec![Vec::new(); schema.fields().len()];
        BinaryCopyDecoder {
            schema,
            buffer: Vec::new(),
            columns,
            rows: 0,
            batch_rows,
            has_begun: false,
            has_ended: false,
        }
    }

    /// Takes the next piece; returns the batches that are full.
    ///
    /// # Errors
    /// Where the data are no rows of the schema.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<RecordBatch>> {
        self.buffer.extend_from_slice(piece);
        let buffer = std::mem::take(&mut self.buffer);
        let mut rest = buffer.as_slice();
        if !self.has_begun {
            let Some(after) = begin(rest)? else {
                self.buffer = buffer;
                return Ok(Vec::new());
            };
            (self.has_begun, rest) = (true, after);
        }
        let mut batches = Vec::new();
        while let Some(after) = self.take_row(rest)? {
            rest = after;
            if self.rows == self.batch_rows {
                batches.push(self.flush()?);
            }
        }
        self.buffer = rest.to_vec();
        Ok(batches)
    }

    /// Takes the end; returns the batches that are left.
    ///
    /// # Errors
    /// Where the data end within a row.
    pub fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        if !self.buffer.is_empty() && !self.has_ended {
            return Err(malformed("unexpected EOF in COPY data"));
        }
        Ok(if self.rows > 0 { vec![self.flush()?] } else { Vec::new() })
    }

    /// Takes one row off the front; `None` where there is no whole one.
    fn take_row<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>> {
        let Some((count, mut rest)) = bytes.split_first_chunk::<2>() else { return Ok(None) };
        let wanted = self.schema.fields().len();
        match i16::from_be_bytes(*count) {
            _ if self.has_ended => return Err(malformed("received copy data after EOF marker")),
            -1 => {
                self.has_ended = true;
                return Ok((!rest.is_empty()).then_some(rest));
            }
            count if usize::try_from(count) == Ok(wanted) => {}
            count => {
                let message = format!("row field count is {count}, expected {wanted}");
                return Err(malformed(&message));
            }
        }
        let mut values = Vec::with_capacity(wanted);
        for _ in 0..wanted {
            let Some((length, after)) = rest.split_first_chunk::<4>() else { return Ok(None) };
            match i32::from_be_bytes(*length) {
                -1 => {
                    values.push(None);
                    rest = after;
                }
                length => {
                    let length = usize::try_from(length).ok().filter(|n| *n <= VALUE_BYTES_MAX);
                    let length = length.ok_or_else(|| malformed("invalid field size"))?;
                    if after.len() < length {
                        return Ok(None);
                    }
                    let (value, after) = after.split_at(length);
                    values.push(Some(value));
                    rest = after;
                }
            }
        }
        for ((field, value), column) in
            self.schema.fields().iter().zip(values).zip(&mut self.columns)
        {
            column.push(decode(field, ValueFormat::Binary, value)?);
        }
        self.rows += 1;
        Ok(Some(rest))
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for values in &mut self.columns {
            let values = std::mem::take(values);
            let values: Vec<_> = values.iter().map(AsRef::as_ref).collect();
            columns.push(concat(&values).map_err(unfit)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(unfit)
    }
}

/// What follows the header; `None` where it is not all there.
fn begin(bytes: &[u8]) -> Result<Option<&[u8]>> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Err(malformed("COPY file signature not recognized"));
    }
    let Some(header) = bytes.get(..HEADER_BYTES) else { return Ok(None) };
    if header[SIGNATURE.len()..] != [0; HEADER_BYTES - SIGNATURE.len()] {
        return Err(malformed("unrecognized critical flags in COPY file header"));
    }
    Ok(Some(&bytes[HEADER_BYTES..]))
}

fn malformed(message: &str) -> Error {
    Error::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

fn unfit(error: arrow::error::ArrowError) -> Error {
    Error::internal("copied values do not fit their columns").with_source(error)
}
