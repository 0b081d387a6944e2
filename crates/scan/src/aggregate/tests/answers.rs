//! Answers are those of the model, however chunks are shared out and partial results handed on.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int32Type, Int64Type};
use thalweg_store::{ClosedChunk, Effect, Table, TableState};
use thalweg_types::{Result, SqlState};

use super::model::{self, Answer, Value};
use super::table::{LARGE, Random, Row, SMALL, TAG, batch, schema, table};
use crate::aggregate::floats::from_ordered;
use crate::{
    Aggregation, Comparison, Key, KeyValue, Lane, Measure, Number, Operator, Partial, Predicate,
    RowFilter, Width,
};

fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Int32 => Value::Int(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Value::Int(array.as_primitive::<Int64Type>().value(row).into()),
        DataType::Decimal128(..) => Value::Int(array.as_primitive::<Decimal128Type>().value(row)),
        DataType::Float64 => model::float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => Value::Int(array.as_boolean().value(row).into()),
        DataType::Utf8View => Value::Text(array.as_string_view().value(row).to_owned()),
        other => unreachable!("no column is {other}"),
    }
}

fn is_spread(measure: &Measure) -> bool {
    match measure {
        Measure::Filtered { measure, .. } => is_spread(measure),
        measure => matches!(measure, Measure::Spread { .. }),
    }
}

fn finished(partial: Partial, keys: &[Key], specified: &[(Measure, DataType)]) -> Result<Answer> {
    let rows = partial.group_count();
    let finished = partial.finish();
    assert_eq!(finished.rows(), rows);
    let keys: Vec<ArrayRef> = (0..keys.len()).map(|place| finished.key(place)).collect();
    let measures = specified.iter().enumerate();
    let measures = measures.map(|(place, (_, data_type))| finished.measure(place, data_type));
    let measures = measures.collect::<Result<Vec<ArrayRef>>>()?;
    let of = |columns: &[ArrayRef], row| columns.iter().map(|c| value(c, row)).collect();
    let found = |row| {
        let mut values: Vec<Value> = of(&measures, row);
        for (value, (measure, _)) in values.iter_mut().zip(specified) {
            if is_spread(measure)
                && let Value::Float(spread) = *value
            {
                *value = model::near(from_ordered(spread));
            }
        }
        values
    };
    let answer: Answer = (0..rows).map(|row| (of(&keys, row), found(row))).collect();
    assert_eq!(answer.len(), rows, "each group is there once");
    Ok(answer)
}

/// Has several find their part, hand it on in partitions as bytes, and others merge these.
fn merged(
    aggregation: &Arc<Aggregation>,
    state: &TableState,
    workers: usize,
    partitions: usize,
) -> Vec<Partial> {
    let mut found: Vec<Partial> =
        (0..workers).map(|_| Partial::sharing(aggregation, partitions)).collect();
    for (number, chunk) in state.chunks().enumerate() {
        found[number % workers].add_chunk(&chunk).unwrap();
    }
    let mut merged: Vec<Partial> = (0..partitions).map(|_| Partial::new(aggregation)).collect();
    for mut partial in found {
        let mut pieces = partial.take_pieces();
        pieces.push(partial.into_batches(partitions).unwrap());
        for batches in pieces {
            for (into, batch) in merged.iter_mut().zip(batches) {
                let batch = through_bytes(&batch);
                into.absorb(&batch);
            }
        }
    }
    merged
}

fn through_bytes(batch: &RecordBatch) -> RecordBatch {
    use arrow::ipc::reader::StreamReader;
    use arrow::ipc::writer::StreamWriter;
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    let bytes = writer.into_inner().unwrap();
    let mut batches = StreamReader::try_new(bytes.as_slice(), None).unwrap();
    batches.next().unwrap().unwrap()
}

#[test]
fn answers_are_those_of_the_model() {
    for seed in 0..60 {
        let random = &mut Random(seed);
        let (state, rows) = table(random);
        for _ in 0..6 {
            let filter = (!random.one_in(3)).then(|| model::predicate(random, 2));
            let keys = model::keys(random);
            let measures = model::measures(random);
            let expected = model::answer(&rows, filter.as_ref(), &keys, &measures);
            let columns = (0..schema().columns.len()).collect();
            let specified = measures.iter().map(|(measure, _)| measure.clone()).collect();
            let told = format!("seed {seed}: {filter:?} {keys:?} {measures:?}");
            let Some(aggregation) = Aggregation::new(columns, filter, keys.clone(), specified)
            else {
                assert!(keys.len() > 1, "one column can always be grouped by: {told}");
                continue;
            };
            let aggregation = Arc::new(aggregation);
            let mut partial = Partial::new(&aggregation);
            state.chunks().for_each(|chunk| partial.add_chunk(&chunk).unwrap());
            assert_eq!(finished(partial, &keys, &measures).unwrap(), expected, "{told}");
            let (workers, partitions) = (1 + random.below(3) as usize, random.pick(&[1, 8]));
            let mut apart = Answer::new();
            for partial in merged(&aggregation, &state, workers, partitions) {
                if !keys.is_empty() || apart.is_empty() {
                    let part = finished(partial, &keys, &measures).unwrap();
                    for (key, values) in part {
                        assert!(apart.insert(key, values).is_none(), "in one partition: {told}");
                    }
                }
            }
            if partitions == 1 || !keys.is_empty() {
                assert_eq!(apart, expected, "{workers} workers, {partitions} partitions, {told}");
            }
        }
    }
}

