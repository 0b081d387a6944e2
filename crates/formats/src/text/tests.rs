use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float32Array, Float64Array, Int16Array, Int32Array,
    Int64Array, IntervalMonthDayNanoArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    UInt32Array, UInt64Array,
};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, TimeUnit};
use proptest::prelude::*;

use super::*;
use crate::columns::{UUID, tagged};

fn formatted(array: impl Into<ArrayRef>) -> Vec<String> {
    let array = array.into();
    let formatter = ValueFormatter::new(&array).unwrap();
    let format = |row| {
        let mut text = String::new();
        formatter.format(row, &mut text);
        text
    };
    (0..array.len()).map(format).collect()
}

fn one(data_type: DataType, text: &str) -> thalweg_types::Result<ArrayRef> {
    let mut builder = ColumnBuilder::new(&Arc::new(Field::new("c", data_type, true)))?;
    builder.append(Some(text))?;
    Ok(builder.finish())
}

/// What the text reads as, written again.
fn again(data_type: DataType, text: &str) -> String {
    formatted(one(data_type, text).unwrap_or_else(|error| panic!("{text}: {error:?}"))).remove(0)
}

fn state(data_type: DataType, text: &str) -> &'static str {
    match one(data_type.clone(), text) {
        Ok(array) => panic!("{text} was read as {:?}", formatted(array)),
        Err(error) => error.state().0,
    }
}

#[test]
fn doubles_are_written_as_postgresql_does() {
    let values = [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-1.5, "-1.5"),
        (0.1, "0.1"),
        (100.0, "100"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (123_456_789_012_345.0, "123456789012345"),
        (1e15, "1e+15"),
        (1.234_567_890_123_456_7e15, "1.2345678901234568e+15"),
        (5e-324, "5e-324"),
        (f64::MAX, "1.7976931348623157e+308"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "Infinity"),
        (f64::NEG_INFINITY, "-Infinity"),
    ];
    for (value, text) in values {
        assert_eq!(formatted(Arc::new(Float64Array::from(vec![value])) as ArrayRef), [text]);
        let read = parse::float8(text).unwrap();
        assert!(read.to_bits() == value.to_bits() || (read.is_nan() && value.is_nan()));
    }
    let reals = Float32Array::from(vec![0.1, 123_456.0, 1e6, 16_777_216.0, 1e-5, 3.4e38]);
    assert_eq!(
        formatted(Arc::new(reals) as ArrayRef),
        ["0.1", "123456", "1e+06", "1.6777216e+07", "1e-05", "3.4e+38"]
    );
}

#[test]
fn numbers_out_of_range_are_told_from_bad_ones() {
    for (data_type, bad, out) in [
        (DataType::Int16, "1.5", "32768"),
        (DataType::Int32, "abc", "-2147483649"),
        (DataType::Int64, "", "9223372036854775808"),
        (DataType::Float64, "1,5", "1e400"),
        (DataType::Float32, "--1", "1e-60"),
        (DataType::Decimal128(5, 2), "1.2.3", "1000"),
    ] {
        assert_eq!(state(data_type.clone(), bad), "22P02", "{bad}");
        assert_eq!(state(data_type, out), "22003", "{out}");
    }
    let error = parse::int4("abc").unwrap_err();
    assert_eq!(error.message(), "invalid input syntax for type integer: \"abc\"");
    let error = parse::int2(" 40000 ").unwrap_err();
    assert_eq!(error.message(), "value \"40000\" is out of range for type smallint");
}

