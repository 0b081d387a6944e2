//! What is large: statements of a megabyte, tables of a thousand columns, ten thousand prepared
//! statements; and what is too large.

use bytes::Bytes;

use crate::large_inputs::{COLUMNS, create_wide, list, row};
use crate::support::{
    Raw, SUPERUSER, bind, bind_values, execute, field, parse, query, server, server_with, summary,
    sync,
};

const STATEMENTS: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_a_megabyte_are_taken_in_both_protocols() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    let create = "CREATE TABLE large (id bigint PRIMARY KEY, name text)";
    assert_eq!(raw.sql(create).await, "C(CREATE TABLE) Z(I)");
    let (given, values) = list(|number| format!("({number}, '{number:0>100}')"));
    let insert = parse("", &format!("INSERT INTO large VALUES {values}"));
    let inserted = raw.ask(&[insert, bind("", ""), execute("", 0), sync()]).await;
    assert_eq!(inserted, format!("1 2 C(INSERT 0 {given}) Z(I)"));
    let sum = "SELECT count(*), min(id), max(id), sum(length(name)) FROM large";
    let expected = format!("{given},0,{},{}", given - 1, given * 100);
    assert_eq!(raw.sql(sum).await, format!("T D({expected}) C(SELECT 1) Z(I)"));
    // About half of these names are there.
    let (_, names) = list(|number| format!("'{:0>100}'", number * 2));
    let select = format!("SELECT count(*), max(id) FROM large WHERE name IN ({names})");
    let found = given.div_ceil(2);
    let expected = format!("{found},{}", (found - 1) * 2);
    assert_eq!(raw.sql(&select).await, format!("T D({expected}) C(SELECT 1) Z(I)"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_beyond_the_limit_ends_the_connection_with_what_to_do() {
    let server = server_with(|config| config.limits.message_bytes = 100_000).await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    let select = |length: usize| format!("SELECT length('{}')", "x".repeat(length));
    assert_eq!(raw.sql(&select(99_000)).await, "T D(99000) C(SELECT 1) Z(I)");
    // The length alone is enough: nobody waits for the rest, nor knows where the next one begins.
    raw.send(&[query(&"x".repeat(100_000)).slice(..5)]).await;
    let replies = raw.until_ready().await;
    let [error] = replies.as_slice() else { panic!("{}", summary(&replies)) };
    let said = |wanted| field(&error.body, wanted).unwrap();
    assert_eq!((said(b'S').as_str(), said(b'C').as_str()), ("FATAL", "54000"));
    let expected = "a message of 100005 bytes is longer than the limit of 100000";
    assert_eq!(said(b'M'), expected);
    assert_eq!(said(b'H'), "Send it in parts, or raise limits.message_bytes.");
    assert!(raw.is_over().await);
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    assert_eq!(raw.sql(&select(1)).await, "T D(1) C(SELECT 1) Z(I)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_columns_are_filled_and_read() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    assert_eq!(raw.sql(&create_wide()).await, "C(CREATE TABLE) Z(I)");
    let literal = |(column, value): (usize, String)| match column % 2 {
        1 => format!("'{value}'"),
        _ => value,
    };
    let literals: Vec<String> = row(1).into_iter().enumerate().map(literal).collect();
    let insert = format!("INSERT INTO wide VALUES ({})", literals.join(", "));
    assert_eq!(raw.sql(&insert).await, "C(INSERT 0 1) Z(I)");
    let places: Vec<String> = (1..=COLUMNS).map(|number| format!("${number}")).collect();
    let insert = parse("", &format!("INSERT INTO wide VALUES ({})", places.join(", ")));
    let second = row(2);
    let values: Vec<&[u8]> = second.iter().map(String::as_bytes).collect();
    let bound = bind_values("", "", 0, &values);
    let inserted = raw.ask(&[insert, bound, execute("", 0), sync()]).await;
    assert_eq!(inserted, "1 2 C(INSERT 0 1) Z(I)");
    raw.send(&[query("SELECT * FROM wide ORDER BY id")]).await;
    let replies = raw.until_ready().await;
    assert_eq!(replies[0].body[..2], (COLUMNS as u16).to_be_bytes(), "columns are described");
    let expected = format!("T D({}) D({}) C(SELECT 2) Z(I)", row(1).join(","), second.join(","));
    assert_eq!(summary(&replies), expected);
}

/// The SQLSTATE and the message of a statement that is refused.
async fn refusal(raw: &mut Raw, sql: &str) -> (String, String) {
    raw.send(&[query(sql)]).await;
    let replies = raw.until_ready().await;
    assert!(summary(&replies).starts_with("E("), "{}", summary(&replies));
    let said = |wanted| field(&replies[0].body, wanted).unwrap();
    (said(b'C'), said(b'M'))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_wide_is_refused_and_the_connection_goes_on() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    assert_eq!(raw.sql(&create_wide()).await, "C(CREATE TABLE) Z(I)");
    let columns: Vec<String> = (0..1_601).map(|number| format!("c{number} int")).collect();
    let create = format!("CREATE TABLE wider ({})", columns.join(", "));
    let (state, message) = refusal(&mut raw, &create).await;
    assert_eq!(state, "54011");
    assert_eq!(message, "tables can have at most 1600 columns");
    let twice = "SELECT * FROM wide AS a JOIN wide AS b ON a.id = b.id";
    let (state, message) = refusal(&mut raw, twice).await;
    assert_eq!(state, "54011");
    assert_eq!(message, "target lists can have at most 1664 entries");
    assert_eq!(raw.sql("SELECT count(*) FROM wide").await, "T D(0) C(SELECT 1) Z(I)");
}

/// There is no limit to them but memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_keeps_ten_thousand_prepared_statements() {
    const AT_ONCE: usize = 1_000;
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    let prepare = |number: usize| {
        let sql = format!("SELECT $1::int + {number}");
        parse(&format!("s{number}"), &sql)
    };
    for first in (0..STATEMENTS).step_by(AT_ONCE) {
        let mut messages: Vec<Bytes> = (first..first + AT_ONCE).map(prepare).collect();
        messages.push(sync());
        assert_eq!(raw.ask(&messages).await, format!("{}Z(I)", "1 ".repeat(AT_ONCE)));
    }
    // A name that is taken is refused, and those who have one stay.
    assert_eq!(raw.ask(&[prepare(STATEMENTS - 1), sync()]).await, "E(42P05) Z(I)");
    let run = |number: usize| {
        let bound = bind_values("", &format!("s{number}"), 0, &[b"1"]);
        [bound, execute("", 0), sync()]
    };
    for number in [0, STATEMENTS / 2, STATEMENTS - 1] {
        let expected = format!("2 D({}) C(SELECT 1) Z(I)", number + 1);
        assert_eq!(raw.ask(&run(number)).await, expected);
    }
    assert_eq!(raw.sql("DEALLOCATE ALL").await, "C(DEALLOCATE ALL) Z(I)");
    assert_eq!(raw.ask(&run(0)).await, "E(26000) Z(I)");
}
