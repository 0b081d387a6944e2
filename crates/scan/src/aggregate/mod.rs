//! Aggregates fused into the scan.
//!
//! An [`Aggregation`] says what is to be found in the rows of one table. A [`Partial`] is fed with
//! chunks, block by block: a [`predicate`] says which rows are wanted, [`keys`] which groups they
//! are of, [`number`] computes what is aggregated, and [`states`] keep it; an [`order`] tells which
//! of some rows comes first.

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
mod memory;
mod number;
mod order;
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

pub use aggregation::{Aggregation, Key, KeyValue, Measure, Picked};
pub(crate) use divide::wide;
pub use key_set::KeySet;
pub use memory::{own_bytes, text_bytes};
pub use number::{Lane, Number, Operator, Width};
pub use order::Order;
pub use partial::{Finished, Partial, ReadStatistics};
pub use pattern::Pattern;
pub use predicate::{Comparison, Predicate};
pub use sieve::Sieve;
pub use states::{BitOperator, Spread};
pub(crate) use states::{Seen, State, StateKind};
pub use texts::TextTest;
