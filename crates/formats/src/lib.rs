//! Reads and writes tabular files: CSV, `COPY`'s text format, JSON lines, Parquet and Arrow IPC.
//!
//! Reading returns record batches of exactly the requested schema, or an error that names the file,
//! the line or row, the column and the value. Nothing is cast silently: a value that does not fit
//! its column is rejected. Damaged files are errors, not panics.
//!
//! Files are written atomically: a complete file appears under its name, or none.
//!
//! Values as text ([`text`]) have PostgreSQL's forms everywhere.

mod arrow_ipc;
pub mod columns;
mod convert;
mod copy;
mod csv;
mod files;
pub mod flight;
mod format;
mod guard;
mod guess;
mod json;
pub mod line_protocol;
mod lines;
mod location;
mod options;
mod output;
mod parquet;
pub mod plain;
mod portable;
pub mod postgres;
mod projection;
mod ranges;
mod reader;
pub mod rows;
pub mod text;
mod writer;

pub use copy::CopyDecoder;
pub use csv::{CsvDecoder, CsvRows, CsvWriter, csv_header};
pub use files::create_directory;
pub use format::Format;
pub use json::{JsonArraySplitter, JsonDecoder, json_keys};
pub use options::{ColumnSet, Compression, Header, Marks, ReadOptions, WriteOptions};
pub use parquet::check_parquet_nesting;
pub use reader::{Reader, Unit, UnitReader, open, schema_of};
pub use writer::Writer;
