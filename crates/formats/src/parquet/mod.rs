//! Parquet files. A row group is a unit of work.

mod read;
mod write;

pub(crate) use read::{ParquetReader, ParquetUnit, open, schema};
pub(crate) use write::ParquetWriter;
