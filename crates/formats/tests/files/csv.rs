//! Delimited text as PostgreSQL reads it.

use arrow::datatypes::DataType;
use thalweg_formats::{CsvDecoder, Format, ReadOptions};
use thalweg_types::{Error, Result};

use crate::rows::{schema, texts};

fn options(pairs: &[(&'static str, &'static str)]) -> ReadOptions {
    ReadOptions::from_copy(pairs.iter().copied()).unwrap()
}

/// Decodes text into columns `a` (text) and `b` (integer); rows are shown as `a|b`.
fn decode(text: &[u8], options: &ReadOptions) -> Result<Vec<String>> {
    let target = schema(&[("a", DataType::Utf8View), ("b", DataType::Int32)]);
    let mut decoder = CsvDecoder::new("t.csv", &target, options, 4)?;
    let mut batches = decoder.push(text)?;
    batches.extend(decoder.finish()?);
    let show = |value: Option<String>| value.unwrap_or_else(|| "∅".to_owned());
    let rows = batches.iter().flat_map(texts);
    Ok(rows.map(|row| row.into_iter().map(show).collect::<Vec<_>>().join("|")).collect())
}

fn refused(text: &[u8], options: &ReadOptions) -> Error {
    decode(text, options).expect_err(&String::from_utf8_lossy(text))
}

#[test]
fn values_are_read() {
    let csv = ReadOptions::default();
    let cases: &[(&str, &[&str])] = &[
        ("", &[]),
        ("x,1\n", &["x|1"]),
        ("x,1", &["x|1"]),
        ("x,1\r\ny,2\r\n", &["x|1", "y|2"]),
        ("x,1\r", &["x|1"]),
        (",\n", &["∅|∅"]),
        ("\"\",1\n", &["|1"]),
        ("\"x,y\",1\n", &["x,y|1"]),
        ("\"x\ny\r\nz\",1\nw,2\n", &["x\ny\r\nz|1", "w|2"]),
        ("\"say \"\"hi\"\"\",1\n", &["say \"hi\"|1"]),
        ("\"\"\"\",1\n", &["\"|1"]),
        // A quote in the middle of a field begins a quoted part.
        ("x\"y,z\"w,1\n", &["xy,zw|1"]),
        (" x ,\"1\"\n", &[" x |1"]),
        ("x, 1 \n", &["x|1"]),
        ("\u{feff}x,1\n", &["x|1"]),
        ("a,b\nx,1\n", &["x|1"]),
        ("B,A\n1,x\n", &["x|1"]),
        ("b,other,a\n1,?,x\n", &["x|1"]),
        ("\\N,1\n", &["\\N|1"]),
        ("NULL,1\n", &["NULL|1"]),
    ];
    for (text, rows) in cases {
        assert_eq!(&decode(text.as_bytes(), &csv).unwrap(), rows, "{text:?}");
    }
}

/// Options, text and the rows that it holds.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a [&'a str]);

#[test]
fn options_are_followed() {
    let cases: &[Case] = &[
        (&[("null", "NA")], "NA,NA\n\"NA\",1\n,2\n", &["∅|∅", "NA|1", "|2"]),
        (&[("force_null", "a"), ("null", "")], "\"\",1\n", &["∅|1"]),
        (&[("force_null", "*"), ("null", "")], "\"\",\"\"\n", &["∅|∅"]),
        (&[("force_not_null", "a")], ",1\n", &["|1"]),
        (&[("delimiter", "|"), ("quote", "'")], "'x|''y'|1\n", &["x|'y|1"]),
        (&[("escape", "\\")], "\"x\\\"y\\\\z\\w\",1\n", &["x\"y\\z\\w|1"]),
        (&[("header", "")], "x,y\nz,1\n", &["z|1"]),
        (&[("header", "false")], "a,1\n", &["a|1"]),
        (&[("header", "match")], "a,b\nz,1\n", &["z|1"]),
        (&[("delimiter", "\t")], "x\t1\n", &["x|1"]),
    ];
    for (pairs, text, rows) in cases {
        let options = ReadOptions::from_copy(pairs.iter().copied()).unwrap();
        assert_eq!(&decode(text.as_bytes(), &options).unwrap(), rows, "{text:?}");
    }
    let named = ReadOptions {
        columns: Some(["b", "skipped", "a"].map(str::to_owned).to_vec()),
        ..ReadOptions::default()
    };
    assert_eq!(decode(b"1,?,x\n", &named).unwrap(), ["x|1"]);
    assert_eq!(decode(b"b,skipped,a\n1,?,x\n", &named).unwrap(), ["x|1"]);
}

