//! Values as text, in PostgreSQL's forms.
//!
//! [`ValueFormatter`] writes PostgreSQL's output form; [`parse`] reads PostgreSQL's input forms.
//! For every type that a table can store, parsing a written value returns the same value.

mod array;
mod builder;
mod bytea;
mod datetime;
mod decimal;
mod float;
mod format;
mod interval;
mod json_depth;
mod jsonb;
mod own_digits;
pub mod parse;
mod scanner;
pub mod style;
mod uuid;
pub mod zone;

pub(crate) use builder::null_refused;
pub use builder::{ColumnBuilder, Refused};
pub use bytea::format_escaped as format_escaped_bytea;
pub use float::{format_double_in, format_real_in};
pub use format::{DateStyle, Scratch, ValueFormatter, format_value};
pub use interval::{IntervalFields, IntervalPart, format_in as format_interval_in};
pub use json_depth::{
    JSON_DEPTH_MAX, JsonSize, check as check_json_depth, json_depth, json_items, json_size,
};
pub use jsonb::{JsonParts, json_parts, jsonb, jsonb_within};
pub use own_digits::{holds_numerics, numeric_with_own_digits, with_own_digits};
pub(crate) use uuid::format_bytes as format_uuid;

#[cfg(test)]
mod tests;
