//! What is written in a format reads back as it was.

use std::sync::Arc;

use arrow::datatypes::DataType;
use proptest::prelude::*;
use proptest::sample::select;
use thalweg_formats::{Compression, Format, ReadOptions, WriteOptions, schema_of};

use crate::rows::{batch, every_type, read_in_batches, schema, texts, write};

type Text = BoxedStrategy<String>;

fn one_of(texts: &[&str]) -> Text {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    select(texts).boxed()
}

fn number<T: Arbitrary + ToString + 'static>(extremes: &[&str]) -> Text {
    prop_oneof![any::<T>().prop_map(|value| value.to_string()), one_of(extremes)].boxed()
}

fn float<T: Arbitrary + ToString + 'static>() -> Text {
    number::<T>(&["NaN", "Infinity", "-Infinity", "-0", "1e-30", "3e38", "0.1"])
}

fn decimal(digits: usize, scale: usize) -> Text {
    let whole = digits - scale;
    matching(&format!("-?[0-9]{{1,{whole}}}\\.[0-9]{{{scale}}}"))
}

/// Texts that match a regular expression.
fn matching(pattern: &str) -> Text {
    proptest::string::string_regex(pattern).unwrap().boxed()
}

fn text() -> Text {
    let parts = select(vec![
        "a", "é", "\"", "\\", "\\.", "\n", "\r", "\r\n", ",", "\t", " ", "NULL", "\\N", "{", "}",
        "'", "\u{1}", "\u{b}", "😀",
    ]);
    let longer = prop::collection::vec(parts, 0..8).prop_map(|parts| parts.concat());
    prop_oneof![longer, one_of(&["", "\\.", "\\N", "null"])].boxed()
}

/// A quoted item of an array literal.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

fn list(item: Text) -> Text {
    let item = prop::option::of(item).prop_map(|item| item.unwrap_or_else(|| "NULL".to_owned()));
    prop::collection::vec(item, 0..4).prop_map(|items| format!("{{{}}}", items.join(","))).boxed()
}

fn timestamp() -> Text {
    // All that PostgreSQL's integers hold, apart from the two infinities.
    any::<i64>()
        .prop_filter("infinite", |micros| !matches!(*micros, i64::MIN | i64::MAX))
        .prop_map(|micros| {
            let array = arrow::array::TimestampMicrosecondArray::from(vec![micros]);
            let mut text = String::new();
            let array: arrow::array::ArrayRef = Arc::new(array);
            thalweg_formats::text::format_value(&array, 0, &mut text).unwrap();
            text
        })
        .boxed()
}

fn interval() -> Text {
    (any::<i32>(), any::<i32>(), -999_999_999_i64..999_999_999)
        .prop_map(|(months, days, seconds)| format!("{months} mons {days} days {seconds} secs"))
        .boxed()
}

fn time() -> Text {
    matching("([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?")
}