#[test]
fn a_sieve_finds_the_rows_that_pass() {
    for seed in 0..60 {
        let random = &mut Random(seed);
        let (state, rows) = table(random);
        let columns: Vec<usize> = (0..schema().columns.len()).collect();
        for _ in 0..6 {
            let (filter, measures) = (model::predicate(random, 2), model::measures(random));
            let expected = model::answer(&rows, Some(&filter), &[], &measures);
            let told = format!("seed {seed}: {filter:?} {measures:?}");
            let row_filter = RowFilter::new(columns.clone(), filter);
            let specified = measures.iter().map(|(measure, _)| measure.clone()).collect();
            let all = Aggregation::new(columns.clone(), None, Vec::new(), specified).unwrap();
            let mut partial = Partial::new(&Arc::new(all));
            for chunk in state.chunks() {
                let passing = row_filter.passing(&chunk, usize::MAX).unwrap().unwrap();
                if let Some(fewer) = passing.len().checked_sub(1) {
                    assert_eq!(row_filter.passing(&chunk, fewer).unwrap(), None, "{told}");
                }
                partial.add_chunk(&chunk.narrowed(passing)).unwrap();
            }
            assert_eq!(finished(partial, &[], &measures).unwrap(), expected, "{told}");
        }
    }
}

fn row(large: i64, small: i32) -> Row {
    let tag = Some("t".to_owned());
    Row {
        tag,
        name: None,
        small: Some(small),
        large: Some(large),
        float: None,
        amount: None,
        flag: None,
    }
}

fn table_of(chunks: &[&[Row]]) -> Arc<TableState> {
    let (mut table, mut state) = Table::new(Arc::new(schema()));
    for rows in chunks {
        let mut effect = Effect::new();
        let chunk = Arc::new(ClosedChunk::build(&schema(), &batch(rows)));
        table.append_chunk(chunk, &mut effect).unwrap();
        effect.publish(&mut state);
    }
    state
}

fn sum_of_large(state: &TableState, grouped: bool) -> Result<Value> {
    let key = Key { value: KeyValue::Column(0), data_type: DataType::Utf8View };
    let measure = Measure::Sum { lane: Lane::Int, number: Number::Column(1) };
    let keys = if grouped { vec![key] } else { Vec::new() };
    let aggregation = Aggregation::new(vec![TAG, LARGE], None, keys, vec![measure]).unwrap();
    let mut partial = Partial::new(&Arc::new(aggregation));
    state.chunks().for_each(|chunk| partial.add_chunk(&chunk).unwrap());
    Ok(value(&partial.finish().measure(0, &DataType::Int64)?, 0))
}

#[test]
fn a_sum_that_leaves_bigint_is_refused_and_one_that_comes_back_is_not() {
    for grouped in [false, true] {
        let away = table_of(&[&[row(i64::MAX, 0)], &[row(1, 0)]]);
        let error = sum_of_large(&away, grouped).unwrap_err();
        assert_eq!(error.state(), SqlState::NUMERIC_OUT_OF_RANGE);
        let back = table_of(&[&[row(i64::MAX, 0), row(7, 0)], &[row(-9, 0)]]);
        let expected = Value::Int(i128::from(i64::MAX) - 2);
        assert_eq!(sum_of_large(&back, grouped).unwrap(), expected);
        let least = table_of(&[&[row(i64::MIN, 0), row(-1, 0), row(1, 0)]]);
        assert_eq!(sum_of_large(&least, grouped).unwrap(), Value::Int(i64::MIN.into()));
    }
}

