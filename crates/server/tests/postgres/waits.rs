//! Cancels, time-outs, ends and limits, while the server computes and while it waits for clients.

use thalweg_server::Server;

use crate::support::{
    EVE, Raw, SUPERUSER, bind, cancel, copy_data, copy_done, execute, parse, query, server,
    server_with, summary, sync,
};

/// More rows than sockets hold.
const MANY_ROWS: &str = "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)";
/// Works for longer than any test.
const ENDLESS: &str =
    "SELECT count(*) FROM generate_series(1, 100000000) a, generate_series(1, 100000000) b";
const ONE: &str = "T D(1) C(SELECT 1) Z(I)";

/// One statement runs at a time.
async fn narrow_server(queue_timeout_ms: u64) -> Server {
    server_with(|config| {
        config.limits.statements = 1;
        config.limits.queue_timeout_ms = queue_timeout_ms;
    })
    .await
}

async fn is_there(admin: &mut Raw, id: i32, condition: &str) -> bool {
    let table = "pg_stat_activity";
    let sql = format!("SELECT count(*) FROM {table} WHERE pid = {id} AND {condition}");
    admin.sql(&sql).await == ONE
}

async fn until_active(admin: &mut Raw, id: i32) {
    while !is_there(admin, id, "state = 'active'").await {}
}

async fn until_gone(admin: &mut Raw, id: i32) {
    while is_there(admin, id, "true").await {}
}

async fn terminate(admin: &mut Raw, id: i32) {
    let sql = format!("SELECT pg_terminate_backend({id})");
    assert_eq!(admin.sql(&sql).await, "T D(t) C(SELECT 1) Z(I)");
}

/// Somebody whose rows are on their way, who does not read them.
async fn deaf(server: &Server) -> Raw {
    let mut raw = Raw::connect(server, EVE).await;
    raw.send(&[query(MANY_ROWS)]).await;
    raw
}

/// Resolves once the rows of somebody who does not read have ended all the same.
async fn until_cut_off(admin: &mut Raw, deaf: &mut Raw) {
    let condition = "state = 'idle' AND query LIKE 'SELECT repeat%'";
    while !is_there(admin, deaf.id, condition).await {}
    // Every message that was sent is whole, and the connection goes on.
    let replies = deaf.until_ready().await;
    let mut rows = replies.iter().filter(|reply| reply.kind == b'D');
    assert!(rows.all(|row| row.body.len() == 2 + 4 + 1_000));
    assert_eq!(summary(&replies[replies.len() - 2..]), "E(57014) Z(I)");
    assert_eq!(deaf.sql("SELECT 1").await, ONE);
}

