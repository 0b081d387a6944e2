//! What a server can be told.

mod faults;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::auth::AuthConfig;
pub use faults::Fault;

/// Everything that one server goes by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    pub listen: ListenConfig,
    pub auth: AuthSection,
    pub tls: TlsConfig,
    pub limits: LimitsConfig,
    pub log: LogConfig,
    pub otlp: OtlpConfig,
}

/// Where clients find the server. A port of 0 is one that the system chooses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListenConfig {
    /// One address for all ports; another than loopback needs passwords.
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
    #[must_use]
    pub fn postgres(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.postgres_port)
    }

    #[must_use]
    pub fn grpc(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.grpc_port)
    }

    #[must_use]
    pub fn http(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.http_port)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthSection {
    pub method: AuthConfig,
    /// Whether `/metrics` is shown without a password, whatever the method is.
    pub open_metrics: bool,
}

/// Certificates for TLS; without them there is none. With them, gRPC and HTTP are spoken under TLS
/// alone, and PostgreSQL's clients may ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM: the server's certificate, then those up to a root.
    pub certificate: Option<PathBuf>,
    /// PEM: the certificate's private key.
    pub key: Option<PathBuf>,
    /// Whether PostgreSQL clients beyond loopback must use TLS; needs a certificate.
    pub required: bool,
}

/// Limits that protect clients from each other. 0 is taken where it is said what it means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Connections and sessions of all front ends together.
    pub connections: usize,
    /// Statements that run at once; others wait in a queue.
    pub statements: usize,
    /// How long a statement waits in the queue, in milliseconds; 0 for not at all.
    pub queue_timeout_ms: u64,
    /// The longest message that a PostgreSQL client may send, in bytes; at least 1,000.
    pub message_bytes: usize,
    /// The largest result of one statement, in bytes as they are sent; 0 for no limit.
    pub result_bytes: u64,
    /// What all streams of records together may hold in memory, in bytes; more than 4 GiB are
    /// taken for so many.
    pub record_bytes: usize,
    /// The longest message of a stream of records, in bytes; at least 1,000.
    pub record_message_bytes: usize,
    /// How long a client may take to show who it is, or to ask something, in milliseconds.
    pub startup_timeout_ms: u64,
    /// How long a server that is told to end lets statements run on, in milliseconds; 0 for not
    /// at all.
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

/// What the server says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// Lines of JSON instead of text.
    pub json: bool,
    /// Which events are told: `info`, `debug`, or a filter such as `thalweg_server=debug`.
    pub filter: String,
    /// Statements that take longer, in milliseconds, are told with their plan; 0 for none.
    pub slow_statement_ms: u64,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig { json: false, filter: "info".to_owned(), slow_statement_ms: 1_000 }
    }
}

/// Where statements are told as spans, for traces that go on from an application to its database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OtlpConfig {
    /// A collector's address for OTLP over gRPC, as `http://localhost:4317`; none, and nothing is
    /// sent.
    pub endpoint: Option<String>,
}