#[test]
fn decimals_are_rounded_to_their_scale() {
    for (text, written) in [
        ("12.345", "12.35"),
        ("-12.345", "-12.35"),
        ("12.344", "12.34"),
        ("0.005", "0.01"),
        ("0.004", "0.00"),
        ("1", "1.00"),
        (".5", "0.50"),
        ("5.", "5.00"),
        ("+7", "7.00"),
        ("1e3", "1000.00"),
        ("12345e-3", "12.35"),
        ("0.0000000000000000000000000000001", "0.00"),
        ("000000000000000000000000000000123.4", "123.40"),
        ("999.995", "1000.00"),
        (" 3.1 ", "3.10"),
    ] {
        assert_eq!(again(DataType::Decimal128(9, 2), text), written, "{text}");
        assert_eq!(again(DataType::Decimal256(50, 2), text), written, "{text}");
    }
    let largest = "9".repeat(38);
    assert_eq!(again(DataType::Decimal128(38, 0), &largest), largest);
    let largest = format!("-{}.{}", "9".repeat(70), "9".repeat(6));
    assert_eq!(again(DataType::Decimal256(76, 6), &largest), largest);
    assert_eq!(again(DataType::Decimal128(5, -2), "12345"), "12300");
    for bad in ["", ".", "-", "1e", "e5", "1 2", "0x10"] {
        assert_eq!(state(DataType::Decimal128(9, 2), bad), "22P02", "{bad}");
    }
    for out in ["1e10", "99999999.995", "1e999999999"] {
        assert_eq!(state(DataType::Decimal128(9, 2), out), "22003", "{out}");
    }
    assert_eq!(state(DataType::Decimal128(9, 2), "NaN"), "0A000");
    let array = Decimal128Array::from(vec![5, -5, 0]).with_precision_and_scale(5, 3).unwrap();
    assert_eq!(formatted(Arc::new(array) as ArrayRef), ["0.005", "-0.005", "0.000"]);
}

#[test]
fn booleans_are_read_in_all_their_spellings() {
    for text in ["t", "true", "TRUE", "tr", "y", "yes", "on", "1", " t "] {
        assert!(parse::boolean(text).unwrap(), "{text}");
    }
    for text in ["f", "false", "False", "n", "no", "of", "off", "0"] {
        assert!(!parse::boolean(text).unwrap(), "{text}");
    }
    for text in ["", "o", "2", "truee", "yess", "10"] {
        assert_eq!(parse::boolean(text).unwrap_err().state().0, "22P02", "{text}");
    }
}

#[test]
fn dates_are_read_and_written() {
    for (text, written) in [
        ("1970-01-01", "1970-01-01"),
        ("2000-02-29", "2000-02-29"),
        ("0001-01-01", "0001-01-01"),
        ("0001-12-31 BC", "0001-12-31 BC"),
        ("0044-03-15 BC", "0044-03-15 BC"),
        ("20130102", "2013-01-02"),
        ("2013/1/2", "2013-01-02"),
        ("12345-06-07", "12345-06-07"),
        ("2013-01-01 23:59:59+05", "2013-01-01"),
        ("2013-01-01T05:00:00Z", "2013-01-01"),
        ("infinity", "infinity"),
        ("-infinity", "-infinity"),
        ("epoch", "1970-01-01"),
    ] {
        assert_eq!(again(DataType::Date32, text), written, "{text}");
    }
    for bad in ["", "2013-01", "abc", "01/02/2013", "2013-01-01x", "2013-01-01 BCE", "2013-1/2"] {
        assert_eq!(state(DataType::Date32, bad), "22007", "{bad}");
    }
    for out in ["2013-02-29", "2013-13-01", "2013-00-01", "0000-01-01", "2013-01-32"] {
        assert_eq!(state(DataType::Date32, out), "22008", "{out}");
    }
}

