use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, StringViewArray};

use super::*;

fn texts(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.collect::<StringViewArray>())
}

#[test]
fn few_values_become_a_dictionary_and_come_back() {
    for distinct in [1, 200, 300, 3_000] {
        let array = texts((0..40_000).map(|row| {
            (row % 7 != 3).then(|| format!("value number {} with a tail", row * 31 % distinct))
        }));
        let chunk = ClosedChunk::from_arrays(&[Arc::clone(&array)], 40_000);
        let dictionary = chunk.dictionary(0).expect("few values");
        assert_eq!(matches!(dictionary.codes, Codes::U8(_)), distinct <= 256);
        assert_eq!(chunk.column(0).as_string_view(), array.as_string_view());
        assert!(chunk.memory_bytes() < array.get_buffer_memory_size() / 4);
    }
}

#[test]
fn many_values_stay_as_they_are() {
    let array = texts((0..10_000).map(|row| Some(format!("value number {row} with a tail"))));
    let chunk = ClosedChunk::from_arrays(&[Arc::clone(&array)], 10_000);
    assert!(chunk.dictionary(0).is_none());
    assert_eq!(chunk.column(0).as_string_view(), array.as_string_view());
    let none = texts((0..10).map(|_| None));
    assert!(ClosedChunk::from_arrays(&[none], 10).dictionary(0).is_none());
}

#[test]
fn a_slice_of_something_large_does_not_keep_it() {
    let text = texts((0..100_000).map(|row| Some(format!("value number {row} with a tail"))));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let columns = [text.slice(500, 1_000), numbers.slice(500, 1_000)];
    let chunk = ClosedChunk::from_arrays(&columns, 1_000);
    assert!(chunk.memory_bytes() < 1_000 * (8 + 16 + 40) + 4_096, "{}", chunk.memory_bytes());
    assert_eq!(chunk.column(0).as_string_view(), columns[0].as_string_view());
    let (least, greatest) = chunk.zone(1).range.as_ref().unwrap();
    let one = |array: &ArrayRef| array.as_primitive::<arrow::datatypes::Int64Type>().value(0);
    assert_eq!((one(least), one(greatest)), (500, 1_499));
}

#[test]
fn chunks_that_share_a_column_have_its_handle() {
    let columns = [1, 2].map(|value| Arc::new(Int64Array::from(vec![value; 9])) as ArrayRef);
    let chunk = ClosedChunk::from_arrays(&columns, 9);
    let handles: Vec<ColumnHandle> = chunk.column_handles().collect();
    let shorter = chunk.with_columns(vec![Arc::clone(&chunk.column_parts()[1])]);
    assert!(shorter.column_handles().eq(handles[1..].iter().cloned()));
    assert_ne!(handles[0], handles[1]);
    let equal = ClosedChunk::from_arrays(&columns, 9);
    assert!(equal.column_handles().zip(&handles).all(|(one, other)| one != *other));
}

/// An allocator gives a freed address to the next column of that size.
#[test]
fn no_later_column_has_the_handle_of_one_that_is_gone() {
    let build = |value: i64| {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![value; 9]));
        ClosedChunk::from_arrays(&[array], 9)
    };
    let mut gone: std::collections::HashSet<ColumnHandle> = std::collections::HashSet::new();
    for value in 0..1_000 {
        let chunk = build(value);
        assert!(chunk.column_handles().all(|handle| gone.insert(handle)));
    }
}
