//! The execution of plans over the chunks of tables: scans, fused aggregates, joins by keys, and
//! the threads and the memory that they run with.
//!
//! `thalweg-query` parses and plans statements and hands their plans to this crate. This crate
//! knows no session, no statement and no catalog. Passes over plans are here, beside the operators
//! that they insert; `thalweg-query` puts them in order.

pub mod cancel;
pub mod cancellable_rules;
mod compact_texts;
pub mod equivalence_barriers;
pub mod executor;
pub mod filter_pushdown;
pub mod fused;
pub mod memory;
#[doc(hidden)]
pub mod operator;
pub mod operator_metrics;
pub mod optimization;
pub mod panics;
pub mod parameter_values;
pub mod plan_depth;
pub mod planning;
pub mod row_forms;
pub mod scan;
pub mod semi_join_filters;
pub mod semi_join_pushdown;
pub mod sleep;
pub mod sorted_groups;
pub mod sorted_unions;
pub mod stack;
pub mod staged;
pub mod task;
#[cfg(test)]
mod testing;
pub mod top_n_per_group;
