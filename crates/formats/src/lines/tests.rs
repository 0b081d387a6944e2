use std::fmt::Write as _;

use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field};
use proptest::prelude::*;

use super::*;

fn target() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("note", DataType::Utf8View, true),
    ]))
}

fn read(units: Vec<LinesUnit>) -> Result<RecordBatch> {
    let mut batches = Vec::new();
    for unit in units {
        for batch in unit.read()? {
            batches.push(batch?);
        }
    }
    Ok(concat_batches(&target(), &batches).unwrap())
}

fn write_file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().prefix("notes").suffix(".csv").tempfile().unwrap();
    std::io::Write::write_all(&mut file.as_file(), text.as_bytes()).unwrap();
    file
}

fn open_cut(file: &Path, format: Format, unit_bytes: u64) -> Vec<LinesUnit> {
    let options = ReadOptions::default();
    open_in_units_of(unit_bytes, file, format, &target(), &options, 7).unwrap()
}

fn note() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "\"", "\n", "\r\n", ",", "é", " "]), 0..9)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn ranges_of_csv_give_the_rows_of_the_whole(
        notes in prop::collection::vec(note(), 1..60),
        unit_bytes in 1_u64..200,
    ) {
        let mut text = "id,note\n".to_owned();
        for (id, note) in notes.iter().enumerate() {
            writeln!(text, "{id},\"{}\"", note.replace('"', "\"\"")).unwrap();
        }
        let file = write_file(&text);
        let whole = read(open_cut(file.path(), Format::Csv, u64::MAX)).unwrap();
        let units = open_cut(file.path(), Format::Csv, unit_bytes);
        prop_assert_eq!(whole.num_rows(), notes.len());
        prop_assert_eq!(read(units).unwrap(), whole);
    }

    #[test]
    fn errors_have_the_line_of_the_whole(
        notes in prop::collection::vec(note(), 1..40),
        bad in any::<prop::sample::Index>(),
        unit_bytes in 1_u64..100,
    ) {
        let bad = bad.index(notes.len());
        let mut text = "id,note\n".to_owned();
        let mut line = 0;
        for (id, note) in notes.iter().enumerate() {
            if id == bad {
                line = 1 + text.matches('\n').count();
                text.push('x');
            }
            writeln!(text, "{id},\"{}\"", note.replace('"', "\"\"")).unwrap();
        }
        let file = write_file(&text);
        let error = read(open_cut(file.path(), Format::Csv, unit_bytes)).unwrap_err();
        let name = display_name(file.path());
        prop_assert_eq!(error.detail().unwrap(), format!("{name}, line {line}, column \"id\""));
    }
}

#[test]
fn ranges_of_json_give_the_rows_of_the_whole() {
    let mut text = String::new();
    for id in 0..100 {
        writeln!(text, "{{\"note\":\"\\\"{id}\",\"ID\":{id}}}").unwrap();
    }
    let file = write_file(&text);
    let whole = read(open_cut(file.path(), Format::Json, u64::MAX)).unwrap();
    let units = open_cut(file.path(), Format::Json, 64);
    assert!(units.len() > 20);
    assert_eq!(whole.num_rows(), 100);
    assert_eq!(read(units).unwrap(), whole);
}

#[test]
fn a_file_of_one_long_record_is_one_range() {
    let file = write_file(&format!("id,note\n1,\"{}\"", "x\n".repeat(1_000)));
    let units = open_cut(file.path(), Format::Csv, 100);
    assert_eq!(units.len(), 1);
    assert_eq!(read(units).unwrap().num_rows(), 1);
}
