//! Reads files of any format as record batches of a given schema.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use thalweg_types::{Error, Result};

use crate::arrow_ipc::{self, ArrowReader, ArrowUnit};
use crate::columns::storable;
use crate::lines::{self, LinesReader, LinesUnit};
use crate::parquet::{self, ParquetReader, ParquetUnit};
use crate::{Format, ReadOptions, files};

/// Opened files, divided into units that threads can decode in parallel.
pub struct Reader {
    target: SchemaRef,
    units: Vec<Unit>,
}

/// Some rows of one file.
pub struct Unit(Work);

enum Work {
    Lines(LinesUnit),
    Parquet(ParquetUnit),
    Arrow(ArrowUnit),
}

/// Opens a file, all files of a directory, or the files that match a pattern (`*`, `?`).
///
/// Batches have exactly the schema `target` and at most `batch_rows` rows. Columns are matched by
/// name; in delimited text without a header also by position. Columns of the files that are not in
/// `target` are left out.
pub fn open(
    path: &Path,
    target: &SchemaRef,
    options: &ReadOptions,
    batch_rows: usize,
) -> Result<Reader> {
    let (format, paths) = files::resolve(path, options.format)?;
    let mut units = Vec::new();
    for path in &paths {
        match format {
            Format::Csv | Format::Tsv | Format::Text | Format::Json => {
                let found = lines::open(path, format, target, options, batch_rows)?;
                units.extend(found.into_iter().map(|unit| Unit(Work::Lines(unit))));
            }
            Format::Parquet => {
                let found = parquet::open(path, target, batch_rows)?;
                units.extend(found.into_iter().map(|unit| Unit(Work::Parquet(unit))));
            }
            Format::Arrow | Format::ArrowStream => {
                let found = arrow_ipc::open(path, target, batch_rows)?;
                units.extend(found.into_iter().map(|unit| Unit(Work::Arrow(unit))));
            }
            Format::Binary => return Err(not_in_files(format)),
        }
    }
    Ok(Reader { target: Arc::clone(target), units })
}

/// The error for a format that only clients use.
pub(crate) fn not_in_files(format: Format) -> Error {
    Error::unsupported(format!("the format {} in files", format.extension()))
        .with_hint("Name another format, or copy with STDIN and STDOUT.")
}

/// The schema of files, in the types of tables. If the format does not contain it, it is inferred
/// from the beginning of the first file.
pub fn schema_of(path: &Path, options: &ReadOptions) -> Result<SchemaRef> {
    let (format, paths) = files::resolve(path, options.format)?;
    let first = &paths[0];
    let schema = match format {
        Format::Csv | Format::Tsv | Format::Text | Format::Json => {
            lines::infer(first, format, options)?
        }
        Format::Parquet => parquet::schema(first)?,
        Format::Arrow | Format::ArrowStream => arrow_ipc::schema(first)?,
        Format::Binary => return Err(not_in_files(format)),
    };
    let fields = schema.fields().iter().map(|field| {
        storable(field).ok_or_else(|| {
            let what = format!("column \"{}\" of type {}", field.name(), field.data_type());
            Error::unsupported(what).with_hint("Name the columns that are wanted.")
        })
    });
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<Field>>>()?)))
}

impl Reader {
    /// The schema of the batches, which is the one that the caller requested.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.target
    }

    /// Number of bytes in the files, as far as known.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.units.iter().map(Unit::bytes).sum()
    }

    /// The units of work. Read one after another, they return the rows in order.
    #[must_use]
    pub fn units(self) -> Vec<Unit> {
        self.units
    }
}

impl Unit {
    /// Number of bytes of its file that the unit covers, as far as known.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match &self.0 {
            Work::Lines(unit) => unit.bytes(),
            Work::Parquet(unit) => unit.bytes(),
            Work::Arrow(unit) => unit.bytes(),
        }
    }

    /// The path of the unit's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.0 {
            Work::Lines(unit) => unit.path(),
            Work::Parquet(unit) => unit.path(),
            Work::Arrow(unit) => unit.path(),
        }
    }

    /// Decodes the rows. An error is the last item.
    #[must_use]
    pub fn read(self) -> UnitReader {
        let source = match self.0 {
            Work::Lines(unit) => unit.read().map(Source::Lines),
            Work::Parquet(unit) => unit.read().map(|reader| Source::Parquet(Box::new(reader))),
            Work::Arrow(unit) => unit.read().map(|reader| Source::Arrow(Box::new(reader))),
        };
        UnitReader(source.unwrap_or_else(|error| Source::Failed(Some(error))))
    }
}

/// The batches of a [`Unit`].
pub struct UnitReader(Source);

enum Source {
    Lines(LinesReader),
    Parquet(Box<ParquetReader>),
    Arrow(Box<ArrowReader>),
    /// The unit could not be opened.
    Failed(Option<Error>),
}

impl Iterator for UnitReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        match &mut self.0 {
            Source::Lines(reader) => reader.next(),
            Source::Parquet(reader) => reader.next(),
            Source::Arrow(reader) => reader.next(),
            Source::Failed(error) => error.take().map(Err),
        }
    }
}
