//! Delimited text: CSV as PostgreSQL reads and writes it, and `COPY`'s own text format.

mod decoder;
mod infer;
mod layout;
mod records;
mod split;
mod split_text;
mod write;

pub(crate) use decoder::Start;
pub use decoder::{CsvDecoder, csv_header};
pub(crate) use infer::infer;
pub(crate) use layout::{Layout, missing_column, place_of};
pub(crate) use records::invalid_bytes;
pub use write::{CsvRows, CsvWriter};
