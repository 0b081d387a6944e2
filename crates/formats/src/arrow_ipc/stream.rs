//! IPC streams: a schema and a sequence of batches.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow_ipc::reader::StreamDecoder;
use thalweg_types::Result;

use super::{Pending, find_columns};
use crate::files::{self, io_error};
use crate::guard::{damaged, guarded};
use crate::location::display_name;
use crate::projection::Projection;

/// Bytes of one read.
const READ_BYTES: u64 = 4 << 20;

pub(crate) struct StreamUnit {
    pub path: PathBuf,
    target: SchemaRef,
    batch_rows: usize,
}

pub(super) fn schema(path: &Path) -> Result<Schema> {
    let mut input = Input::open(path)?;
    loop {
        let batch = input.next_batch()?;
        match input.decoder.schema() {
            Some(schema) => return Ok(schema.as_ref().clone()),
            None if batch.is_none() => return Err(damaged(&input.name, "it has no schema")),
            None => {}
        }
    }
}

impl StreamUnit {
    /// A unit for the whole stream; it is not opened before [`read`](Self::read).
    pub fn new(path: &Path, target: SchemaRef, batch_rows: usize) -> StreamUnit {
        StreamUnit { path: path.to_owned(), target, batch_rows }
    }

    /// Opens the stream. Its schema is read with the first batch.
    pub fn read(self) -> Result<StreamReader> {
        Ok(StreamReader {
            input: Some(Input::open(&self.path)?),
            projection: None,
            target: self.target,
            batch_rows: self.batch_rows,
            pending: None,
            batches: 0,
        })
    }
}

/// A stream's bytes and its decoder.
struct Input {
    path: PathBuf,
    name: String,
    file: File,
    decoder: StreamDecoder,
    /// Bytes that were read and not yet decoded.
    ahead: Buffer,
}

impl Input {
    fn open(path: &Path) -> Result<Input> {
        Ok(Input {
            path: path.to_owned(),
            name: display_name(path),
            file: files::open(path)?,
            decoder: StreamDecoder::new(),
            ahead: Buffer::from_vec(Vec::<u8>::new()),
        })
    }

    /// The next batch; `None` at the end of the stream.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let batch = guarded(&self.name, || {
                self.decoder.decode(&mut self.ahead).map_err(|error| damaged(&self.name, error))
            })?;
            if batch.is_some() {
                return Ok(batch);
            }
            let mut bytes = Vec::new();
            let read = (&mut self.file).take(READ_BYTES).read_to_end(&mut bytes);
            read.map_err(|error| io_error("read", &self.path, error))?;
            if bytes.is_empty() {
                self.decoder.finish().map_err(|error| damaged(&self.name, error))?;
                return Ok(None);
            }
            self.ahead = Buffer::from_vec(bytes);
        }
    }
}

pub(crate) struct StreamReader {
    /// `None` once everything is decoded or an error has occurred.
    input: Option<Input>,
    /// `None` until the schema has been read.
    projection: Option<Projection>,
    target: SchemaRef,
    batch_rows: usize,
    pending: Option<Pending>,
    batches: usize,
}

impl StreamReader {
    /// The next converted rows; `None` at the end.
    fn advance(&mut self, input: &mut Input) -> Result<Option<RecordBatch>> {
        loop {
            if let (Some(pending), Some(projection)) = (&mut self.pending, &self.projection)
                && let Some(rows) = pending.next(&input.name, projection, self.batch_rows)
            {
                return rows.map(Some);
            }
            let batch = input.next_batch()?;
            let Some(schema) = input.decoder.schema() else {
                return Err(damaged(&input.name, "it has no schema"));
            };
            // Done at the end of an empty stream as well, so that a missing column is always
            // reported.
            if self.projection.is_none() {
                self.projection = Some(find_columns(&input.name, &schema, &self.target)?);
            }
            let (Some(batch), Some(projection)) = (batch, &self.projection) else {
                return Ok(None);
            };
            let batch =
                batch.project(&projection.places).map_err(|error| damaged(&input.name, error))?;
            self.pending = Some(Pending { batch, from: 0, number: self.batches });
            self.batches += 1;
        }
    }
}

impl Iterator for StreamReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let mut input = self.input.take()?;
        let batch = self.advance(&mut input).transpose()?;
        if batch.is_ok() {
            self.input = Some(input);
        }
        Some(batch)
    }
}
