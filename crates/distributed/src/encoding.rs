//! Encodes rows as the messages of a worker's answer: in Arrow's format for a gateway that computes
//! with them, or in the wire format of the gateway's client.
//!
//! In a client's format, each message begins with its number of rows, so that a gateway can count
//! rows without decoding the rest.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use thalweg_cluster::chunks::{ChunkWriter, MESSAGE_BYTES_MAX};
use thalweg_cluster::relay::COUNT_BYTES;
use thalweg_formats::flight::{self, Frame};
use thalweg_formats::postgres::{CopyEncoder, CopyRows, EncodedRows, RowEncoder, ValueFormat};
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::row_form::Kind;
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::errors::from_datafusion;

use crate::copy_options;
use crate::rows::{self, Cuts, MESSAGE_BYTES, RowWriter};

/// Encodes batches message by message, so that no more than one message waits for the network.
pub(crate) enum Encoding {
    Arrow { schema: SchemaRef, writer: Option<RowWriter>, cuts: Cuts },
    Rows { described: SchemaRef, encoder: Encoder, batch: Option<(Rows, usize)> },
    Flight { described: SchemaRef, encoder: flight::Encoder, cuts: Cuts, frames: VecDeque<Frame> },
}

/// Encodes each row as a PostgreSQL message.
pub(crate) enum Encoder {
    DataRow(RowEncoder),
    CopyData(CopyEncoder),
}

/// The rows of one batch, ready to be written one by one.
pub(crate) enum Rows {
    DataRow(EncodedRows),
    CopyData(CopyRows),
}

impl Encoder {
    fn batch(&self, batch: &RecordBatch) -> Result<Rows> {
        Ok(match self {
            Encoder::DataRow(encoder) => Rows::DataRow(encoder.batch(batch)?),
            Encoder::CopyData(encoder) => Rows::CopyData(encoder.batch(batch)?),
        })
    }
}

impl Rows {
    fn count(&self) -> usize {
        match self {
            Rows::DataRow(rows) => rows.rows(),
            Rows::CopyData(rows) => rows.rows(),
        }
    }

    /// Appends the message of a row.
    fn message(&mut self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Rows::DataRow(rows) => rows.data_row(row, out),
            Rows::CopyData(rows) => rows.copy_data(row, &mut Vec::new(), out),
        }
    }
}

impl Encoding {
    /// An encoder for rows of a schema; the rows travel in Arrow's format if there is no `form`.
    ///
    /// # Errors
    /// If the form is malformed.
    pub(crate) fn new(schema: SchemaRef, form: Option<&wire::RowForm>) -> Result<Encoding> {
        let Some(form) = form else {
            return Ok(Encoding::Arrow { schema, writer: None, cuts: Cuts::default() });
        };
        let (described, _) = rows::decode(&form.columns)?;
        if described.fields().len() != schema.fields().len() {
            return Err(no_form());
        }
        match &form.kind {
            Some(Kind::DataRows(rows)) if rows.binary.len() == described.fields().len() => {
                let format = |is_binary: &bool| match is_binary {
                    true => ValueFormat::Binary,
                    false => ValueFormat::Text,
                };
                let formats = rows.binary.iter().map(format).collect();
                let encoder = Encoder::DataRow(RowEncoder::new(Arc::clone(&described), formats));
                Ok(Encoding::Rows { described, encoder, batch: None })
            }
            Some(Kind::CopyData(copy)) => {
                let encoder = CopyEncoder::new(&described, &copy_options::from_wire(copy)?)?;
                Ok(Encoding::Rows { described, encoder: Encoder::CopyData(encoder), batch: None })
            }
            Some(Kind::Flight(_)) => {
                let fields: Vec<_> =
                    described.fields().iter().map(|field| flight::wire_field(field)).collect();
                let encoder = flight::Encoder::new(Arc::new(Schema::new(fields)))?;
                let (cuts, frames) = (Cuts::default(), VecDeque::new());
                Ok(Encoding::Flight { described, encoder, cuts, frames })
            }
            _ => Err(no_form()),
        }
    }

