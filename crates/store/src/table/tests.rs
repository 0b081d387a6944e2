//! Tests of tables.

mod basics;
mod bulk;
mod by_key;
mod concurrent;
mod keys;
mod model;
mod moved;
mod support;
