//! Values and columns of typed files that do not fit what is wanted.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, DictionaryArray, FixedSizeBinaryArray, Float64Array, Int64Array,
    LargeStringArray, ListArray, StringArray, Time64MicrosecondArray, Time64NanosecondArray,
    TimestampSecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use thalweg_formats::columns::{JSON, UUID};
use thalweg_formats::{ReadOptions, WriteOptions};
use thalweg_types::{Error, Result};

use crate::rows::{read, schema, tagged, texts, write};

/// What a column of a file becomes in a column of a type.
fn becomes(array: ArrayRef, target: &SchemaRef) -> Result<Vec<Option<String>>> {
    let directory = tempfile::tempdir().unwrap();
    let mut results = Vec::new();
    for name in ["c.parquet", "c.arrow", "c.arrows"] {
        let path = directory.path().join(name);
        let field = Field::new("C", array.data_type().clone(), true);
        let file_schema = Arc::new(Schema::new(vec![field]));
        let batch = RecordBatch::try_new(file_schema, vec![Arc::clone(&array)]).unwrap();
        write(&path, &batch, &WriteOptions::default());
        let rows = read(&path, target, &ReadOptions::default())?;
        results.push(texts(&rows).into_iter().map(|mut row| row.remove(0)).collect());
    }
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
    Ok(results.remove(0))
}

fn fits(array: impl Into<ArrayRef>, data_type: DataType) -> Vec<String> {
    let values = becomes(array.into(), &schema(&[("c", data_type)])).unwrap();
    values.into_iter().map(|value| value.unwrap_or_else(|| "∅".to_owned())).collect()
}

fn refused(array: impl Into<ArrayRef>, data_type: DataType) -> Error {
    becomes(array.into(), &schema(&[("c", data_type)])).unwrap_err()
}

fn array<A: arrow::array::Array + 'static>(array: A) -> ArrayRef {
    Arc::new(array)
}

#[test]
fn values_that_fit_are_converted() {
    let ints = || array(Int64Array::from(vec![Some(1), None, Some(-32_768)]));
    assert_eq!(fits(ints(), DataType::Int16), ["1", "∅", "-32768"]);
    assert_eq!(fits(ints(), DataType::Float64), ["1", "∅", "-32768"]);
    assert_eq!(fits(ints(), DataType::Decimal128(10, 2)), ["1.00", "∅", "-32768.00"]);
    let floats = array(Float64Array::from(vec![3.0, -7.0]));
    assert_eq!(fits(floats, DataType::Int32), ["3", "-7"]);
    let text = array(LargeStringArray::from(vec!["é", ""]));
    assert_eq!(fits(text, DataType::Utf8View), ["é", ""]);
    let bytes = || array(BinaryArray::from(vec!["é".as_bytes(), b""]));
    assert_eq!(fits(bytes(), DataType::Utf8View), ["é", ""]);
    assert_eq!(fits(bytes(), DataType::BinaryView), ["\\xc3a9", "\\x"]);
    let dictionary: DictionaryArray<Int32Type> = vec![Some("a"), None].into_iter().collect();
    assert_eq!(fits(array(dictionary), DataType::Utf8View), ["a", "∅"]);
    let seconds = || array(TimestampSecondArray::from(vec![0, -1]));
    let utc = Some("UTC".into());
    assert_eq!(
        fits(seconds(), DataType::Timestamp(TimeUnit::Microsecond, utc)),
        ["1970-01-01 00:00:00+00", "1969-12-31 23:59:59+00"]
    );
    let items = vec![Some(vec![Some(1), None]), None, Some(vec![])];
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(items);
    assert_eq!(
        fits(array(lists), DataType::new_list(DataType::Int16, true)),
        ["{1,NULL}", "∅", "{}"]
    );
}

#[test]
fn times_are_those_of_a_day() {
    let time = || DataType::Time64(TimeUnit::Microsecond);
    let day = 86_400_000_000;
    let all = array(Time64MicrosecondArray::from(vec![Some(0), None, Some(day)]));
    assert_eq!(fits(all, time()), ["00:00:00", "∅", "24:00:00"]);
    for (outside, text) in [
        (-5_000_000, "-00:00:05"),
        (day + 1, "24:00:00.000001"),
        (i64::MIN, "-2562047788:00:54.775808"),
    ] {
        let error = refused(array(Time64MicrosecondArray::from(vec![1, outside])), time());
        assert_eq!(error.state().0, "22008");
        let message = format!("value \"{text}\" is out of range for type time");
        assert_eq!(error.message(), message);
        assert_eq!(error.detail(), Some("c.parquet, row group 0, row 2, column \"c\""));
    }
    let nanos = array(Time64NanosecondArray::from(vec![(day + 1) * 1_000]));
    assert_eq!(refused(nanos, time()).state().0, "22008");
}

#[test]
fn values_that_do_not_fit_are_told_with_their_place() {
    let ints = || array(Int64Array::from(vec![Some(1), None, Some(40_000)]));
    let error = refused(ints(), DataType::Int16);
    assert_eq!(error.state().0, "22003");
    assert_eq!(error.message(), "value \"40000\" is out of range for type smallint");
    assert_eq!(error.detail(), Some("c.parquet, row group 0, row 3, column \"c\""));
    assert_eq!(refused(ints(), DataType::Decimal128(3, 0)).state().0, "22003");
    let floats = || array(Float64Array::from(vec![1.0, 1.5]));
    assert_eq!(
        refused(floats(), DataType::Int32).message(),
        "value \"1.5\" is out of range for type integer"
    );
    let floats = array(Float64Array::from(vec![1.0, 1e300]));
    assert_eq!(refused(floats, DataType::Float32).state().0, "22003");
    let bytes = array(BinaryArray::from(vec![&b"ok"[..], b"\xff"]));
    assert!(becomes(bytes, &schema(&[("c", DataType::Utf8View)])).is_err());
    let seconds = array(TimestampSecondArray::from(vec![i64::MAX / 2]));
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    assert!(becomes(seconds, &schema(&[("c", micros)])).is_err());
    let items = vec![Some(vec![Some(1)]), None, Some(vec![Some(2), Some(40_000)])];
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(items);
    let error = refused(array(lists), DataType::new_list(DataType::Int16, true));
    assert_eq!(error.detail(), Some("c.parquet, row group 0, row 3, column \"c\""));
}

