//! Rows as gRPC messages: the frames of record batches, and the schema message before them.

use std::collections::VecDeque;

use arrow::datatypes::Schema;
use arrow_flight::{FlightData, SchemaAsIpc};
use arrow_ipc::writer::IpcWriteOptions;
use bytes::Bytes;
use prost::Message;
use thalweg_formats::flight::grpc_prefix;
pub(crate) use thalweg_formats::flight::{Encoder, Frame, ROW_BYTES_MAX};

use crate::grpc::Pieces;

impl Pieces for Frame {
    fn pieces(self) -> VecDeque<Bytes> {
        self.pieces
    }
}

/// The schema message, which precedes all rows of a result.
pub(crate) fn schema_frame(wire: &Schema) -> Frame {
    let data = FlightData::from(SchemaAsIpc::new(wire, &IpcWriteOptions::default()));
    let mut bytes = grpc_prefix(data.encoded_len());
    data.encode(&mut bytes).expect("a vector grows");
    Frame { bytes: bytes.len(), rows: 0, pieces: VecDeque::from([bytes.into()]) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
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

    /// The batches that a client decodes from frames, and the sizes of the messages.
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
        let wire = wire_schema(&rows.schema());
        let mut frames = vec![schema_frame(&wire)];
        let mut encoder = Encoder::new(wire).unwrap();
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
