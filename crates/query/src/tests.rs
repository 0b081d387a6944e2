//! Statements whose plans show passes and operators of `thalweg-execution`.

mod cancel;
mod optimization;
mod scan_pruning;
mod scan_statistics;
mod scan_threshold;
mod semi_join_filters;
mod semi_join_pushdown;
