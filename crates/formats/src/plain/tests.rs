use std::sync::Arc;

use arrow::array::*;
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{
    DataType, Field, Int32Type, IntervalMonthDayNano, Schema, SchemaRef, TimeUnit, i256,
};
use proptest::prelude::*;

use super::*;

/// A column of each type, where every fifth row or so is NULL.
fn batch(rows: usize, first: i64) -> RecordBatch {
    let at = |row: usize| first + row as i64;
    let some = |row: usize| at(row) % 5 != 3;
    fn column<V, A: FromIterator<Option<V>>>(
        rows: usize,
        some: impl Fn(usize) -> bool,
        value: impl Fn(usize) -> V,
    ) -> A {
        (0..rows).map(|row| some(row).then(|| value(row))).collect()
    }
    let text = |row: usize| "é-".repeat((at(row) % 11) as usize);
    let wide: Vec<Option<i256>> =
        (0..rows).map(|row| some(row).then(|| i256::from(at(row)))).collect();
    let spans: Vec<Option<IntervalMonthDayNano>> = (0..rows)
        .map(|row| some(row).then(|| IntervalMonthDayNano::new(at(row) as i32, -2, at(row))))
        .collect();
    let lists = (0..rows).map(|row| {
        some(row).then(|| (0..at(row) % 4).map(|item| (item != 1).then_some(item as i32)))
    });
    let timestamps: TimestampMicrosecondArray = column(rows, some, at);
    let columns: Vec<ArrayRef> = vec![
        Arc::new((0..rows).map(|row| Some(at(row) as i32)).collect::<Int32Array>()),
        Arc::new(column::<_, Int16Array>(rows, some, |row| at(row) as i16)),
        Arc::new(column::<_, Int64Array>(rows, some, at)),
        Arc::new(column::<_, Float32Array>(rows, some, |row| at(row) as f32 / 3.0)),
        Arc::new(column::<_, Float64Array>(rows, some, |row| at(row) as f64 / 3.0)),
        Arc::new(
            column::<_, Decimal128Array>(rows, some, |row| i128::from(at(row)))
                .with_precision_and_scale(20, 3)
                .unwrap(),
        ),
        Arc::new(Decimal256Array::from(wide).with_precision_and_scale(60, 3).unwrap()),
        Arc::new(column::<_, Date32Array>(rows, some, |row| at(row) as i32)),
        Arc::new(column::<_, Time64MicrosecondArray>(rows, some, at)),
        Arc::new(timestamps.with_timezone("UTC")),
        Arc::new(IntervalMonthDayNanoArray::from(spans)),
        Arc::new(column::<_, BooleanArray>(rows, some, |row| at(row) % 2 == 0)),
        Arc::new(column::<_, StringViewArray>(rows, some, text)),
        Arc::new(column::<_, BinaryViewArray>(rows, some, |row| vec![255_u8; row % 20])),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
    ];
    let fields = columns.iter().enumerate();
    let fields = fields.map(|(place, column)| {
        Field::new(format!("c{place}"), column.data_type().clone(), place > 0)
    });
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns).unwrap()
}

fn all(batch: &RecordBatch) -> Picked<'_> {
    Picked { batch, rows: None }
}

/// The schema with one column alone, and that column's bytes.
fn only(batch: &RecordBatch, place: usize) -> (SchemaRef, Vec<u8>) {
    let batch = batch.project(&[place]).unwrap();
    (batch.schema(), encode(&[all(&batch)]).unwrap())
}

proptest! {
    #[test]
    fn picked_rows_come_out_as_they_went_in(
        pieces in prop::collection::vec(
            (0..60_usize, 0..40_usize, prop::option::of(prop::collection::vec(0..60_u32, 0..80))),
            1..4,
        ),
    ) {
        let pieces: Vec<(RecordBatch, Option<Vec<u32>>)> = pieces
            .into_iter()
            .map(|(rows, start, picked)| {
                // Slices, as the engine and its callers make them.
                let batch = batch(rows + start, start as i64).slice(start, rows);
                let fits = |picked: Vec<u32>| {
                    picked.into_iter().filter(|row| (*row as usize) < rows).collect()
                };
                (batch, picked.map(fits))
            })
            .collect();
        let picked: Vec<Picked<'_>> = pieces
            .iter()
            .map(|(batch, rows)| Picked { batch, rows: rows.as_deref() })
            .collect();
        let taken: Vec<RecordBatch> = pieces
            .iter()
            .map(|(batch, rows)| match rows {
                None => batch.clone(),
                Some(rows) => take_record_batch(batch, &UInt32Array::from(rows.clone())).unwrap(),
            })
            .collect();
        let schema = taken[0].schema();
        let wanted = concat_batches(&schema, &taken).unwrap();
        prop_assert_eq!(decode(&schema, &encode(&picked).unwrap()).unwrap(), wanted);
    }

    #[test]
    fn whatever_comes_is_an_error_or_rows(
        column in 0..15_usize,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        rows in 0..20_u32,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (schema, mut whole) = only(&batch(20, 7), column);
        // Random ones behind a number of rows that they may be enough for.
        let random = [&rows.to_le_bytes()[..], &[u8::from(rows % 2 == 0)], &bytes].concat();
        for bytes in [&bytes, &random] {
            if let Ok(rows) = decode(&schema, bytes) {
                prop_assert!(rows.num_rows() <= 8 * bytes.len());
            }
        }
        for (place, byte) in changes {
            let place = place.index(whole.len());
            whole[place] = byte;
        }
        if let Ok(rows) = decode(&schema, &whole) {
            rows.column(0).to_data().validate_full().unwrap();
        }
    }
}

#[test]
fn what_is_cut_off_or_goes_on_is_an_error() {
    let batch = batch(20, 7);
    for place in 0..batch.num_columns() {
        let (schema, bytes) = only(&batch, place);
        for length in 0..bytes.len() {
            assert!(decode(&schema, &bytes[..length]).is_err(), "{place}: {length}");
        }
        assert!(decode(&schema, &[&bytes[..], &[0]].concat()).is_err());
        assert!(decode(&schema, &bytes).is_ok());
    }
}

#[test]
fn what_is_no_text_or_too_many_rows_is_an_error() {
    let text = |data_type| Arc::new(Schema::new(vec![Field::new("a", data_type, true)]));
    let one = |length: u8, bytes: &[u8]| [&[1, 0, 0, 0, 0, length, 0, 0, 0], bytes].concat();
    for (length, bytes) in [(1, &[0xFF][..]), (13, &[0xFF; 13]), (1, &[0xC3])] {
        let bytes = one(length, bytes);
        assert!(decode(&text(DataType::Utf8View), &bytes).is_err());
        assert!(decode(&text(DataType::BinaryView), &bytes).is_ok());
    }
    // Both halves of one character are none.
    let two = [&[2, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0][..], "é".as_bytes()].concat();
    assert!(decode(&text(DataType::Utf8View), &two).is_err());
    let none = Arc::new(Schema::empty());
    assert!(decode(&none, &u32::MAX.to_le_bytes()).is_err());
    assert_eq!(decode(&none, &7_u32.to_le_bytes()).unwrap().num_rows(), 7);
    let times = text(DataType::Time64(TimeUnit::Nanosecond));
    assert!(decode(&times, &[0, 0, 0, 0, 0]).is_err(), "no table has such a column");
    let nulls = Arc::new(Schema::new(vec![Field::new("a", DataType::Int16, false)]));
    assert!(decode(&nulls, &[1, 0, 0, 0, 1, 0, 0, 0]).is_err());
}
