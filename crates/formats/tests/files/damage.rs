//! Files that are cut short, overwritten or something else: errors, never a panic.

use std::fs;

use proptest::prelude::*;
use thalweg_formats::{Format, ReadOptions, WriteOptions, schema_of};

use crate::rows::{batch, every_type, read, write};

const FORMATS: [Format; 7] = [
    Format::Csv,
    Format::Tsv,
    Format::Text,
    Format::Json,
    Format::Parquet,
    Format::Arrow,
    Format::ArrowStream,
];

fn bytes_of(format: Format) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("whole");
    let row = [
        "t",
        "1",
        "2",
        "3",
        "4.5",
        "5.5",
        "6.00000",
        "7",
        "text",
        "\\x01",
        "2013-01-01",
        "01:02:03",
        "2013-01-01 05:00:00",
        "2013-01-01 05:00:00+00",
        "1 day",
        "{1,2}",
        "{a,b}",
        "{1 day}",
        "{{1},{2}}",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "{\"a\":1}",
    ];
    let row: Vec<Option<String>> = row.iter().map(|text| Some((*text).to_owned())).collect();
    let nulls = vec![None; row.len()];
    let rows = batch(&every_type(), &[row.clone(), nulls, row]);
    write(&path, &rows, &WriteOptions { format: Some(format), ..WriteOptions::default() });
    fs::read(&path).unwrap()
}

/// Reads damaged bytes in every way. Whether that fails is up to the damage.
fn read_bytes(bytes: &[u8], format: Format) -> thalweg_types::Result<usize> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
    _ = schema_of(file.path(), &options);
    read(file.path(), &every_type(), &options).map(|batch| batch.num_rows())
}

#[test]
fn binary_files_cut_short_are_refused() {
    for format in [Format::Parquet, Format::Arrow] {
        let whole = bytes_of(format);
        assert_eq!(read_bytes(&whole, format).unwrap(), 3);
        for length in (0..whole.len()).step_by(7) {
            let error = read_bytes(&whole[..length], format).unwrap_err();
            assert_eq!(error.state().0, "22P04", "{format:?} {length}: {error:?}");
        }
    }
}

#[test]
fn files_of_other_formats_are_refused() {
    for format in [Format::Parquet, Format::Arrow, Format::ArrowStream, Format::Json] {
        for text in [&b"a,b\n1,2\n"[..], b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", b"PAR1PAR1PAR1"] {
            assert!(read_bytes(text, format).is_err(), "{format:?} {text:?}");
        }
    }
    // What is empty holds no rows, where the format needs no more than rows.
    for format in [Format::Csv, Format::Text, Format::Json] {
        assert_eq!(read_bytes(b"", format).unwrap(), 0, "{format:?}");
    }
    for format in [Format::Parquet, Format::Arrow, Format::ArrowStream] {
        assert_eq!(read_bytes(b"", format).unwrap_err().state().0, "22P04", "{format:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn overwritten_bytes_never_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        format in prop::sample::select(FORMATS.to_vec()),
    ) {
        let mut bytes = bytes_of(format);
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        _ = read_bytes(&bytes, format);
    }

    #[test]
    fn cut_files_never_panic(
        place in any::<prop::sample::Index>(),
        format in prop::sample::select(FORMATS.to_vec()),
    ) {
        let bytes = bytes_of(format);
        _ = read_bytes(&bytes[..place.index(bytes.len())], format);
    }
}
