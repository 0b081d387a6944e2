use arrow::array::{Array, Int32Array, StringViewArray};
use arrow::datatypes::{DataType as ArrowType, Field, Schema};
use std::sync::Arc;

use super::*;
use crate::ClosedChunk;
use crate::tests::random::{Random, all_types, batch};

/// Sizes on both sides of where the forms change.
const ROWS: [usize; 7] = [0, 1, 2, 100, 255, 256, 2_000];

#[test]
fn batches_of_all_types_come_back() {
    let schema = all_types();
    let mut random = Random(1);
    for rows in ROWS {
        for nulls in [0, 1, 3] {
            let batch = batch(&schema, rows, nulls, &mut random);
            let bytes = encode_batch(&batch);
            assert_eq!(decode_batch(&batch.schema(), &bytes).unwrap(), batch);
            let part = batch.slice(rows / 3, rows / 2);
            let bytes = encode_batch(&part);
            assert_eq!(decode_batch(&batch.schema(), &bytes).unwrap(), part);
        }
    }
}

#[test]
fn chunks_of_all_types_come_back() {
    let schema = all_types();
    let mut random = Random(2);
    for rows in ROWS {
        for nulls in [0, 1, 3] {
            let batch = batch(&schema, rows, nulls, &mut random);
            let chunk = ClosedChunk::build(&schema, &batch);
            assert_eq!(chunk.batch(&batch.schema()), batch);
            let by_column = decode_chunk_columns(&schema, rows, |column| {
                Ok(encode_chunk_column(&chunk, column))
            });
            assert_eq!(by_column.unwrap().batch(&batch.schema()), batch);
            let decoded = decode_chunk(&schema, &encode_chunk(&chunk)).unwrap();
            assert_eq!(decoded.batch(&batch.schema()), batch);
            for column in 0..chunk.column_count() {
                let (before, after) = (chunk.zone(column), decoded.zone(column));
                assert_eq!(before.null_count, after.null_count);
                assert_eq!(before.range, after.range);
                let is_dictionary = chunk.dictionary(column).is_some();
                assert_eq!(decoded.dictionary(column).is_some(), is_dictionary);
            }
        }
    }
}

#[test]
fn dictionaries_and_compressed_texts_come_back() {
    let mut schema = all_types();
    schema.columns.retain(|column| column.name == "c9" || column.name == "c10");
    let few: StringViewArray =
        (0..5_000).map(|row| (row % 9 > 0).then(|| format!("one of a few, {}", row % 7))).collect();
    let long: StringViewArray =
        (0..5_000).map(|row| Some(format!("much the same text, number {row}"))).collect();
    let types = crate::arrow_schema(&schema);
    let batch = RecordBatch::try_new(types.clone(), vec![Arc::new(few), Arc::new(long)]).unwrap();
    let chunk = ClosedChunk::build(&schema, &batch);
    assert!(chunk.dictionary(0).is_some() && chunk.dictionary(1).is_none());
    let bytes = encode_chunk(&chunk);
    assert!(bytes.len() < 5_000 * 16, "{}", bytes.len());
    assert_eq!(decode_chunk(&schema, &bytes).unwrap().batch(&types), batch);
    assert_eq!(decode_batch(&types, &encode_batch(&batch)).unwrap(), batch);
}

#[test]
fn a_small_row_is_small() {
    let field = |name, data_type| Field::new(name, data_type, false);
    let schema = Arc::new(Schema::new(vec![
        field("a", ArrowType::Int32),
        field("b", ArrowType::Int32),
        field("c", ArrowType::Utf8View),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![123_456])),
        Arc::new(Int32Array::from(vec![-7])),
        Arc::new(StringViewArray::from(vec!["8 letter"])),
    ];
    let batch = RecordBatch::try_new(schema, columns).unwrap();
    assert_eq!(encode_batch(&batch).len(), 3 + 4 + 2 + 10);
}

#[test]
fn rows_without_columns_are_counted() {
    let schema = Arc::new(Schema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(7));
    let batch = RecordBatch::try_new_with_options(schema.clone(), vec![], &options).unwrap();
    assert_eq!(decode_batch(&schema, &encode_batch(&batch)).unwrap().num_rows(), 7);
}

/// Reads all values, so that whatever decoding let through is looked at.
fn look_at(batch: &RecordBatch) {
    for column in batch.columns() {
        column.to_data().validate_full().unwrap();
    }
}

#[test]
fn damaged_bytes_are_errors_or_other_values_but_never_panics() {
    let schema = all_types();
    let types = crate::arrow_schema(&schema);
    let mut random = Random(3);
    for rows in [1, 20, 300] {
        let batch = batch(&schema, rows, 4, &mut random);
        let encoded = encode_batch(&batch);
        let chunk = encode_chunk(&ClosedChunk::build(&schema, &batch));
        let step = (encoded.len() / 500).max(1);
        for end in (0..encoded.len()).step_by(step) {
            assert!(decode_batch(&types, &encoded[..end]).is_err());
        }
        for end in (0..chunk.len()).step_by(step) {
            assert!(decode_chunk(&schema, &chunk[..end]).is_err());
        }
        for _ in 0..3_000 {
            let mut flipped = encoded.clone();
            let mut flipped_chunk = chunk.clone();
            for _ in 0..=random.below(3) {
                let place = random.below(encoded.len() as u64) as usize;
                flipped[place] ^= 1 << random.below(8);
                let place = random.below(chunk.len() as u64) as usize;
                flipped_chunk[place] = random.next() as u8;
            }
            if let Ok(batch) = decode_batch(&types, &flipped) {
                look_at(&batch);
            }
            if let Ok(chunk) = decode_chunk(&schema, &flipped_chunk) {
                look_at(&chunk.batch(&types));
            }
        }
    }
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let schema = all_types();
    let types = crate::arrow_schema(&schema);
    let mut random = Random(4);
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> =
            (0..random.below(200)).map(|_| random.next() as u8 >> random.below(8)).collect();
        // Past the header, most of the time.
        for (byte, likely) in bytes.iter_mut().zip([random.below(2) as u8, 5, 20]) {
            *byte = likely;
        }
        let _ = decode_batch(&types, &bytes);
        let _ = decode_chunk(&schema, bytes.get(1..).unwrap_or_default());
    }
}
