//! Workloads beside peers in the same run, and the report about them.
//!
//! A workload is one file in `workloads`: a function that does the work with Thalweg and with its
//! peers in turns, and hands back [`Finding`]s. The harness does the rest: it finds the data,
//! starts the peers, gives each workload a process of its own, and writes the report.
//!
//! Nothing here is a test: a number is wanted, not demanded, and a slow machine fails nothing.

mod account;
mod clients;
mod context;
mod counters;
mod data;
mod errors;
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
