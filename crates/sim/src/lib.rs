//! Histories: what concurrent clients were told, while disks failed and machines died, judged by
//! what a database may tell.
//!
//! A [`World`] is a machine with a simulated disk. Clients of a [`workloads`] module work on one
//! database in it, era after era; each era ends with the death of the engine, of the process or of
//! the machine. What every client asked, when, and what it was told is a [`history`], which is
//! judged afterwards:
//!
//! - [`linearizability`]: single keys behave as if each operation took place at one moment between
//!   its beginning and its end;
//! - [`isolation`]: groups and transactions over several keys are snapshot isolation's;
//! - [`workloads::bank`]: money moves, and is never made.
//!
//! [`Mischief`] breaks a promise on purpose; histories that do not show it are worth nothing.
//!
//! With the feature `shuttle` a seed also decides which thread runs when, so that it gives the same
//! history again. Without it threads are the system's, and may really run at the same time.
//!
//! Nothing depends on this crate.

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

/// How many seeds a test tries: few in the gate, as many as asked for in a long run. Fewer than in
/// the gate would prove too little.
#[must_use]
pub fn cases(least: u64) -> u64 {
    let asked = std::env::var("THALWEG_CASES").ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(least).max(least)
}
