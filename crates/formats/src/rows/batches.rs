//! Decodes record batches from untrusted Arrow IPC streams.
//!
//! A stream's metadata are checked before memory is allocated for it: the bytes of its values are
//! limited, compressed or not, and its rows must have bytes of their own. If the decoder panics all
//! the same, the error is still reported as the sender's.

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::compute::kernels::length::length;
use arrow::compute::{cast, sum};
use arrow::datatypes::{DataType, Int64Type, Schema, SchemaRef};
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{CompressionType, Message, MessageHeader, RecordBatch as Description};
use arrow_ipc::{MetadataVersion, root_as_message};

use crate::guard::guarded;

/// A description of the problem in a stream.
type Fault = &'static str;

const UNREADABLE: Fault = "an Arrow IPC stream cannot be read";
const TOO_LARGE: Fault = "the values of an Arrow IPC stream take more bytes than a message may";
const TOO_MANY_ROWS: Fault = "an Arrow IPC stream has more rows than bytes";
const WRONG_TYPE: Fault = "an Arrow IPC stream has a column of a type that no table takes";

/// This many rows need not have a byte each: their only columns may be bits.
const ROWS_MIN: usize = 64;

/// In bulk loads, this many rows may be NULLs without a byte.
const ROWS_WITHOUT_BYTES_MAX: usize = 1 << 20;

/// The cache of the last schema does not hold longer descriptions.
const SCHEMA_BYTES_MAX: usize = 64 << 10;

/// Reads streams, one after another. Caches the last schema, because most streams have the same.
pub struct BatchReader {
    bytes_max: usize,
    /// The encoded schema, and the decoded one.
    schema: Option<(Vec<u8>, SchemaRef)>,
}

/// State of the stream that is being read.
struct Stream {
    schema: SchemaRef,
    dictionaries: HashMap<i64, ArrayRef>,
    batches: Vec<RecordBatch>,
    /// Number of bytes that further values may take.
    room: usize,
    /// Number of bytes that texts may take which the stream stores once and many rows reference.
    text_room: usize,
}

impl BatchReader {
    /// A reader of streams whose values take at most this many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> BatchReader {
        BatchReader { bytes_max: bytes_max.min(i32::MAX as usize), schema: None }
    }

    /// Decodes the batches of a whole stream.
    ///
    /// # Errors
    /// A description of the problem. The rest of the stream must not be read then.
    pub fn read(&mut self, stream: &[u8]) -> Result<Vec<RecordBatch>, &'static str> {
        guarded("an Arrow IPC stream", || Ok(self.decode(stream))).unwrap_or(Err(UNREADABLE))
    }

    fn decode(&mut self, mut rest: &[u8]) -> Result<Vec<RecordBatch>, Fault> {
        let (header, message, _) = next_message(&mut rest)?.ok_or(UNREADABLE)?;
        let mut stream = Stream {
            schema: self.schema(header, &message)?,
            dictionaries: HashMap::new(),
            batches: Vec::with_capacity(1),
            room: self.bytes_max,
            text_room: self.bytes_max,
        };
        while let Some((_, message, body)) = next_message(&mut rest)? {
            match message.header_type() {
                MessageHeader::RecordBatch => stream.batch(&message, body)?,
                MessageHeader::DictionaryBatch => stream.dictionary(&message, body)?,
                MessageHeader::NONE => {}
                _ => return Err(UNREADABLE),
            }
        }
        Ok(stream.batches)
    }

    fn schema(&mut self, header: &[u8], message: &Message<'_>) -> Result<SchemaRef, Fault> {
        if let Some((known, schema)) = &self.schema
            && known.as_slice() == header
        {
            return Ok(Arc::clone(schema));
        }
        let schema = fb_to_schema(message.header_as_schema().ok_or(UNREADABLE)?);
        if !schema.fields().iter().all(|field| is_taken(field.data_type())) {
            return Err(WRONG_TYPE);
        }
        let schema = Arc::new(schema);
        self.schema =
            (header.len() <= SCHEMA_BYTES_MAX).then(|| (header.to_vec(), Arc::clone(&schema)));
        Ok(schema)
    }
}

