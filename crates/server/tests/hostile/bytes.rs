//! Bytes that are not what they should be, on every port.

use arrow_flight::Ticket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::raw::{Raw, field, message, query, start_up};
use crate::support::*;

fn garbage() -> Vec<Vec<u8>> {
    let tls = b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03";
    let ssl = b"\0\0\0\x08\x04\xd2\x16\x2f";
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut session = start_up("thalweg");
    session.extend_from_slice(&message(b'?', b"what"));
    let mut password = start_up("thalweg");
    password.extend_from_slice(&message(b'p', b"\xff\xff\xff\xff"));
    let mut length = start_up("thalweg");
    length.extend_from_slice(b"Q\x7f\xff\xff\xff");
    let mut negative = start_up("thalweg");
    negative.extend_from_slice(b"Q\x80\0\0\0");
    vec![
        vec![0; 1_000],
        vec![0xff; 1_000],
        (0..=255).cycle().take(5_000).collect(),
        tls.to_vec(),
        [&ssl[..], &tls[..]].concat(),
        [&ssl[..], &ssl[..], &start_up("thalweg")].concat(),
        b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x01".to_vec(),
        b"\0\0\0\x04".to_vec(),
        b"\x7f\xff\xff\xff\0\x03\0\0".to_vec(),
        start_up("na\0me\0x\0y"),
        [&start_up("thalweg")[..9], &[0xff; 20]].concat(),
        session,
        password,
        length,
        negative,
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"POST /sql HTTP/1.1\r\nContent-Length: -1\r\n\r\n".to_vec(),
        b"POST /sql HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n".to_vec(),
        b"GET /sql HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n".to_vec(),
        [&preface[..], &[0xff; 100]].concat(),
        // A frame of 16 MiB on a stream that is not there.
        [&preface[..], b"\0\0\0\x04\0\0\0\0\0\xff\xff\xff\0\x01\0\0\0\x07"].concat(),
        // Headers that never end.
        [&preface[..], b"\0\0\0\x04\0\0\0\0\0", &b"\0\0\x01\x01\0\0\0\0\x01\x82".repeat(500)]
            .concat(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_on_any_port_hurts_nobody_else() {
    let server = server(|config| config.limits.startup_timeout_ms = 2_000).await;
    let addresses = server.addresses();
    for address in [addresses.postgres, addresses.grpc, addresses.http] {
        for bytes in garbage() {
            let mut socket = TcpStream::connect(address).await.unwrap();
            // The server may close the connection before it has read everything.
            let _ = socket.write_all(&bytes).await;
            let _ = socket.shutdown().await;
            let _ = socket.read_to_end(&mut Vec::new()).await;
        }
        serves(&server).await;
    }
    quiet(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_after_messages_that_make_no_sense() {
    let server = server(|_| {}).await;
    let mut raw = Raw::session(&server).await;
    let simple: [(&[u8], &str); 5] = [
        (b"SELECT 1\0; SELECT 2\0", "08P01"),
        (b"SELECT 1", "08P01"),
        (b"", "08P01"),
        (b"SELECT '\xff'\0", "22021"),
        (b"SELECT '\xc3\x28'\0", "22021"),
    ];
    for (body, expected) in simple {
        raw.send(&message(b'Q', body)).await;
        assert_eq!(raw.refusal().await, expected, "{body:?}");
        raw.until(b'Z').await;
    }
    let extended: [(u8, &[u8]); 7] = [
        (b'P', b"s\0SELECT $1::text\0\0\x09"),
        (b'P', b"\0SELECT 1\0\xff\xff"),
        (b'B', b"\0\0\0\0\xff\xff"),
        (b'B', b"\0\0\0\x01\0\x07\0\0\0\0"),
        (b'D', b"Xname\0"),
        (b'E', b"\0"),
        (b'C', b"S"),
    ];
    for (kind, body) in extended {
        raw.send(&message(kind, body)).await;
        raw.send(&message(b'S', b"")).await;
        let replies = raw.until(b'Z').await;
        let errors: Vec<_> = replies.iter().filter(|(kind, _)| *kind == b'E').collect();
        assert_eq!(errors.len(), 1, "{} {body:?}: {replies:?}", char::from(kind));
        assert_eq!(field(&errors[0].1, b'C'), "08P01", "{body:?}");
    }
    raw.send(&query("SELECT 'still here'")).await;
    let replies = raw.until(b'Z').await;
    assert!(replies.iter().any(|(kind, body)| *kind == b'D' && body.ends_with(b"still here")));
    drop(raw);
    quiet(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_byte_zero_is_no_text() {
    let server = server(|_| {}).await;
    let client = admin(&server).await;
    let error = client.query("SELECT $1::text", &[&"a\0b"]).await.err().unwrap();
    assert_eq!(state(&error), "22021");
    let mut client = flight(&server).await;
    for sql in ["SELECT 'a\0b'", "SELECT 1 -- \0", "\0"] {
        let error = flight_rows(&mut client, sql).await.unwrap_err();
        assert_eq!(flight_state(error), "22021", "{sql:?}");
        let error = client.execute_update(sql.to_owned(), None).await.unwrap_err();
        assert_eq!(flight_state(error), "22021", "{sql:?}");
        let error = client.prepare(sql.to_owned(), None).await.err().unwrap();
        assert_eq!(flight_state(error), "22021", "{sql:?}");
        let answer = post(&server, "", sql.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("22021"), "{answer}");
    }
    let json = br#"{"sql": "SELECT $1::text", "parameters": ["a\u0000b"]}"#;
    let answer = post(&server, "Content-Type: application/json\r\n", json).await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("22021"), "{answer}");
    serves(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_is_refused() {
    let server = server(|config| config.limits.message_bytes = 100_000).await;
    let mut raw = Raw::session(&server).await;
    // The length alone is enough: nobody waits for the rest.
    raw.send(b"Q\0\x02\0\0SELECT").await;
    assert_eq!(raw.refusal().await, "54000");
    assert!(raw.next().await.is_none(), "nobody knows where the next message begins");
    let mut raw = Raw::session(&server).await;
    raw.send(&query("COPY t FROM STDIN")).await;
    raw.until(b'G').await;
    raw.send(b"d\0\x02\0\0").await;
    assert_eq!(raw.refusal().await, "54000");
    // Before it is known who is there, less is taken.
    let mut raw = Raw::connect(&server).await;
    raw.send(b"\0\0\x80\0\0\x03\0\0").await;
    assert_eq!(raw.refusal().await, "08P01");
    let answer = post(&server, "", &vec![b' '; 17 << 20]).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{answer}");
    let mut client = flight(&server).await;
    let ticket = Ticket { ticket: vec![0; 17 << 20].into() };
    assert!(client.do_get(ticket).await.is_err());
    serves(&server).await;
    quiet(&server).await;
}
