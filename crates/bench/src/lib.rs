//! Benchmark workloads for Thalweg and its peers in the same run, and the report of their results.
//!
//! A workload is one file in `workloads`: a function that does the work with Thalweg and with its
//! peers in turns, and returns [`Finding`]s. The harness finds the data, starts the peers, runs
//! each workload in a process of its own, and writes the report.
//!
//! Workloads are not tests: a missed target, for instance on a slow machine, is no failure.

mod account;
mod clients;
mod context;
mod counters;
mod data;
mod errors;
mod fan_in;
mod finding;
mod h2o;
mod harness;
mod load;
mod machine;
mod nodes;
mod peers;
mod report;
mod samples;
mod tpch;
mod workloads;
mod zipf;

pub use finding::{Chart, Finding, Findings, Line, Unit, Wanted};
pub use harness::{Options, run, run_all};
pub use nodes::run_node;
pub use samples::Samples;
pub use workloads::{WORKLOADS, Workload, named};