    /// True if messages are encoded value by value, not by copying columns.
    pub(crate) fn is_made_of_values(&self) -> bool {
        matches!(self, Encoding::Rows { .. })
    }

    /// Takes the next batch. All rows of the last one must be written.
    ///
    /// # Errors
    /// If its values have no such form.
    pub(crate) fn take(&mut self, batch: RecordBatch) -> Result<()> {
        let shown = |batch: &RecordBatch, described: &SchemaRef| {
            thalweg_query::shown(batch, described).map_err(|error| from_datafusion(error, ""))
        };
        match self {
            Encoding::Arrow { cuts, .. } => *cuts = Cuts::of(batch, MESSAGE_BYTES),
            Encoding::Rows { described, encoder, batch: next } => {
                *next = Some((encoder.batch(&shown(&batch, described)?)?, 0));
            }
            Encoding::Flight { described, cuts, .. } => {
                *cuts = Cuts::of(shown(&batch, described)?, MESSAGE_BYTES);
            }
        }
        Ok(())
    }

    /// Writes a message. Returns false if there is nothing to write.
    ///
    /// # Errors
    /// If a row cannot be encoded.
    pub(crate) fn write(&mut self, out: &mut ChunkWriter) -> Result<bool> {
        match self {
            Encoding::Arrow { schema, writer, cuts } => {
                let writer = match writer {
                    Some(writer) => writer,
                    // The schema goes first, even if no rows follow.
                    None => {
                        let mut first = RowWriter::new(schema)?;
                        out.shared(&first.take().into());
                        writer.insert(first)
                    }
                };
                let Some(rows) = cuts.next() else { return Ok(false) };
                writer.write(&rows)?;
                let message = writer.take();
                check_length(message.len())?;
                out.shared(&message.into());
                Ok(true)
            }
            Encoding::Rows { batch, .. } => {
                let Some((rows, at)) = batch.as_mut().filter(|(rows, at)| *at < rows.count())
                else {
                    return Ok(false);
                };
                out.message_until(|bytes, end| rows_until(rows, at, bytes, end))?;
                Ok(true)
            }
            Encoding::Flight { encoder, cuts, frames, .. } => {
                while frames.is_empty() {
                    let Some(rows) = cuts.next() else { return Ok(false) };
                    frames.extend(encoder.encode(&rows)?);
                }
                let Some(Frame { pieces, rows, bytes }) = frames.pop_front() else {
                    return Ok(false);
                };
                check_length(COUNT_BYTES + bytes)?;
                let count = Bytes::copy_from_slice(&count(rows));
                out.message_of(std::iter::once(count).chain(pieces));
                Ok(true)
            }
        }
    }
}

/// Appends the number of rows and then rows from `at` on, at least one, until `bytes` reaches
/// `end`.
fn rows_until(rows: &mut Rows, at: &mut usize, bytes: &mut Vec<u8>, end: usize) -> Result<()> {
    let (start, from) = (bytes.len(), *at);
    bytes.extend_from_slice(&[0; COUNT_BYTES]);
    while *at < rows.count() && (*at == from || bytes.len() < end) {
        rows.message(*at, bytes)?;
        *at += 1;
    }
    check_length(bytes.len() - start)?;
    bytes[start..][..COUNT_BYTES].copy_from_slice(&count(*at - from));
    Ok(())
}

fn count(rows: usize) -> [u8; COUNT_BYTES] {
    u32::try_from(rows).expect("a batch has fewer rows").to_be_bytes()
}

/// Checks the length of a message.
///
/// # Errors
/// If a message is longer than readers accept. Only a message of a single row can be that long.
fn check_length(bytes: usize) -> Result<()> {
    if bytes <= MESSAGE_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "a row takes {bytes} bytes, and rows of more than {MESSAGE_BYTES_MAX} bytes do not travel \
         between nodes"
    );
    Err(Error::new(SqlState::LIMIT_EXCEEDED, message))
}

fn no_form() -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, "rows are asked for in a form that is none")
}
