//! Crowds of connections, and connections that nobody uses: nothing of them is left.

use std::net::SocketAddr;

use thalweg_server::{Server, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::raw::{Raw, query, start_up};
use crate::support::*;

/// Connections in a crowd; each leaves at another stage.
const CROWD: usize = 300;

fn ports(server: &Server) -> [SocketAddr; 3] {
    let addresses = server.addresses();
    [addresses.postgres, addresses.grpc, addresses.http]
}

/// Opens a connection, says something, or not, and goes.
async fn pass_by(address: SocketAddr, number: usize) {
    let Ok(mut socket) = TcpStream::connect(address).await else { return };
    let hello = start_up("thalweg");
    let words: [&[u8]; 6] = [
        b"",
        &hello[..hello.len() / 2],
        &hello,
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ];
    // The server may have closed what it did not understand.
    let _ = socket.write_all(words[number % words.len()]).await;
    if number.is_multiple_of(2) {
        let _ = socket.read(&mut [0; 64]).await;
    }
}

/// More than the usual queue of a listening socket holds: whoever finds no room in it is lost by
/// the system, which tells neither side.
#[tokio::test(flavor = "multi_thread")]
async fn everybody_of_a_crowd_is_answered() {
    let server = server(impatient).await;
    for address in ports(&server) {
        let crowd = (0..CROWD).map(|_| left(address, b""));
        futures::future::join_all(crowd).await;
    }
}

/// A client that waits for an answer to nothing is left waiting: such clients go after a while.
fn impatient(config: &mut ServerConfig) {
    config.limits.startup_timeout_ms = 2_000;
}

/// Were a place or a task left over by one in fifteen, nobody could come in any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_leaves_its_places_to_others() {
    let places = CROWD / 15;
    let server = server(|config| {
        impatient(config);
        config.limits.connections = places;
    })
    .await;
    for address in ports(&server) {
        let crowd = (0..CROWD).map(|number| tokio::spawn(pass_by(address, number)));
        for visitor in crowd.collect::<Vec<_>>() {
            visitor.await.unwrap();
        }
    }
    eventually("there is room for as many as before", async || {
        let sessions = (0..places).map(|_| connect(&server, "user=eve"));
        futures::future::join_all(sessions).await.iter().all(Result::is_ok)
    })
    .await;
    quiet(&server).await;
    serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_crowd_leave_nothing_behind() {
    let server = server(|_| {}).await;
    let sessions = (0..100).map(|_| Raw::session(&server));
    let mut sessions = futures::future::join_all(sessions).await;
    for (number, session) in sessions.iter_mut().enumerate() {
        let sql = ["BEGIN", "SELECT 1", "PREPARE p AS SELECT 1", "SET application_name = 'x'"];
        session.send(&query(sql[number % sql.len()])).await;
    }
    let admin = admin(&server).await;
    let seen = "SELECT count(*) FROM pg_stat_activity";
    assert_eq!(admin.query_one(seen, &[]).await.unwrap().get::<_, i64>(0), 101);
    drop((sessions, admin));
    quiet(&server).await;
    serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_says_nothing_or_half_of_it_is_left_after_a_while() {
    let server = server(impatient).await;
    let half = start_up("thalweg");
    let halves: [&[u8]; 4] =
        [b"", &half[..half.len() - 1], b"PRI * HTTP/2.0\r\n", b"POST /sql HTTP/1.1\r\nHost: local"];
    let silent = ports(&server).map(|address| halves.map(|half| left(address, half)));
    futures::future::join_all(silent.into_iter().flatten()).await;
    serves(&server).await;
    quiet(&server).await;
}

/// Says something, and waits. Ends when the server has closed the connection.
async fn left(address: SocketAddr, words: &[u8]) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(words).await.unwrap();
    let _ = socket.read_to_end(&mut Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_asked_once_may_be_silent() {
    let server = server(impatient).await;
    let client = admin(&server).await;
    let mut flight = flight(&server).await;
    assert_eq!(flight_rows(&mut flight, "SELECT 1").await.unwrap(), 1);
    // That a connection opened later is closed for its silence tells that time has passed.
    left(server.addresses().grpc, b"").await;
    assert_eq!(client.query("SELECT 1", &[]).await.unwrap().len(), 1);
    assert_eq!(flight_rows(&mut flight, "SELECT 1").await.unwrap(), 1);
}
