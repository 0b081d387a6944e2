//! Rows as `DataRow` messages.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use thalweg_types::{Error, Result, SqlState};

use super::binary::{BinaryColumn, NULL, append_bytes};
use crate::text::style::{self, SessionStyle};
use crate::text::{Scratch, ValueFormatter};

/// The form of a column's values on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueFormat {
    #[default]
    Text,
    Binary,
}

/// Maximum length of a message: the protocol's lengths are signed 32-bit integers.
const MESSAGE_BYTES_MAX: usize = i32::MAX as usize;

/// Writes the rows of batches of one schema.
pub struct RowEncoder {
    schema: SchemaRef,
    formats: Vec<ValueFormat>,
    /// The style of the values in text form.
    style: Option<Arc<SessionStyle>>,
}

/// The columns of one batch, ready to be written row by row.
pub struct EncodedRows {
    columns: Vec<Column>,
    rows: usize,
    /// Buffer for the text of one value.
    text: Scratch,
}

enum Column {
    Text(ValueFormatter),
    Binary(BinaryColumn),
}

impl RowEncoder {
    /// Writes values in text form in the [current](style::current) style.
    ///
    /// # Panics
    /// If there are not as many formats as columns.
    #[must_use]
    pub fn new(schema: SchemaRef, formats: Vec<ValueFormat>) -> RowEncoder {
        assert_eq!(schema.fields().len(), formats.len(), "each column has a format");
        RowEncoder { schema, formats, style: style::current() }
    }

    /// # Errors
    /// If a column has a type that cannot be written.
    pub fn batch(&self, batch: &RecordBatch) -> Result<EncodedRows> {
        let columns = batch.columns().iter().zip(self.schema.fields()).zip(&self.formats);
        let columns = columns.map(|((array, field), format)| match format {
            ValueFormat::Text => {
                ValueFormatter::of_session(array, self.style.clone()).map(Column::Text)
            }
            ValueFormat::Binary => BinaryColumn::new(field, array).map(Column::Binary),
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(EncodedRows { columns, rows: batch.num_rows(), text: Scratch::default() })
    }
}

impl EncodedRows {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Appends a whole `DataRow` message.
    ///
    /// # Errors
    /// If the row is too long for a message; then nothing was appended.
    pub fn data_row(&mut self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.push(b'D');
        out.extend_from_slice(&[0; 4]);
        self.values(row, out);
        end_message(start, out)
    }

    /// Appends the number of a row's values, and each value with its length.
    pub(super) fn values(&mut self, row: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.columns.len() as u16).to_be_bytes());
        for column in &self.columns {
            match column {
                Column::Text(column) => match column.text(row, &mut self.text) {
                    Some(text) => append_bytes(text.as_bytes(), out),
                    None => out.extend_from_slice(&NULL),
                },
                Column::Binary(column) => column.append(row, out),
            }
        }
    }
}

/// Writes the length of the message that begins at `start` and ends at the end of `out`.
///
/// # Errors
/// If the message is too long; then it is removed.
pub(super) fn end_message(start: usize, out: &mut Vec<u8>) -> Result<()> {
    let length = out.len() - start - 1;
    if length > MESSAGE_BYTES_MAX {
        out.truncate(start);
        let message = "a row is too long for a message of the protocol";
        return Err(Error::new(SqlState::LIMIT_EXCEEDED, message));
    }
    out[start + 1..start + 5].copy_from_slice(&(length as u32).to_be_bytes());
    Ok(())
}

/// A range of consecutive messages, selected by number; `None` if there are too few. Each `DataRow`
/// or `CopyData` message is a row.
#[must_use]
pub fn messages_among(messages: &Bytes, wanted: Range<usize>) -> Option<Bytes> {
    let behind = |start: usize, count: usize| {
        (0..count).try_fold(start, |at, _| {
            let length: [u8; 4] = messages.get(at + 1..at + 5)?.try_into().ok()?;
            Some(at + 1 + u32::from_be_bytes(length) as usize)
        })
    };
    let start = behind(0, wanted.start)?;
    let end = behind(start, wanted.len())?;
    (end <= messages.len()).then(|| messages.slice(start..end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_at_their_ends() {
        let all = Bytes::from_static(b"D\0\0\0\x06abD\0\0\0\x04D\0\0\0\x05c");
        let among = |wanted| messages_among(&all, wanted);
        assert_eq!(among(0..3).unwrap(), all);
        assert_eq!(among(0..1).unwrap(), all[..7]);
        assert_eq!(among(1..2).unwrap(), all[7..12]);
        assert_eq!(among(2..3).unwrap(), all[12..]);
        assert_eq!(among(3..3).unwrap(), Bytes::new());
        assert_eq!(among(0..4), None);
        assert_eq!(messages_among(&all.slice(..all.len() - 1), 0..3), None);
    }
}
