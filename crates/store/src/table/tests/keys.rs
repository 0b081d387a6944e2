//! Keys of every type.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, RecordBatch,
    TimestampMicrosecondArray, UInt32Array,
};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType as ArrowType, IntervalMonthDayNanoType};
use thalweg_types::{RowId, TableSchema};

use super::support::{key, probed};
use crate::codec::encode_value;
use crate::tests::random::{Random, all_types, batch};
use crate::{ClosedChunk, Effect, Table, TableState};

/// What a key looks like; `None` if there is a NULL in it.
fn shown(rows: &RecordBatch, columns: &[u32], row: usize) -> Option<String> {
    let mut text = String::new();
    for &column in columns {
        let array = rows.column(column as usize);
        if array.is_null(row) {
            return None;
        }
        text += &match array.data_type() {
            ArrowType::Interval(_) => format!("{}|", length(array, row)),
            // As encoded: times that no calendar has can't be shown otherwise.
            _ => format!("{:?}|", encode_value(array, row)),
        };
    }
    Some(text)
}

/// An interval's nanoseconds: as keys, a month and thirty days are the same.
fn length(array: &dyn Array, row: usize) -> i128 {
    const DAY: i128 = 86_400_000_000_000;
    let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
    (i128::from(value.months) * 30 + i128::from(value.days)) * DAY + i128::from(value.nanoseconds)
}

/// Every row's key is found where the first row with it lies.
fn check_probes(state: &TableState, rows: &RecordBatch, expected: &[Option<RowId>]) {
    let key = state.schema().primary_key.as_ref().unwrap();
    let columns: Vec<ArrayRef> =
        key.columns.iter().map(|id| Arc::clone(rows.column(id.0 as usize))).collect();
    assert_eq!(probed(state, key, &columns), expected, "{key:?}");
}

fn check_key(schema: &TableSchema, columns: &[u32], random: &mut Random) {
    let mut schema = schema.clone();
    schema.primary_key = Some(key("k", columns));
    let schema = Arc::new(schema);
    let rows = batch(&schema, 300, 9, random);
    let (mut table, mut state) = Table::new(Arc::clone(&schema));
    let mut seen: HashMap<String, RowId> = HashMap::new();
    let mut kept: Vec<u32> = Vec::new();
    for row in 0..rows.num_rows() {
        let text = shown(&rows, columns, row);
        let taken = text.as_ref().is_some_and(|text| seen.contains_key(text));
        let mut effect = Effect::new();
        let placed = table.append(&rows.slice(row, 1), &mut effect);
        assert_eq!(placed.is_err(), taken, "{columns:?} {text:?}");
        if let Ok(placed) = placed {
            kept.push(row as u32);
            let id = RowId::new(placed[0].chunk, placed[0].row);
            seen.extend(text.map(|text| (text, id)));
        }
        effect.publish(&mut state);
    }
    let place = |row| shown(&rows, columns, row).map(|text| seen[&text]);
    let expected: Vec<Option<RowId>> = (0..rows.num_rows()).map(place).collect();
    check_probes(&state, &rows, &expected);

    // The same rows as a closed chunk, whose numbers and places are the same.
    let rows_kept = take_record_batch(&rows, &UInt32Array::from(kept)).unwrap();
    let chunk = Arc::new(ClosedChunk::build(&schema, &rows_kept));
    let (mut table, mut state) = Table::new(Arc::clone(&schema));
    let mut effect = Effect::new();
    table.append_chunk(Arc::clone(&chunk), &mut effect).unwrap();
    effect.publish(&mut state);
    check_probes(&state, &rows, &expected);
    let nothing_taken = seen.is_empty();
    assert_eq!(table.append_chunk(chunk, &mut Effect::new()).is_ok(), nothing_taken);
}

#[test]
fn every_type_may_be_a_key() {
    let schema = all_types();
    let mut random = Random(5);
    for column in 0..schema.columns.len() as u32 {
        check_key(&schema, &[column], &mut random);
    }
}

#[test]
fn several_columns_may_be_a_key() {
    let schema = all_types();
    let mut random = Random(6);
    for columns in [[0, 2], [9, 1], [19, 0], [16, 10]] {
        check_key(&schema, &columns, &mut random);
    }
}

#[test]
fn a_taken_key_is_shown_as_postgresql_shows_it() {
    let mut schema = all_types();
    schema.primary_key = Some(key("k", &[15, 12, 6, 0]));
    let schema = Arc::new(schema);
    let rows = batch(&schema, 1, 0, &mut Random(8));
    let mut columns = rows.columns().to_vec();
    columns[15] = Arc::new(TimestampMicrosecondArray::from(vec![1_500_000]).with_timezone("UTC"));
    columns[12] = Arc::new(Date32Array::from(vec![365]));
    let amount = Decimal128Array::from(vec![-1_205]).with_precision_and_scale(15, 2).unwrap();
    columns[6] = Arc::new(amount);
    columns[0] = Arc::new(BooleanArray::from(vec![true]));
    let rows = RecordBatch::try_new(rows.schema(), columns).unwrap();
    let (mut table, _) = Table::new(schema);
    let mut effect = Effect::new();
    table.append(&rows, &mut effect).unwrap();
    let error = table.append(&rows, &mut effect).unwrap_err();
    let detail = "Key (c15, c12, c6, c0)=(1970-01-01 00:00:01.500+00, 1971-01-01, -12.05, true) \
                  already exists.";
    assert_eq!(error.detail(), Some(detail));
}
