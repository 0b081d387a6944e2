//! Logging in, by hand: what clients do that break off, and what they are offered over TLS.

use std::net::{IpAddr, Ipv4Addr};

use futures::FutureExt;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::*;
use crate::auth::AuthConfig;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

async fn server(mut config: ServerConfig) -> Server {
    config.listen.grpc_port = 0;
    config.listen.postgres_port = 0;
    config.listen.http_port = 0;
    config.auth.method = AuthConfig::Password;
    let database = Database::in_memory().unwrap();
    database.session().execute("CREATE ROLE eve LOGIN PASSWORD 'secret'").await.unwrap();
    Server::start(config, database).await.unwrap()
}

/// A client's side of an exchange.
struct Dialogue<S>(S);

impl<S: AsyncRead + AsyncWrite + Unpin> Dialogue<S> {
    /// Says who it is; returns the names of the ways to prove it.
    async fn begin(stream: S) -> (Dialogue<S>, String) {
        let mut dialogue = Dialogue(stream);
        let body = [&[0, 3, 0, 0][..], b"user\0eve\0\0"].concat();
        dialogue.send(&[], &body).await;
        let (kind, names) = dialogue.receive().await;
        assert_eq!((kind, &names[..4]), (b'R', &[0, 0, 0, 10][..]));
        (dialogue, String::from_utf8(names[4..].to_vec()).unwrap())
    }

    async fn send(&mut self, kind: &[u8], body: &[u8]) {
        let length = (body.len() as u32 + 4).to_be_bytes();
        self.0.write_all(&[kind, &length, body].concat()).await.unwrap();
    }

    async fn receive(&mut self) -> (u8, Vec<u8>) {
        let kind = self.0.read_u8().await.unwrap();
        let length = self.0.read_u32().await.unwrap() as usize;
        let mut body = vec![0; length - 4];
        self.0.read_exact(&mut body).await.unwrap();
        (kind, body)
    }

    /// The first words of SCRAM; returns what the server answers.
    async fn greet(&mut self) -> String {
        let words = b"n,,n=,r=nonce";
        let length = (words.len() as u32).to_be_bytes();
        self.send(b"p", &[&b"SCRAM-SHA-256\0"[..], &length, words].concat()).await;
        let (kind, answer) = self.receive().await;
        assert_eq!((kind, &answer[..4]), (b'R', &[0, 0, 0, 11][..]));
        String::from_utf8(answer[4..].to_vec()).unwrap()
    }
}

async fn plain(server: &Server) -> Dialogue<TcpStream> {
    let stream = TcpStream::connect(server.addresses().postgres).await.unwrap();
    Dialogue::begin(stream).await.0
}

/// Whether eve has to wait before the next attempt.
async fn must_wait(server: &Server) -> bool {
    // What was broken off is noticed first.
    while server.shared.connections.open() > 0 {
        tokio::task::yield_now().await;
    }
    server.shared.users.attempt("eve", HERE).now_or_never().is_none()
}

#[tokio::test]
async fn only_wrong_passwords_make_their_user_wait() {
    let server = server(ServerConfig::default()).await;
    for _ in 0..20 {
        drop(plain(&server).await);
        let mut leaves_early = plain(&server).await;
        leaves_early.greet().await;
        drop(leaves_early);
        let mut babbles = plain(&server).await;
        babbles.send(b"p", b"SCRAM-SHA-1\0").await;
        assert_eq!(babbles.receive().await.0, b'E');
        drop(babbles);
        let mut queries = plain(&server).await;
        queries.greet().await;
        queries.send(b"Q", b"SELECT 1\0").await;
        assert_eq!(queries.receive().await.0, b'E');
    }
    assert!(!must_wait(&server).await);
    for _ in 0..12 {
        let mut guesses = plain(&server).await;
        let answer = guesses.greet().await;
        let nonce = answer.split(',').next().unwrap();
        let proof = "A".repeat(43) + "=";
        guesses.send(b"p", format!("c=biws,{nonce},p={proof}").as_bytes()).await;
        let (kind, error) = guesses.receive().await;
        assert_eq!(kind, b'E');
        assert!(String::from_utf8_lossy(&error).contains("C28P01"));
        drop(guesses);
    }
    assert!(must_wait(&server).await);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a test's own files")]
async fn passwords_can_be_bound_to_the_certificate() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("c.pem"), directory.path().join("k.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut config = ServerConfig::default();
    (config.tls.certificate, config.tls.key) = (Some(certificate), Some(key));
    let server = server(config).await;

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(made.cert.der().to_vec())).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut stream = TcpStream::connect(server.addresses().postgres).await.unwrap();
    stream.write_all(&SSL_REQUEST).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'S');
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(client)).connect(name, stream).await.unwrap();
    let (_, names) = Dialogue::begin(stream).await;
    assert_eq!(names, "SCRAM-SHA-256\0SCRAM-SHA-256-PLUS\0\0");

    let stream = TcpStream::connect(server.addresses().postgres).await.unwrap();
    assert_eq!(Dialogue::begin(stream).await.1, "SCRAM-SHA-256\0\0");
}
