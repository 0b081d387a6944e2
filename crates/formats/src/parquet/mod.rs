//! Parquet files. A row group is a unit of work.

mod nesting;
mod read;
mod write;

pub use nesting::check_parquet_nesting;
pub(crate) use read::{ParquetReader, ParquetUnit, open, schema};
pub(crate) use write::ParquetWriter;
