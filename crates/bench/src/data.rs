//! The data of the workloads as Parquet files, made once and kept in the cache.

use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use thalweg_types::{Error, Result};

use crate::errors::while_doing;
use crate::tpch::{TABLES, Table};

/// The TPC-H tables of one scale.
pub struct TpchFiles {
    directory: PathBuf,
}

impl TpchFiles {
    /// Finds them in the cache, or makes those that are missing.
    pub fn at_scale(cache: &Path, scale: f64) -> Result<TpchFiles> {
        let directory = cache.join(format!("tpch-{scale}"));
        std::fs::create_dir_all(&directory).map_err(while_doing(directory.display()))?;
        let files = TpchFiles { directory };
        for table in &TABLES {
            if !files.path(table.name).exists() {
                println!("  making {} at scale {scale}", table.name);
                files.make(table, scale)?;
            }
        }
        Ok(files)
    }

    pub fn path(&self, table: &str) -> PathBuf {
        self.directory.join(format!("{table}.parquet"))
    }

    /// The rows of a table as plain Arrow, batch by batch.
    pub fn read(&self, table: &str) -> Result<ParquetRecordBatchReader> {
        let path = self.path(table);
        let failed = || path.display().to_string();
        #[expect(clippy::disallowed_methods, reason = "the benchmarks' own data, not a database's")]
        let file = std::fs::File::open(&path).map_err(while_doing(failed()))?;
        ParquetRecordBatchReaderBuilder::try_new(file)
            .and_then(ParquetRecordBatchReaderBuilder::build)
            .map_err(while_doing(failed()))
    }

    /// Writes beside the place and renames, so that a file is whole or not there.
    #[expect(clippy::disallowed_methods, reason = "the benchmarks' own data, not a database's")]
    fn make(&self, table: &Table, scale: f64) -> Result<()> {
        let path = self.path(table.name);
        let unfinished = path.with_extension("unfinished");
        let failed = |error: &dyn std::fmt::Display| -> Error {
            while_doing(format!("making {}", path.display()))(error)
        };
        let file = std::fs::File::create(&unfinished).map_err(|error| failed(&error))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .build();
        let schema = table.schema();
        let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties))
            .map_err(|error| failed(&error))?;
        for columns in table.rows(scale) {
            let batch = RecordBatch::try_new(schema.clone(), columns);
            let batch = batch.map_err(|error| failed(&error))?;
            writer.write(&batch).map_err(|error| failed(&error))?;
        }
        writer.close().map_err(|error| failed(&error))?;
        std::fs::rename(&unfinished, &path).map_err(|error| failed(&error))
    }
}
