use std::path::PathBuf;

use thalweg_query::Database;

use super::*;
use crate::Server;
use crate::auth::AuthConfig;

/// A change to a configuration that is right, and the settings that are wrong with it.
type Case = (fn(&mut ServerConfig), &'static [&'static [&'static str]]);

const TLS: &[&str] = &["tls.certificate", "tls.key"];

const CASES: [Case; 16] = [
    (|_| {}, &[]),
    (|config| config.listen.address = [203, 0, 113, 7].into(), &[&["listen.address"]]),
    (
        |config| (config.listen.grpc_port, config.listen.http_port) = (7_470, 7_470),
        &[&["listen.grpc_port", "listen.postgres_port", "listen.http_port"]],
    ),
    (
        |config| {
            config.listen.address = [0, 0, 0, 0].into();
            config.auth.method = AuthConfig::Trust;
        },
        &[&["auth.method", "listen.address"]],
    ),
    (|config| config.tls.certificate = Some(PathBuf::from("/nonexistent.pem")), &[TLS]),
    (|config| config.tls.key = Some(PathBuf::from("/nonexistent.pem")), &[TLS]),
    (
        |config| {
            config.tls.certificate = Some(PathBuf::from("/nonexistent.pem"));
            config.tls.key = Some(PathBuf::from("/nonexistent.pem"));
        },
        &[TLS],
    ),
    (|config| config.tls.required = true, &[&["tls.required", "tls.certificate", "tls.key"]]),
    (|config| config.limits.connections = 0, &[&["limits.connections"]]),
    (|config| config.limits.statements = 0, &[&["limits.statements"]]),
    (|config| config.limits.message_bytes = 0, &[&["limits.message_bytes"]]),
    (|config| config.limits.record_message_bytes = 999, &[&["limits.record_message_bytes"]]),
    (
        |config| (config.limits.record_bytes, config.limits.startup_timeout_ms) = (0, 0),
        &[&["limits.record_bytes"], &["limits.startup_timeout_ms"]],
    ),
    (|config| "(((".clone_into(&mut config.log.filter), &[&["log.filter"]]),
    (|config| config.otlp.endpoint = Some("nonsense".to_owned()), &[&["otlp.endpoint"]]),
    (|config| config.otlp.endpoint = Some("http://[".to_owned()), &[&["otlp.endpoint"]]),
];

/// Whatever is found keeps a server from starting, and nothing else does.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_where_nothing_is_found() {
    for (change, expected) in CASES {
        let mut config = ServerConfig::default();
        let listen = &mut config.listen;
        (listen.grpc_port, listen.postgres_port, listen.http_port) = (0, 0, 0);
        change(&mut config);
        let faults = config.faults();
        let settings: Vec<_> = faults.iter().map(|fault| fault.settings).collect();
        assert_eq!(settings, expected);
        let started = Server::start(config, Database::in_memory().unwrap()).await;
        let refused = started.err().map(|error| error.message().to_owned());
        let first = faults.first().map(|fault| fault.error.message().to_owned());
        assert_eq!(refused, first);
    }
}

#[test]
fn what_switches_a_limit_off_is_no_fault() {
    let mut config = ServerConfig::default();
    config.limits.queue_timeout_ms = 0;
    config.limits.result_bytes = 0;
    config.limits.drain_timeout_ms = 0;
    config.log.slow_statement_ms = 0;
    assert!(config.faults().is_empty());
}
