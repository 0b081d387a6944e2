//! Rows as gRPC messages, ready for the socket.
//!
//! A message is a `FlightData` in protobuf, written by hand so that the buffers of columns go out
//! as they lie in memory: what is large is never copied, what is small is gathered with the headers
//! around it. Messages stay below what clients take by default, 4 MiB; batches are split for that.
//! A single row that is larger travels alone, up to [`ROW_BYTES_MAX`].

use std::collections::VecDeque;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_flight::{FlightData, SchemaAsIpc};
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use thalweg_types::{Error, Result, SqlState};

use super::wire::{laid_out, weight, without_exotic};
use crate::grpc::Pieces;

/// What a message aims at. Rows differ in size: the larger half of a batch may be well above.
const MESSAGE_BYTES: usize = 2 << 20;

/// PostgreSQL's limit of a row.
pub(crate) const ROW_BYTES_MAX: usize = 1 << 30;

/// Below this, copying is cheaper than a frame of its own.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// The fields of `FlightData` that rows need.
const DATA_HEADER: u32 = 2;
const DATA_BODY: u32 = 1_000;

/// Every IPC message begins with a marker and the length of its metadata.
const IPC_PREFIX_BYTES: usize = 8;

/// One gRPC message in pieces.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) pieces: VecDeque<Bytes>,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

impl Pieces for Frame {
    fn pieces(self) -> VecDeque<Bytes> {
        self.pieces
    }
}

/// Makes messages of the batches of one result.
pub(crate) struct Encoder {
    wire: SchemaRef,
    ipc: StreamEncoder,
}

impl Encoder {
    /// `wire` is how clients know the columns.
    pub(crate) fn new(wire: SchemaRef) -> Result<Encoder> {
        // The schema is sent by `schema_frame`. The IPC encoder wants to send one too, ahead of its
        // first batch: it gets an empty one for that, here.
        let nothing = Schema::new(Vec::<Field>::new());
        let mut ipc = StreamEncoder::try_new(&nothing).map_err(unfit)?;
        ipc.encode(&RecordBatch::new_empty(SchemaRef::new(nothing))).map_err(unfit)?;
        Ok(Encoder { wire, ipc })
    }

    /// The message that leads a result.
    pub(crate) fn schema_frame(&self) -> Frame {
        let data = FlightData::from(SchemaAsIpc::new(&self.wire, &IpcWriteOptions::default()));
        let mut bytes = grpc_prefix(data.encoded_len());
        data.encode(&mut bytes).expect("a vector grows");
        Frame { bytes: bytes.len(), rows: 0, pieces: VecDeque::from([bytes.into()]) }
    }

    /// The messages of a batch; none where it has no rows.
    ///
    /// # Errors
    /// Where a row is larger than [`ROW_BYTES_MAX`].
    pub(crate) fn encode(&mut self, batch: &RecordBatch) -> Result<Vec<Frame>> {
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
            return Err(Error::new(SqlState("54000"), message));
        }
        let batch = laid_out(columns, rows)?;
        let message = self.ipc.encode(&batch).map_err(unfit)?;
        frames.push(frame(message, rows));
        Ok(())
    }
}

/// Puts an IPC message into a `FlightData`, and that into a gRPC message.
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
    encode_key(DATA_HEADER, WireType::LengthDelimited, &mut fields);
    encode_varint(header_bytes as u64, &mut fields);
    fields.extend_from_slice(&header);
    encode_key(DATA_BODY, WireType::LengthDelimited, &mut fields);
    encode_varint(body_bytes as u64, &mut fields);

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

/// Memory of a column, as it is.
struct Piece(Buffer);

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Not compressed, and so many bytes long.
fn grpc_prefix(length: usize) -> Vec<u8> {
    let length = u32::try_from(length).expect("a message is smaller than 4 GiB");
    let mut prefix = Vec::with_capacity(5 + length.min(64 << 10) as usize);
    prefix.push(0);
    prefix.extend_from_slice(&length.to_be_bytes());
    prefix
}