/// Keys and sums of one worker have room in 32 bits, those of the other one have not, and some of
/// its sums have none in 64.
#[test]
fn narrow_columns_of_one_worker_merge_with_wide_ones_of_another() {
    let (least, greatest) = (i64::from(i32::MIN), i64::from(i32::MAX));
    let null = |small| Row { large: None, ..row(0, small) };
    let within = [row(least, -7), row(greatest, 3), row(-1, i32::MIN), row(0, i32::MAX), null(-7)];
    let beyond = [
        row(least - 1, -7),
        row(greatest + 1, 3),
        row(least, -8),
        row(greatest, i32::MAX),
        row(i64::MIN, 3),
        row(i64::MIN, i32::MIN),
        null(3),
    ];
    let state = table_of(&[&within, &beyond]);
    let keys = [Key { value: KeyValue::Column(LARGE), data_type: DataType::Int64 }];
    let sum = Measure::Sum { lane: Lane::Int, number: Number::Column(LARGE) };
    let number = Number::Column(SMALL);
    let smallest = Measure::Extreme { lane: Lane::Int, number, greatest: false };
    let total = DataType::Decimal128(38, 0);
    let measures =
        [(Measure::Rows, DataType::Int64), (sum, total.clone()), (smallest, DataType::Int32)];
    let specified = measures.iter().map(|(measure, _)| measure.clone()).collect();
    let columns = (0..schema().columns.len()).collect();
    let aggregation = Aggregation::new(columns, None, keys.to_vec(), specified).unwrap();
    let aggregation = Arc::new(aggregation);
    let types = |worker: usize| -> Vec<DataType> {
        let mut partial = Partial::new(&aggregation);
        partial.add_chunk(&state.chunks().nth(worker).unwrap()).unwrap();
        let batches = partial.into_batches(4).unwrap();
        batches[0].columns().iter().map(|column| column.data_type().clone()).collect()
    };
    assert_eq!(types(0), [DataType::Int32, DataType::Int32, DataType::Int32, DataType::Int32]);
    assert_eq!(types(1), [DataType::Int64, DataType::Int32, total, DataType::Int32]);
    let mut apart = Answer::new();
    for partial in merged(&aggregation, &state, 2, 4) {
        apart.extend(finished(partial, &keys, &measures).unwrap());
    }
    let rows: Vec<Row> = within.iter().chain(&beyond).cloned().collect();
    assert_eq!(apart, model::answer(&rows, None, &keys, &measures));
}

#[test]
fn a_narrow_sum_and_a_wide_one_may_leave_bigint_together() {
    let key = Key { value: KeyValue::Column(0), data_type: DataType::Utf8View };
    let measure = Measure::Sum { lane: Lane::Int, number: Number::Column(1) };
    let aggregation = Aggregation::new(vec![TAG, LARGE], None, vec![key], vec![measure]);
    let aggregation = Arc::new(aggregation.unwrap());
    for (narrow, wide, is_in_range) in [
        (-1, i64::MAX, true),
        (0, i64::MAX, true),
        (1, i64::MAX, false),
        (1, i64::MIN, true),
        (-1, i64::MIN, false),
    ] {
        let state = table_of(&[&[row(narrow, 0)], &[row(wide, 0)]]);
        let mut merged = Partial::new(&aggregation);
        for chunk in state.chunks() {
            let mut partial = Partial::new(&aggregation);
            partial.add_chunk(&chunk).unwrap();
            partial.into_batches(4).unwrap().iter().for_each(|batch| merged.absorb(batch));
        }
        let sum = merged.finish().measure(0, &DataType::Int64);
        match is_in_range {
            true => {
                let expected = i128::from(narrow) + i128::from(wide);
                assert_eq!(value(&sum.unwrap(), 0), Value::Int(expected));
            }
            false => assert_eq!(sum.unwrap_err().state(), SqlState::NUMERIC_OUT_OF_RANGE),
        }
    }
}

fn squared(filter: Option<Predicate>, state: &TableState) -> Result<()> {
    let operands = Box::new((Number::Column(0), Number::Column(0)));
    let number = Number::Integers { operator: Operator::Multiply, width: Width::Int4, operands };
    let measure = Measure::Sum { lane: Lane::Int, number };
    let aggregation = Aggregation::new(vec![SMALL], filter, Vec::new(), vec![measure]).unwrap();
    let mut partial = Partial::new(&Arc::new(aggregation));
    state.chunks().try_for_each(|chunk| partial.add_chunk(&chunk))
}

#[test]
fn only_wanted_rows_can_leave_their_type() {
    let state = table_of(&[&[row(0, 3), row(0, 46_341), row(0, 46_340)]]);
    let error = squared(None, &state).unwrap_err();
    assert_eq!(error.to_string(), "integer out of range");
    let small = |constant| Predicate::Compare {
        lane: Lane::Int,
        comparison: Comparison::LessOrEqual,
        operands: Box::new((Number::Column(0), Number::Int(constant))),
    };
    squared(Some(small(46_340)), &state).unwrap();
    assert!(squared(Some(small(46_341)), &state).is_err());
}

