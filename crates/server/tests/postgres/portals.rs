//! Portals: rows in parts, and what portals tell of themselves on the way.

use crate::support::{Raw, SUPERUSER, bind, describe, execute, parse, server, sync};

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_in_parts() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    let series = "SELECT x FROM generate_series(1, 4) x";
    for (executions, expected) in [
        (&[0][..], "D(1) D(2) D(3) D(4) C(SELECT 4)"),
        (&[-1], "D(1) D(2) D(3) D(4) C(SELECT 4)"),
        (&[3, 3], "D(1) D(2) D(3) s D(4) C(SELECT 1)"),
        (&[3, 0], "D(1) D(2) D(3) s D(4) C(SELECT 1)"),
        // As many as there are: whether that was all is not known yet.
        (&[4, 4, 4], "D(1) D(2) D(3) D(4) s C(SELECT 0) C(SELECT 0)"),
        (&[5, 5], "D(1) D(2) D(3) D(4) C(SELECT 4) C(SELECT 0)"),
    ] {
        let mut messages = vec![parse("", series), bind("p", "")];
        messages.extend(executions.iter().map(|rows| execute("p", *rows)));
        messages.push(sync());
        assert_eq!(raw.ask(&messages).await, format!("1 2 {expected} Z(I)"), "{executions:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_statement_can_be_run_again_or_not() {
    let server = server().await;
    for (sql, expected) in [
        ("SELECT 1 WHERE false", "1 2 C(SELECT 0) C(SELECT 0) Z(I)"),
        ("", "1 2 I I Z(I)"),
        ("SET application_name = ''", "1 2 C(SET) E(55000) Z(I)"),
        ("INSERT INTO t VALUES (1, 'x')", "1 2 C(INSERT 0 1) E(55000) Z(I)"),
        (
            "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z') RETURNING a",
            "1 2 D(1) D(2) s D(3) C(INSERT 0 1) Z(I)",
        ),
    ] {
        let mut raw = Raw::connect(&server, SUPERUSER).await;
        let messages = [parse("", sql), bind("p", ""), execute("p", 2), execute("p", 2), sync()];
        assert_eq!(raw.ask(&messages).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_is_described_wherever_it_stands() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    let (run, tell) = (execute("p", 1), describe('P', "p"));
    let select = parse("", "SELECT x FROM generate_series(1, 2) x");
    let steps = [select, bind("p", ""), tell.clone(), run.clone(), tell.clone()];
    let more = [run.clone(), tell.clone(), run.clone(), tell.clone(), sync()];
    let summary = raw.ask(&[steps.as_slice(), more.as_slice()].concat()).await;
    assert_eq!(summary, "1 2 T D(1) s T D(2) s T C(SELECT 0) T Z(I)");
    for (sql, done) in [("", "I"), ("INSERT INTO t VALUES (1, 'x')", "C(INSERT 0 1)")] {
        let steps =
            [parse("", sql), bind("p", ""), tell.clone(), run.clone(), tell.clone(), sync()];
        assert_eq!(raw.ask(&steps).await, format!("1 2 n {done} n Z(I)"), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_told_once_there_is_something_to_tell() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    assert_eq!(raw.sql("SELECT 1/0").await, "E(22012) Z(I)");
    assert_eq!(raw.sql("SELECT 1 WHERE false").await, "T C(SELECT 0) Z(I)");
}

/// As asyncpg does it: with a statement of the simple protocol.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_portal_are_passed_by() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    assert_eq!(raw.sql("BEGIN").await, "C(BEGIN) Z(T)");
    let series = "SELECT x FROM generate_series(1, 7) x";
    let bound = [parse("s", series), bind("p", "s"), bind("whole", "s"), execute("p", 1), sync()];
    assert_eq!(raw.ask(&bound).await, "1 2 2 D(1) s Z(T)");
    assert_eq!(raw.sql("MOVE FORWARD 2 FROM p").await, "C(MOVE 2) Z(T)");
    assert_eq!(raw.ask(&[execute("p", 1), sync()]).await, "D(4) s Z(T)");
    assert_eq!(raw.sql("MOVE ALL IN p").await, "C(MOVE 3) Z(T)");
    assert_eq!(raw.sql("MOVE p").await, "C(MOVE 0) Z(T)");
    assert_eq!(raw.ask(&[execute("p", 1), sync()]).await, "C(SELECT 0) Z(T)");
    // One that has not been executed begins.
    assert_eq!(raw.sql("MOVE 6 IN whole").await, "C(MOVE 6) Z(T)");
    assert_eq!(raw.ask(&[execute("whole", 0), sync()]).await, "D(7) C(SELECT 1) Z(T)");
    // What gives no rows is not run for it.
    let insert = [parse("", "INSERT INTO t VALUES (1, 'x')"), bind("w", ""), sync()];
    assert_eq!(raw.ask(&insert).await, "1 2 Z(T)");
    assert_eq!(raw.sql("MOVE w").await, "E(55000) Z(E)");
    assert_eq!(raw.sql("MOVE whole").await, "E(25P02) Z(E)");
}

/// As psycopg does it.
#[tokio::test(flavor = "multi_thread")]
async fn a_declared_cursor_is_executed_as_a_portal() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    assert_eq!(raw.sql("BEGIN").await, "C(BEGIN) Z(T)");
    let declare = "DECLARE c CURSOR FOR SELECT x FROM generate_series(1, 3) x";
    assert_eq!(raw.sql(declare).await, "C(DECLARE CURSOR) Z(T)");
    let steps = [describe('P', "c"), execute("c", 2), execute("c", 2), execute("c", 0), sync()];
    assert_eq!(raw.ask(&steps).await, "T D(1) D(2) s D(3) C(SELECT 1) C(SELECT 0) Z(T)");
    assert_eq!(raw.ask(&[execute("nothing", 0), sync()]).await, "E(34000) Z(E)");
    assert_eq!(raw.ask(&[execute("c", 0), sync()]).await, "E(25P02) Z(E)");
}
