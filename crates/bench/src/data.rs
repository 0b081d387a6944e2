//! The data of the workloads as Parquet files, generated once and stored in the cache.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::csv;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use thalweg_types::Result;

use crate::errors::while_doing;
use crate::tpch::{TABLES, Table};

/// The TPC-H tables of one scale.
pub struct TpchFiles {
    directory: PathBuf,
}

impl TpchFiles {
    /// Finds the tables in the cache, or generates the missing ones.
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

    /// The Parquet file of a table.
    pub fn path(&self, table: &str) -> PathBuf {
        self.directory.join(format!("{table}.parquet"))
    }

    /// The rows of a table as plain Arrow, batch by batch.
    pub fn read(&self, table: &str) -> Result<ParquetRecordBatchReader> {
        self.reader(table)?.build().map_err(while_doing(table))
    }

    /// Number of rows of a table.
    pub fn rows(&self, table: &str) -> Result<u64> {
        let rows = self.reader(table)?.metadata().file_metadata().num_rows();
        u64::try_from(rows).map_err(while_doing(table))
    }

    fn reader(&self, table: &str) -> Result<ParquetRecordBatchReaderBuilder<File>> {
        let path = self.path(table);
        #[expect(clippy::disallowed_methods, reason = "the benchmarks' own data, not a database's")]
        let file = File::open(&path).map_err(while_doing(path.display()))?;
        ParquetRecordBatchReaderBuilder::try_new(file).map_err(while_doing(path.display()))
    }

    /// A table as CSV without a header, generated if it is not in the cache.
    pub fn csv(&self, table: &str) -> Result<PathBuf> {
        let path = self.directory.join(format!("{table}.csv"));
        if path.exists() {
            return Ok(path);
        }
        println!("  making {table} as CSV");
        create_whole(&path, |file| {
            let mut writer = csv::WriterBuilder::new().with_header(false).build(file);
            for batch in self.read(table)? {
                let batch = batch.map_err(while_doing(table))?;
                writer.write(&batch).map_err(while_doing(table))?;
            }
            Ok(())
        })?;
        Ok(path)
    }

    fn make(&self, table: &Table, scale: f64) -> Result<()> {
        write_parquet(&self.path(table.name), &table.schema(), table.rows(scale))
    }
}

/// Writes batches of columns to a Parquet file.
pub fn write_parquet(
    path: &Path,
    schema: &SchemaRef,
    batches: impl Iterator<Item = Vec<ArrayRef>>,
) -> Result<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    create_whole(path, |file| {
        let made = ArrowWriter::try_new(file, schema.clone(), Some(properties));
        let mut writer = made.map_err(while_doing(path.display()))?;
        for columns in batches {
            let batch = RecordBatch::try_new(schema.clone(), columns);
            let batch = batch.map_err(while_doing(path.display()))?;
            writer.write(&batch).map_err(while_doing(path.display()))?;
        }
        writer.close().map(drop).map_err(while_doing(path.display()))
    })
}

/// Writes to a temporary file and renames it, so that a file is complete or absent.
#[expect(clippy::disallowed_methods, reason = "the benchmarks' own data, not a database's")]
fn create_whole(path: &Path, write: impl FnOnce(File) -> Result<()>) -> Result<()> {
    let unfinished = path.with_extension("unfinished");
    let failed = || format!("making {}", path.display());
    let file = File::create(&unfinished).map_err(while_doing(failed()))?;
    write(file)?;
    std::fs::rename(&unfinished, path).map_err(while_doing(failed()))
}
