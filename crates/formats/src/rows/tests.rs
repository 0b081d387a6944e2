use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int32Type, IntervalUnit, TimeUnit};
use proptest::prelude::*;
use thalweg_types::{Error, Result};

use super::*;
use crate::columns::{JSONB, UUID, tagged};

fn field(name: &str, data_type: DataType, nullable: bool) -> FieldRef {
    Arc::new(Field::new(name, data_type, nullable))
}

fn all_types() -> Vec<FieldRef> {
    let microseconds = TimeUnit::Microsecond;
    let types = [
        DataType::Boolean,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(38, 4),
        DataType::Decimal256(60, 2),
        DataType::Date32,
        DataType::Time64(microseconds),
        DataType::Timestamp(microseconds, None),
        DataType::Timestamp(microseconds, Some("UTC".into())),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Utf8View,
        DataType::BinaryView,
        DataType::List(field("item", DataType::Int32, true)),
    ];
    let mut fields: Vec<FieldRef> = types.into_iter().map(|t| field("c", t, true)).collect();
    fields.push(Arc::new(tagged(Field::new("u", DataType::Utf8View, true), UUID)));
    fields.push(Arc::new(tagged(Field::new("j", DataType::Utf8View, true), JSONB)));
    fields
}

fn values<'v>(values: &[Value<'v>]) -> impl Iterator<Item = Result<Value<'v>>> {
    values.iter().map(|value| Ok(*value))
}

fn state(result: Result<()>) -> &'static str {
    result.unwrap_err().state().0
}

const TEXTS: [&str; 18] = [
    "t",
    "-3",
    "2147483647",
    "-9223372036854775808",
    "1.5",
    "-0.25",
    "123456.7891",
    "99999999999999999999999999999999999999999999.25",
    "1969-12-31",
    "23:59:59.999999",
    "2024-02-29 12:00:00.5",
    "2024-02-29 12:00:00+02",
    "1 mon -2 days 03:00:00",
    "a text that does not lie in its view",
    "\\x00ff",
    "{1,NULL,3}",
    "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
    "{\"b\": 1, \"a\":[]}",
];

#[test]
fn packed_rows_of_all_types_come_back() {
    let fields = all_types();
    let mut builder = RowsBuilder::new(fields.clone()).unwrap();
    builder.push_values(values(&TEXTS.map(Value::Text))).unwrap();
    builder.push_values(values(&[Value::Null; TEXTS.len()])).unwrap();
    let columns = builder.finish();
    let mut packer = RowPacker::new(&fields, &columns);
    for row in 0..2 {
        let mut packed = Vec::new();
        packer.pack(row, &mut packed).unwrap();
        builder.push_packed(&packed).unwrap();
        for end in 0..packed.len() {
            assert_eq!(state(builder.push_packed(&packed[..end])), "22P03", "{end} bytes");
        }
        packed.push(0);
        assert_eq!(state(builder.push_packed(&packed)), "22P03");
    }
    assert_eq!(builder.len(), 2);
    assert_eq!(builder.finish(), columns);
    assert!(builder.is_empty());
}

#[test]
fn a_refused_row_leaves_nothing_behind() {
    let fields = vec![
        field("a", DataType::Int32, false),
        field("b", DataType::Utf8View, false),
        field("c", DataType::Int16, true),
    ];
    let mut builder = RowsBuilder::new(fields).unwrap();
    let ok = [Value::Int(1), Value::Text("one"), Value::Null];
    builder.push_values(values(&ok)).unwrap();
    for (row, sqlstate) in [
        (vec![Value::Int(1 << 40), Value::Text("a"), Value::Null], "22003"),
        (vec![Value::Int(2), Value::Null, Value::Null], "23502"),
        (vec![Value::Int(2), Value::Text("a\0"), Value::Null], "22021"),
        (vec![Value::Int(2), Value::Text("a"), Value::Bool(true)], "42804"),
        (vec![Value::Int(2), Value::Int(7), Value::Null], "42804"),
        (vec![Value::Text("x"), Value::Text("a"), Value::Null], "22P02"),
        (vec![Value::Int(2), Value::Text("a")], "08P01"),
        (vec![Value::Int(2), Value::Text("a"), Value::Null, Value::Null], "08P01"),
    ] {
        assert_eq!(state(builder.push_values(values(&row))), sqlstate, "{row:?}");
    }
    assert_eq!(state(builder.push_packed(b"\0\x01\0\0\0\x02\xff\xff\0\0")), "22021");
    builder.push_packed(b"\x04\x07\0\0\0\x03two").unwrap();
    let columns: Vec<ArrayRef> = builder.finish();
    assert_eq!(columns[0].as_primitive::<Int32Type>().values(), &[1, 7]);
    let texts: Vec<_> = columns[1].as_string_view().iter().flatten().collect();
    assert_eq!((texts, columns[2].null_count()), (vec!["one", "two"], 2));
    builder.push_values(values(&ok)).unwrap();
    assert_eq!(builder.finish()[0].len(), 1);
}

#[test]
fn numbers_have_the_range_of_their_column() {
    let fields = vec![field("n", DataType::Decimal128(3, 1), false)];
    let mut builder = RowsBuilder::new(fields).unwrap();
    builder.push_packed(&999_i128.to_le_bytes()).unwrap();
    assert_eq!(state(builder.push_packed(&1_000_i128.to_le_bytes())), "22003");
    builder.push_values(values(&[Value::Int(-99)])).unwrap();
    builder.push_values(values(&[Value::Float(12.25)])).unwrap();
    assert_eq!(state(builder.push_values(values(&[Value::Int(100)]))), "22003");
    assert_eq!(builder.finish()[0].len(), 3);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(
        rows in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..20),
    ) {
        let mut builder = RowsBuilder::new(all_types()).unwrap();
        let taken = rows.iter().filter(|row| builder.push_packed(row).is_ok()).count();
        prop_assert_eq!(builder.len(), taken);
        for column in builder.finish() {
            prop_assert_eq!(column.len(), taken);
            column.to_data().validate_full().unwrap();
        }
    }
}

#[test]
fn an_error_of_the_decoder_refuses_the_row() {
    let mut builder = RowsBuilder::new(vec![field("a", DataType::Int32, true)]).unwrap();
    let broken = std::iter::once(Err(Error::internal("broken")));
    assert_eq!(state(builder.push_values(broken)), "XX000");
    assert!(builder.is_empty());
}