/// A statement whose client does not read gives up its place: that another one gets it tells that
/// it waits to send.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_cancelled() {
    let server = narrow_server(600_000).await;
    let mut admin = Raw::connect(&server, SUPERUSER).await;
    let mut eve = Raw::connect(&server, EVE).await;
    let mut deaf = deaf(&server).await;
    until_active(&mut admin, deaf.id).await;
    assert_eq!(eve.sql("SELECT 1").await, ONE);
    cancel(&server, deaf.id, deaf.secret).await;
    until_cut_off(&mut admin, &mut deaf).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_timed_out() {
    let server = server().await;
    let mut admin = Raw::connect(&server, SUPERUSER).await;
    let mut deaf = Raw::connect(&server, EVE).await;
    deaf.sql("SET statement_timeout = '100ms'").await;
    deaf.send(&[query(MANY_ROWS)]).await;
    until_cut_off(&mut admin, &mut deaf).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_sent_away() {
    let server = narrow_server(600_000).await;
    let mut admin = Raw::connect(&server, SUPERUSER).await;
    let mut eve = Raw::connect(&server, EVE).await;
    let deaf = deaf(&server).await;
    until_active(&mut admin, deaf.id).await;
    assert_eq!(eve.sql("SELECT 1").await, ONE);
    terminate(&mut admin, deaf.id).await;
    until_gone(&mut admin, deaf.id).await;
}

/// The same for a client that does not write.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_whose_client_does_not_write_is_ended() {
    let server = server().await;
    let mut admin = Raw::connect(&server, SUPERUSER).await;
    let mut mute = Raw::connect(&server, EVE).await;
    let copy = "COPY t FROM STDIN";
    mute.copy(copy).await;
    mute.send(&[copy_data(b"1\tone\n")]).await;
    cancel(&server, mute.id, mute.secret).await;
    assert_eq!(summary(&mute.until_ready().await), "E(57014) Z(I)");
    // What comes afterwards is nobody's.
    mute.send(&[copy_data(b"2\ttwo\n"), copy_done()]).await;
    assert_eq!(mute.sql("SELECT count(*) FROM t").await, "T D(0) C(SELECT 1) Z(I)");
    mute.sql("SET statement_timeout = '50ms'").await;
    mute.copy(copy).await;
    assert_eq!(summary(&mute.until_ready().await), "E(57014) Z(I)");
    mute.sql("SET statement_timeout = 0").await;
    mute.copy(copy).await;
    terminate(&mut admin, mute.id).await;
    assert_eq!(summary(&mute.until_ready().await), "E(57P01)");
    assert_eq!(admin.sql("SELECT count(*) FROM t").await, "T D(0) C(SELECT 1) Z(I)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_is_for_the_statement_that_runs() {
    let server = server().await;
    let mut raw = Raw::connect(&server, EVE).await;
    cancel(&server, raw.id, raw.secret).await;
    assert_eq!(raw.sql("SELECT 1").await, ONE);
    let (id, secret) = (raw.id, raw.secret);
    raw.send(&[query(ENDLESS)]).await;
    let mut admin = Raw::connect(&server, SUPERUSER).await;
    until_active(&mut admin, id).await;
    // Nobody else's.
    cancel(&server, id, secret.wrapping_add(1)).await;
    assert!(is_there(&mut admin, id, "state = 'active'").await);
    cancel(&server, id, secret).await;
    assert_eq!(summary(&raw.until_ready().await), "E(57014) Z(I)");
}

#[tokio::test(flavor = "multi_thread")]
async fn places_are_for_those_who_compute() {
    let server = narrow_server(500).await;
    let mut admin = Raw::connect(&server, SUPERUSER).await;
    let mut eve = Raw::connect(&server, EVE).await;
    // Clients that write nothing, read nothing, or fetch nothing more have none.
    let mut mute = Raw::connect(&server, EVE).await;
    mute.copy("COPY t FROM STDIN").await;
    assert_eq!(eve.sql("SELECT 1").await, ONE);
    let mut slow = Raw::connect(&server, EVE).await;
    slow.sql("BEGIN").await;
    let opened = [parse("", MANY_ROWS), bind("p", ""), execute("p", 1), sync()];
    assert!(slow.ask(&opened).await.ends_with(" s Z(T)"));
    assert_eq!(eve.sql("SELECT 1").await, ONE);
    // One that computes has it, whatever the protocol.
    for is_extended in [false, true] {
        let mut busy = Raw::connect(&server, EVE).await;
        busy.send(&match is_extended {
            true => vec![parse("", ENDLESS), bind("", ""), execute("", 0), sync()],
            false => vec![query(ENDLESS)],
        })
        .await;
        let mut other = Raw::connect(&server, EVE).await;
        while other.sql("SELECT 1").await != "E(53400) Z(I)" {}
        // Transactions end all the same, and superusers have places of their own.
        assert_eq!(eve.sql("BEGIN").await, "C(BEGIN) Z(T)");
        assert_eq!(eve.sql("ROLLBACK").await, "C(ROLLBACK) Z(I)");
        assert_eq!(eve.sql("BEGIN").await, "C(BEGIN) Z(T)");
        let rollback = [parse("", "ROLLBACK"), bind("", ""), execute("", 0), sync()];
        assert_eq!(eve.ask(&rollback).await, "1 2 C(ROLLBACK) Z(I)");
        assert_eq!(admin.sql("SELECT 1").await, ONE);
        terminate(&mut admin, busy.id).await;
        until_gone(&mut admin, busy.id).await;
        assert_eq!(other.sql("SELECT 1").await, ONE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_connections_are_for_superusers() {
    let server = server_with(|config| config.limits.connections = 1).await;
    let _first = Raw::connect(&server, EVE).await;
    let hello = crate::support::hello(&[("user", EVE)]);
    let mut second = Raw::open(&server).await;
    assert_eq!(second.ask(&[hello]).await, "R E(53300)");
    let mut admin = Raw::connect(&server, SUPERUSER).await;
    assert_eq!(admin.sql("SELECT 1").await, ONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_lets_blocks_end() {
    let server = server().await;
    let mut idle = Raw::connect(&server, EVE).await;
    let mut busy = Raw::connect(&server, EVE).await;
    busy.sql("BEGIN").await;
    busy.sql("INSERT INTO t VALUES (1, 'x')").await;
    let ending = tokio::spawn(server.shut_down());
    assert_eq!(summary(&idle.until_ready().await), "E(57P01)");
    assert_eq!(busy.sql("COMMIT").await, "C(COMMIT) Z(I)");
    assert_eq!(summary(&busy.until_ready().await), "E(57P01)");
    ending.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_sessions_have_their_time() {
    let server = server().await;
    for (setting, begin, state) in [
        ("idle_session_timeout", "", "E(57P05)"),
        ("idle_in_transaction_session_timeout", "BEGIN", "E(25P03)"),
    ] {
        let mut raw = Raw::connect(&server, EVE).await;
        raw.sql(begin).await;
        raw.sql(&format!("SET {setting} = '20ms'")).await;
        assert_eq!(summary(&raw.until_ready().await), state, "{setting}");
    }
}