#[test]
fn a_row_of_names_is_a_row_unless_it_is_said_to_be_a_header() {
    let target = schema(&[("a", DataType::Utf8View), ("b", DataType::Utf8View)]);
    for (pairs, count) in [
        (&[][..], 2),
        (&[("format", "csv")], 2),
        (&[("format", "csv"), ("header", "false")], 2),
        (&[("format", "text"), ("delimiter", ",")], 2),
        (&[("format", "csv"), ("header", "true")], 1),
    ] {
        let mut decoder = CsvDecoder::new("t.csv", &target, &options(pairs), 100).unwrap();
        decoder.push(b"a,b\nc,d\n").unwrap();
        let batches = decoder.finish().unwrap();
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(rows, count, "{pairs:?}");
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    let csv = ReadOptions::default();
    let cases: &[(&[u8], &str, &str, &str)] = &[
        (
            b"x,1\ny,abc\n",
            "22P02",
            "invalid input syntax for type integer: \"abc\"",
            "t.csv, line 2, column \"b\"",
        ),
        (
            b"a,b\n\"x\ny\",1\nz,99999999999\n",
            "22003",
            "value \"99999999999\" is out of range for type integer",
            "t.csv, line 4, column \"b\"",
        ),
        (b"x,1\ny\n", "22P04", "missing data for column \"b\"", "t.csv, line 2"),
        (b"x,1\n\n", "22P04", "missing data for column \"b\"", "t.csv, line 2"),
        (b"x,1\ny,2,3\n", "22P04", "extra data after last expected column", "t.csv, line 2"),
        (b"x,1\n\"y,2\n", "22P04", "unterminated CSV quoted field", "t.csv, line 2"),
        (b"x,1\ny\rz,2\n", "22P04", "unquoted carriage return found in data", "t.csv, line 2"),
        (b"x,1\ny,2\r\n", "22P04", "unquoted carriage return found in data", "t.csv, line 2"),
        (b"x,1\r\ny,2\n", "22P04", "unquoted newline found in data", "t.csv, line 2"),
        (b"a,b\r\ny,2\n", "22P04", "unquoted newline found in data", "t.csv, line 2"),
        (
            b"x,1\ny\0,2\n",
            "22021",
            "invalid byte sequence for encoding \"UTF8\": 0x00",
            "t.csv, line 2",
        ),
        (
            b"x,1\n\xff\xfe,2\n",
            "22021",
            "invalid byte sequence for encoding \"UTF8\": 0xff",
            "t.csv, line 2",
        ),
        (b"x,1\ny,\n\xc3", "22P04", "missing data for column \"b\"", "t.csv, line 3"),
        (
            b"x,1\ny,\"\"\n",
            "22P02",
            "invalid input syntax for type integer: \"\"",
            "t.csv, line 2, column \"b\"",
        ),
    ];
    for (text, state, message, detail) in cases {
        let error = refused(text, &csv);
        let shown = String::from_utf8_lossy(text);
        assert_eq!(error.state().0, *state, "{shown:?}");
        assert_eq!(error.message(), *message, "{shown:?}");
        assert_eq!(error.detail(), Some(*detail), "{shown:?}");
    }
    let error = refused(b"a,c\nx,1\n", &options(&[("header", "match")]));
    assert_eq!(
        error.message(),
        "column name mismatch in header line field 2: got \"c\", expected \"b\""
    );
    let error = refused(b"a,c,d\nx,1,2\n", &options(&[("header", "true")]));
    assert_eq!(error.message(), "column \"b\" is missing");
    assert_eq!(error.detail(), Some("t.csv: The columns are a, c, d."));
}

#[test]
fn the_first_mistake_of_the_text_is_told() {
    // Columns are decoded one after the other, but people read rows.
    let target = schema(&[("a", DataType::Int32), ("b", DataType::Int32)]);
    let mut decoder = CsvDecoder::new("t.csv", &target, &ReadOptions::default(), 100).unwrap();
    assert!(decoder.push(b"1,2\n3,bad\nworse,4\n5\n").unwrap().is_empty());
    let error = decoder.finish().unwrap_err();
    assert_eq!(error.detail(), Some("t.csv, line 2, column \"b\""));
}

#[test]
fn copy_text_is_read() {
    let text = ReadOptions { format: Some(Format::Text), ..ReadOptions::default() };
    let cases: &[(&str, &[&str])] = &[
        ("x\t1\n", &["x|1"]),
        ("\\N\t\\N\n", &["∅|∅"]),
        ("\t1\n", &["|1"]),
        ("\"x\"\t1\n", &["\"x\"|1"]),
        ("a\\tb\\n\\\\N\\x41\\101\t1\n", &["a\tb\n\\NAA|1"]),
        ("a\\\nb\t1\n", &["a\nb|1"]),
        ("\\q\\\t\t1\n", &["q\t|1"]),
        ("x\t1\n\\.\n", &["x|1"]),
        ("x\t1\n\\.", &["x|1"]),
        ("x\t1\n\\.\n\n\n", &["x|1"]),
        ("\\.\n", &[]),
        ("x\t1\r\n", &["x|1"]),
    ];
    for (input, rows) in cases {
        assert_eq!(&decode(input.as_bytes(), &text).unwrap(), rows, "{input:?}");
    }
    assert_eq!(refused(b"\\.\nx\t1\n", &text).message(), "data after the end-of-copy marker");
    assert_eq!(refused(b"\\xff\t1\n", &text).state().0, "22021");
    assert_eq!(refused(b"\\000\t1\n", &text).state().0, "22021");
}

#[test]
fn pieces_of_any_size_give_the_same_rows() {
    let target = schema(&[("a", DataType::Utf8View), ("b", DataType::Int32)]);
    let mut input = String::from("a,b\r\n");
    for row in 0..20_000 {
        input.push_str(&format!("\"v\"\"{row}\n,é\",{row}\r\n"));
    }
    let rows_in_pieces = |bytes: usize| {
        let mut decoder = CsvDecoder::new("t", &target, &ReadOptions::default(), 1_000).unwrap();
        let mut batches = Vec::new();
        for piece in input.as_bytes().chunks(bytes) {
            batches.extend(decoder.push(piece).unwrap());
        }
        batches.extend(decoder.finish().unwrap());
        assert!(batches.iter().all(|batch| batch.num_rows() == 1_000));
        batches
    };
    let whole = rows_in_pieces(usize::MAX);
    assert_eq!(whole.len(), 20);
    for bytes in [1, 7, 1_000, 65_537, 100_003] {
        assert_eq!(rows_in_pieces(bytes), whole, "{bytes}");
    }
}
