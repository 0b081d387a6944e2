//! Rows as gRPC messages of Arrow Flight, ready for the socket.
//!
//! A message is a `FlightData` in protobuf, encoded by hand so that large buffers of columns are
//! sent from their own memory without a copy. Small buffers are gathered with the headers around
//! them. Batches are split so that messages stay below clients' default limit of 4 MiB. A single
//! larger row is sent alone, up to [`ROW_BYTES_MAX`].

mod cut;
mod layout;

use std::collections::VecDeque;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_ipc::writer::StreamEncoder;
use bytes::Bytes;
use thalweg_types::{Error, Result, SqlState};

pub use cut::rows_among;
use layout::{laid_out, without_exotic};
pub use layout::{weight, wire_field};

/// Target size of a message. Rows differ in size: the larger half of a batch may be well above.
const MESSAGE_BYTES: usize = 2 << 20;

/// PostgreSQL's limit for a row.
pub const ROW_BYTES_MAX: usize = 1 << 30;

/// Below this size, copying is cheaper than a separate frame.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// The fields of `FlightData` that rows need.
const DATA_HEADER: u32 = 2;
const DATA_BODY: u32 = 1_000;

/// Every gRPC message begins with a compression flag and its length.
const GRPC_PREFIX_BYTES: usize = 5;

/// Every IPC message begins with a marker and the length of its metadata.
const IPC_PREFIX_BYTES: usize = 8;

/// One gRPC message as a sequence of pieces.
#[derive(Debug)]
pub struct Frame {
    pub pieces: VecDeque<Bytes>,
    pub rows: usize,
    pub bytes: usize,
}

/// Encodes the batches of one result as messages.
pub struct Encoder {
    wire: SchemaRef,
    ipc: StreamEncoder,
}

impl Encoder {
    /// `wire` is the schema that clients see; the caller sends it to them.
    ///
    /// # Errors
    /// If the system is out of memory.
    pub fn new(wire: SchemaRef) -> Result<Encoder> {
        // The IPC encoder always writes a schema before its first batch. It writes an empty one
        // here, which is discarded.
        let nothing = Schema::new(Vec::<Field>::new());
        let mut ipc = StreamEncoder::try_new(&nothing).map_err(unfit)?;
        ipc.encode(&RecordBatch::new_empty(SchemaRef::new(nothing))).map_err(unfit)?;
        Ok(Encoder { wire, ipc })
    }

    /// The messages of a batch; none if it has no rows.
    ///
    /// # Errors
    /// If a row is larger than [`ROW_BYTES_MAX`].
    pub fn encode(&mut self, batch: &RecordBatch) -> Result<Vec<Frame>> {
        let columns = without_exotic(batch, &self.wire)?;
        let mut frames = Vec::new();
        if batch.num_rows() > 0 {
            self.encode_rows(&columns, batch.num_rows(), &mut frames)?;
        }
        Ok(frames)
    }

    fn encode_rows(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        frames: &mut Vec<Frame>,
    ) -> Result<()> {
        let bytes: usize = columns.iter().map(weight).sum();
        if bytes > MESSAGE_BYTES && rows > 1 {
            let half = rows / 2;
            for (from, rows) in [(0, half), (half, rows - half)] {
                let columns: Vec<ArrayRef> =
                    columns.iter().map(|column| column.slice(from, rows)).collect();
                self.encode_rows(&columns, rows, frames)?;
            }
            return Ok(());
        }
        if bytes > ROW_BYTES_MAX {
            let message = format!("a row of {bytes} bytes is larger than {ROW_BYTES_MAX} bytes");
            return Err(Error::new(SqlState::LIMIT_EXCEEDED, message));
        }
        let batch = laid_out(columns, rows)?;
        let message = self.ipc.encode(&batch).map_err(unfit)?;
        frames.push(frame(message, rows));
        Ok(())
    }
}

/// Wraps an IPC message in a `FlightData`, and this in a gRPC message.
fn frame(ipc: Vec<Buffer>, rows: usize) -> Frame {
    let mut buffers = ipc.into_iter().peekable();
    let prefix = buffers.next().expect("an IPC message begins with its prefix");
    let length: [u8; 4] = prefix[4..IPC_PREFIX_BYTES].try_into().expect("four bytes");
    let header_bytes = u32::from_le_bytes(length) as usize;
    let mut header = Vec::with_capacity(header_bytes);
    while header.len() < header_bytes {
        header.extend_from_slice(&buffers.next().expect("the metadata is there as it says"));
    }
    assert_eq!(header.len(), header_bytes, "the body begins with a buffer of its own");
    let body: Vec<Buffer> = buffers.collect();
    let body_bytes: usize = body.iter().map(Buffer::len).sum();

    let mut fields = Vec::with_capacity(header_bytes + 32);
    put_key(DATA_HEADER, header_bytes, &mut fields);
    fields.extend_from_slice(&header);
    put_key(DATA_BODY, body_bytes, &mut fields);

    let mut gathered = grpc_prefix(fields.len() + body_bytes);
    let bytes = gathered.len() + fields.len() + body_bytes;
    gathered.append(&mut fields);
    let mut pieces = VecDeque::new();
    for buffer in body {
        if buffer.len() <= COPIED_BYTES_MAX {
            gathered.extend_from_slice(&buffer);
        } else {
            pieces.push_back(Bytes::from(std::mem::take(&mut gathered)));
            pieces.push_back(Bytes::from_owner(Piece(buffer)));
        }
    }
    pieces.push_back(gathered.into());
    pieces.retain(|piece| !piece.is_empty());
    Frame { pieces, rows, bytes }
}

/// Writes the key and length of a field with this many bytes.
fn put_key(field: u32, bytes: usize, out: &mut Vec<u8>) {
    put_varint(key(field), out);
    put_varint(bytes as u64, out);
}

/// The protobuf key of a length-delimited field.
fn key(field: u32) -> u64 {
    const LENGTH_DELIMITED: u64 = 2;
    u64::from(field) << 3 | LENGTH_DELIMITED
}

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Memory of a column, without a copy.
struct Piece(Buffer);

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The prefix of an uncompressed gRPC message of this length.
///
/// # Panics
/// If the message is 4 GiB or more.
#[must_use]
pub fn grpc_prefix(length: usize) -> Vec<u8> {
    let length = u32::try_from(length).expect("a message is smaller than 4 GiB");
    let mut prefix = Vec::with_capacity(GRPC_PREFIX_BYTES + length.min(64 << 10) as usize);
    prefix.push(0);
    prefix.extend_from_slice(&length.to_be_bytes());
    prefix
}

fn unfit(error: ArrowError) -> Error {
    Error::internal("rows cannot be encoded").with_source(error)
}
