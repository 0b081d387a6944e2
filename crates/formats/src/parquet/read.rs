//! Reads row groups as record batches.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type as PhysicalType;
use thalweg_types::Result;

use super::nesting;
use crate::files;
use crate::guard::{damaged, guarded};
use crate::location::{display_name, located};
use crate::projection::{Projection, decoded_type, places};

/// State that all row groups of a file share.
struct ParquetFile {
    path: PathBuf,
    name: String,
    metadata: ArrowReaderMetadata,
    projection: Projection,
    batch_rows: usize,
}

pub(crate) struct ParquetUnit {
    file: Arc<ParquetFile>,
    row_group: usize,
}

/// The declared schema of a file.
pub(crate) fn schema(path: &Path) -> Result<Schema> {
    Ok(load(path, &display_name(path))?.schema().as_ref().clone())
}

pub(crate) fn open(path: &Path, target: &SchemaRef, batch_rows: usize) -> Result<Vec<ParquetUnit>> {
    let name = display_name(path);
    let metadata = load(path, &name)?;
    let file_error = |error| located(error, name.clone());
    let metadata = hinted(&name, metadata, target).map_err(file_error)?;
    let projection = Projection::new(metadata.schema(), target).map_err(file_error)?;
    let row_groups = metadata.metadata().num_row_groups();
    let file = Arc::new(ParquetFile {
        path: path.to_owned(),
        name,
        metadata,
        projection,
        batch_rows: batch_rows.max(1),
    });
    let unit = |row_group| ParquetUnit { file: Arc::clone(&file), row_group };
    Ok((0..row_groups).map(unit).collect())
}

fn load(path: &Path, name: &str) -> Result<ArrowReaderMetadata> {
    nesting::check(path).map_err(|error| located(error, name.to_owned()))?;
    let file = files::open(path)?;
    guarded(name, || {
        ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
            // The schema that Arrow's writers embed in the file may be unusable by itself.
            .or_else(|_| {
                let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
                ArrowReaderMetadata::load(&file, options)
            })
            .map_err(|error| damaged(name, error))
    })
}

/// The metadata with the types in which the columns should be decoded, if that is possible.
fn hinted(
    name: &str,
    metadata: ArrowReaderMetadata,
    target: &SchemaRef,
) -> Result<ArrowReaderMetadata> {
    let places = places(metadata.schema(), target)?;
    let fields = metadata.schema().fields().iter().enumerate().map(|(place, field)| {
        let wanted = places.iter().position(|wanted| *wanted == place);
        let wanted = wanted.map(|wanted| target.field(wanted).data_type());
        let data_type = match is_int96(&metadata, place) {
            // In nanoseconds, the old form of timestamps would overflow after 2262.
            true => DataType::Timestamp(TimeUnit::Microsecond, None),
            false => decoded_type(field.data_type(), wanted),
        };
        field.as_ref().clone().with_data_type(data_type)
    });
    let hint = Schema::new(fields.collect::<Vec<Field>>());
    let options = ArrowReaderOptions::new().with_schema(Arc::new(hint));
    guarded(name, || {
        let file_metadata = Arc::clone(metadata.metadata());
        Ok(ArrowReaderMetadata::try_new(file_metadata, options).unwrap_or(metadata))
    })
}

/// True if a top-level column stores the old form of timestamps.
fn is_int96(metadata: &ArrowReaderMetadata, place: usize) -> bool {
    let root = &metadata.parquet_schema().root_schema().get_fields()[place];
    root.is_primitive() && root.get_physical_type() == PhysicalType::INT96
}

impl ParquetUnit {
    /// Number of compressed bytes of the row group.
    pub fn bytes(&self) -> u64 {
        let group = self.file.metadata.metadata().row_group(self.row_group);
        u64::try_from(group.compressed_size()).unwrap_or(0)
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Opens the row group with the projected columns. Fails if the file cannot be read or is
    /// damaged.
    pub fn read(self) -> Result<ParquetReader> {
        let file = &self.file;
        let input = files::open(&file.path)?;
        let places = file.projection.places.iter().copied();
        let mask = ProjectionMask::roots(file.metadata.parquet_schema(), places);
        let reader = guarded(&file.name, || {
            ParquetRecordBatchReaderBuilder::<File>::new_with_metadata(input, file.metadata.clone())
                .with_row_groups(vec![self.row_group])
                .with_projection(mask)
                .with_batch_size(file.batch_rows)
                .build()
                .map_err(|error| damaged(&file.name, error))
        })?;
        Ok(ParquetReader { reader: Some(reader), unit: self, rows_before: 0 })
    }
}

pub(crate) struct ParquetReader {
    /// `None` once everything is decoded or an error has occurred.
    reader: Option<ParquetRecordBatchReader>,
    unit: ParquetUnit,
    rows_before: usize,
}

impl ParquetReader {
    fn convert(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let file = &self.unit.file;
        // The decoder returns the wanted columns in the file's order.
        let mut order: Vec<usize> = file.projection.places.clone();
        order.sort_unstable();
        order.dedup();
        let column = |place: &usize| -> ArrayRef {
            let at = order.binary_search(place).expect("every wanted column is decoded");
            Arc::clone(batch.column(at))
        };
        let columns: Vec<ArrayRef> = file.projection.places.iter().map(column).collect();
        let (group, before) = (self.unit.row_group, self.rows_before);
        self.rows_before += batch.num_rows();
        file.projection.convert(batch.num_rows(), &columns, |row| {
            format!("{}, row group {group}, row {}", file.name, before + row + 1)
        })
    }
}

impl Iterator for ParquetReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let mut reader = self.reader.take()?;
        let name = self.unit.file.name.clone();
        let decoded =
            guarded(&name, || reader.next().transpose().map_err(|error| damaged(&name, error)));
        match decoded.transpose()? {
            Ok(batch) => {
                let converted = self.convert(&batch);
                if converted.is_ok() {
                    self.reader = Some(reader);
                }
                Some(converted)
            }
            Err(error) => {
                let place = format!("{name}, row group {}", self.unit.row_group);
                Some(Err(located(error, place)))
            }
        }
    }
}
