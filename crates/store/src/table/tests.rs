//! Tests of tables.

mod basics;
mod concurrent;
mod model;
mod support;
