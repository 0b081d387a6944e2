//! Prints the rows of a result in the requested format.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use futures::TryStreamExt as _;
use thalweg::{BatchStream, Error, Session};
use thalweg_formats::text::ValueFormatter;
use thalweg_formats::{WriteOptions, Writer};

use crate::config::Format;
use crate::print::table::{Header, Style, TablePrinter};
use crate::shell::Output;

/// The reason why a result was not written to its end.
pub enum PrintError {
    /// The statement failed, perhaps after its first rows.
    Statement(Error),
    /// The output failed: the disk is full, or the reader is gone.
    Output(io::Error),
}

impl From<Error> for PrintError {
    fn from(error: Error) -> PrintError {
        PrintError::Statement(error)
    }
}

impl From<io::Error> for PrintError {
    fn from(error: io::Error) -> PrintError {
        PrintError::Output(error)
    }
}

/// Prints rows as an aligned table. Returns the number of rows.
pub async fn print_table(
    schema: &Schema,
    mut rows: BatchStream,
    style: Style,
    out: &mut dyn Write,
) -> Result<u64, PrintError> {
    let mut printer = TablePrinter::new(headers(schema), style);
    while let Some(batch) = rows.try_next().await? {
        push_batch(&mut printer, &batch, out)?;
    }
    Ok(printer.finish(out)?)
}

fn push_batch(
    printer: &mut TablePrinter,
    batch: &RecordBatch,
    out: &mut dyn Write,
) -> Result<(), PrintError> {
    let columns: Vec<ValueFormatter> =
        batch.columns().iter().map(ValueFormatter::new).collect::<Result<_, _>>()?;
    for row in 0..batch.num_rows() {
        let values = columns.iter().map(|column| {
            (!column.is_null(row)).then(|| {
                let mut text = String::new();
                column.format(row, &mut text);
                text
            })
        });
        printer.push_row(values, out)?;
    }
    Ok(())
}

fn headers(schema: &Schema) -> Vec<Header> {
    let header = |field: &FieldRef| Header {
        name: field.name().clone(),
        align_right: is_number(field.data_type()),
    };
    schema.fields().iter().map(header).collect()
}

fn is_number(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_number(values),
        other => other.is_numeric(),
    }
}

/// Writes rows in a format for programs.
pub async fn write_rows(
    schema: &SchemaRef,
    rows: BatchStream,
    format: Format,
    output: &Output,
) -> Result<(), PrintError> {
    if format.is_binary() {
        output.take_whole()?;
    }
    let options = WriteOptions {
        format: Some(file_format(format, output.is_file())),
        header: true,
        ..WriteOptions::default()
    };
    write_formatted(schema, rows, &options, output).await
}

/// Writes rows with the given options.
pub async fn write_formatted(
    schema: &SchemaRef,
    mut rows: BatchStream,
    options: &WriteOptions,
    output: &Output,
) -> Result<(), PrintError> {
    let io_first = |error| output.take_failure().map_or(PrintError::Statement(error), Into::into);
    let mut writer = Writer::new(Box::new(output.clone()), schema, options).map_err(io_first)?;
    while let Some(batch) = rows.try_next().await? {
        writer.write(&batch).map_err(io_first)?;
    }
    writer.finish().map_err(io_first)
}

/// Arrow has a format for files, which allows random access, and one for pipes.
fn file_format(format: Format, is_file: bool) -> thalweg_formats::Format {
    match format {
        Format::Table => unreachable!("tables are for people"),
        Format::Csv => thalweg_formats::Format::Csv,
        Format::Json => thalweg_formats::Format::Json,
        Format::Parquet => thalweg_formats::Format::Parquet,
        Format::Arrow if is_file => thalweg_formats::Format::Arrow,
        Format::Arrow => thalweg_formats::Format::ArrowStream,
    }
}

/// All rows of a small result as text, with NULL as the empty text.
pub async fn fetch(session: &mut Session, sql: &str) -> Result<Vec<Vec<String>>, Error> {
    let Some(mut batches) = session.execute(sql).await?.rows else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    while let Some(batch) = batches.try_next().await? {
        let columns: Vec<ValueFormatter> =
            batch.columns().iter().map(ValueFormatter::new).collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let text = |column: &ValueFormatter| {
                let mut text = String::new();
                column.format(row, &mut text);
                text
            };
            rows.push(columns.iter().map(text).collect());
        }
    }
    Ok(rows)
}
