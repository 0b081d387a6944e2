//! The front ends of a database: PostgreSQL's protocol, Arrow Flight SQL and records over
//! gRPC, and HTTP.
//!
//! Promises: malformed input affects only the connection that sent it. Results are sent while they
//! are computed, in memory that does not grow with the size of the result. The work of a client
//! that disconnects or cancels ends at once. Every client from another machine must authenticate.

mod accept;
mod admission;
pub mod auth;
mod config;
mod connections;
mod console;
mod credentials;
mod flight;
#[doc(hidden)]
pub mod fuzzing;
mod grpc;
mod host;
mod http;
mod listen;
mod metrics;
mod monitor;
mod origin_guard;
mod parameters;
mod postgres;
mod read_ahead;
mod records;
mod shared;
mod storage;
mod tls;
mod trace;
mod unauthenticated;
mod values;
mod web;

pub use config::{
    AuthSection, Fault, IngestConfig, LimitsConfig, ListenConfig, LogConfig, OtlpConfig,
    ServerConfig, TlsConfig,
};
pub use host::{raise_descriptor_limit, warn_of_access};
pub use listen::{Addresses, Server};
pub use monitor::{Monitor, Ready};
pub use storage::log_storage_faults;
pub use trace::{LogGuard, install as install_log};
