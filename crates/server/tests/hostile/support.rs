//! A server, well-behaved clients of each of its ports, and how to tell that nothing is left over.

use std::net::SocketAddr;
use std::time::Duration;

use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use thalweg_query::Database;
use thalweg_server::{Server, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::NoTls;
use tonic::transport::{Channel, Endpoint};

/// Rows that take for ever to send.
pub const ENDLESS: &str =
    "SELECT n, repeat('x', 1000) AS x FROM generate_series(1, 1000000000000) AS g(n)";
/// Work that takes for ever before there is a row.
pub const TOIL: &str =
    "SELECT count(*) FROM generate_series(1, 1000000000000) AS g(n) WHERE n % 7 = 8";

const POLL: Duration = Duration::from_millis(20);
/// What has not come to pass after so many polls never will.
const POLLS: usize = 6_000;

/// A server in which `eve` may log in, with the password `secret`.
pub async fn server(change: impl FnOnce(&mut ServerConfig)) -> Server {
    let mut config = ServerConfig::default();
    config.listen.grpc_port = 0;
    config.listen.postgres_port = 0;
    config.listen.http_port = 0;
    change(&mut config);
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    session.execute("CREATE ROLE eve LOGIN PASSWORD 'secret'").await.unwrap();
    session.execute("CREATE TABLE t (id bigint PRIMARY KEY, x text)").await.unwrap();
    Server::start(config, database).await.unwrap()
}

pub async fn connect(
    server: &Server,
    options: &str,
) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let address = server.addresses().postgres;
    let config = format!("host={} port={} {options}", address.ip(), address.port());
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

pub async fn admin(server: &Server) -> tokio_postgres::Client {
    connect(server, "user=thalweg").await.unwrap()
}

/// The SQLSTATE that a client was told.
pub fn state(error: &tokio_postgres::Error) -> String {
    let error = error.as_db_error().unwrap_or_else(|| panic!("the server said nothing: {error}"));
    error.code().code().to_owned()
}

pub type Flight = FlightSqlServiceClient<Channel>;

pub async fn channel(server: &Server) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.addresses().grpc)).unwrap();
    endpoint.connect().await.unwrap()
}

pub async fn flight(server: &Server) -> Flight {
    FlightSqlServiceClient::new(channel(server).await)
}

/// The number of rows of a query.
pub async fn flight_rows(client: &mut Flight, sql: &str) -> Result<usize, FlightError> {
    let info = client.execute(sql.to_owned(), None).await?;
    let ticket = info.endpoint[0].ticket.clone().expect("an endpoint has a ticket");
    let mut rows = client.do_get(ticket).await?;
    let mut count = 0;
    while let Some(batch) = rows.try_next().await? {
        count += batch.num_rows();
    }
    Ok(count)
}

/// The SQLSTATE of an error over gRPC.
pub fn flight_state(error: FlightError) -> String {
    let FlightError::Tonic(status) = error else { panic!("{error}") };
    let state = status.metadata().get("sqlstate");
    let state = state.unwrap_or_else(|| panic!("no SQLSTATE in {status:?}"));
    state.to_str().unwrap().to_owned()
}

/// A request, and everything that came back.
pub async fn http(address: SocketAddr, head: &str, body: &[u8]) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let head =
        format!("{head}Host: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    // A server that refuses what comes may close before it has come.
    let _ = socket.write_all(body).await;
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

pub async fn post(server: &Server, headers: &str, body: &[u8]) -> String {
    let head = format!("POST /sql HTTP/1.1\r\n{headers}");
    http(server.addresses().http, &head, body).await
}

/// Somebody else is served on every port.
pub async fn serves(server: &Server) {
    let client = admin(server).await;
    assert_eq!(client.query_one("SELECT 41 + 1", &[]).await.unwrap().get::<_, i32>(0), 42);
    let mut client = flight(server).await;
    assert_eq!(flight_rows(&mut client, "SELECT 42").await.unwrap(), 1);
    let answer = post(server, "", b"SELECT 42 AS n").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("{\"n\":42}"), "{answer}");
}

/// Waits until no connection is left and no statement runs.
pub async fn quiet(server: &Server) {
    eventually("the server is quiet", async || {
        // eve:secret
        let head = "GET /metrics HTTP/1.1\r\nAuthorization: Basic ZXZlOnNlY3JldA==\r\n";
        let page = http(server.addresses().http, head, b"").await;
        let gauges = ["thalweg_connections{", "thalweg_statements_running{"];
        let lines = page.lines().filter(|line| gauges.iter().any(|name| line.starts_with(name)));
        let counts: Vec<&str> = lines.filter_map(|line| line.rsplit(' ').next()).collect();
        assert!(counts.len() >= 6, "{page}");
        counts.iter().all(|count| *count == "0")
    })
    .await;
}

/// Waits for what will come to pass, though nobody knows when.
#[expect(clippy::disallowed_methods, reason = "a real server works in real time")]
pub async fn eventually(what: &str, is: impl AsyncFn() -> bool) {
    for _ in 0..POLLS {
        if is().await {
            return;
        }
        tokio::time::sleep(POLL).await;
    }
    panic!("it never came to pass: {what}");
}
