use std::sync::Arc;

use arrow::array::{
    Array, AsArray, Decimal128Array, Float64Array, Int64Array, StringArray, StringViewArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, UInt64Array, new_null_array,
};
use arrow::datatypes::{DataType as ArrowType, TimeUnit};
use datafusion::sql::sqlparser::{dialect::PostgreSqlDialect, parser::Parser};
use thalweg_types::ColumnId;

use super::*;
use crate::cast::to_text;

fn column(type_name: &str) -> Column {
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(type_name).unwrap();
    let declared = parser.parse_data_type().unwrap();
    Column {
        id: ColumnId(1),
        name: "c".to_string(),
        data_type: types::column_type(&declared).unwrap(),
        nullable: true,
        default: None,
        identity: None,
        second_digits: types::second_digits(&declared),
    }
}

fn assigned(array: ArrayRef, type_name: &str) -> Result<ArrayRef> {
    let from = Field::new("given", array.data_type().clone(), true);
    let to = column(type_name);
    let assigned = assign(&array, &from, &to)?;
    assert_eq!(assigned.data_type(), &types::arrow_type(&to.data_type), "{type_name}");
    assert_eq!(assigned.len(), array.len());
    Ok(assigned)
}

/// The text of the one value, or the error's code and message.
fn outcome(array: ArrayRef, type_name: &str) -> String {
    match assigned(array, type_name) {
        Ok(assigned) => to_text(&assigned).unwrap().as_string_view().value(0).to_string(),
        Err(error) => format!("{} {}", error.state().0, error.message()),
    }
}

fn text(value: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![value]))
}

#[test]
fn text_is_read_strictly() {
    for (value, type_name, expected) in [
        (" 42 ", "int", "42"),
        ("abc", "int", "22P02 invalid input syntax for type integer: \"abc\""),
        ("", "int", "22P02 invalid input syntax for type integer: \"\""),
        ("1.5", "int", "22P02 invalid input syntax for type integer: \"1.5\""),
        ("40000", "smallint", "22003 value \"40000\" is out of range for type smallint"),
        ("-9223372036854775808", "bigint", "-9223372036854775808"),
        ("yes", "boolean", "true"),
        ("F", "boolean", "false"),
        ("maybe", "boolean", "22P02 invalid input syntax for type boolean: \"maybe\""),
        ("1e3", "double precision", "1000"),
        ("NaN", "double precision", "NaN"),
        ("-inf", "double precision", "-Infinity"),
        (
            "1e400",
            "double precision",
            "22003 value \"1e400\" is out of range for type double precision",
        ),
        ("0.1", "real", "0.1"),
        ("12.345", "numeric(5,2)", "12.35"),
        ("-12.345", "numeric(5,2)", "-12.35"),
        ("1234.5", "numeric(5,2)", "22003 numeric field overflow"),
        ("999.995", "numeric(5,2)", "22003 numeric field overflow"),
        ("1e2", "numeric(5,2)", "100.00"),
        ("1.2.3", "numeric", "22P02 invalid input syntax for type numeric: \"1.2.3\""),
        (
            "123456789012345678901234567890123456789012345678.5",
            "numeric(50,1)",
            "123456789012345678901234567890123456789012345678.5",
        ),
        ("abc", "varchar(3)", "abc"),
        ("abcd", "varchar(3)", "22001 value too long for type character varying(3)"),
        ("abc   ", "varchar(3)", "abc"),
        ("äöü", "varchar(3)", "äöü"),
        ("2024-02-29", "date", "2024-02-29"),
        ("2023-02-29", "date", "22008 date/time field value out of range: \"2023-02-29\""),
        ("soon", "date", "22007 invalid input syntax for type date: \"soon\""),
        ("13:30:15.5", "time", "13:30:15.5"),
        ("2024-01-15 10:00:00.123456", "timestamp", "2024-01-15 10:00:00.123456"),
        ("2024-01-15T10:00:00+02", "timestamptz", "2024-01-15 08:00:00+00"),
        ("2024-01-15 10:00:00", "timestamptz", "2024-01-15 10:00:00+00"),
        ("1 day 02:00:00", "interval", "1 day 02:00:00"),
        (
            "1 fortnight",
            "interval",
            "22007 invalid input syntax for type interval: \"1 fortnight\"",
        ),
        ("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("{a0eebc999c0b4ef8bb6d6bb9bd380a11}", "uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("a0eebc999c0b4ef8bb6d6bb9bd380a11", "uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("x", "uuid", "22P02 invalid input syntax for type uuid: \"x\""),
        ("{\"a\": [1, null]}", "json", "{\"a\": [1, null]}"),
        ("{a: 1}", "json", "22P02 invalid input syntax for type json"),
        ("\\xDEad", "bytea", "\\xdead"),
        ("a\\000b", "bytea", "\\x610062"),
        ("{1, 2,NULL}", "int[]", "{1,2,NULL}"),
        ("{}", "int[]", "{}"),
        (
            "{\"a,b\",\"c\\\"d\",e f,\"\",\"null\"}",
            "text[]",
            "{\"a,b\",\"c\\\"d\",\"e f\",\"\",\"null\"}",
        ),
        ("{{1,2},{3}}", "int[][]", "22P02 malformed array literal: \"{{1,2},{3}}\""),
        ("1,2", "int[]", "22P02 malformed array literal: \"1,2\""),
        ("{1,x}", "int[]", "22P02 invalid input syntax for type integer: \"x\""),
    ] {
        assert_eq!(outcome(text(value), type_name), expected, "{value} as {type_name}");
    }
}

#[test]
fn numbers_are_rounded_and_must_fit() {
    let bigint = |value: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![value])) };
    let float = |value: f64| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
    let decimal = |value: i128, scale: i8| -> ArrayRef {
        Arc::new(Decimal128Array::from(vec![value]).with_precision_and_scale(38, scale).unwrap())
    };
    for (value, type_name, expected) in [
        (bigint(2_147_483_647), "int", "2147483647"),
        (bigint(2_147_483_648), "int", "22003 integer out of range"),
        (bigint(-32_769), "smallint", "22003 smallint out of range"),
        (bigint(7), "numeric(3,1)", "7.0"),
        (bigint(100), "numeric(3,1)", "22003 numeric field overflow"),
        (bigint(7), "text", "7"),
        (
            bigint(1),
            "boolean",
            "42804 column \"c\" is of type boolean but expression is of type bigint",
        ),
        (bigint(1), "date", "42804 column \"c\" is of type date but expression is of type bigint"),
        (float(0.5), "int", "0"),
        (float(1.5), "int", "2"),
        (float(-2.5), "int", "-2"),
        (float(f64::NAN), "int", "22003 integer out of range"),
        (float(9.3e18), "bigint", "22003 bigint out of range"),
        (float(-(2.0_f64.powi(63))), "bigint", "-9223372036854775808"),
        (float(1e39), "real", "22003 value out of range: overflow"),
        (float(0.1), "numeric(10,5)", "0.10000"),
        (float(1e10), "text", "10000000000"),
        (float(1e15), "text", "1e+15"),
        (float(-1.5e-7), "text", "-1.5e-07"),
        (decimal(25, 1), "int", "3"),
        (decimal(-25, 1), "int", "-3"),
        (decimal(24, 1), "int", "2"),
        (decimal(i128::MAX, 0), "bigint", "22003 bigint out of range"),
        (decimal(12_345, 3), "numeric(4,2)", "12.35"),
        (decimal(99_995, 3), "numeric(4,2)", "22003 numeric field overflow"),
        (decimal(12_340, 3), "text", "12.340"),
        (decimal(15, 1), "double precision", "1.5"),
        (Arc::new(UInt64Array::from(vec![u64::MAX])), "bigint", "22003 bigint out of range"),
        (Arc::new(UInt64Array::from(vec![5])), "bigint", "5"),
    ] {
        let given = value.data_type().clone();
        assert_eq!(outcome(value, type_name), expected, "{given} as {type_name}");
    }
}

