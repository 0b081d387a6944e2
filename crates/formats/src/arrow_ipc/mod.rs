//! Arrow's IPC formats. In a file, some batches form a unit of work; a stream is a single unit.

mod file;
mod stream;
mod write;

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use thalweg_types::Result;

use crate::files;
use crate::location::located;
use crate::projection::Projection;
use file::{FileReader, FileUnit};
use stream::{StreamReader, StreamUnit};
pub(crate) use write::ArrowWriter;

const MAGIC: &[u8] = b"ARROW1";

pub(crate) enum ArrowUnit {
    File(FileUnit),
    Stream(StreamUnit),
}

/// The declared schema of a file or stream.
pub(crate) fn schema(path: &Path) -> Result<Schema> {
    match is_file(path)? {
        true => file::schema(path),
        false => stream::schema(path),
    }
}

pub(crate) fn open(path: &Path, target: &SchemaRef, batch_rows: usize) -> Result<Vec<ArrowUnit>> {
    let batch_rows = batch_rows.max(1);
    Ok(match is_file(path)? {
        true => file::open(path, target, batch_rows)?.into_iter().map(ArrowUnit::File).collect(),
        false => {
            let unit = StreamUnit::new(path, Arc::clone(target), batch_rows);
            vec![ArrowUnit::Stream(unit)]
        }
    })
}

/// True for the file format, which begins with a magic number, whatever the file's name is. The
/// decoder of streams rejects data in neither format.
fn is_file(path: &Path) -> Result<bool> {
    // Pipes can't be read twice, so their beginning can't be inspected first.
    if files::length(path)?.is_none() {
        return Ok(false);
    }
    Ok(files::head(path, MAGIC.len() as u64)? == MAGIC)
}

impl ArrowUnit {
    /// Size of the unit in bytes; 0 for a stream of unknown length.
    pub fn bytes(&self) -> u64 {
        match self {
            ArrowUnit::File(unit) => unit.bytes(),
            ArrowUnit::Stream(unit) => files::length(&unit.path).ok().flatten().unwrap_or(0),
        }
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        match self {
            ArrowUnit::File(unit) => unit.path(),
            ArrowUnit::Stream(unit) => &unit.path,
        }
    }

    /// Opens the unit for reading. Fails if the file cannot be read or is damaged.
    pub fn read(self) -> Result<ArrowReader> {
        Ok(match self {
            ArrowUnit::File(unit) => ArrowReader::File(unit.read()?),
            ArrowUnit::Stream(unit) => ArrowReader::Stream(Box::new(unit.read()?)),
        })
    }
}

pub(crate) enum ArrowReader {
    File(FileReader),
    Stream(Box<StreamReader>),
}

impl Iterator for ArrowReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        match self {
            ArrowReader::File(reader) => reader.next(),
            ArrowReader::Stream(reader) => reader.next(),
        }
    }
}

/// The remaining rows of a decoded batch.
struct Pending {
    batch: RecordBatch,
    from: usize,
    /// The batch's number in its file, counted from 0.
    number: usize,
}

impl Pending {
    /// The next rows, converted; `None` if there are no more.
    fn next(
        &mut self,
        name: &str,
        projection: &Projection,
        batch_rows: usize,
    ) -> Option<Result<RecordBatch>> {
        let rows = batch_rows.min(self.batch.num_rows() - self.from);
        if rows == 0 {
            return None;
        }
        let (from, number) = (self.from, self.number);
        let slice = self.batch.slice(from, rows);
        self.from += rows;
        Some(projection.convert(rows, slice.columns(), |row| {
            format!("{name}, batch {number}, row {}", from + row + 1)
        }))
    }
}

fn find_columns(name: &str, schema: &Schema, target: &SchemaRef) -> Result<Projection> {
    Projection::new(schema, target).map_err(|error| located(error, name.to_owned()))
}
