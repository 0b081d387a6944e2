//! The workloads, one file each. A new workload is a file with a `WORKLOAD`, and a line here.

mod cancel;
mod cluster;
mod copy_in;
mod fanin;
mod groups;
mod h2o;
mod load;
mod measure;
mod memory;
mod mixed;
mod neighbours;
mod patterns;
mod point;
mod questions;
mod recovery;
mod relay;
mod results;
mod statements;
mod tpch;
mod updates;
mod write;

use futures::future::LocalBoxFuture;
use thalweg_types::Result;

use crate::context::Context;
use crate::finding::Findings;

/// Something to measure.
pub struct Workload {
    pub name: &'static str,
    /// A short description of the measurement.
    pub about: &'static str,
    pub(crate) run: for<'a> fn(&'a Context) -> LocalBoxFuture<'a, Result<Findings>>,
}

/// All workloads, in the order in which `bench all` runs them.
pub static WORKLOADS: [Workload; 20] = [
    load::WORKLOAD,
    tpch::WORKLOAD,
    questions::WORKLOAD,
    h2o::WORKLOAD,
    groups::WORKLOAD,
    memory::WORKLOAD,
    updates::WORKLOAD,
    recovery::WORKLOAD,
    results::WORKLOAD,
    statements::WORKLOAD,
    cancel::WORKLOAD,
    copy_in::WORKLOAD,
    write::WORKLOAD,
    patterns::WORKLOAD,
    point::WORKLOAD,
    mixed::WORKLOAD,
    neighbours::WORKLOAD,
    fanin::WORKLOAD,
    relay::WORKLOAD,
    cluster::WORKLOAD,
];

/// The workload of that name; `None` if there is none.
#[must_use]
pub fn named(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}
