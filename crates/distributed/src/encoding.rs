//! Rows as the messages of a worker's answer: in Arrow's form for a gateway that computes with
//! them, or in the form that the gateway's client reads.
//!
//! In a client's form, each message begins with how many rows it has, so that a gateway can count
//! them without opening the rest.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use thalweg_cluster::chunks::ChunkWriter;
use thalweg_cluster::relay::COUNT_BYTES;
use thalweg_dialect::errors::from_datafusion;
use thalweg_formats::flight::{self, Frame};
use thalweg_formats::postgres::{EncodedRows, RowEncoder, ValueFormat};
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::row_form::Kind;
use thalweg_types::{Error, Result, SqlState};

use crate::rows::{self, RowWriter};

/// Makes messages of batches.
pub(crate) enum Encoding {
    Arrow { schema: SchemaRef, writer: Option<RowWriter>, rows: Option<RecordBatch> },
    DataRows { told: SchemaRef, encoder: RowEncoder, batch: Option<(EncodedRows, usize)> },
    Flight { told: SchemaRef, encoder: flight::Encoder, frames: VecDeque<Frame> },
}

impl Encoding {
    /// For rows of a schema.
    ///
    /// # Errors
    /// Where the form is none.
    pub(crate) fn new(schema: SchemaRef, form: Option<&wire::RowForm>) -> Result<Encoding> {
        let Some(form) = form else {
            return Ok(Encoding::Arrow { schema, writer: None, rows: None });
        };
        let (told, _) = rows::decode(&form.columns)?;
        if told.fields().len() != schema.fields().len() {
            return Err(no_form());
        }
        match &form.kind {
            Some(Kind::DataRows(rows)) if rows.binary.len() == told.fields().len() => {
                let format = |is_binary: &bool| match is_binary {
                    true => ValueFormat::Binary,
                    false => ValueFormat::Text,
                };
                let formats = rows.binary.iter().map(format).collect();
                let encoder = RowEncoder::new(Arc::clone(&told), formats);
                Ok(Encoding::DataRows { told, encoder, batch: None })
            }
            Some(Kind::Flight(_)) => {
                let fields: Vec<_> =
                    told.fields().iter().map(|field| flight::wire_field(field)).collect();
                let encoder = flight::Encoder::new(Arc::new(Schema::new(fields)))?;
                Ok(Encoding::Flight { told, encoder, frames: VecDeque::new() })
            }
            _ => Err(no_form()),
        }
    }

    /// Takes the next rows, once all others are written.
    ///
    /// # Errors
    /// Where they cannot be in this form.
    pub(crate) fn take(&mut self, batch: RecordBatch) -> Result<()> {
        let shown = |batch: &RecordBatch, told: &SchemaRef| {
            thalweg_query::shown(batch, told).map_err(|error| from_datafusion(error, ""))
        };
        match self {
            Encoding::Arrow { rows, .. } => *rows = Some(batch),
            Encoding::DataRows { told, encoder, batch: next } => {
                *next = Some((encoder.batch(&shown(&batch, told)?)?, 0));
            }
            Encoding::Flight { told, encoder, frames } => {
                frames.extend(encoder.encode(&shown(&batch, told)?)?);
            }
        }
        Ok(())
    }

    /// Writes a message; false where there is nothing to write.
    ///
    /// # Errors
    /// Where a row cannot be in this form.
    pub(crate) fn write(&mut self, out: &mut ChunkWriter) -> Result<bool> {
        match self {
            Encoding::Arrow { schema, writer, rows } => {
                let writer = match writer {
                    Some(writer) => writer,
                    // The schema goes first, also where no rows follow.
                    None => {
                        let mut first = RowWriter::new(schema)?;
                        out.shared(&first.take().into());
                        writer.insert(first)
                    }
                };
                let Some(rows) = rows.take() else { return Ok(false) };
                writer.write(&rows)?;
                out.shared(&writer.take().into());
                Ok(true)
            }
            Encoding::DataRows { batch, .. } => {
                let Some((rows, at)) = batch.as_mut().filter(|(rows, at)| *at < rows.rows()) else {
                    return Ok(false);
                };
                out.message_until(|bytes, end| data_rows(rows, at, bytes, end))?;
                Ok(true)
            }
            Encoding::Flight { frames, .. } => {
                let Some(Frame { pieces, rows, .. }) = frames.pop_front() else {
                    return Ok(false);
                };
                let count = Bytes::copy_from_slice(&count(rows));
                out.message_of(std::iter::once(count).chain(pieces));
                Ok(true)
            }
        }
    }
}

/// Appends rows from a place on, at least one, and how many there are before them.
fn data_rows(
    rows: &mut EncodedRows,
    at: &mut usize,
    bytes: &mut Vec<u8>,
    end: usize,
) -> Result<()> {
    let (start, from) = (bytes.len(), *at);
    bytes.extend_from_slice(&[0; COUNT_BYTES]);
    while *at < rows.rows() && (*at == from || bytes.len() < end) {
        rows.data_row(*at, bytes)?;
        *at += 1;
    }
    bytes[start..][..COUNT_BYTES].copy_from_slice(&count(*at - from));
    Ok(())
}

fn count(rows: usize) -> [u8; COUNT_BYTES] {
    u32::try_from(rows).expect("a batch has fewer rows").to_be_bytes()
}

fn no_form() -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, "rows are asked for in a form that is none")
}
