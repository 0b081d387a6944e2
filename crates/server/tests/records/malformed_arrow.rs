//! Arrow IPC streams that are damaged, or say of themselves what is not so.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, NullArray, RecordBatch, RecordBatchOptions};
use arrow::array::{StringArray, StringViewArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use futures::stream;
use thalweg_client::v1::Rows;
use tonic::{Code, Status};

use crate::support::{ACCOUNT, World, account, announce, codes, config, packed};

const MESSAGE_BYTES_MAX: usize = 64 << 10;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn written(batch: &RecordBatch, codec: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(codec).unwrap();
    let schema = batch.schema();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn numbers(count: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(0..count as i64))
}

/// Streams that are small, and would be large or wrong if one believed them.
fn unbelievable() -> Vec<Vec<u8>> {
    let many = 1_usize << 40;
    let rows = RecordBatchOptions::new().with_row_count(Some(many));
    let no_columns = Arc::new(Schema::empty());
    let empty = RecordBatch::try_new_with_options(no_columns, Vec::new(), &rows).unwrap();
    let nulls: ArrayRef = Arc::new(NullArray::new(many));
    let zeros: ArrayRef = Arc::new(Int64Array::from(vec![0; MESSAGE_BYTES_MAX]));
    let words = "long ".repeat(1_000);
    let long: ArrayRef = Arc::new(StringViewArray::from(vec![words.as_str()]));
    let texts = take(&long, &UInt32Array::from(vec![0; 1_000]), None).unwrap();
    let whole = written(&batch(vec![("id", numbers(777))]), None);
    let count = 777_i64.to_le_bytes();
    let at = whole.windows(8).position(|bytes| bytes == count).unwrap();
    let mut wrong = whole.clone();
    wrong[at..at + 8].copy_from_slice(&(1_i64 << 40).to_le_bytes());
    let runs = DataType::RunEndEncoded(
        Arc::new(Field::new("run_ends", DataType::Int32, false)),
        Arc::new(Field::new("values", DataType::Int32, true)),
    );
    let runs = Schema::new(vec![Field::new("id", runs, true)]);
    vec![
        written(&empty, None),
        written(&batch(vec![("id", nulls)]), None),
        written(&batch(vec![("id", zeros)]), Some(CompressionType::LZ4_FRAME)),
        written(&batch(vec![("id", numbers(1_000)), ("owner", texts)]), None),
        whole[..whole.len() / 2].to_vec(),
        wrong,
        StreamWriter::try_new(Vec::new(), &runs).unwrap().into_inner().unwrap(),
        b"no Arrow at all".to_vec(),
    ]
}

/// Writes a row, and behind it another one and a stream in a message that is atomic or not.
async fn upsert(world: &World, arrow: Vec<u8>, atomic: bool) -> Result<u64, Status> {
    let mut last = packed([account(1_000, 1, "a")]);
    last.rows.push(Rows { arrow: arrow.into(), ..Rows::default() });
    last.atomic = atomic;
    let requests = [announce("account"), packed([account(1, 1, "a")]), last];
    let mut records = world.client().await.records();
    records.upsert(stream::iter(requests)).await.map(|summary| summary.into_inner().rows)
}

#[tokio::test]
async fn what_cannot_be_so_ends_the_stream_behind_the_rows_before_it() {
    let mut config = config();
    config.limits.record_message_bytes = MESSAGE_BYTES_MAX;
    let world = World::empty(config).await;
    world.sql(ACCOUNT).await;
    for (number, arrow) in unbelievable().into_iter().enumerate() {
        let status = upsert(&world, arrow, true).await.unwrap_err();
        assert_eq!(codes(&status), (Code::InvalidArgument, "08P01".to_owned()), "{number}");
        assert_eq!(world.sql("SELECT id FROM account").await, ["1"]);
    }
    let owners: ArrayRef = Arc::new(StringArray::from(vec!["b"; 777]));
    let whole = vec![("id", numbers(777)), ("amount", numbers(777)), ("owner", owners)];
    let whole = written(&batch(whole), Some(CompressionType::LZ4_FRAME));
    for atomic in [false, true] {
        assert_eq!(upsert(&world, whole.clone(), atomic).await.unwrap(), 779);
        assert_eq!(world.sql("SELECT count(*) FROM account").await, ["778"]);
    }
}