#[test]
fn moments_of_every_unit_become_microseconds() {
    let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_500, -1_500]));
    let micros = assigned(nanos.clone(), "timestamp").unwrap();
    let micros = micros.as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
    assert_eq!(micros.values().as_ref(), [2, -1]);
    assert_eq!(outcome(nanos.clone(), "date"), "1970-01-01");
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Nanosecond] {
        let moment = text("2024-01-15T10:00:00");
        let moment = arrow::compute::cast(&moment, &ArrowType::Timestamp(unit, None)).unwrap();
        assert_eq!(outcome(moment.clone(), "timestamptz"), "2024-01-15 10:00:00+00");
        assert_eq!(outcome(moment.clone(), "time"), "10:00:00");
        assert_eq!(outcome(moment, "text"), "2024-01-15 10:00:00");
    }
}

#[test]
fn seconds_keep_as_many_digits_as_their_column() {
    for (value, type_name, expected) in [
        ("2024-01-15 10:00:00.123456", "timestamp(3)", "2024-01-15 10:00:00.123"),
        ("2024-01-15 10:00:00.123456", "timestamp(6)", "2024-01-15 10:00:00.123456"),
        ("2024-01-15 10:00:00.5", "timestamptz(0)", "2024-01-15 10:00:01+00"),
        ("1990-01-01 00:00:00.5", "timestamp(0)", "1990-01-01 00:00:00"),
        ("1969-12-31 23:59:58.75", "timestamp(1)", "1969-12-31 23:59:58.7"),
        ("01:02:03.456", "time(2)", "01:02:03.46"),
    ] {
        assert_eq!(outcome(text(value), type_name), expected, "{value} as {type_name}");
    }
}

#[test]
fn moments_without_an_end_keep_none_of_their_digits_and_stay() {
    let near = i64::MAX - 1;
    for type_name in ["timestamp(0)", "timestamp(3)", "timestamptz(5)"] {
        let given = TimestampMicrosecondArray::from(vec![i64::MIN, i64::MAX, i64::MIN + 1, near]);
        let kept = assigned(Arc::new(given), type_name).unwrap();
        let kept = kept.as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
        assert_eq!(kept.values()[..2], [i64::MIN, i64::MAX], "{type_name}");
        assert!(kept.values()[2] < 0 && kept.values()[3] < i64::MAX, "{type_name}");
    }
}

#[test]
fn values_of_the_right_type_are_not_copied() {
    let values: ArrayRef =
        Arc::new(StringViewArray::from(vec![Some("a long text of many bytes"), None]));
    let assigned = assigned(values.clone(), "text").unwrap();
    assert!(Arc::ptr_eq(&values, &assigned));

    let field = types::arrow_field("given", &thalweg_types::DataType::Uuid, true);
    let same = assign(&values, &field, &column("uuid")).unwrap();
    assert!(Arc::ptr_eq(&values, &same), "what is a uuid already is not checked again");
}

#[test]
fn nulls_pass_into_every_type() {
    for type_name in ["int", "text", "varchar(3)", "uuid", "json", "numeric(40,2)", "int[]", "date"]
    {
        for given in [ArrowType::Null, ArrowType::Utf8, ArrowType::Utf8View] {
            let nulls = assigned(new_null_array(&given, 3), type_name).unwrap();
            assert_eq!(nulls.logical_null_count(), 3, "{type_name}");
        }
    }
}
