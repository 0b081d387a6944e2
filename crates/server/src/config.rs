//! Configuration of a server.

mod validation;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::auth::AuthConfig;
pub use validation::Fault;

/// The whole configuration of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    pub listen: ListenConfig,
    pub auth: AuthSection,
    pub tls: TlsConfig,
    pub limits: LimitsConfig,
    pub ingest: IngestConfig,
    pub log: LogConfig,
    pub otlp: OtlpConfig,
}

/// The addresses on which the server listens. With port 0 the system chooses a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListenConfig {
    /// One address for all ports; any other than loopback requires passwords.
    pub address: IpAddr,
    pub grpc_port: u16,
    pub postgres_port: u16,
    pub http_port: u16,
}

impl Default for ListenConfig {
    fn default() -> ListenConfig {
        ListenConfig {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            grpc_port: 7470,
            postgres_port: 7471,
            http_port: 7472,
        }
    }
}

impl ListenConfig {
    /// The address for clients of PostgreSQL's protocol, as configured.
    #[must_use]
    pub fn postgres(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.postgres_port)
    }

    /// The address for Flight SQL and the record API, as configured.
    #[must_use]
    pub fn grpc(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.grpc_port)
    }

    /// The address for HTTP, as configured.
    #[must_use]
    pub fn http(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.http_port)
    }
}

/// Authentication: the method, and what is readable without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthSection {
    pub method: AuthConfig,
    /// True if `/metrics` is readable without a password under any method.
    pub open_metrics: bool,
}

/// Certificates for TLS. With a certificate, gRPC and HTTP accept only TLS, and PostgreSQL clients
/// may ask for it. Without one there is no TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file: the server's certificate, then the chain up to a root.
    pub certificate: Option<PathBuf>,
    /// PEM file: the certificate's private key.
    pub key: Option<PathBuf>,
    /// True if PostgreSQL clients from other machines must use TLS; requires a certificate.
    pub required: bool,
}

/// Limits that protect clients from each other. 0 is valid only where its meaning is documented.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Maximum number of connections and sessions of all front ends together.
    pub connections: usize,
    /// Maximum number of statements that run at once; others wait in a queue.
    pub statements: usize,
    /// Maximum time of a statement in the queue, in milliseconds; with 0 it does not wait.
    pub queue_timeout_ms: u64,
    /// Maximum length of a message from a PostgreSQL client, in bytes; at least 1,000.
    pub message_bytes: usize,
    /// Maximum size of one statement's result, in bytes as sent; 0 for no limit.
    pub result_bytes: u64,
    /// Maximum memory of all record streams together, in bytes; capped at 4 GiB.
    pub record_bytes: usize,
    /// Maximum length of a message of a record stream, in bytes; at least 1,000.
    pub record_message_bytes: usize,
    /// Time a client has to authenticate, or to send its first request, in milliseconds.
    pub startup_timeout_ms: u64,
    /// Time that a server lets running statements continue when it shuts down, in milliseconds;
    /// with 0 they are cancelled at once.
    pub drain_timeout_ms: u64,
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        LimitsConfig {
            connections: 20_000,
            statements: 256,
            queue_timeout_ms: 60_000,
            message_bytes: 256 << 20,
            result_bytes: 0,
            record_bytes: 256 << 20,
            record_message_bytes: 16 << 20,
            startup_timeout_ms: 30_000,
            drain_timeout_ms: 30_000,
        }
    }
}

impl LimitsConfig {
    pub(crate) fn queue_timeout(&self) -> Duration {
        Duration::from_millis(self.queue_timeout_ms)
    }

    pub(crate) fn startup_timeout(&self) -> Duration {
        Duration::from_millis(self.startup_timeout_ms)
    }

    pub(crate) fn drain_timeout(&self) -> Duration {
        Duration::from_millis(self.drain_timeout_ms)
    }
}

/// Rows that clients send over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IngestConfig {
    /// True if points of the line protocol create missing tables and columns, as far as their
    /// sender may. Otherwise such points are rejected: names in data then decide nothing about the
    /// schema.
    pub create_tables: bool,
    /// Maximum size of a request's body, in bytes after decompression; at least 1,000.
    pub body_bytes: u64,
}

impl Default for IngestConfig {
    fn default() -> IngestConfig {
        IngestConfig { create_tables: false, body_bytes: 1 << 30 }
    }
}

/// The server's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// True for lines of JSON instead of text.
    pub json: bool,
    /// Events to log: `info`, `debug`, or a filter such as `thalweg_server=debug`.
    pub filter: String,
    /// Statements that take at least this long, in milliseconds, are logged with their plan; 0 for
    /// none.
    pub slow_statement_ms: u64,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig { json: false, filter: "info".to_owned(), slow_statement_ms: 1_000 }
    }
}

/// Export of statements as spans, which continue an application's traces in its database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OtlpConfig {
    /// A collector's address for OTLP over gRPC, such as `http://localhost:4317`. Without one
    /// nothing is exported.
    pub endpoint: Option<String>,
}
