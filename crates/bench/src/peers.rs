//! The peers that Thalweg is compared with, and the check that all results agree.

mod ballista;
mod cluster;
mod daemon;
mod duckdb;
mod grpc;
mod memtable;
mod pgbench;
mod postgres;
mod prepared;
mod python;
mod questions;
mod records;
mod redis;
mod rows;
mod server;
mod tarantool;
mod thalweg;

pub use ballista::Ballista;
pub use cluster::{Cluster, ClusterOptions, OnDisk};
pub use daemon::Endpoint;
pub use duckdb::DuckDb;
pub use grpc::{GrpcBaseline, Pattern};
pub use memtable::MemTables;
pub use postgres::{Postgres, Programs};
pub use prepared::PreparedRows;
pub use python::Python;
pub use questions::{Answered, ask_all, fastest};
pub use records::{Call, Ours};
pub use redis::Redis;
pub use rows::{Rows, same, to_rows};
pub use server::Server;
pub use tarantool::{Tarantool, TarantoolSetup};
pub use thalweg::{copy, execute, load};