#[test]
fn timestamps_are_read_and_written() {
    let plain = DataType::Timestamp(TimeUnit::Microsecond, None);
    let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    for (text, without, with) in [
        ("2013-01-01 05:00:00", "2013-01-01 05:00:00", "2013-01-01 05:00:00+00"),
        ("2013-01-01T05:00:00Z", "2013-01-01 05:00:00", "2013-01-01 05:00:00+00"),
        ("2013-01-01 05:00:00+02", "2013-01-01 05:00:00", "2013-01-01 03:00:00+00"),
        ("2013-01-01 05:00-0530", "2013-01-01 05:00:00", "2013-01-01 10:30:00+00"),
        ("2013-01-01 05:00:00.25+01:30", "2013-01-01 05:00:00.25", "2013-01-01 03:30:00.25+00"),
        (
            "2013-01-01 5:00:00.1234567 UTC",
            "2013-01-01 05:00:00.123457",
            "2013-01-01 05:00:00.123457+00",
        ),
        ("2013-01-01", "2013-01-01 00:00:00", "2013-01-01 00:00:00+00"),
        ("2013-01-01 24:00:00", "2013-01-02 00:00:00", "2013-01-02 00:00:00+00"),
        ("2013-01-01 00:00:60", "2013-01-01 00:01:00", "2013-01-01 00:01:00+00"),
        ("0044-03-15 12:00:00 BC", "0044-03-15 12:00:00 BC", "0044-03-15 12:00:00+00 BC"),
        (
            "1969-12-31 23:59:59.999999",
            "1969-12-31 23:59:59.999999",
            "1969-12-31 23:59:59.999999+00",
        ),
        ("infinity", "infinity", "infinity"),
    ] {
        assert_eq!(again(plain.clone(), text), without, "{text}");
        assert_eq!(again(zoned.clone(), text), with, "{text}");
    }
    for bad in ["", "05:00:00", "2013-01-01 05", "2013-01-01 05:00:00 Mars", "2013-01-01T"] {
        assert_eq!(state(plain.clone(), bad), "22007", "{bad}");
    }
    for out in ["2013-01-01 25:00:00", "2013-01-01 00:60:00", "300000-01-01", "2013-01-01 00:00+17"]
    {
        assert_eq!(state(plain.clone(), out), "22008", "{out}");
    }
    let extremes = TimestampMicrosecondArray::from(vec![i64::MIN + 1, i64::MAX - 1]);
    let texts = formatted(Arc::new(extremes) as ArrayRef);
    assert_eq!(texts, ["290309-12-21 19:59:05.224193 BC", "294247-01-10 04:00:54.775806"]);
    assert_eq!(parse::timestamp(&texts[0]).unwrap(), i64::MIN + 1);
    assert_eq!(parse::timestamp(&texts[1]).unwrap(), i64::MAX - 1);
}

#[test]
fn intervals_are_read_and_written() {
    for (text, written) in [
        ("1 year 2 mons 3 days 04:05:06", "1 year 2 mons 3 days 04:05:06"),
        ("P1Y2M3DT4H5M6S", "1 year 2 mons 3 days 04:05:06"),
        ("1-2", "1 year 2 mons"),
        ("3 4:05:06.7", "3 days 04:05:06.7"),
        ("1 day ago", "-1 days"),
        ("@ 1 hour 30 minutes", "01:30:00"),
        ("-1 year +2 days -03:00", "-1 years +2 days -03:00:00"),
        ("1.5 days", "1 day 12:00:00"),
        ("1.5 months", "1 mon 15 days"),
        ("1.5 years", "1 year 6 mons"),
        ("2 weeks", "14 days"),
        ("100 hours", "100:00:00"),
        ("-0.000001 seconds", "-00:00:00.000001"),
        ("250ms", "00:00:00.25"),
        ("90", "00:01:30"),
        ("P2W", "14 days"),
        ("PT0.5S", "00:00:00.5"),
        ("P-1Y", "-1 years"),
        ("00:00:00", "00:00:00"),
        ("1 century", "100 years"),
        ("4 10:00", "4 days 10:00:00"),
        ("1 month - 1 day", "1 mon -1 days"),
        ("2500000:00:00.000001", "2500000:00:00.000001"),
        ("-1-2 3 days", "-1 years -2 mons +3 days"),
        ("1.5 hours", "01:30:00"),
        ("2weeks", "14 days"),
        ("100 ms", "00:00:00.1"),
        ("1 mseconds 2 useconds", "00:00:00.001002"),
        ("1 day, 2 hours", "1 day 02:00:00"),
        ("1 day @ 2 hours", "1 day 02:00:00"),
        ("1 2 hours", "1 day 02:00:00"),
        ("1 +02:03", "1 day 02:03:00"),
        ("+1 -02:03", "1 day -02:03:00"),
        ("1:2.5", "00:01:02.5"),
        ("1:2:60", "01:03:00"),
        ("1-2 3", "1 year 2 mons 00:00:03"),
        ("1 s 1 ms", "00:00:01.001"),
        ("1 week 1 day", "8 days"),
        ("5000000000 seconds", "1388888:53:20"),
        ("PT", "00:00:00"),
        ("P1Y1Y", "2 years"),
        ("P20T5", "20 years 05:00:00"),
        ("P00010203T040506", "1 year 2 mons 3 days 04:05:06"),
        ("P0001-02-03T04:05:06.7", "1 year 2 mons 3 days 04:05:06.7"),
        ("P0001-02", "1 year 2 mons"),
        ("PT04:05", "04:05:00"),
    ] {
        let interval = DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano);
        assert_eq!(again(interval.clone(), text), written, "{text}");
        assert_eq!(again(interval, written), written, "{written}");
    }
    let extreme = IntervalMonthDayNano::new(i32::MIN, i32::MIN, i64::MIN);
    let array = IntervalMonthDayNanoArray::from(vec![extreme]);
    let text = formatted(Arc::new(array) as ArrayRef).remove(0);
    assert_eq!(parse::interval(&text).unwrap(), extreme);
}