impl Stream {
    fn batch(&mut self, message: &Message<'_>, body: &[u8]) -> Result<(), Fault> {
        let batch = message.header_as_record_batch().ok_or(UNREADABLE)?;
        check(&batch, body, &mut self.room)?;
        // A copy aligns the columns; the body itself is rarely aligned.
        let (body, schema) = (Buffer::from(body), Arc::clone(&self.schema));
        let version: MetadataVersion = message.version();
        let batch = read_record_batch(&body, batch, schema, &self.dictionaries, None, &version)
            .map_err(|_| UNREADABLE)?;
        let text_bytes = batch.columns().iter().map(text_bytes).sum();
        self.text_room = self.text_room.checked_sub(text_bytes).ok_or(TOO_LARGE)?;
        self.batches.push(batch);
        Ok(())
    }

    fn dictionary(&mut self, message: &Message<'_>, body: &[u8]) -> Result<(), Fault> {
        let dictionary = message.header_as_dictionary_batch().ok_or(UNREADABLE)?;
        check(&dictionary.data().ok_or(UNREADABLE)?, body, &mut self.room)?;
        if dictionary.isDelta() {
            // The decoder copies the existing values when it appends to a dictionary.
            let there = self.dictionaries.get(&dictionary.id());
            let bytes = there.map_or(0, |values| values.get_buffer_memory_size());
            self.room = self.room.checked_sub(bytes).ok_or(TOO_LARGE)?;
        }
        let (body, schema) = (Buffer::from(body), &self.schema);
        let version: MetadataVersion = message.version();
        read_dictionary(&body, dictionary, schema, &mut self.dictionaries, &version)
            .map_err(|_| UNREADABLE)
    }
}

/// A message's metadata, encoded and decoded, and its body.
type Parts<'a> = (&'a [u8], Message<'a>, &'a [u8]);

/// The next message of a stream; `None` at its end.
fn next_message<'a>(rest: &mut &'a [u8]) -> Result<Option<Parts<'a>>, Fault> {
    if rest.is_empty() {
        return Ok(None);
    }
    let mut length = number(rest)?;
    // Old streams contain only the length.
    if length == u32::MAX {
        length = number(rest)?;
    }
    if length == 0 {
        return Ok(None);
    }
    let header = take(rest, length.into())?;
    let message = root_as_message(header).map_err(|_| UNREADABLE)?;
    let body = take(rest, message.bodyLength())?;
    Ok(Some((header, message, body)))
}

fn number(rest: &mut &[u8]) -> Result<u32, Fault> {
    let (number, behind) = rest.split_first_chunk().ok_or(UNREADABLE)?;
    *rest = behind;
    Ok(u32::from_le_bytes(*number))
}

fn take<'a>(rest: &mut &'a [u8], length: i64) -> Result<&'a [u8], Fault> {
    let length = usize::try_from(length).map_err(|_| UNREADABLE)?;
    let (taken, behind) = rest.split_at_checked(length).ok_or(UNREADABLE)?;
    *rest = behind;
    Ok(taken)
}

/// True if columns of a type are decoded. Tables have no columns of other types, and those could
/// declare more values than they have bytes.
fn is_taken(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_taken(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().all(|field| is_taken(field.data_type())),
        DataType::Dictionary(_, values) => {
            !matches!(values.as_ref(), DataType::Dictionary(..)) && is_flat(values)
        }
        other => is_flat(other),
    }
}

fn is_flat(data_type: &DataType) -> bool {
    !data_type.is_nested() && !matches!(data_type, DataType::RunEndEncoded(..))
}

/// Checks the metadata of a batch. `room` is the number of bytes that values may take; the bytes of
/// this batch are subtracted from it.
fn check(batch: &Description<'_>, body: &[u8], room: &mut usize) -> Result<(), Fault> {
    let rows_max = check_bytes(batch, body, room)?.max(ROWS_MIN);
    // Items of lists may be bits; a column with only NULLs has no bytes at all.
    check_rows(batch, rows_max, rows_max * 8)
}

/// The schema that the header of an Arrow IPC message describes.
///
/// # Errors
/// A description of the problem.
pub fn schema_of_message(header: &[u8]) -> Result<Schema, &'static str> {
    // The conversion panics on headers that pass the verifier, such as those with unknown types:
    // <https://github.com/apache/arrow-rs/issues/10437>,
    // <https://github.com/apache/arrow-rs/issues/10575>.
    let schema = guarded("an Arrow IPC stream", || {
        let message = root_as_message(header).ok();
        Ok(message.and_then(|message| message.header_as_schema().map(fb_to_schema)))
    });
    schema.ok().flatten().ok_or(UNREADABLE)
}

