//! Values in binary, of types that clients name themselves.

use crate::support::{
    Raw, Reply, SUPERUSER, bind_values, describe, execute, message, parse_as, server, summary, sync,
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
    (oid, summary(&replies))
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
        let (oid, summary) = run(&mut raw, "SELECT $1", &[declared], value).await;
        assert_eq!(summary, format!("{expected} C(SELECT 1) Z(I)"), "{declared}");
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
        let (_, summary) = run(&mut raw, sql, &[], value).await;
        assert_eq!(summary, format!("E({state}) Z(I)"), "{sql}");
    }
    let (_, summary) = run(&mut raw, "SELECT $1", &[3802], b"{}").await;
    assert_eq!(summary, "E(22P03) Z(I)");
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
        let (_, summary) = run(&mut raw, "SELECT $1::int[]", &[], &bytes).await;
        assert_eq!(summary, expected, "{words:?}");
    }
}

/// The type that is told of a query's first column.
async fn column_type(raw: &mut Raw, sql: &str) -> u32 {
    raw.send(&[parse_as("", sql, &[]), describe('S', ""), sync()]).await;
    let replies = raw.until_ready().await;
    let row = replies.iter().find(|reply| reply.kind == b'T');
    let row = row.unwrap_or_else(|| panic!("{sql}: {}", summary(&replies)));
    let name = row.body[2..].iter().position(|byte| *byte == 0).unwrap();
    let oid = 2 + name + 1 + 4 + 2;
    u32::from_be_bytes(row.body[oid..oid + 4].try_into().unwrap())
}

/// However a subquery is planned, its value is of the type of its column; and a case of that of its
/// branches.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_subqueries_and_cases_keep_their_types() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    let column = "json_build_object('n', s.n)";
    let (from, outer) = ("FROM (VALUES (1)) AS s(n)", "FROM (VALUES (1)) AS t(n)");
    for sql in [
        format!("SELECT {column} {from}"),
        format!("SELECT (SELECT {column} {from})"),
        format!("SELECT (SELECT {column} {from} WHERE s.n = t.n) AS x {outer}"),
        format!("SELECT (SELECT {column} {from} WHERE s.n < t.n + s.n) {outer}"),
        format!("SELECT (SELECT {column} {from} WHERE s.n < t.n + s.n LIMIT 1) AS x {outer}"),
        format!("SELECT (SELECT {column} {from} WHERE s.n < t.n + s.n) {outer} GROUP BY t.n"),
        format!("SELECT CASE WHEN n > 0 THEN {column} ELSE NULL END {from}"),
        format!("SELECT CASE WHEN n > 0 THEN (SELECT {column} {from} WHERE s.n = t.n) END {outer}"),
        format!("SELECT (SELECT CASE n WHEN 1 THEN {column} ELSE {column} END {from})"),
    ] {
        assert_eq!(column_type(&mut raw, &sql).await, 114, "{sql}");
    }
    // What only one branch says is not said of all.
    let sql = "SELECT CASE WHEN true THEN 'a'::varchar(3) ELSE 'b'::text END";
    assert_eq!(column_type(&mut raw, sql).await, 25);
}

/// A cast says what its value is, and nothing that was said of its argument.
#[tokio::test(flavor = "multi_thread")]
async fn casts_have_the_types_that_they_name() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    let row = "FROM (VALUES ('{}'::json, 'a'::name, 7::oid, 'b'::varchar(3))) AS v(j, n, o, v)";
    for (value, oid) in [
        ("j::text", 25),
        ("n::text", 25),
        ("v::text", 25),
        ("CAST(o AS bigint)", 20),
        ("o::int", 23),
        ("array_agg(n::text)", 1009),
        ("array_agg(n)", 1003),
        ("ARRAY[j::text]", 1009),
        ("CASE WHEN true THEN j::text END", 25),
        ("CASE WHEN true THEN j END", 114),
        ("n", 19),
        ("o", 26),
    ] {
        assert_eq!(column_type(&mut raw, &format!("SELECT {value} {row}")).await, oid, "{value}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_of_named_types_are_inserted_and_changed() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    raw.sql("CREATE TABLE tags (id int PRIMARY KEY, ids uuid[])").await;
    let words = [1, 0, 2950, 1, 1, 16].map(i32::to_be_bytes).concat();
    let array = [words, vec![0x11; 16]].concat();
    for sql in [
        "INSERT INTO tags VALUES (1, $1)",
        "UPDATE tags SET ids = $1 WHERE id = 1",
        "INSERT INTO tags VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET ids = excluded.ids",
    ] {
        let (oid, summary) = run(&mut raw, sql, &[], &array).await;
        assert!(summary.ends_with("1) Z(I)"), "{sql}: {summary}");
        assert_eq!(oid, Some(2951));
    }
    let shown = "11111111-1111-1111-1111-111111111111";
    assert_eq!(raw.sql("SELECT ids FROM tags").await, format!("T D({{{shown}}}) C(SELECT 1) Z(I)"));
}

/// The bytes that PostgreSQL 15 sends, but for texts that are written out: it calls them `unknown`.
#[tokio::test(flavor = "multi_thread")]
async fn records_are_sent_in_binary() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    let words = |words: &[i32]| words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let one_two: [i32; 7] = [2, 23, 4, 1, 23, 4, 2];
    let pairs = [&[1, 0, 2249, 2, 1, 28][..], &one_two, &[24, 2, 23, 4, 3, 23, -1]].concat();
    let nested = [&[2, 2249, 28][..], &one_two, &[1007, 28, 1, 0, 23, 1, 1, 4, 7]].concat();
    let text: Vec<u8> = [&[0, 0, 0, 1, 0, 0, 0, 25, 0, 0, 0, 3][..], b"a b"].concat();
    let values: [(&str, u32, Vec<u8>); 5] = [
        ("row(1, 2)", 2249, words(&one_two)),
        ("row('a b'::text)", 2249, text),
        ("row(1, NULL::int)", 2249, words(&[2, 23, 4, 1, 23, -1])),
        ("row(row(1, 2), ARRAY[7])", 2249, words(&nested)),
        ("ARRAY[row(1, 2), row(3, NULL)]", 2287, words(&pairs)),
    ];
    for (value, oid, expected) in values {
        let sql = format!("SELECT {value}");
        assert_eq!(column_type(&mut raw, &sql).await, oid, "{value}");
        let bound = message(b'B', &[0, 0, 0, 0, 0, 0, 0, 1, 0, 1]);
        raw.send(&[parse_as("", &sql, &[]), bound, execute("", 0), sync()]).await;
        let replies = raw.until_ready().await;
        let row = replies.iter().find(|reply| reply.kind == b'D');
        let row = row.unwrap_or_else(|| panic!("{sql}: {}", summary(&replies)));
        // How many columns there are, and the length of this one.
        assert_eq!(row.body[2..6], (expected.len() as i32).to_be_bytes(), "{value}");
        assert_eq!(row.body[6..], expected, "{value}");
    }
}
