//! Advisory locks that sessions wait for: what ends the wait, and what goes on meanwhile.

use std::time::Duration;

use thalweg_server::Server;

use crate::support::{
    EVE, Raw, SUPERUSER, bind, bind_values, cancel, execute, parse, query, server, server_with,
    summary, sync,
};

const LOCK: &str = "SELECT pg_advisory_lock(1)";
const UNLOCK: &str = "SELECT pg_advisory_unlock(1)";
/// What PostgreSQL calls `void` is shown as an empty text.
const LOCKED: &str = "T D C(SELECT 1) Z(I)";
const YES: &str = "T D(t) C(SELECT 1) Z(I)";
const NO: &str = "T D(f) C(SELECT 1) Z(I)";

/// Somebody who has the lock.
async fn holder(server: &Server) -> Raw {
    let mut holder = Raw::connect(server, EVE).await;
    assert_eq!(holder.sql(LOCK).await, LOCKED);
    holder
}

/// Resolves once a session waits for a lock.
async fn until_waiting(other: &mut Raw, id: i32) {
    let sql = format!("SELECT count(*) FROM pg_locks WHERE pid = {id} AND NOT granted");
    let asking = async { while !other.sql(&sql).await.starts_with("T D(1) ") {} };
    in_time(asking).await;
}

/// What comes while somebody waits for a lock, or after it.
async fn answer(raw: &mut Raw) -> String {
    summary(&in_time(raw.until_ready()).await)
}

/// A wait that has no end is a fault.
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends in time")
}

