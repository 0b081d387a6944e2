//! The front ends of a database: PostgreSQL's protocol, Arrow Flight SQL and records over
//! gRPC, and HTTP.
//!
//! Promises: whatever bytes come in, they hurt nobody but who sent them; results go out as they
//! are made, in memory that does not grow with them; a client that goes away, or cancels, ends its
//! work at once; and nobody beyond this machine comes in without showing who they are.

mod accept;
mod admission;
pub mod auth;
mod config;
mod connections;
mod credentials;
mod flight;
#[doc(hidden)]
pub mod fuzzing;
mod grpc;
mod guard;
mod host;
mod http;
mod listen;
mod metrics;
mod parameters;
mod postgres;
mod pump;
mod records;
mod shared;
mod strangers;
mod tls;
mod trace;
mod values;
mod web;

pub use config::{
    AuthSection, Fault, LimitsConfig, ListenConfig, LogConfig, OtlpConfig, ServerConfig, TlsConfig,
};
pub use host::{raise_descriptor_limit, warn_of_access};
pub use listen::{Addresses, Server};
pub use trace::install as install_log;