fn unfit(error: ArrowError) -> Error {
    Error::internal("rows cannot be encoded").with_source(error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array, StringViewArray};
    use arrow::datatypes::{DataType, Int64Type};
    use arrow_flight::decode::FlightRecordBatchStream;
    use futures::{StreamExt, TryStreamExt};

    use super::super::wire::wire_schema;
    use super::*;

    fn batch(texts: Vec<String>) -> RecordBatch {
        let numbers = Int64Array::from_iter_values(0..texts.len() as i64);
        let texts = StringViewArray::from_iter_values(texts);
        let columns: Vec<(&str, ArrayRef)> = vec![("n", Arc::new(numbers)), ("t", Arc::new(texts))];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    /// What a client makes of frames, and how large the messages were.
    fn received(frames: Vec<Frame>) -> (Vec<RecordBatch>, Vec<usize>) {
        let mut sizes = Vec::new();
        let mut messages = Vec::new();
        for frame in frames {
            let bytes: Vec<u8> = frame.pieces.iter().flatten().copied().collect();
            assert_eq!(bytes.len(), frame.bytes);
            assert_eq!(bytes[..5], [&[0][..], &(bytes.len() as u32 - 5).to_be_bytes()].concat());
            sizes.push(bytes.len());
            messages.push(FlightData::decode(&bytes[5..]).map_err(Into::into));
        }
        let stream = futures::stream::iter(messages).boxed();
        let batches = FlightRecordBatchStream::new_from_flight_data(stream);
        (futures::executor::block_on(batches.try_collect()).unwrap(), sizes)
    }

    fn sent(rows: &RecordBatch) -> (Vec<RecordBatch>, Vec<usize>) {
        let mut encoder = Encoder::new(wire_schema(&rows.schema())).unwrap();
        let mut frames = vec![encoder.schema_frame()];
        frames.extend(encoder.encode(rows).unwrap());
        received(frames)
    }

    #[test]
    fn clients_read_what_was_encoded() {
        let texts: Vec<String> = (0..5_000).map(|n| format!("text number {n}")).collect();
        let rows = batch(texts.clone());
        let (batches, sizes) = sent(&rows.slice(100, 4_000));
        assert_eq!((batches.len(), sizes.len()), (1, 2));
        assert_eq!(batches[0].schema().field(1).data_type(), &DataType::Utf8);
        assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), 100);
        assert_eq!(batches[0].column(1).as_string::<i32>().value(3_999), texts[4_099]);
    }

    #[test]
    fn large_batches_become_several_messages_below_the_limit() {
        let texts: Vec<String> = (0..1_000).map(|n| "x".repeat(n * 40)).collect();
        let (batches, sizes) = sent(&batch(texts.clone()));
        assert!(sizes.iter().all(|bytes| *bytes < 4 << 20), "{sizes:?}");
        let values = batches.iter().flat_map(|batch| batch.column(1).as_string::<i32>());
        assert!(values.map(Option::unwrap).eq(texts.iter().map(String::as_str)));
    }

    #[test]
    fn a_row_above_the_limit_travels_alone() {
        let texts = vec!["a".to_owned(), "x".repeat(5 << 20), "b".to_owned()];
        let (batches, sizes) = sent(&batch(texts));
        assert!(batches.iter().map(RecordBatch::num_rows).eq([1, 1, 1]));
        assert!(sizes[2] > 5 << 20);
    }

    #[test]
    fn no_rows_are_no_messages_and_no_columns_are_counted() {
        let rows = batch(vec!["a".to_owned()]);
        assert!(
            Encoder::new(wire_schema(&rows.schema()))
                .unwrap()
                .encode(&rows.slice(0, 0))
                .unwrap()
                .is_empty()
        );
        let (batches, _) = sent(&rows.project(&[]).unwrap());
        assert_eq!((batches[0].num_columns(), batches[0].num_rows()), (0, 1));
    }
}
