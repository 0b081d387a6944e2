//! The systems that Thalweg is measured beside, and the check that all say the same.

mod daemon;
mod duckdb;
mod memtable;
mod pgbench;
mod postgres;
mod python;
mod rows;
mod server;
mod thalweg;

pub use daemon::Endpoint;
pub use duckdb::DuckDb;
pub use memtable::MemTables;
pub use postgres::{Postgres, Programs};
pub use python::Python;
pub use rows::{Rows, same, to_rows};
pub use server::Server;
pub use thalweg::{copy, execute, load};
