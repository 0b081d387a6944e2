//! Rows on the wire: a stream in Arrow's IPC format, cut into messages.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, Schema, SchemaRef, StringViewType};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use arrow_ipc::reader::{StreamDecoder, StreamReader};
use arrow_ipc::writer::StreamWriter;
use bytes::Bytes;
use thalweg_formats::flight::weight;
use thalweg_types::{Error, Result, SqlState};

/// Target size of an answer's messages, in bytes. A longer row is sent alone.
pub(crate) const MESSAGE_BYTES: usize = 1 << 20;

/// A view column is copied before it is sent if its buffers are more than so many times as large as
/// the values that it refers to.
const SPREAD_MAX: usize = 2;

/// Cuts a batch into parts of at most so many bytes, or of one row. Parts are cut on demand.
#[derive(Default)]
pub(crate) struct Cuts {
    /// Remaining parts in reverse order.
    left: Vec<RecordBatch>,
    bytes_max: usize,
}

impl Cuts {
    pub(crate) fn of(rows: RecordBatch, bytes_max: usize) -> Cuts {
        Cuts { left: vec![rows], bytes_max }
    }
}

impl Iterator for Cuts {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        let mut rows = self.left.pop()?;
        while rows.num_rows() > 1 && bytes_of(&rows) > self.bytes_max {
            let half = rows.num_rows() / 2;
            self.left.push(rows.slice(half, rows.num_rows() - half));
            rows = rows.slice(0, half);
        }
        Some(rows)
    }
}

/// Estimated size of rows on the wire, in bytes.
fn bytes_of(rows: &RecordBatch) -> usize {
    rows.columns().iter().map(weight).sum()
}

/// Writes rows, message by message. A batch without columns is sent as its number of rows.
pub(crate) struct RowWriter {
    writer: StreamWriter<Vec<u8>>,
}

impl RowWriter {
    pub(crate) fn new(schema: &Schema) -> Result<RowWriter> {
        let mut writer = StreamWriter::try_new(Vec::new(), schema).map_err(unwritten)?;
        if schema.fields().is_empty() {
            writer.get_mut().clear();
        }
        Ok(RowWriter { writer })
    }

    /// Takes the bytes written since the last call. The first ones are the schema.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(self.writer.get_mut())
    }

    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        if rows.num_columns() == 0 {
            // Only the number of rows is sent.
            self.writer.get_mut().extend_from_slice(&(rows.num_rows() as u64).to_le_bytes());
            return Ok(());
        }
        let schema = Arc::clone(rows.schema_ref());
        let columns = rows.columns().iter().map(compact).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let rows =
            RecordBatch::try_new_with_options(schema, columns, &options).map_err(unwritten)?;
        self.writer.write(&rows).map_err(unwritten)
    }
}

/// Copies view columns, also inside lists, since a few values may hold megabytes of other values.
fn compact(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Utf8View => compact_view::<StringViewType>(column),
        DataType::BinaryView => compact_view::<BinaryViewType>(column),
        DataType::List(item) if has_views(item.data_type()) => {
            let lists = column.as_list::<i32>();
            let offsets = lists.offsets();
            let (from, to) = (offsets[0], offsets[lists.len()]);
            let values = compact(&lists.values().slice(from as usize, (to - from) as usize))?;
            let offsets: ScalarBuffer<i32> = offsets.iter().map(|offset| offset - from).collect();
            let (offsets, nulls) = (OffsetBuffer::new(offsets), lists.nulls().cloned());
            let lists = ListArray::try_new(Arc::clone(item), offsets, values, nulls);
            Arc::new(lists.map_err(unwritten)?)
        }
        DataType::Struct(fields) if has_views(column.data_type()) => {
            let parts = column.as_struct();
            let columns = parts.columns().iter().map(compact).collect::<Result<_>>()?;
            let parts = StructArray::try_new(fields.clone(), columns, parts.nulls().cloned());
            Arc::new(parts.map_err(unwritten)?)
        }
        _ => Arc::clone(column),
    })
}

