//! Rows as `CopyData` messages, one for each row, as clients read them after `COPY … TO STDOUT`.
//!
//! Only the node that talks to the client adds the head before the first row and the end after the
//! last one; rows may be encoded on any node.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use thalweg_types::{Error, Result};

use super::copy::BinaryCopyEncoder;
use super::row::{EncodedRows, ValueFormat, end_message};
use crate::{CsvRows, CsvWriter, Format, WriteOptions};

/// Encodes the batches of one result as messages.
pub enum CopyEncoder {
    Text(CsvWriter),
    Binary(BinaryCopyEncoder),
}

/// The rows of one batch, ready to be written one by one.
pub enum CopyRows {
    Text {
        rows: CsvRows,
        /// Buffer for one row.
        line: String,
    },
    Binary(EncodedRows),
}

impl CopyEncoder {
    /// # Errors
    /// If clients do not support the format.
    pub fn new(schema: &SchemaRef, options: &WriteOptions) -> Result<CopyEncoder> {
        match options.format.unwrap_or(Format::Text) {
            Format::Binary => Ok(CopyEncoder::Binary(BinaryCopyEncoder::new(Arc::clone(schema)))),
            format if format.is_delimited() => {
                Ok(CopyEncoder::Text(CsvWriter::new(format, schema, options)))
            }
            format => Err(Error::unsupported(format!("COPY TO STDOUT as {}", format.extension()))
                .with_hint("Formats are text, csv and binary.")),
        }
    }

    /// The format of all values: text or binary.
    #[must_use]
    pub fn form(&self) -> ValueFormat {
        match self {
            CopyEncoder::Text(_) => ValueFormat::Text,
            CopyEncoder::Binary(_) => ValueFormat::Binary,
        }
    }

    /// The bytes before the first row: the columns' names, if requested, or the header of binary
    /// data.
    #[must_use]
    pub fn head(&self, schema: &SchemaRef, options: &WriteOptions) -> Vec<u8> {
        match self {
            CopyEncoder::Text(writer) if options.header => {
                let mut head = String::new();
                writer.header(schema, &mut head);
                head.into_bytes()
            }
            CopyEncoder::Text(_) => Vec::new(),
            CopyEncoder::Binary(encoder) => {
                let mut head = Vec::new();
                encoder.begin(&mut head);
                head
            }
        }
    }

    /// Appends the bytes after the last row.
    pub fn end(&self, out: &mut Vec<u8>) {
        match self {
            CopyEncoder::Text(_) => {}
            CopyEncoder::Binary(_) => BinaryCopyEncoder::end(out),
        }
    }

    /// # Errors
    /// If a column has a type that cannot be written.
    pub fn batch(&self, batch: &RecordBatch) -> Result<CopyRows> {
        Ok(match self {
            CopyEncoder::Text(writer) => {
                CopyRows::Text { rows: writer.batch(batch)?, line: String::new() }
            }
            CopyEncoder::Binary(encoder) => CopyRows::Binary(encoder.batch(batch)?),
        })
    }
}

impl CopyRows {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            CopyRows::Text { rows, .. } => rows.rows(),
            CopyRows::Binary(rows) => rows.rows(),
        }
    }

    /// Appends a whole `CopyData` message with `head` before the row. `head` is empty afterwards.
    ///
    /// # Errors
    /// If the row is too long for a message; then nothing was appended.
    pub fn copy_data(&mut self, row: usize, head: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.push(b'd');
        out.extend_from_slice(&[0; 4]);
        out.append(head);
        match self {
            CopyRows::Text { rows, line } => {
                line.clear();
                rows.row(row, line);
                out.extend_from_slice(line.as_bytes());
            }
            CopyRows::Binary(rows) => BinaryCopyEncoder::row(rows, row, out),
        }
        end_message(start, out)
    }
}
