//! Aggregates fused into the scan.
//!
//! An [`Aggregation`] defines what to compute from the rows of one table. A [`Partial`] consumes
//! chunks, block by block: a [`predicate`] selects the wanted rows, [`keys`] finds their groups,
//! [`number`] computes the arguments, and [`states`] accumulates them; an [`order`] ranks rows for
//! first and last values.

mod aggregation;
mod arithmetic;
mod case;
mod decimals;
mod early_partitions;
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
mod partition;
mod pattern;
mod predicate;
mod row_filter;
mod source;
mod states;
#[cfg(test)]
pub(crate) mod tests;
mod texts;
mod vector;

pub use aggregation::{Aggregation, Key, KeyValue, Measure, Picked};
pub use key_set::KeySet;
pub use memory::{own_bytes, text_bytes};
pub use number::{Lane, Number, Operator, Width};
pub use order::Order;
pub use partial::{Finished, Partial, ReadStatistics};
pub use pattern::Pattern;
pub use predicate::{Comparison, Predicate};
pub use row_filter::RowFilter;
pub use states::{BitOperator, Spread};
pub use texts::TextTest;
