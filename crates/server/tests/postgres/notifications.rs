//! `LISTEN` and `NOTIFY`: which sessions get which messages, and when.

use std::time::Duration;

use thalweg_server::Server;

use crate::support::{EVE, Raw, Reply, bind_values, execute, parse, query, server, summary, sync};

/// A hang limit: no message takes so long.
const LONG: Duration = Duration::from_secs(60);

async fn listener(server: &Server, channel: &str) -> Raw {
    let mut listener = Raw::connect(server, EVE).await;
    assert_eq!(listener.sql(&format!("LISTEN {channel}")).await, "C(LISTEN) Z(I)");
    listener
}

/// The next message that comes to a session that asks for nothing.
async fn pushed(raw: &mut Raw) -> Reply {
    tokio::time::timeout(LONG, raw.next()).await.expect("a message comes").expect("it is open")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_listener_is_sent_messages() {
    let server = server().await;
    let (mut one, mut two) = (listener(&server, "news").await, listener(&server, "\"News\"").await);
    let mut sender = Raw::connect(&server, EVE).await;
    assert_eq!(sender.sql("NOTIFY News, 'first'").await, "C(NOTIFY) Z(I)");
    assert_eq!(sender.sql("NOTIFY \"News\"").await, "C(NOTIFY) Z(I)");
    let first = pushed(&mut one).await;
    assert_eq!(summary(&[Reply { kind: first.kind, body: first.body.clone() }]), "A(news:first)");
    assert_eq!(first.body[..4], sender.id.to_be_bytes());
    assert_eq!(summary(&[pushed(&mut two).await]), "A(News:)");
    assert_eq!(one.sql("SELECT 1").await, "T D(1) C(SELECT 1) Z(I)", "no message came twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_sent_at_commit_and_each_once() {
    let server = server().await;
    let mut sender = listener(&server, "c").await;
    sender.sql("BEGIN").await;
    for sql in ["NOTIFY c, 'a'", "NOTIFY c, 'b'", "NOTIFY c, 'a'"] {
        assert_eq!(sender.sql(sql).await, "C(NOTIFY) Z(T)");
    }
    sender.sql("SAVEPOINT s").await;
    sender.sql("NOTIFY c, 'rolled back'").await;
    sender.sql("ROLLBACK TO s").await;
    assert_eq!(sender.sql("COMMIT").await, "C(COMMIT) A(c:a) A(c:b) Z(I)");
    sender.sql("BEGIN").await;
    sender.sql("NOTIFY c, 'a'").await;
    sender.sql("LISTEN d").await;
    assert_eq!(sender.sql("ROLLBACK").await, "C(ROLLBACK) Z(I)");
    assert_eq!(sender.sql("NOTIFY d").await, "C(NOTIFY) Z(I)");
    assert_eq!(sender.sql("NOTIFY c; SELECT 1 / 0").await, "C(NOTIFY) E(22012) Z(I)");
    let both = "BEGIN; NOTIFY d, 'x'; LISTEN d; COMMIT";
    assert_eq!(sender.sql(both).await, "C(BEGIN) C(NOTIFY) C(LISTEN) C(COMMIT) A(d:x) Z(I)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_hears_of_messages_when_it_has_ended() {
    let server = server().await;
    let mut one = listener(&server, "c").await;
    let mut sender = Raw::connect(&server, EVE).await;
    one.sql("BEGIN").await;
    assert_eq!(sender.sql("NOTIFY c, 'x'").await, "C(NOTIFY) Z(I)");
    assert_eq!(one.sql("SELECT 1").await, "T D(1) C(SELECT 1) Z(T)");
    assert_eq!(one.sql("COMMIT").await, "C(COMMIT) A(c:x) Z(I)");
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_are_given_up() {
    let server = server().await;
    let mut one = listener(&server, "a").await;
    one.sql("LISTEN b").await;
    let channels = "SELECT * FROM pg_listening_channels()";
    assert_eq!(one.sql(channels).await, "T D(a) D(b) C(SELECT 2) Z(I)");
    assert_eq!(one.sql("UNLISTEN a").await, "C(UNLISTEN) Z(I)");
    assert_eq!(one.sql("NOTIFY a").await, "C(NOTIFY) Z(I)");
    assert_eq!(one.sql("NOTIFY b").await, "C(NOTIFY) A(b:) Z(I)");
    for all in ["UNLISTEN *", "DISCARD ALL"] {
        one.sql("LISTEN b").await;
        one.sql(all).await;
        assert_eq!(one.sql("NOTIFY b").await, "C(NOTIFY) Z(I)");
        assert_eq!(one.sql(channels).await, "T C(SELECT 0) Z(I)");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_function_sends_what_the_statement_does() {
    let server = server().await;
    let mut one = listener(&server, "c").await;
    let sent = "T D C(SELECT 1) A(c:x) Z(I)";
    assert_eq!(one.sql("SELECT pg_notify('c', 'x')").await, sent);
    let prepared = [parse("", "SELECT pg_notify($1, $2)"), bind_values("", "", 0, &[b"c", b"y"])];
    let messages = [prepared.as_slice(), &[execute("", 0), sync()]].concat();
    assert_eq!(one.ask(&messages).await, "1 2 D C(SELECT 1) A(c:y) Z(I)");
    let many = "SELECT pg_notify('c', g::text) FROM generate_series(1, 3) s(g)";
    let sent = "T D D D C(SELECT 3) A(c:1) A(c:2) A(c:3) Z(I)";
    assert_eq!(one.sql(many).await, sent);
    assert_eq!(one.sql("SELECT pg_notify('', 'x')").await, "E(22023) Z(I)");
    assert_eq!(one.sql("SELECT pg_notify(NULL, 'x')").await, "E(22023) Z(I)");
    let long = format!("NOTIFY c, '{}'", "x".repeat(8_000));
    assert_eq!(one.sql(&long).await, "E(22023) Z(I)");
    // Planning sends nothing.
    for silent in [
        "EXPLAIN SELECT pg_notify('c', 'x')",
        "SELECT pg_notify('c', 'x') WHERE false",
        "SELECT CASE WHEN 1 > 2 THEN pg_notify('c', 'x') END",
    ] {
        assert!(!one.sql(silent).await.contains("A("), "{silent}");
    }
    let failing = "SELECT pg_notify('c', 'x'), 1 / (g - 1) FROM generate_series(1, 1) s(g)";
    assert!(one.sql(failing).await.ends_with("E(22012) Z(I)"));
}

/// A listener that reads nothing does not slow the others down. It is sent away.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_does_not_read_is_sent_away() {
    let server = server().await;
    let mut deaf = listener(&server, "c").await;
    deaf.sql("BEGIN").await;
    let mut sender = Raw::connect(&server, EVE).await;
    let payload = "x".repeat(7_000);
    let notifies = |round: usize| {
        let many = (0..100).map(|number| format!("NOTIFY c, '{round} {number} {payload}';"));
        many.collect::<String>()
    };
    for round in 0..15 {
        sender.sql(&notifies(round)).await;
    }
    deaf.send(&[query("COMMIT")]).await;
    assert_eq!(summary(&deaf.until_ready().await), "C(COMMIT) Z(I)");
    assert_eq!(summary(&deaf.until(b"E").await), "E(53400)");
    assert!(deaf.is_over().await);
    assert_eq!(sender.sql("NOTIFY c").await, "C(NOTIFY) Z(I)");
}
