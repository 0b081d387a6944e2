//! `thalweg check`.

use std::path::PathBuf;

use crate::run::{read, sql_on, text, thalweg, write};

fn database() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    sql_on(&data, "CREATE TABLE t (a int); INSERT INTO t SELECT * FROM generate_series(1, 1000)");
    (directory, data)
}

/// The largest file below the directory.
fn largest(directory: &std::path::Path) -> PathBuf {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
            } else {
                files.push((
                    read(&entry.path()).iter().filter(|byte| **byte != 0).count(),
                    entry.path(),
                ));
            }
        }
    }
    files.into_iter().max().expect("a database has files").1
}

#[test]
fn a_sound_database_is_told_file_by_file() {
    let (_directory, data) = database();
    let error_text = thalweg(&["check", text(&data)]).success();
    assert!(
        error_text.contains(" records, ") && error_text.ends_with("closed cleanly.\nNo damage.\n"),
        "{error_text}"
    );
    assert_eq!(thalweg(&["check", "--quiet", text(&data)]).success(), "");
}

#[test]
fn damage_is_found() {
    let (_directory, data) = database();
    let file = largest(&data);
    let mut content = read(&file);
    let middle = content.iter().rposition(|byte| *byte != 0).unwrap() / 2;
    content[middle] ^= 0x40;
    write(&file, content);
    let run = thalweg(&["check", text(&data)]);
    assert_eq!((run.code, run.stderr.as_str()), (4, ""), "{run:?}");
    assert!(run.stdout.contains("DAMAGE:  ") && run.stdout.contains("problem"), "{}", run.stdout);
    let error_text = thalweg(&["--data", text(&data), "-c", "SELECT 1"]).failure(3);
    assert!(error_text.starts_with("ERROR:  "), "{error_text}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it is damaged on purpose")]
fn a_database_that_lost_its_first_file_is_damaged() {
    let (_directory, data) = database();
    std::fs::remove_file(data.join("FORMAT")).unwrap();
    let run = thalweg(&["check", text(&data)]);
    assert_eq!((run.code, run.stderr.as_str()), (4, ""), "{run:?}");
    let what = "has files, but FORMAT beside it is missing";
    assert!(run.stdout.contains("DAMAGE:  ") && run.stdout.contains(what), "{}", run.stdout);
    assert!(run.stdout.contains("1 problem"), "{}", run.stdout);
    let error_text = thalweg(&["--data", text(&data), "-c", "SELECT 1"]).failure(3);
    assert!(error_text.contains(what), "{error_text}");
}

#[test]
fn what_is_no_database_is_told() {
    let empty = tempfile::tempdir().unwrap();
    assert!(thalweg(&["check", text(empty.path())]).failure(3).starts_with("ERROR:  "));
    assert!(thalweg(&["check", "/nonexistent"]).failure(3).starts_with("ERROR:  "));
}
