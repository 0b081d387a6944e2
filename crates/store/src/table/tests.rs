//! Tests of tables.

mod basics;
mod bulk;
mod concurrent;
mod keys;
mod model;
mod support;
