//! Writes record batches to files of any format.

use std::io::{BufWriter, Write};
use std::path::Path;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use thalweg_types::Result;

use crate::arrow_ipc::ArrowWriter;
use crate::csv::CsvWriter;
use crate::files::{NewFile, unknown_format};
use crate::json::JsonWriter;
use crate::output::{Fault, Output, write_error};
use crate::parquet::ParquetWriter;
use crate::reader::not_in_files;
use crate::{Format, WriteOptions};

const FILE_BUFFER_BYTES: usize = 256 << 10;
/// Approximate number of rows in a piece of text.
const TEXT_ROWS: usize = 4_096;

/// Writes batches of one schema in one format.
///
/// A file under construction is removed when its writer is dropped before [`Writer::finish`].
pub struct Writer {
    // Dropped first, so that nothing is written to a file that is being removed.
    encoder: Encoder,
    file: Option<NewFile>,
    fault: Fault,
}

enum Encoder {
    Csv(CsvWriter, Text),
    Json(JsonWriter, Text),
    Parquet(Box<ParquetWriter>),
    Arrow(Box<ArrowWriter>),
}

/// The destination of formatted text.
struct Text {
    out: Output,
    buffer: String,
}

impl Writer {
    /// A writer of `options.format`, or CSV if this is `None`.
    pub fn new(
        out: Box<dyn Write + Send>,
        schema: &SchemaRef,
        options: &WriteOptions,
    ) -> Result<Writer> {
        let format = options.format.unwrap_or(Format::Csv);
        Writer::with_format(format, Output::new(out), schema, options, None)
    }

    fn with_format(
        format: Format,
        out: Output,
        schema: &SchemaRef,
        options: &WriteOptions,
        file: Option<NewFile>,
    ) -> Result<Writer> {
        let fault = out.fault();
        let encoder = Encoder::new(format, out, schema, options);
        Ok(Writer { encoder: encoder.map_err(|error| fault.or(error))?, file, fault })
    }

    /// A writer of a file that appears under its name, complete, at [`Writer::finish`].
    ///
    /// Without `options.format` the name determines the format.
    pub fn create_file(path: &Path, schema: &SchemaRef, options: &WriteOptions) -> Result<Writer> {
        let format = options.format.or_else(|| Format::of_path(path));
        let format = format.ok_or_else(|| unknown_format(path))?;
        let file = NewFile::create(path)?;
        let out = BufWriter::with_capacity(FILE_BUFFER_BYTES, file.writer()?);
        Writer::with_format(format, Output::new(Box::new(out)), schema, options, Some(file))
    }

    /// Writes a batch. After an error the file is incomplete and must be discarded.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written = match &mut self.encoder {
            Encoder::Csv(csv, text) => text.write(batch, |rows, out| csv.rows(rows, out)),
            Encoder::Json(json, text) => text.write(batch, |rows, out| json.rows(rows, out)),
            Encoder::Parquet(writer) => writer.write(batch),
            Encoder::Arrow(writer) => writer.write(batch),
        };
        written.map_err(|error| self.fault.or(error))
    }

    /// Writes the remaining data; a file then gets its name.
    pub fn finish(self) -> Result<()> {
        let finished = self.encoder.finish();
        let mut out = finished.map_err(|error| self.fault.or(error))?;
        out.flush().map_err(|error| write_error(&error))?;
        drop(out);
        self.file.map_or(Ok(()), NewFile::finish)
    }
}

impl Encoder {
    fn new(
        format: Format,
        out: Output,
        schema: &SchemaRef,
        options: &WriteOptions,
    ) -> Result<Encoder> {
        options.checked(format)?;
        let mut text = Text { out, buffer: String::new() };
        Ok(match format {
            Format::Csv | Format::Tsv | Format::Text => {
                let csv = CsvWriter::new(format, schema, options);
                if options.header {
                    csv.header(schema, &mut text.buffer);
                    text.hand_on()?;
                }
                Encoder::Csv(csv, text)
            }
            Format::Json => Encoder::Json(JsonWriter::new(schema), text),
            Format::Parquet => {
                Encoder::Parquet(Box::new(ParquetWriter::new(text.out, schema, options)?))
            }
            Format::Arrow | Format::ArrowStream => {
                Encoder::Arrow(Box::new(ArrowWriter::new(format, text.out, schema)?))
            }
            Format::Binary => return Err(not_in_files(format)),
        })
    }

    /// Writes the end; returns the output.
    fn finish(self) -> Result<Output> {
        match self {
            Encoder::Csv(_, text) | Encoder::Json(_, text) => Ok(text.out),
            Encoder::Parquet(writer) => writer.finish(),
            Encoder::Arrow(writer) => writer.finish(),
        }
    }
}

impl Text {
    fn write(
        &mut self,
        batch: &RecordBatch,
        render: impl Fn(&RecordBatch, &mut String) -> Result<()>,
    ) -> Result<()> {
        for from in (0..batch.num_rows()).step_by(TEXT_ROWS) {
            let rows = TEXT_ROWS.min(batch.num_rows() - from);
            render(&batch.slice(from, rows), &mut self.buffer)?;
            self.hand_on()?;
        }
        Ok(())
    }

    fn hand_on(&mut self) -> Result<()> {
        let written = self.out.write_all(self.buffer.as_bytes());
        written.map_err(|error| write_error(&error))?;
        self.buffer.clear();
        Ok(())
    }
}
