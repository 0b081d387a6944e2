//! The systems that Thalweg is measured beside, and the check that all say the same.

mod duckdb;
mod memtable;
mod rows;
mod thalweg;

pub use duckdb::DuckDb;
pub use memtable::MemTables;
pub use rows::{Rows, same, to_rows};
pub use thalweg::{copy, execute, load};
