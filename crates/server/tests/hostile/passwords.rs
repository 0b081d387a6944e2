//! Who does not know the password learns nothing, and holds up nobody else.

use thalweg_server::auth::AuthConfig;
use tokio_postgres::Client;

use crate::raw::{Raw, start_up};
use crate::support::*;

fn guarded(config: &mut thalweg_server::ServerConfig) {
    config.auth.method = AuthConfig::Password;
}

async fn eve(server: &thalweg_server::Server) -> Client {
    connect(server, "user=eve password=secret").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_wrong_way_in_ends_with_the_same_words() {
    let server = server(guarded).await;
    for user in ["eve", "nobody"] {
        let options = format!("user={user} password=wrong");
        let refused = connect(&server, &options).await.err().unwrap();
        let error = refused.as_db_error().unwrap();
        let expected = format!("password authentication failed for user \"{user}\"");
        assert_eq!((error.code().code(), error.message()), ("28P01", expected.as_str()));
        assert_eq!((error.detail(), error.hint()), (None, None));
        assert!(flight(&server).await.handshake(user, "wrong").await.is_err());
    }
    // eve:wrong and nobody:wrong
    for header in ["ZXZlOndyb25n", "bm9ib2R5Ondyb25n"] {
        let header = format!("Authorization: Basic {header}\r\n");
        let answer = post(&server, &header, b"SELECT 1").await;
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("28P01"), "{answer}");
    }
    eve(&server).await;
}

/// What a client is told before it has answered is the same kind of thing for everybody: for who is
/// not there, the salt is even the same each time, as a true one would be.
#[tokio::test(flavor = "multi_thread")]
async fn the_exchange_does_not_tell_who_is_there() {
    let server = server(guarded).await;
    let mut salts = Vec::new();
    for user in ["eve", "nobody", "nobody"] {
        let mut raw = Raw::connect(&server).await;
        raw.send(&start_up(user)).await;
        let asked = raw.until(b'R').await;
        assert!(asked[0].1.starts_with(b"\0\0\0\x0aSCRAM-SHA-256\0"), "{asked:?}");
        let first = b"n,,n=,r=abcdefghijklmnopqrstuvwx";
        let length = (first.len() as u32).to_be_bytes();
        let body = [&b"SCRAM-SHA-256\0"[..], &length, first].concat();
        raw.send(&crate::raw::message(b'p', &body)).await;
        let (_, told) = raw.next().await.unwrap();
        let told = String::from_utf8(told[4..].to_vec()).unwrap();
        let parts: Vec<&str> = told.split(',').collect();
        let [nonce, salt, iterations] = parts[..] else { panic!("{told}") };
        assert!(nonce.starts_with("r=abcdefghijklmnopqrstuvwx"), "{told}");
        assert_eq!((iterations, salt.len()), ("i=4096", "s=".len() + 24), "{told}");
        salts.push(salt.to_owned());
    }
    assert_eq!(salts[1], salts[2]);
    assert_ne!(salts[0], salts[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_guesses_waits_and_nobody_else_does() {
    let server = server(guarded).await;
    // The first failures; from now on each guess of this user waits for those before it.
    assert!(connect(&server, "user=nobody password=1").await.is_err());
    let address = server.addresses().postgres;
    let guesses = (0..30).map(|number| {
        let options =
            format!("host={} port={} user=nobody password={number}", address.ip(), address.port());
        tokio::spawn(async move {
            tokio_postgres::connect(&options, tokio_postgres::NoTls).await.is_err()
        })
    });
    let guesses: Vec<_> = guesses.collect();
    for _ in 0..5 {
        assert_eq!(eve(&server).await.query("SELECT 1", &[]).await.unwrap().len(), 1);
    }
    assert!(guesses.iter().any(|guess| !guess.is_finished()), "guesses are not slowed down");
    guesses.iter().for_each(tokio::task::JoinHandle::abort);
    drop(guesses);
    quiet(&server).await;
    eve(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_ask_for_a_password_where_statements_do_and_health_never_does() {
    for open_metrics in [false, true] {
        let server = server(|config| {
            guarded(config);
            config.auth.open_metrics = open_metrics;
        })
        .await;
        let get = async |path: &str, header: &str| {
            let head = format!("GET {path} HTTP/1.1\r\n{header}");
            http(server.addresses().http, &head, b"").await
        };
        let page = get("/metrics", "").await;
        assert_eq!(page.starts_with("HTTP/1.1 200"), open_metrics, "{page}");
        assert_eq!(page.contains("thalweg_"), open_metrics, "{page}");
        // eve:secret
        let page = get("/metrics", "Authorization: Basic ZXZlOnNlY3JldA==\r\n").await;
        assert!(page.contains("thalweg_connections"), "{page}");
        for path in ["/health/live", "/health/ready"] {
            assert!(get(path, "").await.starts_with("HTTP/1.1 200"));
        }
    }
}

/// Guesses count together, whichever port they come to; after them not even the right password is
/// checked until time has passed.
#[tokio::test(flavor = "multi_thread")]
async fn all_ways_in_share_the_limit_of_guesses() {
    let server = server(|config| {
        guarded(config);
        config.limits.startup_timeout_ms = 1_000;
    })
    .await;
    let guesses = (0..40).map(async |number| match number % 3 {
        // eve:wrong
        0 => drop(post(&server, "Authorization: Basic ZXZlOndyb25n\r\n", b"SELECT 1").await),
        1 => drop(flight(&server).await.handshake("eve", "wrong").await),
        _ => drop(connect(&server, "user=eve password=wrong").await),
    });
    futures::future::join_all(guesses).await;
    eventually("the right password is checked again", async || {
        connect(&server, "user=eve password=secret").await.is_ok()
    })
    .await;
}
