//! The options of `COPY`.

use thalweg_formats::{ColumnSet, Compression, Format, Header, ReadOptions, WriteOptions};

#[test]
fn options_are_understood() {
    let read = ReadOptions::from_copy([
        ("FORMAT", "CSV"),
        ("HEADER", ""),
        ("DELIMITER", "\\t"),
        ("NULL", "NA"),
        ("FORCE_NULL", "a, b"),
        ("ENCODING", "UTF8"),
    ])
    .unwrap();
    assert_eq!(read.format, Some(Format::Csv));
    assert_eq!(read.header, Header::Present);
    assert_eq!(read.marks.delimiter, Some(b'\t'));
    assert_eq!(read.force_null, ColumnSet::Named(vec!["a".to_owned(), "b".to_owned()]));
    let write = WriteOptions::from_copy([
        ("format", "parquet"),
        ("compression", "zstd"),
        ("row_group_size", "1000"),
    ])
    .unwrap();
    assert_eq!((write.compression, write.row_group_rows), (Compression::Zstd, 1_000));
}

#[test]
fn bad_options_are_refused() {
    for (name, value, state) in [
        ("format", "xml", "22023"),
        ("delimiter", "ab", "22023"),
        ("delimiter", "é", "22023"),
        ("delimiter", "\n", "22023"),
        ("delimiter", "\"", "22023"),
        ("null", "a,b", "22023"),
        ("null", "a\nb", "22023"),
        ("header", "maybe", "22023"),
        ("encoding", "latin1", "0A000"),
        ("colour", "red", "42601"),
    ] {
        let error = ReadOptions::from_copy([(name, value)]).unwrap_err();
        assert_eq!(error.state().0, state, "{name} {value}");
    }
    assert!(WriteOptions::from_copy([("compression", "rar")]).is_err());
    assert!(WriteOptions::from_copy([("row_group_size", "0")]).is_err());
}