fn has_views(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::List(item) => has_views(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_views(field.data_type())),
        _ => false,
    }
}

fn compact_view<T: ByteViewType>(column: &ArrayRef) -> ArrayRef {
    let view = column.as_byte_view::<T>();
    let held: usize = view.data_buffers().iter().map(Buffer::len).sum();
    match held > SPREAD_MAX * view.total_buffer_bytes_used() {
        true => Arc::new(view.gc()),
        false => Arc::clone(column),
    }
}

/// Reads rows, message by message.
pub(crate) struct RowReader {
    decoder: StreamDecoder,
    wanted: Option<SchemaRef>,
    checked: bool,
}

/// Length of a message that only counts rows. Arrow's messages are longer.
const COUNT_BYTES: usize = 8;

impl RowReader {
    /// A reader of rows with this schema: the sender's types must match, and its names are ignored.
    /// With `None` the sender's schema is used.
    pub(crate) fn new(wanted: Option<SchemaRef>) -> RowReader {
        RowReader { decoder: StreamDecoder::new(), wanted, checked: false }
    }

    pub(crate) fn read(&mut self, message: Bytes) -> Result<Vec<RecordBatch>> {
        let is_count = match &self.wanted {
            Some(wanted) => wanted.fields().is_empty(),
            None => message.len() <= COUNT_BYTES,
        };
        if is_count {
            let Some(count) = message.first_chunk::<COUNT_BYTES>() else { return Ok(Vec::new()) };
            let count = usize::try_from(u64::from_le_bytes(*count)).unwrap_or(usize::MAX);
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            let schema = self.wanted.clone().unwrap_or_else(|| Arc::new(Schema::empty()));
            let rows = RecordBatch::try_new_with_options(schema, Vec::new(), &options);
            return Ok(vec![rows.map_err(unread)?]);
        }
        let mut buffer = Buffer::from(message);
        let mut found = Vec::new();
        while !buffer.is_empty() {
            let Some(rows) = self.decoder.decode(&mut buffer).map_err(unread)? else { break };
            found.push(self.as_wanted(rows)?);
        }
        Ok(found)
    }

    fn as_wanted(&mut self, rows: RecordBatch) -> Result<RecordBatch> {
        let Some(wanted) = &self.wanted else { return Ok(rows) };
        if !self.checked {
            let types = |schema: &Schema| -> Vec<DataType> {
                schema.fields().iter().map(|field| field.data_type().clone()).collect()
            };
            let (given, wanted) = (types(rows.schema_ref()), types(wanted));
            let fits = given.len() == wanted.len()
                && given.iter().zip(&wanted).all(|(given, wanted)| given.equals_datatype(wanted));
            if !fits {
                let message = format!("a worker sent {given:?} where {wanted:?} were asked for");
                return Err(Error::internal(message));
            }
            self.checked = true;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let columns = rows.columns().to_vec();
        let made = RecordBatch::try_new_with_options(Arc::clone(wanted), columns, &options);
        made.map_err(unread)
    }
}

/// Encodes a whole stream, of rows with columns.
pub(crate) fn encode(schema: &Schema, batches: &[RecordBatch]) -> Result<Bytes> {
    let mut writer =
        RowWriter { writer: StreamWriter::try_new(Vec::new(), schema).map_err(unwritten)? };
    for rows in batches {
        writer.write(rows)?;
    }
    Ok(writer.take().into())
}

/// Decodes a whole stream.
pub(crate) fn decode(stream: &[u8]) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let reader = StreamReader::try_new(stream, None).map_err(unread)?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, ArrowError>>().map_err(unread)?;
    Ok((schema, batches))
}

fn unwritten(error: ArrowError) -> Error {
    Error::internal("rows cannot travel").with_source(error)
}

fn unread(error: ArrowError) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, format!("rows are damaged: {error}"))
}

#[cfg(test)]
mod tests;