#[test]
fn wrong_types_are_refused() {
    for (array, data_type) in [
        (array(StringArray::from(vec!["1"])), DataType::Int32),
        (array(Int64Array::from(vec![1])), DataType::Utf8View),
        (array(Int64Array::from(vec![1])), DataType::Boolean),
        (array(UInt64Array::from(vec![1])), DataType::Timestamp(TimeUnit::Microsecond, None)),
        (array(TimestampSecondArray::from(vec![1])), DataType::Date32),
    ] {
        assert_eq!(refused(array, data_type.clone()).state().0, "42804", "{data_type}");
    }
    let error = refused(array(StringArray::from(vec!["1"])), DataType::Int32);
    assert_eq!(error.message(), "column \"c\" is of type integer but the file's is of type text");
}

#[test]
fn tagged_texts_are_checked() {
    let target = |tag| Arc::new(Schema::new(vec![tagged("c", tag)]));
    let text = |text| array(StringArray::from(vec![text]));
    let upper = "A0EEBC999C0B4EF8BB6D6BB9BD380A11";
    let uuid = Some("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11".to_owned());
    assert_eq!(becomes(text(upper), &target(UUID)).unwrap(), [uuid]);
    assert_eq!(becomes(text("x"), &target(UUID)).unwrap_err().state().0, "22P02");
    assert_eq!(becomes(text("{"), &target(JSON)).unwrap_err().state().0, "22P02");
    let bytes = FixedSizeBinaryArray::try_from_iter([[0x11_u8; 16]].into_iter()).unwrap();
    let uuid = Some("11111111-1111-1111-1111-111111111111".to_owned());
    assert_eq!(becomes(array(bytes), &target(UUID)).unwrap(), [uuid]);
}

#[test]
fn missing_columns_and_nulls_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    let file_schema = schema(&[("a", DataType::Int64), ("b", DataType::Int64)]);
    let column = || array(Int64Array::from(vec![Some(1), None]));
    let batch = RecordBatch::try_new(file_schema, vec![column(), column()]).unwrap();
    write(&path, &batch, &WriteOptions::default());
    let read = |path: &Path, target: &SchemaRef| read(path, target, &ReadOptions::default());
    let error = read(&path, &schema(&[("b", DataType::Int64), ("c", DataType::Int64)]));
    let error = error.unwrap_err();
    assert_eq!((error.state().0, error.message()), ("42703", "column \"c\" is missing"));
    assert_eq!(error.detail(), Some("t.parquet: The columns are a, b."));
    let field = Field::new("b", DataType::Int64, false);
    let error = read(&path, &Arc::new(Schema::new(vec![field]))).unwrap_err();
    assert_eq!(error.state().0, "23502");
    assert_eq!(error.detail(), Some("t.parquet, row group 0, row 2, column \"b\""));
    // Columns come in the wanted order; none at all still has rows.
    let both = schema(&[("b", DataType::Int16), ("A", DataType::Int64)]);
    assert_eq!(read(&path, &both).unwrap().num_columns(), 2);
    let units = thalweg_formats::open(&path, &schema(&[]), &ReadOptions::default(), 10).unwrap();
    let rows = units.units().into_iter().flat_map(|unit| unit.read());
    assert_eq!(rows.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 2);
}

#[test]
fn json_values_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json");
    let target =
        schema(&[("a", DataType::Int32), ("b", DataType::new_list(DataType::Utf8View, true))]);
    let attempt = |text: &str| {
        std::fs::write(&path, text).unwrap();
        read(&path, &target, &ReadOptions::default())
    };
    let rows =
        attempt("{\"a\":1,\"b\":[\"x\",null]}\r\n\n{\"A\":\"2\",\"other\":{}}\n{\"a\":null}");
    let rows = texts(&rows.unwrap());
    let show = |text: &str| Some(text.to_owned());
    assert_eq!(rows, [vec![show("1"), show("{x,NULL}")], vec![show("2"), None], vec![None, None]]);
    for (text, state, detail) in [
        ("{\"a\":1}\n{\"a\":1.5}", "22P02", "t.json, line 2, column \"a\""),
        ("{\"a\":{}}", "42804", "t.json, line 1, column \"a\""),
        ("{\"a\":[1]}", "42804", "t.json, line 1, column \"a\""),
        ("{\"a\":99999999999}", "22003", "t.json, line 1, column \"a\""),
        ("{\"b\":[\"\\u0000\"]}", "22021", "t.json, line 1, column \"b\""),
    ] {
        let error = attempt(text).unwrap_err();
        assert_eq!((error.state().0, error.detail()), (state, Some(detail)), "{text}");
    }
    for text in ["{\"a\":1", "[{\"a\":1}]", "{\"a\":1}{\"a\":2}", "1", "{a:1}"] {
        let error = attempt(text).unwrap_err();
        assert_eq!(error.state().0, "22P02", "{text}");
        assert!(error.detail().unwrap().starts_with("t.json, line 1: "), "{error:?}");
    }
}
