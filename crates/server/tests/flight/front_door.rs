//! Who may knock: gRPC's clients, and neither web pages nor people who never log in.

use arrow_flight::sql::{CommandStatementQuery, ProstMessageExt};
use arrow_flight::{Action, FlightDescriptor, HandshakeRequest};
use bytes::Bytes;
use hyper::Request;
use prost::Message;
use thalweg_server::auth::AuthConfig;
use thalweg_server::{Server, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, IntoRequest};
use tower::{Service, ServiceExt};

use crate::support::{client, codes, config, connected, query, refusal, rows, server, update};

const GET_FLIGHT_INFO: &str = "/arrow.flight.protocol.FlightService/GetFlightInfo";
const CREATE: &str = "CREATE TABLE made_by_a_page (n int)";

/// A message as gRPC frames it.
fn framed(message: &impl Message) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend((message.encoded_len() as u32).to_be_bytes());
    message.encode(&mut bytes).unwrap();
    bytes
}

fn statement(sql: &str) -> Vec<u8> {
    let command = CommandStatementQuery { query: sql.to_owned(), transaction_id: None };
    framed(&FlightDescriptor::new_cmd(command.as_any().encode_to_vec()))
}

async fn channel(server: &Server, origin: &str) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.addresses().grpc)).unwrap();
    endpoint.origin(origin.parse().unwrap()).connect().await.unwrap()
}

/// The HTTP status and gRPC's code that a call is answered with, called by a name, with headers.
async fn knock(server: &Server, name: &str, headers: &[(&str, &str)]) -> (u16, Option<Code>) {
    let mut channel = channel(server, name).await;
    let mut request = Request::post(GET_FLIGHT_INFO);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = Body::new(axum::body::Body::from(Bytes::from(statement(CREATE))));
    let response = channel.ready().await.unwrap().call(request.body(body).unwrap()).await.unwrap();
    let code = response.headers().get("grpc-status");
    (response.status().as_u16(), code.map(|code| Code::from_bytes(code.as_bytes())))
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_web_pages_are_kept_out() {
    let server = server().await;
    let here = "http://localhost:7470";
    let grpc = ("content-type", "application/grpc");
    for (name, headers, answer) in [
        (here, &[][..], (415, None)),
        (here, &[("content-type", "text/plain")], (415, None)),
        (here, &[("content-type", "application/grpc-web+proto")], (415, None)),
        (here, &[grpc, ("origin", "http://evil.example")], (200, Some(Code::PermissionDenied))),
        (here, &[grpc, ("host", "evil.example")], (200, Some(Code::Unauthenticated))),
        ("http://evil.example:7470", &[grpc], (200, Some(Code::Unauthenticated))),
    ] {
        assert_eq!(knock(&server, name, headers).await, answer, "{name} {headers:?}");
    }
    let mut known = client(&server).await;
    let made = "SELECT count(*) FROM pg_class WHERE relname = 'made_by_a_page'";
    assert_eq!(rows(&mut known, made).await, ["0"]);
    assert_eq!(knock(&server, here, &[grpc]).await, (200, None));
    assert_eq!(rows(&mut known, made).await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_browser_speaks_is_not_spoken_here() {
    let server = server().await;
    let mut socket = TcpStream::connect(server.addresses().grpc).await.unwrap();
    let body = statement(CREATE);
    let head = format!(
        "POST {GET_FLIGHT_INFO} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/grpc\r\n\
         Content-Length: {}\r\nTE: trailers\r\n\r\n",
        body.len()
    );
    socket.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1"), "{}", String::from_utf8_lossy(&answer));
    let mut known = client(&server).await;
    let made = "SELECT count(*) FROM pg_class WHERE relname = 'made_by_a_page'";
    assert_eq!(rows(&mut known, made).await, ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_not_logged_in_sends_a_few_bytes_at_most() {
    let server = server().await;
    let mut stranger = client(&server).await;
    let payload = vec![0; 1 << 20].into();
    let first = HandshakeRequest { protocol_version: 0, payload };
    let stream = futures::stream::once(async { first });
    let shaken = stranger.inner_mut().handshake(stream).await;
    assert_eq!(shaken.err().unwrap().code(), Code::OutOfRange);
}

async fn small_server(connections: usize) -> Server {
    let mut config: ServerConfig = config();
    config.limits.connections = connections;
    config.auth.method = AuthConfig::Auto;
    let database = thalweg_query::Database::in_memory().unwrap();
    database.session().execute("CREATE ROLE eve LOGIN").await.unwrap();
    Server::start(config, database).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn to_log_in_and_forget_it_costs_nothing() {
    let server = small_server(4).await;
    let mut tokens = Vec::new();
    for _ in 0..50 {
        let mut forgetful = connected(&server).await;
        assert_eq!(rows(&mut forgetful, "SELECT 1 AS one").await, ["1"]);
        tokens.push(forgetful.token().unwrap().clone());
    }
    let mut back = client(&server).await;
    back.set_token(tokens.swap_remove(0));
    assert_eq!(rows(&mut back, "SELECT 1 AS one").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_user_leaves_connections_for_others() {
    let server = small_server(8).await;
    let mut settled = Vec::new();
    let refused = loop {
        let mut greedy = connected(&server).await;
        match greedy.execute_update("SET application_name = 'mine'".to_owned(), None).await {
            Ok(_) => settled.push(greedy),
            Err(error) => break refusal(error),
        }
    };
    assert_eq!(codes(&refused), (Code::ResourceExhausted, "53300".to_owned()));
    assert_eq!(settled.len(), 4);
    let mut greedy = settled.pop().unwrap();
    assert!(greedy.begin_transaction().await.is_err());
    let mut eve = client(&server).await;
    eve.handshake("eve", "any").await.unwrap();
    update(&mut eve, "SET application_name = 'hers'").await;
    assert_eq!(rows(&mut eve, "SHOW application_name").await, ["hers"]);
    // What was closed makes room, and its token is worth nothing.
    let token = greedy.token().unwrap().clone();
    let close = Action { r#type: "CloseSession".to_owned(), body: Bytes::new() };
    let authorized = format!("Bearer {token}").parse().unwrap();
    let mut close = close.into_request();
    close.metadata_mut().insert("authorization", authorized);
    greedy.inner_mut().do_action(close).await.unwrap();
    let mut stale = client(&server).await;
    stale.set_token(token);
    assert!(query(&mut stale, "SELECT 1").await.is_err());
    let mut next = connected(&server).await;
    update(&mut next, "SET application_name = 'next'").await;
}
