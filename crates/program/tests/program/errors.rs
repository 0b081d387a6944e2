//! Errors as people read them.

use crate::run::{command, finish, text, thalweg, write};

#[test]
fn the_place_of_an_error_is_shown() {
    assert_eq!(
        thalweg(&["-c", "SELECT 1;\nSELECT\n  2 FROM WHERE"]).failure(1).lines().nth(1),
        Some("LINE 2:   2 FROM WHERE")
    );
    let error_text = thalweg(&["-c", "SELECT 'größe', 日本 + FROM t"]).failure(1);
    let lines: Vec<&str> = error_text.lines().collect();
    assert!(lines[0].starts_with("ERROR:  "), "{error_text}");
    assert_eq!(lines[1], "LINE 1: SELECT 'größe', 日本 + FROM t");
    assert!(lines[2].trim_end().ends_with('^'), "{error_text}");
}

#[test]
fn names_that_do_not_exist_are_errors() {
    let error_text = thalweg(&["-c", "SELECT * FROM nothing"]).failure(1);
    assert!(
        error_text.starts_with("ERROR:  relation \"nothing\" does not exist\n"),
        "{error_text}"
    );
    let verbose = thalweg(&["--verbose", "-c", "SELECT * FROM nothing"]).failure(1);
    assert!(verbose.starts_with("ERROR:  42P01: "), "{verbose}");
}

#[test]
fn details_and_hints_follow() {
    let error_text = thalweg(&[
        "-q",
        "-c",
        "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)",
    ])
    .failure(1);
    assert!(
        error_text.starts_with("ERROR:  duplicate key value violates unique constraint"),
        "{error_text}"
    );
    assert!(error_text.contains("\nDETAIL:  Key (a)=(1) already exists."), "{error_text}");
}

#[test]
fn scripts_say_which_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("load.sql");
    write(&file, "-- first\nSELECT 1 AS a;\n\nSELECT\n  oops;\n");
    let error_text = thalweg(&["-f", text(&file)]).failure(1);
    assert!(error_text.starts_with(&format!("{}:4: ERROR:  ", text(&file))), "{error_text}");
}

#[test]
fn wrong_usage_is_not_a_failed_statement() {
    for arguments in [
        &["--no-such-flag"][..],
        &["sql", "--format", "xml"],
        &["--memory-limit", "lots"],
        &["--threads", "0"],
        &["nonsense"],
        &["check"],
    ] {
        let run = thalweg(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(!run.stderr.is_empty());
    }
}

#[test]
fn unknown_commands_are_errors() {
    let error_text = thalweg(&["-c", "\\frobnicate"]).failure(1);
    assert_eq!(
        error_text,
        "ERROR:  invalid command \\frobnicate\nHINT:  Try \\? for the list of commands.\n"
    );
    let error_text = thalweg(&["-c", "\\pset border thick"]).failure(1);
    assert_eq!(error_text, "ERROR:  border is one of auto, ascii, unicode, not \"thick\"\n");
}

#[test]
fn statements_that_take_too_long_are_cancelled() {
    let mut run = command(&["-c", "SELECT count(*) FROM generate_series(1, 1000000000000)"]);
    run.env("THALWEG__SHELL__STATEMENT_TIMEOUT", "50ms");
    let error_text = finish(run, b"").failure(1);
    assert_eq!(error_text, "ERROR:  canceling statement due to statement timeout\n");
}

#[test]
fn help_and_version() {
    for arguments in
        [&["--help"][..], &["sql", "--help"], &["check", "--help"], &["config", "--help"]]
    {
        let help = thalweg(arguments).success();
        assert!(help.contains("Examples:\n") && help.contains("Usage: thalweg"), "{help}");
    }
    let version = thalweg(&["--version"]).success();
    assert_eq!(version, format!("thalweg {}\n", env!("CARGO_PKG_VERSION")));
}
