use arrow::array::{
    BooleanArray, DictionaryArray, Int32Array, Int64Array, NullArray, RecordBatchOptions,
    StringArray, StringViewArray, UInt32Array,
};
use arrow::compute::take as taken;
use arrow::datatypes::{Field, Int8Type, Schema};
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use proptest::prelude::*;

use super::*;

const BYTES_MAX: usize = 1 << 20;

fn read(stream: &[u8]) -> Result<Vec<RecordBatch>, Fault> {
    BatchReader::new(BYTES_MAX).read(stream)
}

fn written(batches: &[RecordBatch], codec: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(codec).unwrap();
    let schema = batches[0].schema();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

/// Rows of one column.
fn column(values: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter([("c", values)]).unwrap()
}

/// 7,777 rows with a column of each of some kinds.
fn many_kinds() -> RecordBatch {
    let rows = 0..7_777_usize;
    let ids = Int64Array::from_iter_values(rows.clone().map(|n| n as i64));
    let flags = BooleanArray::from(rows.clone().map(|n| n % 2 == 0).collect::<Vec<_>>());
    let names = StringArray::from_iter_values(rows.clone().map(|n| format!("n {n}")));
    let views = StringViewArray::from_iter_values(rows.clone().map(|n| n.to_string()));
    let tags: DictionaryArray<Int8Type> =
        rows.map(|n| ["one", "two"].get(n % 3).copied()).collect();
    let columns: [ArrayRef; 5] =
        [Arc::new(ids), Arc::new(flags), Arc::new(names), Arc::new(views), Arc::new(tags)];
    let names = ["id", "flag", "name", "view", "tag"];
    RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap()
}

/// The stream with other bytes in the places where these are.
fn patched(stream: &[u8], from: i64, to: i64) -> Vec<u8> {
    let mut patched = stream.to_vec();
    let places: Vec<usize> =
        (0..stream.len() - 8).filter(|at| stream[*at..*at + 8] == from.to_le_bytes()).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| patched[at..at + 8].copy_from_slice(&to.to_le_bytes()));
    patched
}

#[test]
fn streams_come_back_and_their_schema_is_read_once() {
    let batches = [many_kinds(), many_kinds()];
    let mut reader = BatchReader::new(BYTES_MAX);
    for codec in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        let first = reader.read(&written(&batches, codec)).unwrap();
        let second = reader.read(&written(&batches, codec)).unwrap();
        assert_eq!((&first[..], &second[..]), (&batches[..], &batches[..]));
        assert!(Arc::ptr_eq(first[0].schema_ref(), second[1].schema_ref()));
    }
    let other = [column(Arc::new(Int32Array::from(vec![1])))];
    assert_eq!(reader.read(&written(&other, None)).unwrap(), other);
}

#[test]
fn a_cut_stream_is_no_stream() {
    let stream = written(&[many_kinds()], None);
    let (mut rest, mut ends) = (stream.as_slice(), Vec::new());
    while next_message(&mut rest).unwrap().is_some() {
        ends.push(stream.len() - rest.len());
    }
    assert_eq!(ends.len(), 3, "a schema, a dictionary, a batch");
    let cuts = (1..stream.len()).step_by(97);
    for cut in cuts.chain(ends.iter().copied()).chain([3, 5, stream.len() - 1]) {
        // The mark of the end may be missing.
        assert_eq!(read(&stream[..cut]).is_ok(), ends.contains(&cut), "{cut} bytes");
    }
    assert_eq!(read(&[]), Err(UNREADABLE));
    assert_eq!(read(&stream[ends[0]..]), Err(UNREADABLE), "without its schema");
}

#[test]
fn rows_that_take_no_bytes_are_not_believed() {
    let count = 1_usize << 40;
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    let schema = Arc::new(Schema::empty());
    let empty = RecordBatch::try_new_with_options(schema, Vec::new(), &options).unwrap();
    let (nulls, fewer) = (NullArray::new(count), NullArray::new(100));
    for unbelievable in [empty, column(Arc::new(nulls)), column(Arc::new(fewer))] {
        assert_eq!(read(&written(&[unbelievable], None)), Err(TOO_MANY_ROWS));
    }
    let flags = column(Arc::new(BooleanArray::from(vec![true, false])));
    assert_eq!(read(&written(&[flags], None)).unwrap()[0].num_rows(), 2);
}

