//! The rows of a `COPY … FROM STDIN` as their bytes arrive.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use thalweg_types::Result;

use crate::postgres::BinaryCopyDecoder;
use crate::{CsvDecoder, Format, ReadOptions};

/// Decodes all formats in which clients may send rows: text, CSV and PostgreSQL's binary one.
pub enum CopyDecoder {
    Text(Box<CsvDecoder>),
    Binary(BinaryCopyDecoder),
}

impl CopyDecoder {
    /// `source` names the text in errors.
    ///
    /// # Errors
    /// If the options are inconsistent, or do not match the schema.
    pub fn new(
        source: &str,
        schema: &SchemaRef,
        options: &ReadOptions,
        batch_rows: usize,
    ) -> Result<CopyDecoder> {
        Ok(match options.format {
            Some(Format::Binary) => {
                CopyDecoder::Binary(BinaryCopyDecoder::new(Arc::clone(schema), batch_rows))
            }
            _ => {
                let decoder = CsvDecoder::new(source, schema, options, batch_rows)?;
                CopyDecoder::Text(Box::new(decoder))
            }
        })
    }

    /// Adds the next piece; returns the batches that are full.
    ///
    /// # Errors
    /// The first value that cannot be read.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<RecordBatch>> {
        match self {
            CopyDecoder::Text(decoder) => decoder.push(piece),
            CopyDecoder::Binary(decoder) => decoder.push(piece),
        }
    }

    /// Ends the data; returns the remaining batches.
    ///
    /// # Errors
    /// Like [`push`](Self::push), and if the data end within a row.
    pub fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        match self {
            CopyDecoder::Text(decoder) => decoder.finish(),
            CopyDecoder::Binary(decoder) => decoder.finish(),
        }
    }
}
