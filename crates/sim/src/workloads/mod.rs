//! Workloads of clients, and the checks of their histories.

pub mod bank;
pub mod lists;
pub mod registers;

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::history::Operation;
use crate::{Plan, Report, World, runtime};

/// Number of results in doubt after which a client stops until the next era.
const DOUBTS_MAX: u32 = 2;

/// A workload: runs a plan, and judges its history.
pub type Workload = fn(&mut World) -> Result<Told, String>;

/// All workloads, by name.
pub const ALL: [(&str, Workload); 3] =
    [("registers", registers::play), ("lists", lists::play), ("bank", bank::play)];

/// Summary of the clients' results.
#[derive(Clone, Copy, Default)]
pub struct Told {
    done: u64,
    in_doubt: u64,
    hash: u64,
}

impl Told {
    fn of<A: Hash, R: Hash>(history: &[Operation<A, R>]) -> Told {
        let in_doubt = history.iter().filter(|operation| operation.is_in_doubt()).count() as u64;
        let mut hasher = DefaultHasher::new();
        history.hash(&mut hasher);
        Told { done: history.len() as u64 - in_doubt, in_doubt, hash: hasher.finish() }
    }
}

/// Runs a plan, starting with an empty disk.
///
/// # Errors
/// A result that violates a promise of the database.
pub fn run(plan: &Plan, workload: Workload) -> Result<Report, String> {
    let plan = *plan;
    runtime::run(plan.seed, move || {
        let mut world = World::new(&plan)?;
        let told = workload(&mut world)?;
        Ok(world.finish(told.done, told.in_doubt, told.hash))
    })
}
