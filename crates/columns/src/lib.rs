//! The types of columns: SQL's, Arrow's, and the numbers that PostgreSQL gives to them.
//!
//! ```text
//!   SQL name ── values ───► DataType ── arrow_types ──► Arrow type and field
//!                               └────── postgres_types ──► oid, size, type modifier
//! ```
//!
//! Arrow has no type of its own for `uuid`, `json` and `varchar(n)`. Their values are strings, and
//! the field names the type under [`TYPE_KEY`]. The metadata stays with the field in plans, files
//! and messages between nodes.
//!
//! Absent on purpose: values, names as SQL's parser reads them, and types that only the system
//! catalog has in Arrow.

mod arrow_types;
mod postgres_types;

pub use arrow_types::{
    JSON, JSONB, NUMERIC_DEFAULT, TYPE_KEY, UUID, arrow_field, arrow_schema, arrow_type,
    column_field, from_arrow, from_field, named_type,
};
pub use postgres_types::{
    PostgresType, TEXT, column_type_modifier, column_type_oid, numeric_modifier, postgres_type,
    varchar_modifier,
};
