//! The read side below SQL: which threads work on a question, and aggregates fused into the scan.
//!
//! ```text
//!   Aggregation ──► scheduler ──► one Partial a thread, fed by chunks ──► Arrow columns
//!   (what to find)  (who works)   straight from the store's buffers       ──► merged, finished
//! ```
//!
//! [`aggregate`] reads chunks where they lie: filters, arithmetic, grouping and the aggregates
//! themselves work on blocks of a few thousand rows, and no row is ever made. What it finds in some
//! chunks is a [`Partial`]: it merges with others, and travels as a record batch. [`scheduler`]
//! has the threads.
//!
//! Promises: answers are PostgreSQL's, in the types that the caller asks for; a sum of integers
//! is exact however large it gets; what cannot be computed is an error and never a wrong number;
//! no lock is taken and nothing is allocated for a row.
//!
//! Absent on purpose: SQL, plans, an asynchronous runtime.

#![deny(unsafe_code)]

mod aggregate;
mod scheduler;
#[expect(unsafe_code, reason = "the one place that asks the processor what it can do")]
mod simd;
mod wire;

pub use aggregate::{
    Aggregation, BitOperator, Comparison, Finished, Key, KeySet, KeyValue, Lane, Measure, Number,
    Operator, Order, Partial, Pattern, Picked, Predicate, ReadStatistics, Sieve, Spread, TextTest,
    Width, own_bytes, text_bytes,
};
pub use scheduler::{LocalScheduler, Mode, Round, Shape};
