//! What clients do, and how their histories are judged.

pub mod bank;
pub mod lists;
pub mod registers;

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::history::Operation;
use crate::{Plan, Report, World, runtime};

/// After so many answers that leave all in doubt a client gives up until the next era.
const DOUBTS_MAX: u32 = 2;

/// A workload: plays a plan, and judges what clients were told.
pub type Workload = fn(&mut World) -> Result<Told, String>;

/// All workloads, by name.
pub const ALL: [(&str, Workload); 3] =
    [("registers", registers::play), ("lists", lists::play), ("bank", bank::play)];

/// What clients were told, in sum.
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

/// Plays a plan from an empty disk on.
///
/// # Errors
/// What clients were told that a database may not tell.
pub fn run(plan: &Plan, workload: Workload) -> Result<Report, String> {
    let plan = *plan;
    runtime::run(plan.seed, move || {
        let mut world = World::new(&plan)?;
        let told = workload(&mut world)?;
        Ok(world.finish(told.done, told.in_doubt, told.hash))
    })
}
