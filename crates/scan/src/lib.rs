//! The read side below SQL: the threads that scan, and aggregates fused into the scan.
//!
//! ```text
//!   Aggregation ──► scheduler ──► one Partial a thread, fed by chunks ──► Arrow columns
//!   (what to find)  (who works)   straight from the store's buffers       ──► merged, finished
//! ```
//!
//! [`aggregate`] reads chunks in place: filters, arithmetic, grouping and the aggregates themselves
//! work on blocks of a few thousand rows, and rows are never materialized. The result over some
//! chunks is a [`Partial`], which merges with others and travels as a record batch. [`scheduler`]
//! owns the threads.
//!
//! Invariants: results are PostgreSQL's, in the types that the caller requests; a sum of integers
//! is exact however large it gets; a value that cannot be computed is an error, never a wrong
//! number; no lock is taken and nothing is allocated for a single row.
//!
//! Absent on purpose: SQL, plans, an asynchronous runtime.

#![deny(unsafe_code)]

mod aggregate;
mod scheduler;
#[expect(unsafe_code, reason = "the one place that asks the processor what it can do")]
mod simd;

pub use aggregate::{
    Aggregation, BitOperator, Comparison, Finished, Key, KeySet, KeyValue, Lane, Measure, Number,
    Operator, Order, Partial, Pattern, Picked, Predicate, ReadStatistics, RowFilter, Spread,
    TextTest, Width, own_bytes, text_bytes,
};
pub use scheduler::{LocalScheduler, Mode, Round, Shape};
