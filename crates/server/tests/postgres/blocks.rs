//! Transactions: whatever goes wrong within a block, nothing of the block happens.

use bytes::Bytes;

use crate::support::{
    EVE, Raw, SUPERUSER, bind, bind_values, close, describe, execute, flush, message, parse, query,
    server, summary, sync,
};

/// Everything that can be wrong, by the part of the server that finds it out.
fn mistakes() -> Vec<(&'static str, Vec<Bytes>)> {
    let with_sync = |mut messages: Vec<Bytes>| {
        messages.push(sync());
        messages
    };
    vec![
        ("syntax", vec![query("selec")]),
        ("syntax after a statement", vec![query("SELECT 1; selec")]),
        ("planning", vec![query("SELECT nothing")]),
        ("running", vec![query("SELECT 1/0")]),
        ("a later row", vec![query("SELECT 1/(3-x) FROM generate_series(1, 5) x")]),
        ("no text", vec![message(b'Q', b"SELECT 1")]),
        ("not UTF-8", vec![message(b'Q', b"SELECT '\xff'\0")]),
        ("a function call", vec![message(b'F', &[0; 10])]),
        ("a parameter nobody gives", vec![query("SELECT $1::int")]),
        ("syntax in Parse", with_sync(vec![parse("", "selec")])),
        ("planning in Parse", with_sync(vec![parse("", "SELECT nothing")])),
        ("two commands in Parse", with_sync(vec![parse("", "SELECT 1; SELECT 2")])),
        ("a name that is taken", with_sync(vec![parse("n", "SELECT 1"), parse("n", "SELECT 1")])),
        ("Parse cut off", with_sync(vec![message(b'P', b"\0SELECT 1\0\0\x01")])),
        ("an unknown statement", with_sync(vec![bind("", "nope")])),
        (
            "a value that is none",
            with_sync(vec![parse("", "SELECT $1::int"), bind_values("", "", 0, &[b"abc"])]),
        ),
        (
            "a binary value that is none",
            with_sync(vec![parse("", "SELECT $1::int"), bind_values("", "", 1, &[b"abc"])]),
        ),
        ("too few values", with_sync(vec![parse("", "SELECT $1::int"), bind("", "")])),
        ("Bind cut off", with_sync(vec![message(b'B', b"\0")])),
        ("a portal that is there", {
            with_sync(vec![parse("", "SELECT 1"), bind("p", ""), bind("p", "")])
        }),
        ("an unknown statement to describe", with_sync(vec![describe('S', "nope")])),
        ("an unknown portal to describe", with_sync(vec![describe('P', "nope")])),
        ("nothing to describe", with_sync(vec![message(b'D', b"Xname\0")])),
        ("an unknown portal", with_sync(vec![execute("nope", 0)])),
        ("a portal run twice", {
            let begun = vec![parse("", "SAVEPOINT s"), bind("p", "")];
            with_sync([begun, vec![execute("p", 0), execute("p", 0)]].concat())
        }),
        ("running a portal", {
            let sql = "SELECT 1/(x-x) FROM generate_series(1, 2) x";
            with_sync(vec![parse("", sql), bind("", ""), execute("", 0)])
        }),
        ("nothing to close", with_sync(vec![message(b'C', b"Xname\0")])),
        ("Sync with a body", vec![message(b'S', b"x")]),
        ("Flush with a body", with_sync(vec![message(b'H', b"x")])),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_error_fails_the_block_it_is_in() {
    let server = server().await;
    for (what, messages) in mistakes() {
        let mut raw = Raw::connect(&server, SUPERUSER).await;
        assert_eq!(raw.sql("BEGIN").await, "C(BEGIN) Z(T)");
        assert_eq!(raw.sql("INSERT INTO t VALUES (1, 'half')").await, "C(INSERT 0 1) Z(T)");
        let summary = raw.ask(&messages).await;
        assert!(summary.contains("E(") && summary.ends_with("Z(E)"), "{what}: {summary}");
        assert_eq!(raw.sql("SELECT 1").await, "E(25P02) Z(E)", "{what}");
        assert_eq!(raw.sql("COMMIT").await, "C(ROLLBACK) Z(I)", "{what}");
        assert_eq!(raw.sql("SELECT count(*) FROM t").await, "T D(0) C(SELECT 1) Z(I)", "{what}");
    }
}

/// The same mistakes outside of a block hurt nothing, and the connection goes on.
#[tokio::test(flavor = "multi_thread")]
async fn after_an_error_the_connection_goes_on() {
    let server = server().await;
    let mut raw = Raw::connect(&server, EVE).await;
    for (what, messages) in mistakes() {
        let summary = raw.ask(&messages).await;
        assert!(summary.contains("E(") && summary.ends_with("Z(I)"), "{what}: {summary}");
        assert_eq!(raw.sql("SELECT 1").await, "T D(1) C(SELECT 1) Z(I)", "{what}");
        raw.sql("DEALLOCATE ALL").await;
    }
}

/// What is prepared already: its name, and whether a failed block takes it.
const PREPARED: [(&str, &str, bool); 8] = [
    ("select", "SELECT 1", false),
    ("empty", "", false),
    ("insert", "INSERT INTO t VALUES (9, 'i')", false),
    ("begin", "BEGIN", false),
    ("savepoint", "SAVEPOINT s", false),
    ("commit", "COMMIT", true),
    ("rollback", "ROLLBACK", true),
    ("rollback to", "ROLLBACK TO s", true),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_block_takes_what_ends_it_only() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    for (name, sql, _) in PREPARED {
        assert_eq!(raw.ask(&[parse(name, sql), sync()]).await, "1 Z(I)");
    }
    raw.ask(&[query("BEGIN")]).await;
    raw.ask(&[query("SELECT 1/0")]).await;
    for (name, sql, is_taken) in PREPARED {
        let (bound, parsed) = match is_taken {
            true => ("2 Z(E)", "1 Z(E)"),
            false => ("E(25P02) Z(E)", "E(25P02) Z(E)"),
        };
        assert_eq!(raw.ask(&[bind("", name), sync()]).await, bound, "{name}");
        let parsed = if sql.is_empty() { "1 Z(E)" } else { parsed };
        assert_eq!(raw.ask(&[parse("", sql), sync()]).await, parsed, "{name}");
        let described = if name == "select" { "E(25P02) Z(E)" } else { "t n Z(E)" };
        assert_eq!(raw.ask(&[describe('S', name), sync()]).await, described, "{name}");
    }
    assert_eq!(raw.ask(&[bind("", "nope"), sync()]).await, "E(26000) Z(E)");
    assert_eq!(
        raw.ask(&[bind("", "rollback"), execute("", 0), sync()]).await,
        "2 C(ROLLBACK) Z(I)"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_portal_does_not_outlive_its_block() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    raw.sql("BEGIN").await;
    let series = parse("", "SELECT x FROM generate_series(1, 3) x");
    let opened = raw.ask(&[series, bind("p", ""), execute("p", 1), sync()]).await;
    assert_eq!(opened, "1 2 D(1) s Z(T)");
    raw.sql("SELECT 1/0").await;
    assert_eq!(raw.ask(&[describe('P', "p"), sync()]).await, "E(25P02) Z(E)");
    assert_eq!(raw.ask(&[execute("p", 1), sync()]).await, "E(25P02) Z(E)");
    raw.sql("ROLLBACK").await;
    assert_eq!(raw.ask(&[execute("p", 1), sync()]).await, "E(34000) Z(I)");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_between_two_syncs_is_one_transaction() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    let insert = |value: i32| {
        let sql = format!("INSERT INTO t VALUES ({value}, 'x')");
        vec![parse("", &sql), bind("", ""), execute("", 0)]
    };
    let fails = vec![parse("", "SELECT 1/0"), bind("", ""), execute("", 0)];
    // An error skips what follows, and takes back what was before.
    let all = [insert(1), fails.clone(), insert(2), vec![sync()]].concat();
    assert_eq!(raw.ask(&all).await, "1 2 C(INSERT 0 1) 1 2 E(22012) Z(I)");
    let flushed = [insert(3), vec![flush()], fails, vec![sync()]].concat();
    assert_eq!(raw.ask(&flushed).await, "1 2 C(INSERT 0 1) 1 2 E(22012) Z(I)");
    // Each `Sync` ends one.
    raw.send(&[insert(4), vec![sync()], insert(5), vec![sync(), query("SELECT 6")]].concat()).await;
    for expected in ["1 2 C(INSERT 0 1) Z(I)", "1 2 C(INSERT 0 1) Z(I)", "T D(6) C(SELECT 1) Z(I)"]
    {
        assert_eq!(summary(&raw.until_ready().await), expected);
    }
    let text = "INSERT INTO t VALUES (7, 'x'); SELECT 1/0; INSERT INTO t VALUES (8, 'x')";
    assert_eq!(raw.sql(text).await, "C(INSERT 0 1) E(22012) Z(I)");
    assert_eq!(raw.sql("SELECT a FROM t ORDER BY a").await, "T D(4) D(5) C(SELECT 2) Z(I)");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_statements_are_the_sessions() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    for sql in ["", "SELECT 1"] {
        assert_eq!(raw.ask(&[parse("n", sql), sync()]).await, "1 Z(I)");
        assert_eq!(raw.ask(&[parse("n", ""), sync()]).await, "E(42P05) Z(I)");
        assert_eq!(raw.ask(&[parse("n", "SELECT 2"), sync()]).await, "E(42P05) Z(I)");
        assert_eq!(raw.sql("DEALLOCATE n").await, "C(DEALLOCATE) Z(I)");
        assert_eq!(raw.ask(&[bind("", "n"), sync()]).await, "E(26000) Z(I)");
    }
    // The statement without a name goes with the next one, whether that is one or not.
    for next in [
        vec![parse("", "selec"), sync()],
        vec![parse("", "SELECT nothing"), sync()],
        vec![query("SELECT 2")],
        vec![close('S', ""), sync()],
    ] {
        assert_eq!(raw.ask(&[parse("", "SELECT 1"), sync()]).await, "1 Z(I)");
        raw.ask(&next).await;
        assert_eq!(raw.ask(&[bind("", ""), sync()]).await, "E(26000) Z(I)");
    }
    let closed = [parse("s", "SELECT 1"), bind("p", "s"), close('S', "s"), execute("p", 0), sync()];
    assert_eq!(raw.ask(&closed).await, "1 2 3 D(1) C(SELECT 1) Z(I)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_within_a_text_begins_another_transaction() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    for (text, left) in [
        ("+7; COMMIT; +8; SELECT 1 / 0", "D(7) "),
        ("+7; ROLLBACK; +8", "D(8) "),
        ("+7; BEGIN; +8; COMMIT; +9", "D(7) D(8) D(9) "),
        ("+7; BEGIN; +8; ROLLBACK; +9", "D(9) "),
        ("BEGIN; +7; COMMIT; +8; SELECT 1 / 0", "D(7) "),
        ("+7; COMMIT; +8; COMMIT; +9", "D(7) D(8) D(9) "),
        ("+7; SAVEPOINT s; +8", ""),
        ("+7; COMMIT AND CHAIN; +8", ""),
        ("+7; +8; SELECT 1 / 0", ""),
    ] {
        raw.sql("DELETE FROM t").await;
        let steps: Vec<String> = text
            .split("; ")
            .map(|step| match step.strip_prefix('+') {
                Some(number) => format!("INSERT INTO t VALUES ({number}, 'x')"),
                None => step.to_owned(),
            })
            .collect();
        raw.sql(&steps.join("; ")).await;
        let rows = raw.sql("SELECT a FROM t ORDER BY a").await;
        let count = left.matches('D').count();
        assert_eq!(rows, format!("T {left}C(SELECT {count}) Z(I)"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upsert_in_a_block_that_lost_its_key_is_told_to_try_again() {
    let server = server().await;
    let mut one = Raw::connect(&server, SUPERUSER).await;
    let mut other = Raw::connect(&server, SUPERUSER).await;
    one.sql("CREATE TABLE keyed (id int PRIMARY KEY, n int)").await;
    for action in ["DO NOTHING", "(id) DO UPDATE SET n = excluded.n"] {
        one.sql("DELETE FROM keyed").await;
        let upsert = format!("INSERT INTO keyed VALUES (1, 1) ON CONFLICT {action}");
        for session in [&mut one, &mut other] {
            session.sql("BEGIN ISOLATION LEVEL REPEATABLE READ").await;
            assert_eq!(session.sql(&upsert).await, "C(INSERT 0 1) Z(T)", "{action}");
        }
        assert_eq!(one.sql("COMMIT").await, "C(COMMIT) Z(I)", "{action}");
        assert_eq!(other.sql("COMMIT").await, "E(40001) Z(I)", "{action}");
    }
}
