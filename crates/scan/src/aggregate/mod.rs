//! Aggregates fused into the scan.
//!
//! An [`Aggregation`] says what is to be found in the rows of one table. A [`Partial`] is fed with
//! chunks, block by block: a [`predicate`] says which rows are wanted, [`keys`] which groups they
//! are of, [`number`] computes what is aggregated, and [`states`] keep it.

mod aggregation;
mod arithmetic;
mod choice;
mod decimals;
mod divide;
mod early;
mod emit;
mod evaluate;
mod floats;
mod kernels;
mod key_set;
mod keys;
mod number;
mod partial;
mod pattern;
mod predicate;
mod sieve;
mod source;
mod states;
#[cfg(test)]
pub(crate) mod tests;
mod texts;
mod vector;

pub use aggregation::{Aggregation, Key, KeyValue, Measure};
pub use key_set::KeySet;
pub use number::{Lane, Number, Operator, Width};
pub use partial::{Finished, Partial, ReadStatistics};
pub use pattern::Pattern;
pub use predicate::{Comparison, Predicate};
pub use sieve::Sieve;
pub use states::{BitOperator, Spread};
pub(crate) use states::{Seen, State, StateKind};
pub use texts::TextTest;