/// Checks the metadata of an Arrow Flight message before memory is allocated for it. `room` is the
/// maximum number of bytes of its uncompressed values; returns their actual number.
///
/// # Errors
/// A description of the problem.
pub fn check_message(header: &[u8], body: &[u8], room: usize) -> Result<usize, &'static str> {
    if header.is_empty() {
        return Ok(0);
    }
    let message = root_as_message(header).map_err(|_| UNREADABLE)?;
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => {
            message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data())
        }
        _ => return Ok(0),
    };
    let (batch, mut left) = (batch.ok_or(UNREADABLE)?, room);
    let bytes = check_bytes(&batch, body, &mut left)?;
    let rows_max = bytes.saturating_mul(8).max(ROWS_WITHOUT_BYTES_MAX);
    check_rows(&batch, rows_max, rows_max)?;
    Ok(bytes)
}

/// Number of bytes of a batch's uncompressed buffers, subtracted from `room`.
fn check_bytes(batch: &Description<'_>, body: &[u8], room: &mut usize) -> Result<usize, Fault> {
    let codec = batch.compression().map(|compression| compression.codec());
    let mut bytes = 0_usize;
    for buffer in batch.buffers().ok_or(UNREADABLE)?.iter() {
        let mut behind = body;
        take(&mut behind, buffer.offset())?;
        let values = take(&mut behind, buffer.length())?;
        let taken = match codec {
            Some(codec) => expanded_bytes(values, codec, *room)?,
            None => values.len(),
        };
        // Buffers that share bytes are copied separately later, so each of them counts.
        *room = room.checked_sub(taken).ok_or(TOO_LARGE)?;
        bytes += taken;
    }
    Ok(bytes)
}

fn check_rows(batch: &Description<'_>, rows_max: usize, items_max: usize) -> Result<(), Fault> {
    let fits = |rows: i64, most: usize| usize::try_from(rows).is_ok_and(|rows| rows <= most);
    let nodes = batch.nodes().ok_or(UNREADABLE)?;
    let all_fit = fits(batch.length(), rows_max)
        && nodes
            .iter()
            .all(|node| fits(node.length(), items_max) && fits(node.null_count(), rows_max));
    if all_fit { Ok(()) } else { Err(TOO_MANY_ROWS) }
}

/// Number of bytes of a decompressed buffer, if `room` is enough.
fn expanded_bytes(values: &[u8], codec: CompressionType, room: usize) -> Result<usize, Fault> {
    if values.is_empty() {
        return Ok(0);
    }
    let (stated_length, compressed) = values.split_first_chunk().ok_or(UNREADABLE)?;
    let stated_length = match i64::from_le_bytes(*stated_length) {
        0 => return Ok(0),
        // The buffer is not compressed.
        -1 => return Ok(compressed.len()),
        stated_length => usize::try_from(stated_length).map_err(|_| UNREADABLE)?,
    };
    if stated_length > room {
        return Err(TOO_LARGE);
    }
    if codec == CompressionType::LZ4_FRAME {
        // The LZ4 decoder would not stop at the declared length.
        let mut decoder =
            lz4_flex::frame::FrameDecoder::new(compressed).take(stated_length as u64 + 1);
        let found = std::io::copy(&mut decoder, &mut std::io::sink()).map_err(|_| UNREADABLE)?;
        if found != stated_length as u64 {
            return Err(UNREADABLE);
        }
    }
    Ok(stated_length)
}

/// Number of bytes of a column's texts if each row has its own copy of a text that several share.
fn text_bytes(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Utf8View | DataType::BinaryView | DataType::Dictionary(..) => {
            summed_lengths(column).unwrap_or(0)
        }
        DataType::List(_) => text_bytes(column.as_list::<i32>().values()),
        DataType::LargeList(_) => text_bytes(column.as_list::<i64>().values()),
        DataType::FixedSizeList(..) => text_bytes(column.as_fixed_size_list().values()),
        DataType::Struct(_) => column.as_struct().columns().iter().map(text_bytes).sum(),
        _ => 0,
    }
}

/// The sum of all lengths; `None` if the values have no lengths.
fn summed_lengths(column: &ArrayRef) -> Option<usize> {
    let lengths = cast(&length(column).ok()?, &DataType::Int64).ok()?;
    let sum = sum(lengths.as_primitive::<Int64Type>()).unwrap_or(0);
    usize::try_from(sum).ok()
}

#[cfg(test)]
mod tests;
