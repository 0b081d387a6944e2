//! HTTP over a real socket, by hand.

mod influx;
mod ingest;
mod tables;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::ipc::reader::StreamReader;
use serde_json::{Value, json};
use thalweg_env::{DiskCondition, Env};
use thalweg_query::Database;
use thalweg_server::auth::AuthConfig;
use thalweg_server::{Monitor, Ready, Server, ServerConfig};
use thalweg_types::{Error, SqlState};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const JSON: &str = "Content-Type: application/json\r\n";

async fn server(method: AuthConfig) -> Server {
    let mut config = ServerConfig::default();
    config.auth.method = method;
    started(config).await
}

fn anywhere(mut config: ServerConfig) -> ServerConfig {
    config.listen.grpc_port = 0;
    config.listen.postgres_port = 0;
    config.listen.http_port = 0;
    config
}

async fn started(config: ServerConfig) -> Server {
    started_with(config, &[]).await
}

/// A server whose superuser has run some statements.
async fn started_with(config: ServerConfig, statements: &[&str]) -> Server {
    started_on(config, Database::in_memory().unwrap(), statements).await
}

async fn started_on(config: ServerConfig, database: Database, statements: &[&str]) -> Server {
    let config = anywhere(config);
    let mut session = database.session();
    for statement in ["CREATE ROLE eve LOGIN PASSWORD 'secret'"].iter().chain(statements) {
        session.execute(statement).await.unwrap();
    }
    Server::start(config, database).await.unwrap()
}

struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
    /// Whether the body came to its end.
    is_whole: bool,
}

impl Answer {
    fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

async fn call(address: SocketAddr, head: &str, body: impl AsRef<[u8]>) -> Answer {
    let length = body.as_ref().len();
    promise(address, head, body, length).await
}

/// Sends a body and says that it has so many bytes.
async fn promise(address: SocketAddr, head: &str, body: impl AsRef<[u8]>, length: usize) -> Answer {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("{head}Connection: close\r\nContent-Length: {length}\r\n\r\n");
    let request = [request.as_bytes(), body.as_ref()].concat();
    // A server that refuses the body may close the connection before it has read all of it.
    let _ = socket.write_all(&request).await;
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer).await;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let headers = str::from_utf8(&answer[..end]).unwrap().to_lowercase();
    let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
    let mut rest = &answer[end + 4..];
    if !headers.contains("transfer-encoding: chunked") {
        return Answer { status, headers, body: rest.to_vec(), is_whole: true };
    }
    let mut body = Vec::new();
    while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if length == 0 {
            return Answer { status, headers, body, is_whole: true };
        }
        body.extend_from_slice(&rest[line + 2..line + 2 + length]);
        rest = &rest[line + 2 + length + 2..];
    }
    Answer { status, headers, body, is_whole: false }
}

async fn get(server: &Server, path: &str) -> Answer {
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n");
    call(server.addresses().http, &head, "").await
}

async fn post(server: &Server, path: &str, headers: &str, body: impl AsRef<[u8]>) -> Answer {
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}");
    call(server.addresses().http, &head, body).await
}

