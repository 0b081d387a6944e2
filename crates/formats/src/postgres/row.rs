//! Rows as `DataRow` messages.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use thalweg_types::{Error, Result, SqlState};

use super::binary::{BinaryColumn, with_length};
use crate::text::ValueFormatter;

/// The form of a column's values on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueFormat {
    #[default]
    Text,
    Binary,
}

/// No message is longer: the protocol's lengths are signed and have 32 bits.
const MESSAGE_BYTES_MAX: usize = i32::MAX as usize;

/// Writes the rows of batches of one schema.
pub struct RowEncoder {
    schema: SchemaRef,
    formats: Vec<ValueFormat>,
}

/// The columns of one batch, ready to be written row by row.
pub struct EncodedRows {
    columns: Vec<Column>,
    rows: usize,
    /// Text of one value on its way.
    text: String,
}

enum Column {
    Text(ValueFormatter),
    Binary(BinaryColumn),
}

impl RowEncoder {
    /// # Panics
    /// Panics if there are not as many formats as columns.
    #[must_use]
    pub fn new(schema: SchemaRef, formats: Vec<ValueFormat>) -> RowEncoder {
        assert_eq!(schema.fields().len(), formats.len(), "each column has a format");
        RowEncoder { schema, formats }
    }

    /// # Errors
    /// Where a column has a type that cannot be written.
    pub fn batch(&self, batch: &RecordBatch) -> Result<EncodedRows> {
        let columns = batch.columns().iter().zip(self.schema.fields()).zip(&self.formats);
        let columns = columns.map(|((array, field), format)| match format {
            ValueFormat::Text => ValueFormatter::new(array).map(Column::Text),
            ValueFormat::Binary => BinaryColumn::new(field, array).map(Column::Binary),
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(EncodedRows { columns, rows: batch.num_rows(), text: String::new() })
    }
}

impl EncodedRows {
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Appends a whole `DataRow` message.
    ///
    /// # Errors
    /// Where the row is too long for a message; then nothing was appended.
    pub fn data_row(&mut self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.push(b'D');
        out.extend_from_slice(&[0; 4]);
        self.values(row, out);
        let length = out.len() - start - 1;
        if length > MESSAGE_BYTES_MAX {
            out.truncate(start);
            let message = "a row is too long for a message of the protocol";
            return Err(Error::new(SqlState::LIMIT_EXCEEDED, message));
        }
        out[start + 1..start + 5].copy_from_slice(&(length as u32).to_be_bytes());
        Ok(())
    }

    /// Appends how many values a row has, and each value with its length.
    pub(super) fn values(&mut self, row: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.columns.len() as u16).to_be_bytes());
        for column in &self.columns {
            match column {
                Column::Text(column) if !column.is_null(row) => {
                    self.text.clear();
                    column.format(row, &mut self.text);
                    out.extend_from_slice(&(self.text.len() as u32).to_be_bytes());
                    out.extend_from_slice(self.text.as_bytes());
                }
                Column::Binary(column) if !column.is_null(row) => {
                    with_length(out, |out| column.encode(row, out));
                }
                _ => out.extend_from_slice(&(-1_i32).to_be_bytes()),
            }
        }
    }
}
