//! What written files look like.

use std::fs;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use thalweg_formats::{Format, WriteOptions, Writer};

use crate::rows::{batch, every_type, schema};

/// A sink that keeps what is written, or refuses it.
#[derive(Clone, Default)]
struct Sink {
    bytes: Arc<Mutex<Vec<u8>>>,
    is_full: bool,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn written(batch: &RecordBatch, options: &WriteOptions) -> String {
    let sink = Sink::default();
    let mut writer = Writer::new(Box::new(sink.clone()), &batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    let bytes = sink.bytes.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

fn texts(values: &[Option<&str>]) -> RecordBatch {
    let rows: Vec<_> = values.iter().map(|text| vec![text.map(str::to_owned)]).collect();
    batch(&schema(&[("a \"b\"", DataType::Utf8View)]), &rows)
}

#[test]
fn csv_is_quoted_where_needed() {
    let rows = texts(&[
        Some("plain"),
        None,
        Some(""),
        Some("a,b"),
        Some("a\"b"),
        Some("a\nb"),
        Some("\\."),
        Some(" x"),
    ]);
    let options = WriteOptions { header: true, ..WriteOptions::default() };
    assert_eq!(
        written(&rows, &options),
        "\"a \"\"b\"\"\"\nplain\n\n\"\"\n\"a,b\"\n\"a\"\"b\"\n\"a\nb\"\n\"\\.\"\n x\n"
    );
    let pairs = [("force_quote", "*"), ("null", "NA"), ("quote", "'"), ("escape", "\\")];
    let options = WriteOptions::from_copy(pairs).unwrap();
    let rows = texts(&[Some("it's"), None, Some("NA"), Some("a\\b")]);
    assert_eq!(written(&rows, &options), "'it\\'s'\nNA\n'NA'\n'a\\\\b'\n");
}

#[test]
fn copy_text_is_escaped() {
    let options = WriteOptions { format: Some(Format::Text), ..WriteOptions::default() };
    let rows = texts(&[Some("a\tb\\c\nd\u{8}"), None, Some("\\N"), Some("")]);
    assert_eq!(written(&rows, &options), "a\\tb\\\\c\\nd\\b\n\\N\n\\\\N\n\n");
}

#[test]
fn json_has_values_of_their_types() {
    let row = [
        "t",
        "1",
        "2",
        "3",
        "NaN",
        "5.5",
        "6.5",
        "7",
        "a\"\n\u{1}é",
        "\\x01ff",
        "2013-01-01",
        "01:02:03",
        "2013-01-01 05:00:00",
        "2013-01-01 05:00:00.5+00",
        "1 day",
        "{1,NULL}",
        "{a,b}",
        "{1 day}",
        "{{1},NULL}",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "{\n\"a\":1}",
    ];
    let row: Vec<Option<String>> = row.iter().map(|text| Some((*text).to_owned())).collect();
    let options = WriteOptions { format: Some(Format::Json), ..WriteOptions::default() };
    let expected = r#"{"boolean":true,"int2":1,"int4":2,"int8":3,"float4":"NaN","float8":5.5,"#
        .to_owned()
        + r#""numeric":6.50000,"wide":7.0000000000,"text":"a\"\n\u0001é","bytea":"\\x01ff","#
        + r#""date":"2013-01-01","time":"01:02:03","timestamp":"2013-01-01T05:00:00","#
        + r#""timestamptz":"2013-01-01T05:00:00.5Z","interval":"1 day","ints":[1,null],"#
        + r#""texts":["a","b"],"intervals":["1 day"],"matrix":[[1],null],"#
        + r#""uuid":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11","json":{ "a":1}}"#
        + "\n";
    assert_eq!(written(&batch(&every_type(), &[row]), &options), expected);
}

#[test]
fn a_file_is_whole_or_not_there() {
    let directory = tempfile::tempdir().unwrap();
    let names = || {
        let names = fs::read_dir(directory.path()).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let rows = texts(&[Some("x")]);
    let path = directory.path().join("t.csv");
    let options = WriteOptions::default();
    let mut writer = Writer::create_file(&path, &rows.schema(), &options).unwrap();
    writer.write(&rows).unwrap();
    assert!(!path.exists() && names().len() == 1);
    drop(writer);
    assert!(names().is_empty());
    fs::write(&path, "old").unwrap();
    for format in [Format::Csv, Format::Parquet, Format::Arrow, Format::Json] {
        let options = WriteOptions { format: Some(format), ..WriteOptions::default() };
        let mut writer = Writer::create_file(&path, &rows.schema(), &options).unwrap();
        let before = fs::read(&path).unwrap();
        writer.write(&rows).unwrap();
        assert_eq!(fs::read(&path).unwrap(), before);
        writer.finish().unwrap();
        assert_ne!(fs::read(&path).unwrap(), before);
        assert_eq!(names(), ["t.csv"]);
    }
    let error = Writer::create_file(&directory.path().join("no/t.csv"), &rows.schema(), &options);
    assert_eq!(error.err().unwrap().state().0, "58P01");
    let error = Writer::create_file(&directory.path().join("t.what"), &rows.schema(), &options);
    assert_eq!(error.err().unwrap().state().0, "22023");
}

#[test]
fn a_full_disk_is_told() {
    let rows = texts(&[Some("x")]);
    for format in [Format::Csv, Format::Json, Format::Parquet, Format::Arrow] {
        let options = WriteOptions { format: Some(format), ..WriteOptions::default() };
        let sink = Sink { is_full: true, ..Sink::default() };
        let result = Writer::new(Box::new(sink), &rows.schema(), &options)
            .and_then(|mut writer| writer.write(&rows).and_then(|()| writer.finish()));
        assert_eq!(result.unwrap_err().state().0, "53100", "{format:?}");
    }
}
