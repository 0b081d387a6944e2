//! Rows as `CopyData` messages, as clients read them behind `COPY … TO STDOUT`: one for each row.
//!
//! What stands ahead of the first row and behind the last one is said once, by whoever speaks with
//! the client; rows may be encoded wherever they lie.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use thalweg_types::{Error, Result};

use super::copy::BinaryCopyEncoder;
use super::row::{EncodedRows, ValueFormat, end_message};
use crate::{CsvRows, CsvWriter, Format, WriteOptions};

/// Makes messages of the batches of one result.
pub enum CopyEncoder {
    Text(CsvWriter),
    Binary(BinaryCopyEncoder),
}

/// The rows of one batch, ready to be written one by one.
pub enum CopyRows {
    Text {
        rows: CsvRows,
        /// One of them on its way.
        line: String,
    },
    Binary(EncodedRows),
}

impl CopyEncoder {
    /// # Errors
    /// Where clients know no such format.
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

    #[must_use]
    pub fn form(&self) -> ValueFormat {
        match self {
            CopyEncoder::Text(_) => ValueFormat::Text,
            CopyEncoder::Binary(_) => ValueFormat::Binary,
        }
    }

    /// What stands ahead of the first row: the columns' names, where they are wanted, or what
    /// binary data begin with.
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

    /// Appends what stands behind the last row.
    pub fn end(&self, out: &mut Vec<u8>) {
        match self {
            CopyEncoder::Text(_) => {}
            CopyEncoder::Binary(_) => BinaryCopyEncoder::end(out),
        }
    }

    /// # Errors
    /// Where a column has a type that cannot be written.
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
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            CopyRows::Text { rows, .. } => rows.rows(),
            CopyRows::Binary(rows) => rows.rows(),
        }
    }

    /// Appends a whole `CopyData` message, in which `head` stands ahead of the row. That is empty
    /// from then on.
    ///
    /// # Errors
    /// Where the row is too long for a message; then nothing was appended.
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
