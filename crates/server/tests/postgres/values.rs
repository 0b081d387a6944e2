//! Values in binary, of types that clients name themselves.

use crate::support::{
    Raw, Reply, SUPERUSER, bind_values, describe, execute, parse_as, server, sync, told,
};

/// A statement with one parameter of a declared type: the type that is told of it, and the rest.
async fn run(raw: &mut Raw, sql: &str, declared: &[u32], value: &[u8]) -> (Option<u32>, String) {
    let bound = bind_values("", "", 1, &[value]);
    let messages = [parse_as("", sql, declared), describe('S', ""), bound, execute("", 0), sync()];
    raw.send(&messages).await;
    let mut replies = raw.until_ready().await;
    let told_type = |reply: &Reply| {
        let oid = reply.body.get(2..6).filter(|_| reply.kind == b't')?;
        Some(u32::from_be_bytes(oid.try_into().unwrap()))
    };
    let oid = replies.iter().find_map(told_type);
    replies.retain(|reply| !b"12tT".contains(&reply.kind));
    (oid, told(&replies))
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_have_the_types_that_clients_declare() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    let array: Vec<u8> = [1, 0, 26, 1, 1, 4, -1].into_iter().flat_map(i32::to_be_bytes).collect();
    let all_ones = u32::MAX.to_be_bytes();
    for (declared, value, expected) in [
        (26, all_ones.as_slice(), "D(4294967295)"),
        (20, &[0xff; 8], "D(-1)"),
        (1043, b"hi", "D(hi)"),
        (1042, b"hi", "D(hi)"),
        (19, b"hi", "D(hi)"),
        (114, b"{}", "D({})"),
        (3802, b"\x01{}", "D({})"),
        (1028, &array, "D({4294967295})"),
    ] {
        let (oid, told) = run(&mut raw, "SELECT $1", &[declared], value).await;
        assert_eq!(told, format!("{expected} C(SELECT 1) Z(I)"), "{declared}");
        assert_eq!(oid, Some(declared));
    }
}

/// SQLSTATEs are PostgreSQL's, but for jsonb's, which is an internal error there.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_other_types_are_refused() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    for (sql, value, state) in [
        ("SELECT $1::bigint", &[0xff; 4][..], "08P01"),
        ("SELECT $1::int", &[0xff; 8], "22P03"),
        ("SELECT $1::bool", &[1, 1], "22P03"),
        ("SELECT $1::uuid", &[1, 1], "08P01"),
        ("SELECT $1::json", b"\x01{}", "22P02"),
        ("SELECT $1::int[]", &[0, 0, 0, 1], "08P01"),
        ("SELECT $1::text", b"a\0b", "22021"),
    ] {
        let (_, told) = run(&mut raw, sql, &[], value).await;
        assert_eq!(told, format!("E({state}) Z(I)"), "{sql}");
    }
    let (_, told) = run(&mut raw, "SELECT $1", &[3802], b"{}").await;
    assert_eq!(told, "E(22P03) Z(I)");
}

/// Sixty bytes that claim two thousand million empty arrays, and some more: none costs more than
/// its bytes.
#[tokio::test(flavor = "multi_thread")]
async fn no_array_keeps_the_server_busy() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    for (words, expected) in [
        (&[2, 0, 23, 2_000_000_000, 1, 0, 1][..], "D({}) C(SELECT 1) Z(I)"),
        (&[2, 0, 23, 0, 1, 2_000_000_000, 1], "D({}) C(SELECT 1) Z(I)"),
        (&[3, 0, 23, 65_536, 1, 65_536, 1, 65_536, 1], "E(54000) Z(I)"),
        (&[2, 0, 23, 10_000, 1, 10_000, 1], "E(08P01) Z(I)"),
    ] {
        let bytes: Vec<u8> = words.iter().flat_map(|word: &i32| word.to_be_bytes()).collect();
        let (_, told) = run(&mut raw, "SELECT $1::int[]", &[], &bytes).await;
        assert_eq!(told, expected, "{words:?}");
    }
}