fn value_of(name: &str) -> Text {
    match name {
        "boolean" => one_of(&["t", "f"]),
        "int2" => number::<i16>(&["32767", "-32768"]),
        "int4" => number::<i32>(&["2147483647", "-2147483648"]),
        "int8" => number::<i64>(&["9223372036854775807", "-9223372036854775808"]),
        "float4" => float::<f32>(),
        "float8" => float::<f64>(),
        "numeric" => decimal(20, 5),
        "wide" => decimal(60, 10),
        "text" => text(),
        "bytea" => matching("\\\\x([0-9a-f]{2}){0,20}"),
        "date" => prop_oneof![
            matching("[0-9]{3}[1-9]-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])( BC)?"),
            one_of(&["infinity", "-infinity", "2000-02-29", "99999-12-31"])
        ]
        .boxed(),
        "time" => prop_oneof![time(), one_of(&["24:00:00", "00:00:00"])].boxed(),
        "timestamp" | "timestamptz" => {
            prop_oneof![timestamp(), one_of(&["infinity", "-infinity", "epoch"])].boxed()
        }
        "interval" => interval(),
        "ints" => list(number::<i32>(&["0"])),
        "texts" => list(text().prop_map(|text| quoted(&text)).boxed()),
        "intervals" => list(interval().prop_map(|text| quoted(&text)).boxed()),
        "matrix" => list(list(float::<f64>())),
        "uuid" => matching("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
        "json" => {
            one_of(&["{}", "[1, \"a\"]", "\"x\\ny\"", "12.50", "true", "{\"a\": {\"b\": []}}"])
        }
        other => panic!("no values of {other}"),
    }
}

fn rows() -> impl Strategy<Value = Vec<Vec<Option<String>>>> {
    let row: Vec<_> = every_type()
        .fields()
        .iter()
        .map(|field| prop::option::weighted(0.8, value_of(field.name())))
        .collect();
    prop::collection::vec(row, 1..12)
}

fn assert_comes_back(
    rows: &[Vec<Option<String>>],
    format: Format,
    read: &ReadOptions,
    write_options: &WriteOptions,
) {
    let schema = every_type();
    let written = batch(&schema, rows);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rows");
    let options = WriteOptions { format: Some(format), ..write_options.clone() };
    write(&path, &written, &options);
    let options = ReadOptions { format: Some(format), ..read.clone() };
    let back = read_in_batches(&path, &schema, &options, 5).unwrap();
    // Compared as texts first, for the message; NaN is not equal to itself.
    assert_eq!(texts(&back), texts(&written), "{format:?}");
    assert_eq!(back, written, "{format:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn every_type_comes_back(rows in rows()) {
        let read = ReadOptions::default();
        for format in [
            Format::Csv,
            Format::Tsv,
            Format::Text,
            Format::Parquet,
            Format::Arrow,
            Format::ArrowStream,
        ] {
            for header in [false, true] {
                let write = WriteOptions { header, ..WriteOptions::default() };
                assert_comes_back(&rows, format, &read, &write);
            }
        }
        let from_pairs = |pairs: &[(&'static str, &'static str)]| {
            let read = ReadOptions::from_copy(pairs.iter().copied()).unwrap();
            (read, WriteOptions::from_copy(pairs.iter().copied()).unwrap())
        };
        let marks = [("delimiter", ";"), ("quote", "'"), ("escape", "\\"), ("null", "nothing")];
        let (read, write) = from_pairs(&marks);
        assert_comes_back(&rows, Format::Csv, &read, &write);
        let (read, write) = from_pairs(&[("delimiter", "|"), ("null", "N")]);
        assert_comes_back(&rows, Format::Text, &read, &write);
        let zstd = WriteOptions { compression: Compression::Zstd, row_group_rows: 3, ..write };
        assert_comes_back(&rows, Format::Parquet, &read, &zstd);
    }

    #[test]
    fn json_comes_back(rows in rows()) {
        assert_comes_back(&rows, Format::Json, &ReadOptions::default(), &WriteOptions::default());
    }
}

#[test]
fn schemas_are_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let schema = schema(&[
        ("id", DataType::Int64),
        ("ratio", DataType::Float64),
        ("ok", DataType::Boolean),
        ("day", DataType::Date32),
        ("name", DataType::Utf8View),
        ("zip", DataType::Utf8View),
    ]);
    let row = |texts: [&str; 6]| texts.map(|text| Some(text.to_owned())).to_vec();
    let rows = [
        row(["1", "0.5", "t", "2013-01-01", "a", "01234"]),
        row(["-2", "3", "f", "2013-01-02", "7", "99999"]),
    ];
    let written = batch(&schema, &rows);
    for name in ["a.csv", "a.tsv", "a.json", "a.parquet", "a.arrow", "a.arrows"] {
        let path = directory.path().join(name);
        write(&path, &written, &WriteOptions { header: true, ..WriteOptions::default() });
        assert_eq!(schema_of(&path, &ReadOptions::default()).unwrap(), schema, "{name}");
    }
}

#[test]
fn tags_are_found_again_where_the_format_keeps_them() {
    let directory = tempfile::tempdir().unwrap();
    let schema = every_type();
    let written = batch(&schema, &[vec![None; schema.fields().len()]]);
    let path = directory.path().join("a.arrow");
    write(&path, &written, &WriteOptions::default());
    assert_eq!(schema_of(&path, &ReadOptions::default()).unwrap(), schema);
}
