//! `POST /tables/NAME`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::ipc::writer::StreamWriter;
use serde_json::json;
use thalweg_server::auth::AuthConfig;
use thalweg_server::{Server, ServerConfig};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::ingest::{counts, gzip, rows};
use super::{Answer, post, promise, sql, started_with};

const LINES: &str = "Content-Type: application/x-ndjson\r\n";
const JSON: &str = "Content-Type: application/json\r\n";
const CSV: &str = "Content-Type: text/csv\r\n";
const ARROW: &str = "Content-Type: application/vnd.apache.arrow.stream\r\n";
const PARQUET: &str = "Content-Type: application/vnd.apache.parquet\r\n";

const TABLE: &str =
    "CREATE TABLE t (k bigint PRIMARY KEY, v text DEFAULT 'none', n integer CHECK (n > 0))";

async fn with_table(method: AuthConfig) -> Server {
    let mut config = ServerConfig::default();
    config.auth.method = method;
    started_with(config, &[TABLE]).await
}

fn batch(keys: Vec<i64>, values: Vec<Option<&str>>) -> RecordBatch {
    let columns: [(&str, ArrayRef); 2] =
        [("k", Arc::new(Int64Array::from(keys))), ("v", Arc::new(StringArray::from(values)))];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn arrow_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn written(answer: &Answer, rows: u64) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json(), json!({"rows": rows, "rejected": 0, "errors": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_in_every_format() {
    let server = with_table(AuthConfig::Auto).await;
    let arrow = arrow_stream(&[batch(vec![1, 2], vec![Some("a"), None])]);
    let parquet = parquet_file(&server).await;
    for (kind, body) in [
        (LINES, b"{\"k\": 1, \"v\": \"a\"}\n\n{\"v\": null, \"k\": 2}\n".to_vec()),
        (JSON, b" [{\"k\": 1,\n \"v\": \"a\"},\n {\"k\": 2}]\n".to_vec()),
        (CSV, b"v,k\r\na,1\r\n,2\r\n".to_vec()),
        (CSV, b"\xef\xbb\xbfk,v\n1,a\n2,\n".to_vec()),
        (ARROW, arrow),
        (PARQUET, parquet),
    ] {
        for mode in ["", "?mode=upsert", "?mode=upsert", "?mode=insert"] {
            sql(&server, "DELETE FROM t").await;
            for (path, coding, body) in [
                ("/tables/t", "", body.clone()),
                ("/tables/public.t", "Content-Encoding: gzip\r\n", gzip(&body)),
            ] {
                sql(&server, "DELETE FROM t").await;
                let head = format!("{kind}{coding}");
                written(&post(&server, &format!("{path}{mode}"), &head, &body).await, 2);
                let found = rows(&server, "SELECT k, v, n FROM t ORDER BY k").await;
                let expected =
                    [json!({"k": 1, "v": "a", "n": null}), json!({"k": 2, "v": null, "n": null})];
                assert_eq!(found, expected, "{kind}{mode}");
            }
        }
    }
}

/// The rows of the other formats, written by the server itself.
#[expect(clippy::disallowed_methods, reason = "the file is the test's own")]
async fn parquet_file(server: &Server) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    let query = "SELECT 1::bigint AS k, 'a' AS v UNION ALL SELECT 2, NULL ORDER BY 1";
    let copied = sql(server, &format!("COPY ({query}) TO '{}'", path.display())).await;
    assert_eq!(copied.status, 200, "{}", copied.text());
    std::fs::read(path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_writes_all_rows_or_none() {
    let server = with_table(AuthConfig::Auto).await;
    sql(&server, "INSERT INTO t VALUES (3)").await;
    for (kind, body, state) in [
        (LINES, "{\"k\": 1}\n{\"k\": 3}\n", "23505"),
        (LINES, "{\"k\": 1}\n{\"k\": \"x\"}\n", "22P02"),
        (LINES, "{\"k\": 1}\nnonsense\n", "22P02"),
        (LINES, "{\"k\": 1}\n{\"k\": 2, \"other\": 1}\n", "42703"),
        (LINES, "{\"k\": 1, \"n\": 1}\n{\"k\": 2, \"n\": -1}\n", "23514"),
        (JSON, "[{\"k\": 1}, {\"k\": 2}", "22P02"),
        (JSON, "{\"k\": 1} {\"k\": 2}", "22P02"),
        (CSV, "k,v\n1,a\n2\n", "22P04"),
        (CSV, "k,other\n1,a\n", "42703"),
        (CSV, "k,v\n1,\"a\n", "22P04"),
    ] {
        let answer = post(&server, "/tables/t", kind, body).await;
        assert!((400..500).contains(&answer.status), "{body} {}", answer.text());
        let told = answer.json();
        assert_eq!(told["error"]["sqlstate"], state, "{body} {told}");
        assert_eq!(told["rows"], 0);
        assert_eq!(rows(&server, "SELECT k FROM t").await, [json!({"k": 3})], "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upsert_writes_each_row_by_itself() {
    let server = with_table(AuthConfig::Auto).await;
    sql(&server, "INSERT INTO t VALUES (1, 'old', 7)").await;
    let body = "{\"k\": 1, \"v\": \"new\"}\nnonsense\n{\"k\": 2}\n{\"v\": \"no key\"}\n\
        {\"k\": 3, \"n\": 1}\n{\"k\": \"x\"}\n{\"k\": 4}";
    let answer = post(&server, "/tables/t?mode=upsert", LINES, body).await;
    assert_eq!(answer.status, 400);
    assert_eq!(
        counts(&answer),
        json!([[2, "22P02"], [4, "23502"], [5, "42703"], [6, "22P02"]]),
        "{}",
        answer.text()
    );
    let told = answer.json();
    assert_eq!((&told["rows"], &told["rejected"]), (&json!(3), &json!(4)));
    assert_eq!(
        rows(&server, "SELECT k, v, n FROM t ORDER BY k").await,
        [
            json!({"k": 1, "v": "new", "n": 7}),
            json!({"k": 2, "v": null, "n": null}),
            json!({"k": 4, "v": null, "n": null}),
        ]
    );
    let checked =
        post(&server, "/tables/t?mode=upsert&columns=k,n", LINES, "{\"k\":1,\"n\":-1}").await;
    assert_eq!((checked.status, counts(&checked)), (400, json!([[1, "23514"]])));
    sql(&server, "CREATE TABLE keyless (k bigint)").await;
    let keyless = post(&server, "/tables/keyless?mode=upsert", LINES, "{\"k\": 1}").await;
    assert_eq!(keyless.json()["error"]["sqlstate"], "55000");
    written(&post(&server, "/tables/keyless", LINES, "{\"k\": 1}").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn options_name_columns_and_leave_out_headers() {
    let server = with_table(AuthConfig::Auto).await;
    let path = "/tables/t?columns=k,v";
    written(&post(&server, path, LINES, "{\"k\": 1}\n{\"v\": \"a\", \"k\": 2}").await, 2);
    written(&post(&server, "/tables/t?header=false&columns=v,k", CSV, "b,3\n").await, 1);
    written(&post(&server, "/tables/t?columns=k", LINES, "{\"k\": 4}").await, 1);
    assert_eq!(
        rows(&server, "SELECT k, v FROM t ORDER BY k").await,
        [
            json!({"k": 1, "v": null}),
            json!({"k": 2, "v": "a"}),
            json!({"k": 3, "v": "b"}),
            json!({"k": 4, "v": "none"}),
        ]
    );
    for (path, kind) in [
        ("/tables/t?mode=merge", LINES),
        ("/tables/t?columns=k", CSV),
        ("/tables/t?header=true", LINES),
        ("/tables/a.b.c", LINES),
        ("/tables/t?columns=k,k", LINES),
        ("/tables/nowhere", LINES),
    ] {
        assert_eq!(post(&server, path, kind, "{\"k\": 9}").await.status, 400, "{path}");
    }
    for empty in [LINES, CSV] {
        written(&post(&server, "/tables/t", empty, "").await, 0);
    }
    written(&post(&server, "/tables/t", JSON, "[]").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_insert_may_send_rows_and_nobody_else() {
    let server = with_table(AuthConfig::Password).await;
    let eve = format!("{LINES}Authorization: Basic ZXZlOnNlY3JldA==\r\n");
    let stranger = post(&server, "/tables/t", LINES, "{\"k\": 1}").await;
    assert_eq!(stranger.status, 401);
    for mode in ["insert", "upsert"] {
        let denied = post(&server, &format!("/tables/t?mode={mode}"), &eve, "{\"k\": 1}").await;
        assert_eq!((denied.status, &denied.json()["error"]["sqlstate"]), (403, &json!("42501")));
    }
    let page = format!("{eve}Origin: http://evil.example\r\n");
    assert_eq!(post(&server, "/tables/t", &page, "{\"k\": 1}").await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_bodies_end_with_an_error_and_leave_nothing_behind() {
    let mut config = ServerConfig::default();
    config.ingest.body_bytes = 4 << 20;
    config.limits.record_message_bytes = 100_000;
    let other = "CREATE TABLE j (k bigint PRIMARY KEY, j jsonb)";
    let server = started_with(config, &[TABLE, other]).await;
    let deep = format!("{{\"k\": 1, \"j\": {}{}}}", "[".repeat(40_000), "]".repeat(40_000));
    assert_eq!(post(&server, "/tables/j", LINES, &deep).await.status / 100, 4);
    let deep = "[".repeat(1 << 20);
    assert_eq!(post(&server, "/tables/j", JSON, &deep).await.status / 100, 4);
    let long = format!("{{\"k\": 1, \"v\": \"{}\"}}", "x".repeat(1 << 20));
    assert_eq!(post(&server, "/tables/t", LINES, &long).await.status, 413);
    let quote = format!("k,v\n1,\"{}", "x".repeat(1 << 20));
    assert_eq!(post(&server, "/tables/t", CSV, &quote).await.status, 413);
    let header = format!("\"{}", "x".repeat(1 << 20));
    assert_eq!(post(&server, "/tables/t", CSV, &header).await.status, 413);
    for body in [&b"{\"k\": 1, \"v\": \"\xff\"}"[..], b"{\"k\": 1, \"v\": \"\\u0000\"}"] {
        let answer = post(&server, "/tables/t", LINES, body).await;
        assert_eq!(answer.json()["error"]["sqlstate"], "22021", "{}", answer.text());
    }
    let bomb = gzip(&vec![b'\n'; 64 << 20]);
    let encoded = format!("{LINES}Content-Encoding: gzip\r\n");
    assert_eq!(post(&server, "/tables/t", &encoded, &bomb).await.status, 413);
    let arrow = arrow_stream(&[batch(vec![1], vec![Some("a")])]);
    for end in (1..arrow.len() - 9).step_by(7) {
        let answer = post(&server, "/tables/t", ARROW, &arrow[..end]).await;
        let is_whole = answer.status == 200;
        assert!(is_whole || answer.status / 100 == 4, "{end} {}", answer.text());
        sql(&server, "DELETE FROM t").await;
    }
    for at in 0..arrow.len() {
        let mut damaged = arrow.clone();
        damaged[at] ^= 0xff;
        assert!(post(&server, "/tables/t", ARROW, &damaged).await.status < 500, "{at}");
    }
    assert_eq!(post(&server, "/tables/t", PARQUET, "PAR1 not parquet").await.status, 400);
    for kind in ["", "Content-Type: text/plain\r\n"] {
        assert_eq!(post(&server, "/tables/t", kind, "{\"k\": 1}").await.status, 415);
    }
    sql(&server, "DELETE FROM t").await;
    let healthy = post(&server, "/tables/t", LINES, "{\"k\": 1}").await;
    written(&healthy, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_or_pauses_writes_nothing() {
    let mut config = ServerConfig::default();
    config.limits.startup_timeout_ms = 300;
    let server = started_with(config, &[TABLE]).await;
    let address = server.addresses().http;
    let head = format!("POST /tables/t HTTP/1.1\r\nHost: localhost\r\n{LINES}");
    let paused = promise(address, &head, "{\"k\": 1}\n", 1_000).await;
    assert_eq!(paused.status, 408, "{}", paused.text());
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("{head}Content-Length: 1000\r\n\r\n{{\"k\": 2}}\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    drop(socket);
    let others = "SELECT count(*) AS n FROM pg_stat_activity WHERE query LIKE 'POST /tables%'";
    while rows(&server, others).await != [json!({"n": 0})] {
        tokio::task::yield_now().await;
    }
    assert!(rows(&server, "SELECT k FROM t").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_rows_are_written_in_pieces() {
    let server = with_table(AuthConfig::Auto).await;
    let body: String = (0..100_000).map(|k| format!("{{\"k\": {k}, \"v\": \"é{k}\"}}\n")).collect();
    written(&post(&server, "/tables/t", LINES, &body).await, 100_000);
    written(&post(&server, "/tables/t?mode=upsert", LINES, &body).await, 100_000);
    let csv: String = (0..100_000).map(|k| format!("{k},\"a\nb\"\n")).collect();
    written(&post(&server, "/tables/t?mode=upsert", CSV, format!("k,v\n{csv}")).await, 100_000);
    let batches: Vec<RecordBatch> = (0..20)
        .map(|n| batch((n * 1_000..n * 1_000 + 1_000).collect(), vec![None; 1_000]))
        .collect();
    written(&post(&server, "/tables/t?mode=upsert", ARROW, arrow_stream(&batches)).await, 20_000);
    let query = "SELECT count(*) AS n, count(v) AS v FROM t";
    assert_eq!(rows(&server, query).await, [json!({"n": 100_000, "v": 80_000})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_rows_that_find_no_memory_may_be_sent_again() {
    let mut config = ServerConfig::default();
    config.limits.record_bytes = 100_000;
    config.limits.message_bytes = 100_000;
    config.ingest.create_tables = true;
    let server = started_with(config, &[TABLE]).await;
    let long = "x".repeat(600_000);
    for (path, kind, body) in [
        ("/tables/t", LINES, format!("{{\"k\": 1, \"v\": \"{long}\"}}")),
        ("/tables/t", JSON, format!("[{{\"k\": 1, \"v\": \"{long}\"}}]")),
        ("/tables/t?mode=upsert", CSV, format!("k,v\n1,{long}\n")),
        ("/write?db=x", "", format!("m v=\"{long}\" 1000")),
    ] {
        let answer = post(&server, path, kind, &body).await;
        assert_eq!(answer.status, 503, "{path} {kind} {}", answer.text());
        assert!(answer.text().contains("53200"), "{}", answer.text());
    }
    // Bodies of short rows need no reservation, however long they are.
    let body: String = (0..50_000).map(|k| format!("{{\"k\": {k}, \"v\": \"a\"}}\n")).collect();
    written(&post(&server, "/tables/t", LINES, &body).await, 50_000);
    let lines: String = (0..50_000).map(|n| format!("m v={n} {n}\n")).collect();
    assert_eq!(post(&server, "/write?db=x", "", &lines).await.status, 204);
    assert_eq!(rows(&server, "SELECT count(*) AS n FROM m").await, [json!({"n": 50_000})]);
}
