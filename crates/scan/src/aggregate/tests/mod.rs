//! Aggregations against a model that looks at one row after the other.

mod answers;
mod model;
mod table;

pub(crate) use table::{Random, schema};