#[test]
fn wrong_lengths_are_told() {
    let stream = written(&[many_kinds()], None);
    for rows in [-1, 7_778, 80_000, 1 << 40, i64::MAX] {
        assert!(read(&patched(&stream, 7_777, rows)).is_err(), "{rows} rows");
    }
    for bytes in [-8, 1, 62_208, 1 << 40, i64::MAX - 7] {
        assert!(read(&patched(&stream, 62_216, bytes)).is_err(), "{bytes} bytes");
    }
}

#[test]
fn what_is_small_compressed_counts_as_it_is_later() {
    let zeros: ArrayRef = Arc::new(Int64Array::from(vec![0; BYTES_MAX / 4]));
    let codecs = [Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];
    for codec in codecs {
        let stream = written(&[column(Arc::clone(&zeros))], codec);
        assert!(stream.len() < BYTES_MAX / 8, "{} bytes", stream.len());
        assert_eq!(read(&stream), Err(TOO_LARGE));
        // It says less than it becomes.
        assert!(read(&patched(&stream, BYTES_MAX as i64 * 2, 800)).is_err());
    }
    // Each of several is small enough.
    let part = column(zeros.slice(0, BYTES_MAX / 16));
    assert!(read(&written(std::slice::from_ref(&part), codecs[0])).is_ok());
    assert_eq!(read(&written(&[part.clone(), part.clone(), part], codecs[0])), Err(TOO_LARGE));
}

#[test]
fn texts_count_for_each_row_that_names_them() {
    let long = "long ".repeat(200);
    let places = UInt32Array::from(vec![0; 2_000]);
    let views: ArrayRef = Arc::new(StringViewArray::from(vec![long.as_str()]));
    let views = taken(&views, &places, None).unwrap();
    let codes: DictionaryArray<Int8Type> = vec![long.as_str(); 2_000].into_iter().collect();
    for texts in [views, Arc::new(codes) as ArrayRef] {
        let stream = written(&[column(Arc::clone(&texts))], None);
        assert!(stream.len() < BYTES_MAX / 8, "{} bytes", stream.len());
        assert_eq!(read(&stream), Err(TOO_LARGE));
        let fewer = column(texts.slice(0, 1_000));
        assert_eq!(read(&written(&[fewer], None)).unwrap()[0].num_rows(), 1_000);
    }
}

#[test]
fn a_dictionary_must_come_before_its_codes() {
    let stream = written(&[many_kinds()], None);
    let mut rest = stream.as_slice();
    next_message(&mut rest).unwrap();
    let schema_end = stream.len() - rest.len();
    let (_, message, _) = next_message(&mut rest).unwrap().unwrap();
    assert_eq!(message.header_type(), MessageHeader::DictionaryBatch);
    assert_eq!(read(&[&stream[..schema_end], rest].concat()), Err(UNREADABLE));
}

#[test]
fn types_that_no_table_takes_are_refused() {
    let runs = DataType::RunEndEncoded(
        Arc::new(Field::new("run_ends", DataType::Int32, false)),
        Arc::new(Field::new("values", DataType::Int32, true)),
    );
    let item = Arc::new(Field::new("item", DataType::Int32, true));
    for refused in [runs, DataType::ListView(Arc::clone(&item))] {
        let schema = Schema::new(vec![Field::new("id", refused, true)]);
        let writer = StreamWriter::try_new(Vec::new(), &schema).unwrap();
        assert_eq!(read(&writer.into_inner().unwrap()), Err(WRONG_TYPE));
    }
    let schema = Schema::new(vec![Field::new("id", DataType::List(item), true)]);
    let writer = StreamWriter::try_new(Vec::new(), &schema).unwrap();
    assert_eq!(read(&writer.into_inner().unwrap()), Ok(Vec::new()));
}

proptest! {
    #[test]
    fn damage_is_noticed_or_read_as_other_values(
        compressed in any::<bool>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let codec = compressed.then_some(CompressionType::LZ4_FRAME);
        let mut stream = written(&[many_kinds().slice(0, 50)], codec);
        for (place, byte) in damage {
            let place = place.index(stream.len());
            stream[place] = byte;
        }
        for batch in read(&stream).unwrap_or_default() {
            prop_assert!(batch.num_rows() <= BYTES_MAX);
            for column in batch.columns() {
                column.to_data().validate_full().unwrap();
            }
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
    }
}
