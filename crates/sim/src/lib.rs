//! Simulation tests of a database's promises: concurrent clients record a history of their
//! operations and results, while disks fail and machines crash, and a checker judges this history.
//!
//! A [`World`] is a machine with a simulated disk. Clients of a [`workloads`] module work on one
//! database in it, era after era; each era ends with the end of the engine, of the process or of
//! the machine. A [`history`] records every client's operations, with their times and results. It
//! is judged afterwards:
//!
//! - [`linearizability`]: single keys behave as if each operation took place at one moment between
//!   its beginning and its end;
//! - [`isolation`]: groups and transactions over several keys satisfy snapshot isolation;
//! - [`workloads::bank`]: money moves, and the sum never changes.
//!
//! [`Mischief`] breaks a promise on purpose; tests whose histories do not reveal it prove nothing.
//!
//! With the feature `shuttle` a seed also decides the schedule of threads, so that it reproduces
//! the same history. Without it the system schedules the threads, which may run in parallel.
//!
//! No other crate depends on this one.

pub mod client;
pub mod history;
pub mod isolation;
pub mod linearizability;
mod mischief;
pub mod runtime;
pub mod tables;
pub mod workloads;
mod world;

pub use mischief::Mischief;
pub use world::{Plan, Report, World};

/// Number of seeds that a test tries: `least` in the gate, and more if `THALWEG_CASES` asks for
/// them. It never goes below the gate's number, which would prove too little.
#[must_use]
pub fn cases(least: u64) -> u64 {
    let asked = std::env::var("THALWEG_CASES").ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(least).max(least)
}