#[test]
fn a_measure_of_its_own_rows_fails_for_them_alone() {
    let state = table_of(&[&[row(12, 3), row(5, 0)], &[row(-9, -2)]]);
    let divided = |filter: Option<Predicate>| {
        let operands = Box::new((Number::Column(1), Number::Column(0)));
        let number = Number::Integers { operator: Operator::Divide, width: Width::Int8, operands };
        let mut measure = Measure::Sum { lane: Lane::Int, number };
        if let Some(filter) = filter {
            measure = Measure::Filtered { filter, measure: Box::new(measure) };
        }
        let columns = vec![SMALL, LARGE];
        let aggregation = Aggregation::new(columns, None, Vec::new(), vec![measure]).unwrap();
        let mut partial = Partial::new(&Arc::new(aggregation));
        state.chunks().try_for_each(|chunk| partial.add_chunk(&chunk))?;
        Ok(value(&partial.finish().measure(0, &DataType::Int64)?, 0))
    };
    let refused: Result<Value> = divided(None);
    assert_eq!(refused.unwrap_err().state(), SqlState::DIVISION_BY_ZERO);
    let operands = Box::new((Number::Column(0), Number::Int(0)));
    let comparison = Comparison::NotEqual;
    let not_zero = Predicate::Compare { lane: Lane::Int, comparison, operands };
    assert_eq!(divided(Some(not_zero)).unwrap(), Value::Int(4 + 4));
}

#[test]
fn what_does_not_fit_into_a_type_is_refused() {
    let state = table_of(&[&[row(40_000, 1), row(i64::MIN, 2)]]);
    let sum = |number: Number| {
        let measure = Measure::Sum { lane: Lane::Int, number };
        let aggregation = Aggregation::new(vec![LARGE], None, Vec::new(), vec![measure]).unwrap();
        let mut partial = Partial::new(&Arc::new(aggregation));
        let done = state.chunks().try_for_each(|chunk| partial.add_chunk(&chunk));
        done.unwrap_err().to_string()
    };
    let column = || Box::new(Number::Column(0));
    let narrowed = Number::Narrowed { operand: column(), width: Width::Int2 };
    assert_eq!(sum(narrowed), "smallint out of range");
    let operand = Box::new(Number::FloatOfInt(column()));
    let rounded = Number::IntOfFloat { operand, width: Width::Int4 };
    assert_eq!(sum(rounded), "integer out of range");
    let bucket = Number::Bucket { operand: column(), unit: 1_000, origin: 1 };
    assert_eq!(sum(bucket), "bigint out of range");
    let operands = Box::new((Number::Column(0), Number::Int(-1)));
    let quotient = Number::Integers { operator: Operator::Divide, width: Width::Int8, operands };
    assert_eq!(sum(quotient), "bigint out of range");
}

#[test]
fn chunks_that_cannot_matter_are_not_read() {
    let rows: Vec<Vec<Row>> =
        (0..4).map(|chunk| (0..10).map(|n| row(0, chunk * 100 + n)).collect()).collect();
    let rows: Vec<&[Row]> = rows.iter().map(Vec::as_slice).collect();
    let state = table_of(&rows);
    let equal = |value| Predicate::Compare {
        lane: Lane::Int,
        comparison: Comparison::Equal,
        operands: Box::new((Number::Int(value), Number::Column(0))),
    };
    let filter = Predicate::Or(vec![equal(105), equal(399)]);
    let aggregation =
        Aggregation::new(vec![SMALL], Some(filter), Vec::new(), vec![Measure::Rows]).unwrap();
    let mut partial = Partial::new(&Arc::new(aggregation));
    state.chunks().for_each(|chunk| partial.add_chunk(&chunk).unwrap());
    let statistics = partial.statistics();
    assert_eq!((statistics.chunks_read, statistics.chunks_pruned), (1, 3));
    assert_eq!(statistics.rows_read, 10);
    let counted = partial.finish().measure(0, &DataType::Int64).unwrap();
    assert_eq!(value(&counted, 0), Value::Int(1));
}

#[test]
fn a_group_of_three_aggregates_takes_32_bytes() {
    let rows: Vec<Row> = (0..60_000).map(|n| row(n * 7_919 % 1_000_003, 1)).collect();
    let state = table_of(&[&rows]);
    let key = Key { value: KeyValue::Column(0), data_type: DataType::Int64 };
    let sum = Measure::Sum { lane: Lane::Int, number: Number::Column(1) };
    let number = Number::Column(1);
    let least = Measure::Extreme { lane: Lane::Int, number, greatest: false };
    let measures = vec![Measure::Rows, sum, least];
    let aggregation = Aggregation::new(vec![LARGE, SMALL], None, vec![key], measures).unwrap();
    let mut partial = Partial::new(&Arc::new(aggregation));
    state.chunks().for_each(|chunk| partial.add_chunk(&chunk).unwrap());
    let groups = partial.group_count();
    assert_eq!(groups, 60_000);
    // Vectors have room for twice as many at most; an entry of the index takes five bytes.
    assert!(partial.memory_bytes() <= groups * 2 * (32 + 5));
}
