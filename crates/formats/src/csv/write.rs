//! Writes record batches as delimited text.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use thalweg_types::Result;

use crate::text::style::{self, SessionStyle};
use crate::text::{Scratch, ValueFormatter};
use crate::{Format, WriteOptions};

/// Renders batches as CSV or as `COPY`'s text format, with PostgreSQL's rules for quotes.
#[derive(Clone)]
pub struct CsvWriter {
    is_text: bool,
    delimiter: u8,
    quote: u8,
    escape: u8,
    null: String,
    /// For each column, true if its values are always quoted.
    force_quote: Vec<bool>,
    /// In a single column, a value `\.` would end the data unless it is quoted.
    is_single_column: bool,
    style: Option<Arc<SessionStyle>>,
}

/// The rows of one batch.
pub struct CsvRows {
    writer: CsvWriter,
    columns: Vec<ValueFormatter>,
    rows: usize,
    /// Buffer for one value.
    value: Scratch,
}

impl CsvRows {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Appends a row with its line end.
    pub fn row(&mut self, row: usize, out: &mut String) {
        let writer = &self.writer;
        for (place, column) in self.columns.iter().enumerate() {
            writer.delimit(place, out);
            match column.text(row, &mut self.value) {
                Some(value) => writer.value(value, writer.force_quote[place], out),
                None => out.push_str(&writer.null),
            }
        }
        out.push('\n');
    }
}

impl CsvWriter {
    /// A writer with the delimiter, quotes and NULL text of the format and options. It writes
    /// values in the [current](style::current) style.
    #[must_use]
    pub fn new(format: Format, schema: &SchemaRef, options: &WriteOptions) -> CsvWriter {
        let marks = &options.marks;
        let force = |name: &str| options.force_quote.contains(name);
        CsvWriter {
            is_text: format == Format::Text,
            delimiter: marks.delimiter_for(format),
            quote: marks.quote(),
            escape: marks.escape(),
            null: marks.null_for(format).to_owned(),
            force_quote: schema.fields().iter().map(|field| force(field.name())).collect(),
            is_single_column: schema.fields().len() == 1,
            style: style::current(),
        }
    }

    /// Appends the line of column names.
    pub fn header(&self, schema: &Schema, out: &mut String) {
        for (place, field) in schema.fields().iter().enumerate() {
            self.delimit(place, out);
            self.value(field.name(), false, out);
        }
        out.push('\n');
    }

    pub(crate) fn rows(&self, batch: &RecordBatch, out: &mut String) -> Result<()> {
        let mut rows = self.batch(batch)?;
        for row in 0..batch.num_rows() {
            rows.row(row, out);
        }
        Ok(())
    }

    /// The rows of a batch, to be written one by one.
    ///
    /// # Errors
    /// If a column has a type that cannot be written.
    pub fn batch(&self, batch: &RecordBatch) -> Result<CsvRows> {
        let columns = batch.columns().iter();
        let columns = columns.map(|column| ValueFormatter::of_session(column, self.style.clone()));
        let columns = columns.collect::<Result<_>>()?;
        let (writer, value) = (self.clone(), Scratch::default());
        Ok(CsvRows { writer, columns, rows: batch.num_rows(), value })
    }

    fn delimit(&self, place: usize, out: &mut String) {
        if place > 0 {
            out.push(char::from(self.delimiter));
        }
    }

    fn value(&self, value: &str, force_quote: bool, out: &mut String) {
        if self.is_text {
            self.escaped(value, out);
        } else if force_quote || self.needs_quotes(value) {
            self.quoted(value, out);
        } else {
            out.push_str(value);
        }
    }

    fn needs_quotes(&self, value: &str) -> bool {
        value == self.null
            || (self.is_single_column && value == "\\.")
            || value.bytes().any(|byte| {
                byte == self.delimiter || byte == self.quote || byte == b'\n' || byte == b'\r'
            })
    }

    fn quoted(&self, value: &str, out: &mut String) {
        let (quote, escape) = (char::from(self.quote), char::from(self.escape));
        out.push(quote);
        for character in value.chars() {
            if character == quote || character == escape {
                out.push(escape);
            }
            out.push(character);
        }
        out.push(quote);
    }

    fn escaped(&self, value: &str, out: &mut String) {
        for character in value.chars() {
            let letter = match character {
                '\x08' => 'b',
                '\x0c' => 'f',
                '\n' => 'n',
                '\r' => 'r',
                '\t' => 't',
                '\x0b' => 'v',
                '\\' => '\\',
                other if other == char::from(self.delimiter) => other,
                other => {
                    out.push(other);
                    continue;
                }
            };
            out.push('\\');
            out.push(letter);
        }
    }
}
