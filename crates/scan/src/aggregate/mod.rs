//! Aggregates fused into the scan.
//!
//! An [`Aggregation`] says what is to be found in the rows of one table. A [`Partial`] is fed with
//! chunks, block by block: a [`predicate`] says which rows are wanted, [`keys`] which groups they
//! are of, [`number`] computes what is aggregated, and [`states`] keep it.

mod aggregation;
mod emit;
mod floats;
mod kernels;
mod keys;
mod number;
mod partial;
mod predicate;
mod source;
mod states;
#[cfg(test)]
mod tests;
mod vector;

pub use aggregation::{Aggregation, Key, KeyValue, Measure};
pub use number::{Lane, Number, Operator, Width};
pub use partial::{Finished, Partial, ReadStatistics};
pub use predicate::{Comparison, Predicate, TextTest};
