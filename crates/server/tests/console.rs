//! The web console's interface over a real socket, by hand.

use std::net::SocketAddr;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::ipc::reader::StreamReader;
use serde_json::{Value, json};
use thalweg_query::Database;
use thalweg_server::auth::AuthConfig;
use thalweg_server::{Server, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const JSON: &str = "Content-Type: application/json\r\n";
const OWN: &str = "Sec-Fetch-Site: same-origin\r\nX-Thalweg-Token: none\r\n";

async fn server(method: AuthConfig) -> Server {
    started(method, |_| {}).await
}

async fn started(method: AuthConfig, change: impl FnOnce(&mut ServerConfig)) -> Server {
    let mut config = ServerConfig::default();
    config.auth.method = method;
    (config.listen.grpc_port, config.listen.postgres_port, config.listen.http_port) = (0, 0, 0);
    change(&mut config);
    let database = Database::in_memory().unwrap();
    database.session().execute("CREATE ROLE eve LOGIN PASSWORD 'secret'").await.unwrap();
    Server::start(config, database).await.unwrap()
}

struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn sqlstate(&self) -> String {
        self.json()["error"]["sqlstate"].as_str().unwrap().to_owned()
    }

    /// The value of a header, in lower case.
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

async fn call(address: SocketAddr, method: &str, path: &str, head: &str, body: &str) -> Answer {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let host = if head.contains("Host: ") { "" } else { "Host: localhost\r\n" };
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{host}{head}Connection: close\r\nContent-Length: {length}\
         \r\n\r\n{body}"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let headers = str::from_utf8(&answer[..end]).unwrap().to_lowercase();
    let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
    let body = match headers.contains("transfer-encoding: chunked") {
        true => unchunked(&answer[end + 4..]),
        false => answer[end + 4..].to_vec(),
    };
    Answer { status, headers, body }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        body.extend_from_slice(&rest[line + 2..line + 2 + length]);
        rest = &rest[(line + 2 + length + 2).min(rest.len())..];
    }
    body
}

async fn get(server: &Server, path: &str, head: &str) -> Answer {
    call(server.addresses().http, "GET", path, head, "").await
}

/// A browser with a session.
struct Browser {
    address: SocketAddr,
    head: String,
}

impl Browser {
    fn new(server: &Server, begun: &Answer) -> Browser {
        assert_eq!(begun.status, 200, "{}", String::from_utf8_lossy(&begun.body));
        let cookie = begun.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let token = begun.json()["token"].as_str().unwrap().to_owned();
        let site = "Sec-Fetch-Site: same-origin\r\n";
        let head = format!("Cookie: a=b; {cookie}\r\nX-Thalweg-Token: {token}\r\n{site}{JSON}");
        Browser { address: server.addresses().http, head }
    }

    async fn trusted(server: &Server) -> Browser {
        Browser::new(server, &get(server, "/console/api/session", OWN).await)
    }

    /// Sends a run, and leaves its answer unread.
    async fn begin(&self, body: &Value) -> TcpStream {
        let (head, body) = (&self.head, body.to_string());
        let length = body.len();
        let request = format!(
            "POST /console/api/run HTTP/1.1\r\nHost: localhost\r\n{head}\
             Content-Length: {length}\r\n\r\n{body}"
        );
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        socket
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        let path = format!("/console/api/{path}");
        call(self.address, "POST", &path, &self.head, &body.to_string()).await
    }

    async fn run(&self, sql: &str) -> Vec<Frame> {
        self.frames(&json!({ "name": "test", "sql": sql })).await
    }

    async fn frames(&self, body: &Value) -> Vec<Frame> {
        let answer = self.post("run", body).await;
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        frames(&answer.body)
    }
}

async fn login(server: &Server, user: &str, password: &str) -> Answer {
    let body = json!({ "user": user, "password": password }).to_string();
    let address = server.addresses().http;
    call(address, "POST", "/console/api/login", &format!("{OWN}{JSON}"), &body).await
}

#[derive(Debug)]
enum Frame {
    Json(Value),
    Arrow(Vec<u8>),
}

fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let [kind, a, b, c, d, rest @ ..] = bytes {
        let length = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        let (contents, after) = rest.split_at(length);
        frames.push(match kind {
            b'j' => Frame::Json(serde_json::from_slice(contents).unwrap()),
            b'a' => Frame::Arrow(contents.to_vec()),
            other => panic!("no kind of frame: {other}"),
        });
        bytes = after;
    }
    assert!(bytes.is_empty());
    frames
}

/// The values of a key in all JSON frames.
fn all<'a>(frames: &'a [Frame], key: &str) -> Vec<&'a Value> {
    let values = frames.iter().filter_map(|frame| match frame {
        Frame::Json(value) => value.get(key),
        Frame::Arrow(_) => None,
    });
    values.collect()
}

/// The texts of the rows of the one result.
fn texts(frames: &[Frame]) -> Vec<Vec<Option<String>>> {
    let bytes = frames.iter().filter_map(|frame| match frame {
        Frame::Arrow(bytes) => Some(bytes.as_slice()),
        Frame::Json(_) => None,
    });
    let bytes = bytes.collect::<Vec<_>>().concat();
    let mut rows = Vec::new();
    for batch in StreamReader::try_new(bytes.as_slice(), None).unwrap() {
        let batch = batch.unwrap();
        rows.extend((0..batch.num_rows()).map(|row| {
            let columns = batch.columns().iter().map(|column| column.as_string::<i32>());
            columns.map(|column| column.iter().nth(row).unwrap().map(str::to_owned)).collect()
        }));
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_the_headers_of_a_page_that_loads_nothing_from_elsewhere() {
    let server = server(AuthConfig::Auto).await;
    let page = get(&server, "/console/", "").await;
    let html = String::from_utf8(page.body.clone()).unwrap();
    let script = html.split('"').find(|part| part.starts_with("assets/app.")).unwrap();
    let script = format!("/console/{script}");
    let gzip = "Accept-Encoding: br, gzip\r\n";
    for (path, head, status) in [
        ("/console/", "", 200),
        (script.as_str(), gzip, 200),
        (script.as_str(), "", 406),
        ("/console/assets/app.js", gzip, 404),
        ("/console/api/session", OWN, 200),
        ("/console/api/session", "", 403),
        ("/console/api/run", OWN, 405),
    ] {
        let answer = get(&server, path, head).await;
        assert_eq!(answer.status, status, "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"));
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"));
        for (name, value) in [
            ("x-frame-options", "deny"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
        assert!(answer.header("cache-control").is_some(), "{path}");
    }
    let file = get(&server, &script, gzip).await;
    assert!(file.header("cache-control").unwrap().contains("immutable"));
    assert_eq!(file.header("content-encoding"), Some("gzip"));
    let tag = format!("If-None-Match: {}\r\n", page.header("etag").unwrap());
    assert_eq!(get(&server, "/console/", &tag).await.status, 304);
    let browser = get(&server, "/", "Accept: text/html,*/*;q=0.8\r\n").await;
    assert_eq!((browser.status, browser.header("location")), (303, Some("/console/")));
    assert_eq!(get(&server, "/", "Accept: */*\r\n").await.status, 404);
    let has_inline = html.contains("<style") || html.contains("style=") || html.contains("onload");
    assert!(!has_inline && !html.contains("<script>"), "{html}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_passwords_opens_at_once() {
    let server = server(AuthConfig::Auto).await;
    let browser = Browser::trusted(&server).await;
    let ran = browser.run("SELECT current_user, 1.50 AS n, NULL AS x").await;
    let expected = [Some("thalweg"), Some("1.50"), None].map(|text| text.map(str::to_owned));
    assert_eq!(texts(&ran), [expected]);
    let columns = all(&ran, "columns")[0];
    assert_eq!(columns[1], json!({ "name": "n", "type": "numeric" }));
    assert_eq!(all(&ran, "end"), [&json!({ "rolled_back": false })]);
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_log_in_with_the_passwords_that_sql_has() {
    let server = server(AuthConfig::Password).await;
    let stranger = get(&server, "/console/api/session", OWN).await;
    assert_eq!((stranger.status, stranger.sqlstate().as_str()), (401, "28000"));
    // A browser would answer a challenge with a dialog of its own.
    assert_eq!(stranger.header("www-authenticate"), None);
    for (user, password) in [("eve", "wrong"), ("nobody", "secret")] {
        let refused = login(&server, user, password).await;
        assert_eq!((refused.status, refused.sqlstate().as_str()), (401, "28P01"));
        assert_eq!(refused.header("set-cookie"), None);
        assert!(!String::from_utf8_lossy(&refused.body).contains(password));
    }
    let begun = login(&server, "eve", "secret").await;
    let cookie = begun.header("set-cookie").unwrap();
    for part in ["; path=/", "; httponly", "; samesite=strict"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let browser = Browser::new(&server, &begun);
    assert_eq!(texts(&browser.run("SELECT current_user").await)[0][0].as_deref(), Some("eve"));
    let denied = browser.run("CREATE ROLE other").await;
    assert_eq!(all(&denied, "error")[0]["sqlstate"], "42501");
    assert_eq!(browser.post("logout", &json!({})).await.status, 200);
    let late = browser.post("run", &json!({ "name": "a", "sql": "SELECT 1" })).await;
    assert_eq!((late.status, late.sqlstate().as_str()), (401, "28000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_password() {
    let server = server(AuthConfig::Password).await;
    let browser = Browser::new(&server, &login(&server, "eve", "secret").await);
    let changed = browser.run("ALTER ROLE eve PASSWORD 'other'").await;
    assert_eq!(all(&changed, "complete").len(), 1, "{changed:?}");
    let late = browser.post("run", &json!({ "name": "a", "sql": "SELECT 1" })).await;
    assert_eq!(late.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_other_sites_have_no_effect() {
    let server = server(AuthConfig::Auto).await;
    let browser = Browser::trusted(&server).await;
    let cookie = browser.head.lines().find(|line| line.starts_with("Cookie")).unwrap();
    let token = browser.head.lines().find(|line| line.starts_with("X-Thalweg")).unwrap();
    let (cookie, token) = (format!("{cookie}\r\n"), format!("{token}\r\n"));
    let body = json!({ "name": "a", "sql": "CREATE TABLE t (n int)" }).to_string();
    for (why, head, status) in [
        ("no token", cookie.clone(), 403),
        ("a wrong token", format!("{cookie}X-Thalweg-Token: {}\r\n", "0".repeat(64)), 403),
        ("no cookie", token.clone(), 401),
        ("another site", format!("{cookie}{token}Sec-Fetch-Site: cross-site\r\n"), 403),
        ("another port", format!("{cookie}{token}Sec-Fetch-Site: same-site\r\n"), 403),
        ("an address bar", format!("{cookie}{token}Sec-Fetch-Site: none\r\n"), 403),
        ("an origin", format!("{cookie}{token}Origin: https://evil.example\r\n"), 403),
        ("no origin", format!("{cookie}{token}Origin: null\r\n"), 403),
        ("a name of another", format!("{cookie}{token}Host: evil.example\r\n"), 401),
    ] {
        let head = format!("{head}{JSON}");
        let answer = call(browser.address, "POST", "/console/api/run", &head, &body).await;
        assert_eq!(answer.status, status, "{why}");
    }
    let rebound = "Host: evil.example\r\nX-Thalweg-Token: none\r\n";
    assert_eq!(get(&server, "/console/api/session", rebound).await.status, 401);
    let own = format!("{cookie}{token}Origin: http://localhost\r\n{JSON}");
    let own = call(browser.address, "POST", "/console/api/run", &own, &body).await;
    assert_eq!(all(&frames(&own.body), "complete")[0]["tag"], "CREATE TABLE");
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_passwords_is_throttled() {
    let server = started(AuthConfig::Password, |config| {
        config.limits.startup_timeout_ms = 400;
    })
    .await;
    let mut states = Vec::new();
    for _ in 0..30 {
        states.push(login(&server, "eve", "wrong").await.sqlstate());
    }
    assert_eq!(states[0], "28P01");
    assert!(states.contains(&"53300".to_owned()), "{states:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_session_of_a_user_makes_room() {
    let server = server(AuthConfig::Auto).await;
    let first = Browser::trusted(&server).await;
    let mut last = Browser::trusted(&server).await;
    for _ in 0..50 {
        last = Browser::trusted(&server).await;
    }
    let run = json!({ "name": "a", "sql": "SELECT 1" });
    assert_eq!(first.post("run", &run).await.status, 401);
    assert_eq!(last.post("run", &run).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_statements_have_several_results_in_one_transaction() {
    let server = server(AuthConfig::Auto).await;
    let browser = Browser::trusted(&server).await;
    let text = "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t VALUES (1), (2);
        SELECT n FROM t ORDER BY n; DROP TABLE IF EXISTS nothing";
    let ran = browser.run(text).await;
    let tags: Vec<&Value> =
        all(&ran, "complete").into_iter().map(|complete| &complete["tag"]).collect();
    assert_eq!(tags, ["CREATE TABLE", "INSERT 0 2", "SELECT", "DROP TABLE"]);
    assert_eq!(texts(&ran).len(), 2);
    assert_eq!(all(&ran, "notice")[0]["severity"], "NOTICE");
    // The position counts characters of the whole text.
    let text = "INSERT INTO t VALUES (3); SELECT 'é', wrong FROM t";
    let failed = browser.run(text).await;
    let error = all(&failed, "error")[0];
    assert_eq!((&error["sqlstate"], &error["position"]), (&json!("42703"), &json!(39)));
    let count = browser.run("SELECT count(*) FROM t").await;
    assert_eq!(texts(&count)[0][0].as_deref(), Some("2"), "the insert was rolled back");
    let open = browser.run("BEGIN; INSERT INTO t VALUES (4)").await;
    assert_eq!(all(&open, "end"), [&json!({ "rolled_back": true })]);
    let committed = browser.run("BEGIN; INSERT INTO t VALUES (5); COMMIT").await;
    assert_eq!(all(&committed, "end"), [&json!({ "rolled_back": false })]);
    let count = browser.run("SELECT count(*) FROM t").await;
    assert_eq!(texts(&count)[0][0].as_deref(), Some("3"));
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_and_limits_and_long_cells() {
    let server = server(AuthConfig::Auto).await;
    let browser = Browser::trusted(&server).await;
    let ran = browser
        .frames(&json!({
            "name": "a", "sql": "SELECT $1::bigint + 1, $2::text", "parameters": [41, null]
        }))
        .await;
    assert_eq!(texts(&ran), [[Some("42".to_owned()), None]]);
    let series = "SELECT i FROM generate_series(1, 1000000) AS g(i)";
    let some = browser.frames(&json!({ "name": "a", "sql": series, "rows_max": 70_000 })).await;
    assert_eq!(all(&some, "complete")[0]["more"], true);
    assert_eq!(all(&some, "complete")[0]["rows"], 70_000);
    let long = browser.run("SELECT 'short' AS a, repeat('x', 5000000) AS b").await;
    assert_eq!(all(&long, "cut"), [&json!([[0, 1, 5_000_000]])]);
    assert_eq!(texts(&long)[0][1].as_ref().unwrap().len(), 16 << 10);
    let copied = browser.run("COPY t FROM STDIN").await;
    assert!(["0A000", "42P01"].contains(&all(&copied, "error")[0]["sqlstate"].as_str().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_have_the_style_that_a_statement_before_has_set() {
    let server = server(AuthConfig::Auto).await;
    let browser = Browser::trusted(&server).await;
    let moment = "SELECT timestamptz '2026-01-05 09:00:00+00' AS at, '\\x6100'::bytea AS b";
    let plain = browser.run(moment).await;
    let expected = |at: &str, bytes: &str| [[Some(at.to_owned()), Some(bytes.to_owned())]];
    assert_eq!(texts(&plain), expected("2026-01-05 09:00:00+00", "\\x6100"));
    let styled = format!("SET TimeZone = 'Asia/Tokyo'; SET bytea_output = 'escape'; {moment}");
    let styled = browser.run(&styled).await;
    assert_eq!(texts(&styled), expected("2026-01-05 18:00:00+09", "a\\000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_changes_rows_changes_all_of_them() {
    let server = server(AuthConfig::Auto).await;
    let browser = Browser::trusted(&server).await;
    browser.run("CREATE TABLE t (n int PRIMARY KEY)").await;
    let insert = "INSERT INTO t SELECT i FROM generate_series(1, 50000) AS g(i) RETURNING n";
    let some = browser.frames(&json!({ "name": "a", "sql": insert, "rows_max": 10 })).await;
    let complete = all(&some, "complete")[0];
    assert_eq!((&complete["rows"], &complete["more"]), (&json!(10), &json!(true)));
    let count = browser.run("SELECT count(*) FROM t").await;
    assert_eq!(texts(&count)[0][0].as_deref(), Some("50000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_beyond_the_limit_is_refused_and_others_are_served() {
    let server = server(AuthConfig::Auto).await;
    let browser = Browser::trusted(&server).await;
    let long = json!({ "name": "a", "sql": " ".repeat(16 << 20) });
    let refused = browser.post("run", &long).await;
    assert_eq!((refused.status, refused.sqlstate().as_str()), (413, "54000"));
    assert_eq!(texts(&browser.run("SELECT 1").await).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_streamed_and_an_error_among_them_is_the_last_word() {
    let server = server(AuthConfig::Auto).await;
    let browser = Browser::trusted(&server).await;
    let whole = browser.run("SELECT i FROM generate_series(1, 200000) AS g(i)").await;
    let pieces = whole.iter().filter(|frame| matches!(frame, Frame::Arrow(_))).count();
    assert!(pieces > 10, "{pieces}");
    assert_eq!(all(&whole, "complete")[0]["rows"], 200_000);
    let sql = "SELECT 1 / (500000 - i) AS n FROM generate_series(1, 1000000) AS g(i)";
    let broken = browser.run(sql).await;
    assert!(broken.iter().any(|frame| matches!(frame, Frame::Arrow(_))));
    assert_eq!(all(&broken, "error")[0]["sqlstate"], "22012");
    assert!(all(&broken, "complete").is_empty());
}

const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 10000000) AS a(i), \
                       generate_series(1, 10000000) AS b(i)";
const RUNNING: &str =
    "SELECT query FROM pg_stat_activity WHERE query LIKE 'SELECT count(*) FROM g%'";

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_cancelled_by_its_session_alone() {
    let server = server(AuthConfig::Auto).await;
    let (browser, other) = (Browser::trusted(&server).await, Browser::trusted(&server).await);
    let head = browser.head.clone();
    let address = browser.address;
    let running = tokio::spawn(async move {
        let browser = Browser { address, head };
        browser.frames(&json!({ "name": "endless", "sql": ENDLESS })).await
    });
    while texts(&other.run(RUNNING).await).is_empty() {
        tokio::task::yield_now().await;
    }
    let name = json!({ "name": "endless" });
    assert_eq!(other.post("cancel", &name).await.json(), json!({ "canceled": false }));
    assert_eq!(browser.post("cancel", &name).await.json(), json!({ "canceled": true }));
    let ran = tokio::time::timeout(Duration::from_secs(60), running).await.unwrap().unwrap();
    assert_eq!(all(&ran, "error")[0]["sqlstate"], "57014");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_the_console_leave_statements_to_other_clients() {
    let server = started(AuthConfig::Auto, |config| config.limits.statements = 4).await;
    let browsers = [(); 3].map(|()| Browser::trusted(&server));
    let [first, second, third] = browsers;
    let (first, second, third) = (first.await, second.await, third.await);
    let endless = json!({ "name": "endless", "sql": ENDLESS });
    let running = tokio::spawn(async move { first.frames(&endless).await });
    let address = server.addresses().http;
    let sql = async |text: &str| call(address, "POST", "/sql", "", text).await;
    while sql(RUNNING).await.body.is_empty() {
        tokio::task::yield_now().await;
    }
    // The console has one of four statements, which the first request uses.
    let waiting = tokio::spawn(async move { second.run("SELECT 1").await });
    for _ in 0..20 {
        assert_eq!(sql("SELECT 1").await.status, 200);
    }
    assert!(!waiting.is_finished());
    let cancel = sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE \
                      'SELECT count(*) FROM g%'");
    assert_eq!(cancel.await.status, 200);
    let ran = tokio::time::timeout(Duration::from_secs(60), running).await.unwrap().unwrap();
    assert_eq!(all(&ran, "error")[0]["sqlstate"], "57014");
    let ran = tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap();
    assert_eq!(texts(&ran).len(), 1);
    let file = third.post("export", &json!({ "sql": "SELECT 1 AS n", "format": "csv" })).await;
    assert_eq!(file.body, b"n\n1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_does_not_read_loses_its_statement() {
    let server = started(AuthConfig::Auto, |config| {
        (config.limits.statements, config.limits.startup_timeout_ms) = (1, 500);
    })
    .await;
    let (stalled, other) = (Browser::trusted(&server).await, Browser::trusted(&server).await);
    let sql = "SELECT repeat('x', 1000) FROM generate_series(1, 10000000) AS g(i)";
    let _socket = stalled.begin(&json!({ "name": "stalled", "sql": sql })).await;
    let ran = tokio::time::timeout(Duration::from_secs(60), other.run("SELECT 1")).await;
    assert_eq!(texts(&ran.unwrap()).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_time_and_size_hold() {
    let server = started(AuthConfig::Auto, |config| config.limits.result_bytes = 100_000).await;
    let browser = Browser::trusted(&server).await;
    let timed = browser.run(&format!("SET statement_timeout = '300ms'; {ENDLESS}")).await;
    assert_eq!(all(&timed, "error")[0]["sqlstate"], "57014");
    let large = browser.run("SELECT i FROM generate_series(1, 1000000) AS g(i)").await;
    assert_eq!(all(&large, "error")[0]["sqlstate"], "54000");
    assert_eq!(texts(&browser.run("SELECT 1").await).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_leaves_ends_its_statement() {
    let server = server(AuthConfig::Auto).await;
    let browser = Browser::trusted(&server).await;
    let socket = browser.begin(&json!({ "name": "endless", "sql": ENDLESS })).await;
    while texts(&browser.run(RUNNING).await).is_empty() {
        tokio::task::yield_now().await;
    }
    drop(socket);
    while !texts(&browser.run(RUNNING).await).is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_exported_as_files() {
    let server = server(AuthConfig::Auto).await;
    let browser = Browser::trusted(&server).await;
    let sql = "SELECT i AS n, 'a,b' AS t FROM generate_series(1, 2) AS g(i)";
    for (format, kind, begin) in [
        ("csv", "text/csv", &b"n,t\n1,\"a,b\"\n"[..]),
        ("json", "application/x-ndjson", b"{\"n\":1"),
        ("arrow", "application/vnd.apache.arrow.file", b"ARROW1"),
        ("parquet", "application/vnd.apache.parquet", b"PAR1"),
    ] {
        let file = browser.post("export", &json!({ "sql": sql, "format": format })).await;
        assert_eq!(file.status, 200, "{format}");
        assert!(file.header("content-type").unwrap().starts_with(kind), "{format}");
        assert!(file.body.starts_with(begin), "{format}");
    }
    let refused = browser.post("export", &json!({ "sql": "SELECT x", "format": "csv" })).await;
    assert_eq!((refused.status, refused.sqlstate().as_str()), (400, "42703"));
    let metrics = call(browser.address, "GET", "/console/api/metrics", &browser.head, "").await;
    assert!(String::from_utf8(metrics.body).unwrap().contains("thalweg_tables_memory_bytes"));
}
