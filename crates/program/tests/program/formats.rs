//! Results for programs.

use std::path::Path;

use crate::run::{read, sql, text, thalweg};

const ROWS: &str = "SELECT * FROM (VALUES (1, 'a,b', true), (2, NULL, false)) AS t(n, s, b)";

#[test]
fn csv_and_json_hold_nothing_but_data() {
    let script = format!("CREATE TABLE t (a int); {ROWS} ORDER BY n");
    assert_eq!(
        thalweg(&["--format", "csv", "-c", &script]).success(),
        "n,s,b\n1,\"a,b\",t\n2,,f\n"
    );
    assert_eq!(
        thalweg(&["--format", "json", "-c", &script]).success(),
        "{\"n\":1,\"s\":\"a,b\",\"b\":true}\n{\"n\":2,\"s\":null,\"b\":false}\n"
    );
}

#[test]
fn what_is_written_can_be_read_again() {
    let directory = tempfile::tempdir().unwrap();
    for (format, name) in
        [("csv", "t.csv"), ("json", "t.json"), ("parquet", "t.parquet"), ("arrow", "t.arrow")]
    {
        let file = directory.path().join(name);
        export(format, &file, ROWS).success();
        let read_again = sql(&format!("SELECT n, s FROM '{}' ORDER BY n", text(&file)));
        assert_eq!(read_again, " n | s\n---+------\n 1 | a,b\n 2 | NULL\n(2 rows)\n\n", "{format}");
    }
}

#[test]
fn binary_formats_hold_one_result() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("two.parquet");
    let error_text = export("parquet", &file, "SELECT 1 AS a; SELECT 2 AS b").failure(1);
    assert!(
        error_text.starts_with("ERROR:  only one result fits into a file of this format"),
        "{error_text}"
    );
    assert_eq!(&read(&file)[..4], b"PAR1");
}

#[test]
fn pipes_get_streams() {
    let run = thalweg(&["--format", "arrow", "-c", "SELECT 1 AS a"]);
    assert_eq!(run.code, 0);
    // A stream begins with the length of its schema, a file with a name.
    assert!(!run.stdout.is_empty() && !run.stdout.starts_with("ARROW1"));
}

fn export(format: &str, file: &Path, query: &str) -> crate::run::Run {
    thalweg(&["--format", format, "--output", text(file), "-c", query])
}