#[test]
fn what_is_no_interval_is_refused() {
    let interval = DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano);
    for bad in [
        "",
        "P",
        "1 parsec",
        "ago",
        "1 day ago 2",
        "1 ago",
        "1 2",
        "1 d 1 days",
        "1 minute 1:02",
        "1 month 1-2",
        "1..5",
        "1/2",
        "1:2:3:4",
        "p1y",
        "P1Y2",
        "PT1H1",
        "P1H",
        "P1é",
        "1 é",
    ] {
        assert_eq!(state(interval.clone(), bad), "22007", "{bad}");
    }
    for large in ["1-12", "04:61:00", "999999999999 years", "9999999999999999999 seconds"] {
        assert_eq!(state(interval.clone(), large), "22015", "{large}");
    }
}

#[test]
fn intervals_are_read_as_their_fields_say() {
    use IntervalPart::{Day, Hour, Minute, Month, Second, Year};
    for (text, parts, second_digits, expected) in [
        ("1", Some((Year, Year)), None, "1 year"),
        ("2", Some((Year, Month)), None, "2 mons"),
        ("1 2", Some((Day, Hour)), None, "1 day 02:00:00"),
        ("1:2", Some((Minute, Second)), None, "00:01:02"),
        ("1 2:03:04", Some((Day, Hour)), None, "1 day 02:00:00"),
        ("1 2:03:04", Some((Minute, Minute)), None, "1 day 02:03:00"),
        ("1.5", Some((Hour, Hour)), None, "01:00:00"),
        ("1 2:03:04.5555", Some((Day, Second)), Some(1), "1 day 02:03:04.6"),
        ("-14 months -3 days -2:03:04.567", Some((Year, Year)), None, "-1 years"),
        ("-14 months -3 days -2:03:04.567", Some((Day, Day)), None, "-1 years -2 mons -3 days"),
        ("-1.555", None, Some(2), "-00:00:01.56"),
    ] {
        let read = parse::interval_in(text, IntervalFields { parts, second_digits }).unwrap();
        let array = IntervalMonthDayNanoArray::from(vec![read]);
        assert_eq!(formatted(Arc::new(array) as ArrayRef), [expected], "{text} {parts:?}");
    }
}

#[test]
fn bytes_uuids_and_json_are_checked() {
    assert_eq!(parse::bytea("\\xDEad 00").unwrap(), [0xde, 0xad, 0]);
    assert_eq!(parse::bytea("a\\\\b\\000é").unwrap(), b"a\\b\0\xc3\xa9");
    assert_eq!(parse::bytea("\\xabc").unwrap_err().state().0, "22023");
    assert_eq!(parse::bytea("\\xzz").unwrap_err().state().0, "22023");
    assert_eq!(parse::bytea("\\9").unwrap_err().state().0, "22P02");
    let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    for text in [
        uuid,
        "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
        "{a0eebc999c0b4ef8bb6d6bb9bd380a11}",
        "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
    ] {
        assert_eq!(parse::uuid(text).unwrap(), uuid);
    }
    for bad in ["", "a0eebc99", "{a0eebc999c0b4ef8bb6d6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6b"] {
        assert_eq!(parse::uuid(bad).unwrap_err().state().0, "22P02");
    }
    let field = Arc::new(tagged(Field::new("u", DataType::Utf8View, true), UUID));
    let mut builder = ColumnBuilder::new(&field).unwrap();
    builder.append(Some("A0EEBC999C0B4EF8BB6D6BB9BD380A11")).unwrap();
    assert_eq!(formatted(builder.finish()), [uuid]);
    assert!(parse::json(" {\"a\": [1, null]} ").is_ok());
    assert_eq!(parse::json("{a:1}").unwrap_err().state().0, "22P02");
    assert_eq!(uuid::format_bytes(&[0x1f; 16]), "1f1f1f1f-1f1f-1f1f-1f1f-1f1f1f1f1f1f");
}