/// Somebody who waits for the lock.
async fn waiter(server: &Server, other: &mut Raw) -> Raw {
    let mut waiter = Raw::connect(server, EVE).await;
    waiter.send(&[query(LOCK)]).await;
    until_waiting(other, waiter.id).await;
    waiter
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_waited_for_until_it_is_given_back() {
    let server = server().await;
    let mut holder = holder(&server).await;
    let mut waiter = waiter(&server, &mut holder).await;
    assert_eq!(holder.sql(UNLOCK).await, YES);
    assert_eq!(answer(&mut waiter).await, LOCKED);
    assert_eq!(holder.sql("SELECT pg_try_advisory_lock(1)").await, NO);
    let warned = "N(you don't own a lock of type ExclusiveLock) T D(f) C(SELECT 1) Z(I)";
    assert_eq!(holder.sql(UNLOCK).await, warned);
    assert_eq!(waiter.sql(UNLOCK).await, YES);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_goes_with_its_connection() {
    let server = server().await;
    let mut holder = holder(&server).await;
    let gone = waiter(&server, &mut holder).await;
    let mut waiter = waiter(&server, &mut holder).await;
    // Nobody is given a lock who left while waiting.
    drop(gone);
    drop(holder);
    assert_eq!(answer(&mut waiter).await, LOCKED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_a_transaction_ends_with_it() {
    let server = server().await;
    let mut holder = Raw::connect(&server, EVE).await;
    let lock = "SELECT pg_advisory_xact_lock(1)";
    for end in ["COMMIT", "ROLLBACK"] {
        holder.sql("BEGIN").await;
        assert_eq!(holder.sql(lock).await, "T D C(SELECT 1) Z(T)");
        let mut waiter = waiter(&server, &mut holder).await;
        assert_eq!(holder.sql(end).await, format!("C({end}) Z(I)"));
        assert_eq!(answer(&mut waiter).await, LOCKED);
        assert_eq!(waiter.sql(UNLOCK).await, YES);
    }
    // The statements of one text are a transaction, too.
    let two = format!("{lock}; SELECT 1 / 0");
    assert_eq!(holder.sql(&two).await, "T D C(SELECT 1) E(22012) Z(I)");
    assert_eq!(Raw::connect(&server, EVE).await.sql("SELECT pg_try_advisory_lock(1)").await, YES);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_by_cancels_and_time_outs() {
    let server = server().await;
    let mut holder = holder(&server).await;
    let mut waiter = waiter(&server, &mut holder).await;
    cancel(&server, waiter.id, waiter.secret).await;
    assert_eq!(answer(&mut waiter).await, "E(57014) Z(I)");
    waiter.sql("SET statement_timeout = '20ms'").await;
    assert_eq!(waiter.sql(LOCK).await, "E(57014) Z(I)");
    waiter.sql("SET statement_timeout = 0").await;
    waiter.sql("SET lock_timeout = '20ms'").await;
    assert_eq!(waiter.sql(LOCK).await, "E(55P03) Z(I)");
    // None of them left anything in the queue.
    assert_eq!(holder.sql(UNLOCK).await, YES);
    assert_eq!(holder.sql("SELECT pg_try_advisory_lock(1)").await, YES);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_would_wait_for_itself_is_refused() {
    let server = server().await;
    let mut one = holder(&server).await;
    let mut other = Raw::connect(&server, EVE).await;
    other.sql("SELECT pg_advisory_lock(2)").await;
    one.send(&[query("SELECT pg_advisory_lock(2)")]).await;
    until_waiting(&mut other, one.id).await;
    assert_eq!(other.sql(LOCK).await, "E(40P01) Z(I)");
    assert_eq!(other.sql("SELECT pg_advisory_unlock_all()").await, LOCKED);
    assert_eq!(answer(&mut one).await, LOCKED);
}

/// Whoever has the lock can give it back, however many wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_lock_has_no_place_among_those_who_run() {
    let server = server_with(|config| {
        config.limits.statements = 1;
        config.limits.queue_timeout_ms = 600_000;
    })
    .await;
    let mut holder = holder(&server).await;
    let mut first = waiter(&server, &mut holder).await;
    let mut second = Raw::connect(&server, EVE).await;
    let lock = [parse("", LOCK), bind("", ""), execute("", 0), sync()];
    second.send(&lock).await;
    until_waiting(&mut holder, second.id).await;
    assert_eq!(holder.sql(UNLOCK).await, YES);
    assert_eq!(answer(&mut first).await, LOCKED);
    assert_eq!(first.sql(UNLOCK).await, YES);
    assert_eq!(answer(&mut second).await, "1 2 D C(SELECT 1) Z(I)");
}

/// As `golang-migrate` does: the number comes as a text, whose type the server tells.
#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_is_a_bigint() {
    let server = server().await;
    let mut raw = Raw::connect(&server, EVE).await;
    for (sql, values, known) in [
        ("SELECT pg_try_advisory_lock($1)", vec![&b"9876543210"[..]], "2,1286608618,1"),
        (
            "SELECT pg_try_advisory_lock_shared($1, $2)",
            vec![&b"-1"[..], &b"7"[..]],
            "4294967295,7,2",
        ),
    ] {
        let messages = [parse("", sql), bind_values("", "", 0, &values), execute("", 0), sync()];
        assert_eq!(raw.ask(&messages).await, "1 2 D(t) C(SELECT 1) Z(I)");
        let listed = "SELECT classid, objid, objsubid FROM pg_locks";
        assert_eq!(raw.sql(listed).await, format!("T D({known}) C(SELECT 1) Z(I)"));
        raw.sql("SELECT pg_advisory_unlock_all()").await;
    }
}

/// A statement that is parsed once its block has the lock knows what the holder before defined.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_parsed_after_the_lock_is_of_the_newest_catalog() {
    let server = server().await;
    let mut holder = Raw::connect(&server, SUPERUSER).await;
    assert_eq!(holder.sql(LOCK).await, LOCKED);
    let mut other = Raw::connect(&server, SUPERUSER).await;
    assert_eq!(other.sql("BEGIN").await, "C(BEGIN) Z(T)");
    other.send(&[query("SELECT pg_advisory_xact_lock(1)")]).await;
    until_waiting(&mut holder, other.id).await;
    assert_eq!(holder.sql("CREATE TABLE fresh (n int)").await, "C(CREATE TABLE) Z(I)");
    assert_eq!(holder.sql(UNLOCK).await, YES);
    assert_eq!(answer(&mut other).await, "T D C(SELECT 1) Z(T)");
    let select = [parse("", "SELECT n FROM fresh"), bind("", ""), execute("", 0), sync()];
    assert_eq!(other.ask(&select).await, "1 2 C(SELECT 0) Z(T)");
}