async fn sql(server: &Server, statement: &str) -> Answer {
    post(server, "/sql", "", statement).await
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_metrics_are_told() {
    let server = server(AuthConfig::Auto).await;
    for path in ["/health/live", "/health/ready"] {
        assert_eq!(get(&server, path).await.status, 200, "{path}");
    }
    assert_eq!(sql(&server, "SELECT 1 AS one").await.status, 200);
    assert_eq!(sql(&server, "SELECT * FROM nowhere").await.status, 400);
    let page = get(&server, "/metrics").await;
    for line in [
        "thalweg_statements_total{front_end=\"http\",kind=\"select\"} 2",
        "thalweg_errors_total{front_end=\"http\",class=\"42\"} 1",
        "thalweg_rows_sent_total{front_end=\"http\"} 1",
    ] {
        assert!(page.text().lines().any(|found| found == line), "{line}\n{}", page.text());
    }
    assert!(page.text().contains("\nthalweg_tables_memory_bytes "));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_storage_fails_is_not_ready_until_it_has_recovered() {
    let (env, disk, clock) = Env::simulated(3);
    let database = Database::builder().env(env).directory("/data/database").open().unwrap();
    let mut session = database.session();
    session.execute("CREATE TABLE t (n bigint PRIMARY KEY)").await.unwrap();
    let config = anywhere(ServerConfig::default());
    let server = Server::start(config, database.clone()).await.unwrap();
    let healthy = |page: &str, reason: &str, is_healthy: u8| {
        let line = format!("thalweg_storage_healthy{{reason=\"{reason}\"}} {is_healthy}");
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    };
    assert_eq!(get(&server, "/health/ready").await.text(), "ready\n");
    healthy(get(&server, "/metrics").await.text(), "disk_full", 1);
    disk.set_condition(DiskCondition::Full);
    assert!(session.execute("INSERT INTO t VALUES (1)").await.is_err());
    let told = get(&server, "/health/ready").await;
    assert_eq!(told.status, 503);
    assert!(told.text().contains("disk_full: the disk is full"), "{}", told.text());
    assert!(!told.text().contains("/data"), "anybody may ask: {}", told.text());
    healthy(get(&server, "/metrics").await.text(), "disk_full", 0);
    assert_eq!(get(&server, "/health/live").await.status, 200);
    disk.set_condition(DiskCondition::Healthy);
    // The database tries by itself, though no client writes.
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(20));
    while get(&server, "/health/ready").await.text() != "ready\n" {
        clock.advance(std::time::Duration::from_secs(2));
        ticks.tick().await;
    }
    healthy(get(&server, "/metrics").await.text(), "disk_full", 1);
    session.execute("INSERT INTO t VALUES (1)").await.unwrap();
    // A checkpoint that failed refuses no writes.
    disk.set_condition(DiskCondition::FailingSyncs);
    database.checkpoint().unwrap_err();
    let told = get(&server, "/health/ready").await;
    assert_eq!(told.status, 200);
    assert!(told.text().contains("checkpoint_failed: "), "{}", told.text());
    healthy(get(&server, "/metrics").await.text(), "checkpoint_failed", 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_serves_no_clients_has_health_and_metrics_alone() {
    let databases = || vec![Database::in_memory().unwrap(), Database::in_memory().unwrap()];
    let is_ready = Arc::new(AtomicBool::new(false));
    let ready: Ready = {
        let is_ready = Arc::clone(&is_ready);
        Arc::new(move || match is_ready.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(Error::new(SqlState::CANNOT_CONNECT_NOW, "not yet")),
        })
    };
    let config = anywhere(ServerConfig::default());
    let monitor = Monitor::start(config, databases(), Arc::clone(&ready)).unwrap();
    let get = async |path: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n");
        call(monitor.address(), &head, "").await
    };
    assert_eq!(get("/health/live").await.status, 200);
    let told = get("/health/ready").await;
    assert_eq!((told.status, told.text()), (503, "not yet\n"));
    is_ready.store(true, Ordering::Relaxed);
    assert_eq!(get("/health/ready").await.text(), "ready\n");
    assert!(get("/metrics").await.text().contains("thalweg_storage_healthy"));
    assert_eq!(get("/sql").await.status, 404);
    // The rules are a server's.
    let mut config = anywhere(ServerConfig::default());
    config.listen.address = Ipv4Addr::UNSPECIFIED.into();
    config.auth.method = AuthConfig::Trust;
    assert!(Monitor::start(config.clone(), databases(), Arc::clone(&ready)).is_err());
    config.auth.method = AuthConfig::Auto;
    let monitor = Monitor::start(config, databases(), ready).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], monitor.address().port()));
    let get = async |path: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n");
        call(address, &head, "").await
    };
    assert_eq!(get("/metrics").await.status, 401);
    assert_eq!(get("/health/ready").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_in_the_form_that_is_asked_for() {
    let server = server(AuthConfig::Auto).await;
    let statement = "SELECT i AS n, 'a,b' AS t FROM generate_series(1, 3) AS g(i)";
    let lines = sql(&server, statement).await;
    assert!(lines.headers.contains("content-type: application/x-ndjson"), "{}", lines.headers);
    let first: Value = serde_json::from_str(lines.text().lines().next().unwrap()).unwrap();
    assert_eq!((first, lines.text().lines().count()), (json!({"n": 1, "t": "a,b"}), 3));
    let csv = post(&server, "/sql", "Accept: text/csv\r\n", statement).await;
    assert_eq!(csv.text(), "n,t\n1,\"a,b\"\n2,\"a,b\"\n3,\"a,b\"\n");
    let arrow = post(&server, "/sql?format=arrow", "", statement).await;
    let batches = StreamReader::try_new(arrow.body.as_slice(), None).unwrap();
    assert_eq!(batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 3);
    assert!(lines.is_whole && csv.is_whole && arrow.is_whole);
    let none = post(&server, "/sql?format=csv", "", "SELECT 1 AS one WHERE false").await;
    assert_eq!((none.text(), none.is_whole), ("one\n", true));
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_take_parameters_and_tell_what_they_did() {
    let server = server(AuthConfig::Auto).await;
    assert_eq!(
        sql(&server, "CREATE TABLE t (n bigint PRIMARY KEY, name text)").await.json()["tag"],
        "CREATE TABLE"
    );
    let insert = r#"{"sql": "INSERT INTO t VALUES ($1, $2)", "parameters": [7, null]}"#;
    let told = post(&server, "/sql", JSON, insert).await;
    assert_eq!((told.status, &told.json()["tag"]), (200, &json!("INSERT 0 1")));
    let select = r#"{"sql": "SELECT n, name FROM t WHERE n = $1", "parameters": ["7"]}"#;
    let rows = post(&server, "/sql", JSON, select).await;
    assert_eq!(rows.json(), json!({"n": 7, "name": null}));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_say_everything() {
    let server = server(AuthConfig::Auto).await;
    let refused = sql(&server, "SELECT nothing FROM (SELECT 1 AS n) a").await;
    let error = &refused.json()["error"];
    assert_eq!((refused.status, &error["sqlstate"]), (400, &json!("42703")));
    assert_eq!(error["message"], "column \"nothing\" does not exist");
    assert_eq!(error["position"], 8);
    assert_eq!(sql(&server, "BEGIN").await.json()["error"]["sqlstate"], "25P01");
    assert_eq!(sql(&server, "SELECT 1/0 AS n").await.status, 400);
    assert_eq!(get(&server, "/nowhere").await.status, 404);
    assert_eq!(get(&server, "/sql").await.status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_among_the_rows_breaks_the_body_off() {
    let server = server(AuthConfig::Auto).await;
    let statement = "SELECT 1 / (500000 - i) AS n FROM generate_series(1, 1000000) AS g(i)";
    let broken = sql(&server, statement).await;
    assert_eq!(broken.status, 200);
    assert!(!broken.is_whole && !broken.body.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_web_pages_are_kept_out() {
    let open = server(AuthConfig::Auto).await;
    let page = post(&open, "/sql", "Origin: https://evil.example\r\n", "SELECT 1").await;
    assert_eq!(page.status, 403);
    let head = "POST /sql HTTP/1.1\r\nHost: evil.example\r\n";
    assert_eq!(call(open.addresses().http, head, "SELECT 1").await.status, 401);
    let guarded = server(AuthConfig::Password).await;
    let stranger = sql(&guarded, "SELECT 1").await;
    assert_eq!(stranger.status, 401);
    assert!(stranger.headers.contains("www-authenticate: basic"));
    // eve:wrong and eve:secret
    let wrong = post(&guarded, "/sql", "Authorization: Basic ZXZlOndyb25n\r\n", "SELECT 1").await;
    assert_eq!((wrong.status, &wrong.json()["error"]["sqlstate"]), (401, &json!("28P01")));
    let basic = "Authorization: Basic ZXZlOnNlY3JldA==\r\n";
    let eve = post(&guarded, "/sql", basic, "SELECT current_user AS me").await;
    assert_eq!((eve.status, eve.json()), (200, json!({"me": "eve"})));
}

/// The SQLSTATE that an answer tells, which has to be in the form of all errors.
fn sqlstate(answer: &Answer) -> String {
    assert!(answer.headers.contains("content-type: application/json"), "{}", answer.headers);
    answer.json()["error"]["sqlstate"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_of_a_statement_has_one_form() {
    let server = server(AuthConfig::Auto).await;
    let wide = |count: usize| vec!["1"; count].join(", ");
    let table: Vec<String> = (0..1_601).map(|number| format!("c{number} int")).collect();
    let long = " ".repeat((16 << 20) + 1);
    for (path, headers, body, status, state) in [
        ("/sql?format=csv&format=json", "", "SELECT 1", 400, "22023"),
        ("/sql?fromat=csv", "", "SELECT 1", 400, "22023"),
        ("/sql?format=xml", "", "SELECT 1", 400, "22023"),
        ("/sql", "", long.as_str(), 413, "54000"),
        ("/sql", "", "SELECT 'a\0b'", 400, "22021"),
        ("/sql", JSON, r#"{"sql": "SELECT 'a\u0000b'"}"#, 400, "22021"),
        ("/sql", JSON, r#"{"sql": "SELECT $1::text", "parameters": ["\u0000"]}"#, 400, "22021"),
        ("/sql", JSON, r#"{"sql": "SELECT $1::text[]", "parameters": ["{\u0000}"]}"#, 400, "22021"),
        ("/sql", JSON, r#"{"sql": "SELECT $1", "parameters": [1, 2]}"#, 400, "08P01"),
        ("/sql", "", "SELECT $1", 400, "42P02"),
        ("/sql", "", "SELECT 1 WHERE 1 IN ($2)", 400, "42P02"),
        ("/sql", "", "CREATE VIEW v AS SELECT $1", 400, "42P02"),
        ("/sql", "", &format!("SELECT {}", wide(70_000)), 413, "54011"),
        ("/sql", "", &format!("SELECT * FROM (SELECT {}) a", wide(1_665)), 413, "54011"),
        ("/sql", "", &format!("VALUES ({})", wide(1_665)), 413, "54011"),
        ("/sql", "", &format!("CREATE TABLE wide ({})", table.join(", ")), 413, "54011"),
        ("/sql", "", "SELECT repeat('x', 2000000000)", 413, "54000"),
        ("/sql", "", "SELECT lpad('x', 2000000000)", 413, "54000"),
        ("/sql", "", "COPY (SELECT 1) TO STDOUT (FORMAT binary)", 501, "0A000"),
    ] {
        let answer = post(&server, path, headers, body).await;
        let told = format!("{path} {}", &body[..body.len().min(80)]);
        assert_eq!((answer.status, sqlstate(&answer).as_str()), (status, state), "{told}");
    }
    let widest = format!("SELECT {}", wide(1_664));
    assert_eq!(sql(&server, &widest).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_keep_their_digits() {
    let server = server(AuthConfig::Auto).await;
    let body = r#"{"sql":
        "SELECT $1::numeric(30, 2)::text AS a, $2::bigint::text AS b, $3::text AS c",
        "parameters": [12345678901234567890.10, 9007199254740993, 1.50]}"#;
    let answer = post(&server, "/sql", JSON, body).await;
    let expected = json!({"a": "12345678901234567890.10", "b": "9007199254740993", "c": "1.50"});
    assert_eq!(answer.json(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_says_itself_how_its_rows_look() {
    let server = server(AuthConfig::Auto).await;
    let rows = "COPY (SELECT 1 AS a, NULL AS b, 'x' AS c) TO STDOUT";
    for (options, kind, body) in [
        ("", "text/plain", "1\t\\N\tx\n"),
        (" (DELIMITER ';', NULL '-')", "text/plain", "1;-;x\n"),
        (" (FORMAT csv)", "text/csv", "1,,x\n"),
        (" DELIMITER '|' CSV HEADER QUOTE '*' FORCE QUOTE c", "text/csv", "a|b|c\n1||*x*\n"),
    ] {
        let answer = post(&server, "/sql?format=json", "", &format!("{rows}{options}")).await;
        assert_eq!((answer.status, answer.text()), (200, body), "{options}");
        assert!(answer.headers.contains(&format!("content-type: {kind}")), "{}", answer.headers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_is_refused_ahead_of_what_they_send() {
    let guarded = server(AuthConfig::Password).await;
    let head = "POST /sql HTTP/1.1\r\nHost: localhost\r\n";
    // The statement never comes.
    let stranger = promise(guarded.addresses().http, head, "", 1 << 20).await;
    assert_eq!((stranger.status, sqlstate(&stranger).as_str()), (401, "28000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_never_comes_is_not_waited_for() {
    let mut config = ServerConfig::default();
    config.limits.startup_timeout_ms = 50;
    let server = started(config).await;
    let head = "POST /sql HTTP/1.1\r\nHost: localhost\r\n";
    let late = promise(server.addresses().http, head, "SELECT", 8).await;
    assert_eq!(sqlstate(&late), "08006");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_says_so_until_everybody_is_gone() {
    let server = server(AuthConfig::Auto).await;
    let address = server.addresses().http;
    let mut reader = TcpStream::connect(address).await.unwrap();
    let endless = "SELECT a.i FROM generate_series(1, 1000000) AS a(i), \
                   generate_series(1, 1000000) AS b(i)";
    let length = endless.len();
    let request = format!(
        "POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{endless}"
    );
    reader.write_all(request.as_bytes()).await.unwrap();
    reader.read_exact(&mut [0; 100]).await.unwrap();
    let ending = tokio::spawn(server.shut_down());
    let ready = "GET /health/ready HTTP/1.1\r\nHost: localhost\r\n";
    while call(address, ready, "").await.status == 200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(call(address, ready, "").await.text(), "shutting down\n");
    let live = "GET /health/live HTTP/1.1\r\nHost: localhost\r\n";
    assert_eq!(call(address, live, "").await.status, 200);
    let head = "POST /sql HTTP/1.1\r\nHost: localhost\r\n";
    let late = call(address, head, "SELECT 1").await;
    assert_eq!((late.status, sqlstate(&late).as_str()), (503, "57P03"));
    drop(reader);
    ending.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