#[test]
fn arrays_are_read_and_written() {
    let texts = DataType::new_list(DataType::Utf8View, true);
    for (text, written) in [
        ("{}", "{}"),
        ("{a,\"b c\",NULL,\"NULL\",\"\"}", "{a,\"b c\",NULL,\"NULL\",\"\"}"),
        ("{ a , b }", "{a,b}"),
        ("{\"a\\\"b\",c\\,d}", "{\"a\\\"b\",\"c,d\"}"),
        ("{\"{x}\",é}", "{\"{x}\",é}"),
    ] {
        assert_eq!(again(texts.clone(), text), written, "{text}");
    }
    let nested = DataType::new_list(DataType::new_list(DataType::Int32, true), true);
    assert_eq!(again(nested, "{{1,NULL},{},{3}}"), "{{1,NULL},{},{3}}");
    for bad in ["", "a", "{a", "{a}b", "{,}", "{a,}", "{\"a}", "{{1}"] {
        assert_eq!(state(texts.clone(), bad), "22P02", "{bad}");
    }
    assert_eq!(state(DataType::new_list(DataType::Int32, true), "{1,x}"), "22P02");
}

#[test]
fn arrays_of_types_that_no_table_has_are_written_too() {
    assert_eq!(formatted(Arc::new(UInt32Array::from(vec![u32::MAX])) as ArrayRef), ["4294967295"]);
    let dictionary: arrow::array::DictionaryArray<arrow::datatypes::Int32Type> =
        vec![Some("a"), None].into_iter().collect();
    assert_eq!(formatted(Arc::new(dictionary) as ArrayRef), ["a", ""]);
    let nanos = arrow::array::TimestampNanosecondArray::from(vec![1_500]);
    assert_eq!(formatted(Arc::new(nanos) as ArrayRef), ["1970-01-01 00:00:00.000001"]);
}

/// One value of each type whose values are numbers: whatever 64 bits a file has for it.
fn of_bits(bits: i64) -> Vec<ArrayRef> {
    let interval = IntervalMonthDayNano::new(bits as i32, (bits >> 32) as i32, bits);
    vec![
        Arc::new(Int16Array::from(vec![bits as i16])),
        Arc::new(Int32Array::from(vec![bits as i32])),
        Arc::new(Int64Array::from(vec![bits])),
        Arc::new(UInt64Array::from(vec![bits as u64])),
        Arc::new(Float32Array::from(vec![f32::from_bits(bits as u32)])),
        Arc::new(Float64Array::from(vec![f64::from_bits(bits as u64)])),
        Arc::new(Date32Array::from(vec![bits as i32])),
        Arc::new(Time64MicrosecondArray::from(vec![bits])),
        Arc::new(TimestampMicrosecondArray::from(vec![bits])),
        Arc::new(TimestampMicrosecondArray::from(vec![bits]).with_timezone("UTC")),
        Arc::new(IntervalMonthDayNanoArray::from(vec![interval])),
    ]
}

proptest! {
    #[test]
    fn whatever_a_value_is_it_has_one_text(
        bits in prop_oneof![any::<i64>(), -200_000_000_000..200_000_000_000_i64],
    ) {
        for array in of_bits(bits) {
            let formatter = ValueFormatter::new(&array).unwrap();
            let mut scratch = Scratch::default();
            let text = formatter.text(0, &mut scratch).unwrap();
            let is_known = |c: char| c.is_ascii_alphanumeric() || " +-.:".contains(c);
            prop_assert!(text.chars().all(is_known), "{text} of {}", array.data_type());
            prop_assert_eq!(&formatted(Arc::clone(&array)), &[text]);
        }
    }
}
