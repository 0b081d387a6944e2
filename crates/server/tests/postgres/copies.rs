//! `COPY` with the client: how it is given up, and what is left then.

use bytes::Bytes;

use crate::support::{
    Raw, SUPERUSER, bind, copy_data, copy_done, copy_fail, execute, field, message, parse, query,
    server, summary, sync,
};

const COPY: &str = "COPY t FROM STDIN";
const NO_ROWS: &str = "T D(0) C(SELECT 1) Z(I)";

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_there_once_the_client_says_so() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    raw.copy(COPY).await;
    let rows = [copy_data(b"1\tone\n2\tt"), copy_data(b"wo\n"), copy_done()];
    assert_eq!(raw.ask(&rows).await, "C(COPY 2) Z(I)");
    let extended = [parse("", COPY), bind("", ""), execute("", 0), sync()];
    raw.send(&extended).await;
    assert_eq!(summary(&raw.until(b"G").await), "1 2 G");
    assert_eq!(raw.ask(&[copy_data(b"3\tthree\n"), copy_done(), sync()]).await, "C(COPY 1) Z(I)");
    assert_eq!(raw.sql("SELECT count(*) FROM t").await, "T D(3) C(SELECT 1) Z(I)");
}

/// How a copy ends that does not end well, what is told, and whether the client may go on.
fn ends() -> Vec<(Vec<Bytes>, &'static str, &'static str, bool)> {
    vec![
        (vec![copy_fail("my reason")], "57014", "COPY from stdin failed: my reason", true),
        (
            vec![message(b'f', b"\xff\0")],
            "22021",
            "invalid byte sequence for encoding \"UTF8\": 0xff",
            true,
        ),
        (
            vec![query("SELECT 1")],
            "08P01",
            "unexpected message type 0x51 during COPY from stdin",
            false,
        ),
        (
            vec![message(b'p', b"x\0")],
            "08P01",
            "unexpected message type 0x70 during COPY from stdin",
            false,
        ),
        (
            vec![message(b'y', b"")],
            "08P01",
            "unexpected message type 0x79 during COPY from stdin",
            false,
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_given_up_says_why_and_leaves_nothing() {
    let server = server().await;
    for (end, state, reason, goes_on) in ends() {
        let mut raw = Raw::connect(&server, SUPERUSER).await;
        raw.copy(COPY).await;
        raw.send(&[vec![copy_data(b"1\tone\n")], end].concat()).await;
        let replies = raw.until_ready().await;
        let error = &replies[0];
        assert_eq!((error.kind, field(&error.body, b'C').unwrap().as_str()), (b'E', state));
        assert_eq!(field(&error.body, b'M').unwrap(), reason);
        assert_eq!(replies.last().unwrap().kind == b'Z', goes_on, "{reason}");
        let mut raw = if goes_on { raw } else { Raw::connect(&server, SUPERUSER).await };
        assert_eq!(raw.sql("SELECT count(*) FROM t").await, NO_ROWS, "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_failed_fails_its_block() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    raw.sql("BEGIN").await;
    raw.copy(COPY).await;
    assert_eq!(raw.ask(&[copy_fail("no")]).await, "E(57014) Z(E)");
    // What a client sends that did not notice yet.
    raw.send(&[copy_data(b"1\tone\n"), copy_done()]).await;
    assert_eq!(raw.sql("COMMIT").await, "C(ROLLBACK) Z(I)");
    let extended = [parse("", COPY), bind("", ""), execute("", 0)];
    raw.send(&extended).await;
    let failed = [copy_fail("no"), copy_data(b"1\tone\n"), copy_done(), sync()];
    assert_eq!(raw.ask(&failed).await, "1 2 G E(57014) Z(I)");
    assert_eq!(raw.sql("SELECT count(*) FROM t").await, NO_ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_leaves_nothing() {
    let server = server().await;
    for last in [vec![], vec![message(b'X', b"")]] {
        let mut raw = Raw::connect(&server, SUPERUSER).await;
        raw.copy(COPY).await;
        raw.send(&[vec![copy_data(b"1\tone\n")], last].concat()).await;
    }
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    let others = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid()";
    while raw.sql(others).await != NO_ROWS {}
    assert_eq!(raw.sql("SELECT count(*) FROM t").await, NO_ROWS);
}
