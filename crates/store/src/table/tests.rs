//! Tests of tables.

mod basics;
mod concurrent;
mod keys;
mod model;
mod support;
