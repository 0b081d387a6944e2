//! Writes record batches as row groups.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression as Codec, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use thalweg_types::{Error, Result};

use crate::output::Output;
use crate::portable::Portable;
use crate::{Compression, WriteOptions};

pub(crate) struct ParquetWriter {
    portable: Portable,
    writer: ArrowWriter<Output>,
}

impl ParquetWriter {
    /// Writes the start of the file. The options determine compression and the size of row groups.
    pub fn new(out: Output, schema: &SchemaRef, options: &WriteOptions) -> Result<ParquetWriter> {
        // Parquet's intervals have only milliseconds, so intervals are written as text.
        let portable = Portable::new(schema, true);
        let codec = match options.compression {
            Compression::None => Codec::UNCOMPRESSED,
            Compression::Snappy => Codec::SNAPPY,
            Compression::Zstd => Codec::ZSTD(ZstdLevel::default()),
        };
        let properties = WriterProperties::builder()
            .set_compression(codec)
            .set_max_row_group_row_count(Some(options.row_group_rows))
            .set_created_by(concat!("Thalweg ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let schema = SchemaRef::clone(&portable.schema);
        let writer = ArrowWriter::try_new(out, schema, Some(properties)).map_err(failed)?;
        Ok(ParquetWriter { portable, writer })
    }

    /// Writes a batch of the schema that was given to [`new`](Self::new).
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(&self.portable.convert(batch)?).map_err(failed)
    }

    /// Writes the footer; returns the output.
    pub fn finish(self) -> Result<Output> {
        self.writer.into_inner().map_err(failed)
    }
}

fn failed(error: ParquetError) -> Error {
    Error::internal(format!("could not write Parquet: {error}"))
}
