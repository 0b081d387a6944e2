//! Paths that mean several files, or none.

use std::fs;

use arrow::datatypes::DataType;
use thalweg_formats::{ReadOptions, open};

use crate::rows::{read, schema, texts};

fn ids(path: &std::path::Path) -> Vec<String> {
    let target = schema(&[("id", DataType::Int64)]);
    let rows = read(path, &target, &ReadOptions::default()).unwrap();
    texts(&rows).into_iter().map(|mut row| row.remove(0).unwrap()).collect()
}

#[test]
fn a_directory_is_its_files_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("b.csv"), "id,x\n2,?\n").unwrap();
    fs::write(path.join("a.csv"), "x,id\n?,1\n").unwrap();
    fs::write(path.join("c.CSV"), "3\n").unwrap();
    fs::write(path.join("README"), "not data").unwrap();
    fs::write(path.join("_SUCCESS"), "").unwrap();
    fs::write(path.join(".hidden.csv"), "?").unwrap();
    assert_eq!(ids(path), ["1", "2", "3"]);
    assert_eq!(ids(&path.join("?.csv")), ["1", "2"]);
    assert_eq!(ids(&path.join("*b*.csv")), ["2"]);
    fs::write(path.join("d.json"), "{}").unwrap();
    let target = schema(&[("id", DataType::Int64)]);
    let error = open(path, &target, &ReadOptions::default(), 10).err().unwrap();
    assert!(error.message().ends_with("holds files of several formats"), "{error}");
}

#[test]
fn what_is_not_there_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let target = schema(&[("id", DataType::Int64)]);
    let state = |name: &str| {
        let path = directory.path().join(name);
        open(&path, &target, &ReadOptions::default(), 10).err().unwrap().state().0
    };
    assert_eq!(state("missing.csv"), "58P01");
    assert_eq!(state("missing.parquet"), "58P01");
    assert_eq!(state(""), "58P01");
    assert_eq!(state("*.csv"), "58P01");
    fs::write(directory.path().join("data"), "1\n").unwrap();
    assert_eq!(state("data"), "22023");
}
