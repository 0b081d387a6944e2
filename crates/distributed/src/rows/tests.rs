use arrow::array::{Int64Array, ListBuilder, StringViewBuilder};
use arrow::datatypes::{Field, Int64Type};

use super::*;

/// Rows with a number, a text of so many bytes, and a list and a struct of such texts.
fn rows(lengths: &[usize]) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..lengths.len() as i64));
    let (mut texts, mut lists) =
        (StringViewBuilder::new(), ListBuilder::new(StringViewBuilder::new()));
    for (row, length) in lengths.iter().enumerate() {
        let text = text(row, *length);
        texts.append_value(&text);
        lists.append_value([None, Some(&text)]);
    }
    let texts: ArrayRef = Arc::new(texts.finish());
    let field = Arc::new(Field::new("text", DataType::Utf8View, true));
    let parts = StructArray::from(vec![(field, Arc::clone(&texts))]);
    let columns = [
        ("number", numbers),
        ("text", texts),
        ("list", Arc::new(lists.finish()) as ArrayRef),
        ("part", Arc::new(parts) as ArrayRef),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn text(row: usize, length: usize) -> String {
    char::from(b'a' + (row % 26) as u8).to_string().repeat(length)
}

/// The decoded rows of messages that were cut, and the length of each message.
fn travelled(rows: RecordBatch) -> (Vec<RecordBatch>, Vec<usize>) {
    let mut writer = RowWriter::new(rows.schema_ref()).unwrap();
    let mut reader = RowReader::new(Some(rows.schema()));
    assert!(reader.read(writer.take().into()).unwrap().is_empty());
    let (mut found, mut lengths) = (Vec::new(), Vec::new());
    for some in Cuts::of(rows, MESSAGE_BYTES) {
        writer.write(&some).unwrap();
        let message = Bytes::from(writer.take());
        lengths.push(message.len());
        found.extend(reader.read(message).unwrap());
    }
    (found, lengths)
}

#[test]
fn long_rows_travel_in_messages_of_a_bearable_length() {
    let lengths = [20_000; 400];
    let (found, messages) = travelled(rows(&lengths));
    assert!(messages.len() > 8, "{} messages", messages.len());
    // Overhead of the format, and buffers that are used in part.
    let longest = messages.iter().max().unwrap();
    assert!(*longest < 2 * MESSAGE_BYTES, "{longest} bytes");
    let mut row = 0;
    for batch in found {
        let numbers = batch.column(0).as_primitive::<Int64Type>();
        let texts = batch.column(1).as_string_view();
        let lists = batch.column(2).as_list::<i32>();
        let parts = batch.column(3).as_struct().column(0).as_string_view();
        for at in 0..batch.num_rows() {
            let expected = text(row, lengths[row]);
            assert_eq!(numbers.value(at), row as i64);
            assert_eq!(texts.value(at), expected);
            let list = lists.value(at);
            assert!(list.as_string_view().iter().eq([None, Some(expected.as_str())]));
            assert_eq!(parts.value(at), expected);
            row += 1;
        }
    }
    assert_eq!(row, lengths.len());
}

#[test]
fn a_row_that_is_too_long_for_others_travels_alone() {
    let long = MESSAGE_BYTES;
    let (found, _) = travelled(rows(&[1, long, 2, 3, 4, 5]));
    let with_the_long_one: Vec<usize> = found
        .iter()
        .filter(|batch| batch.column(1).as_string_view().iter().flatten().any(|t| t.len() == long))
        .map(RecordBatch::num_rows)
        .collect();
    assert_eq!(with_the_long_one, [1]);
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 6);
}

#[test]
fn short_rows_are_not_cut() {
    let (found, _) = travelled(rows(&[10; 5_000]));
    assert_eq!(found.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [5_000]);
    let options = RecordBatchOptions::new().with_row_count(Some(9));
    let without_columns =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options);
    let cuts = Cuts::of(without_columns.unwrap(), MESSAGE_BYTES);
    assert_eq!(cuts.map(|rows| rows.num_rows()).collect::<Vec<_>>(), [9]);
}
