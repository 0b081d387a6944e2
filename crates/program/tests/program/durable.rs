//! Databases that live in a directory.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use crate::run::{command, sql_on, text, thalweg};

#[test]
fn a_directory_keeps_its_data() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("new/market");
    std::fs::create_dir(directory.path().join("new")).unwrap();
    sql_on(&data, "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x')");
    sql_on(&data, "UPDATE t SET b = 'y'; CREATE VIEW v AS SELECT b FROM t");
    assert_eq!(sql_on(&data, "SELECT * FROM v"), " b\n---\n y\n(1 row)\n\n");
}

#[test]
fn durability_is_a_choice() {
    for durability in ["fsync", "write", "none"] {
        let directory = tempfile::tempdir().unwrap();
        let arguments = ["--data", text(directory.path()), "--durability", durability, "-q", "-c"];
        let with = |script| [&arguments[..], &[script]].concat();
        thalweg(&with("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")).success();
        assert!(thalweg(&with("SELECT * FROM t")).success().contains("(1 row)"), "{durability}");
    }
}

#[test]
fn a_directory_has_one_user_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let data = text(directory.path());
    let mut first = command(&["--data", data, "--format", "csv"]);
    let mut first = first.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = first.stdin.take().unwrap();
    stdin.write_all(b"SELECT 'open' AS state;\n").unwrap();
    let mut answer = String::new();
    let mut stdout = BufReader::new(first.stdout.take().unwrap());
    stdout.read_line(&mut answer).unwrap();
    assert_eq!(answer, "state\n");

    for arguments in [&["--data", data, "-c", "SELECT 1"][..], &["check", data]] {
        let error_text = thalweg(arguments).failure(3);
        assert!(error_text.starts_with("ERROR:  "), "{error_text}");
        assert!(error_text.contains("in use") || error_text.contains("lock"), "{error_text}");
    }
    drop(stdin);
    assert!(first.wait().unwrap().success());
    assert!(sql_on(directory.path(), "SELECT 1").contains("(1 row)"));
}

#[test]
fn a_place_that_cannot_be_used_is_told() {
    let error_text = thalweg(&["--data", "/proc/nowhere", "-c", "SELECT 1"]).failure(3);
    assert!(error_text.starts_with("ERROR:  "), "{error_text}");
}

/// The number that a shell prints for `nextval`, after the line of its name.
fn number(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> i64 {
    let mut numbers = lines.map(|line| line.unwrap()).filter_map(|line| line.parse().ok());
    numbers.next().expect("a number is printed")
}

#[test]
fn numbers_of_a_sequence_come_once_though_the_process_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let data = text(directory.path());
    sql_on(directory.path(), "CREATE SEQUENCE s; CREATE TABLE t (a int DEFAULT nextval('s'))");
    let mut greatest = 0;
    for round in 0..3 {
        let mut killed = command(&["--data", data, "--format", "csv"]);
        let mut killed = killed.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = killed.stdin.take().unwrap();
        let mut lines = BufReader::new(killed.stdout.take().unwrap()).lines();
        for _ in 0..40 {
            stdin.write_all(b"INSERT INTO t DEFAULT VALUES;\nSELECT nextval('s');\n").unwrap();
            stdin.flush().unwrap();
            let next = number(&mut lines);
            assert!(next > greatest, "{next} after {greatest} in round {round}");
            greatest = next;
        }
        killed.kill().unwrap();
        killed.wait().unwrap();
    }
    let twice = "SELECT count(*) - count(DISTINCT a) AS twice FROM t";
    assert_eq!(sql_on(directory.path(), twice), " twice\n-------\n     0\n(1 row)\n\n");
    // A restart without a crash leaves no gap.
    let first = sql_on(directory.path(), "SELECT nextval('s') - 1000000 AS n");
    let second = sql_on(directory.path(), "SELECT nextval('s') - 1000001 AS n");
    assert_eq!(first, second);
}
