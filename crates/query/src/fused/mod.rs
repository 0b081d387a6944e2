//! Aggregates fused into the shard scan.
//!
//! A pass of the planner looks for an aggregate over the scan of one table, perhaps with filters
//! and projections between ([`recognize`]), and puts a [`FusedAggregate`] in its place, which works
//! on chunks where they lie. Where the pass is not sure that the answer would be the same, it
//! leaves DataFusion's operators as they are.
//!
//! ```text
//!   Aggregate(final)                           FusedAggregate
//!     Aggregate(partial)                         (chunks, filter, keys, measures)
//!       Projection        ── recognized as ──►
//!         Filter
//!           ShardScan
//! ```
//!
//! Who works on it, and where, is a [`QueryScheduler`]'s business.

mod arithmetic;
mod conversion;
mod direct;
mod execution;
mod expression;
mod filter;
mod finding;
mod gather;
mod measures;
mod merged;
mod output;
mod recognize;
mod scheduler;
mod sieve;
mod spilled;
mod time;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

pub(crate) use direct::Direct;
pub(crate) use execution::FusedAggregate;
pub(crate) use gather::Answer;
pub use merged::MergedGroups;
pub(crate) use merged::Scheduling;
pub(crate) use scheduler::LocalQueryScheduler;
pub use scheduler::{Found, QueryScheduler, Scattered, SchedulerKind, Watch};
pub(crate) use sieve::sieve_of;
pub use spilled::{Spilled, Spills};

/// The pass after which the aggregates of a plan are looked at: joins have their order by then,
/// and what statistics or limits answer faster has been taken out. The passes behind it would
/// deal rows out to the operators that are replaced.
const AFTER: &str = "LimitedDistinctAggregation";

/// The pass of this module.
pub(crate) const PASS: &str = "fuse_aggregates";

type Rules = Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>;

/// DataFusion's passes for executable plans, with the one of this module in its place.
pub(crate) fn physical_rules(scheduler: &Arc<dyn QueryScheduler>) -> Rules {
    let mut rules = PhysicalOptimizer::new().rules;
    let after = rules.iter().position(|rule| rule.name() == AFTER);
    let after = after.expect("DataFusion has a pass of this name");
    let scheduler = Arc::clone(scheduler);
    rules.insert(after + 1, Arc::new(FuseAggregates { scheduler }));
    rules
}

#[derive(Debug)]
struct FuseAggregates {
    scheduler: Arc<dyn QueryScheduler>,
}

impl PhysicalOptimizerRule for FuseAggregates {
    fn name(&self) -> &'static str {
        PASS
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        fuse(plan, &self.scheduler)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A plan whose aggregates are fused into their scans where they can be.
pub(crate) fn fuse(
    plan: Arc<dyn ExecutionPlan>,
    scheduler: &Arc<dyn QueryScheduler>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let fused = plan.transform_up(|plan| {
        let aggregate = plan.downcast_ref::<AggregateExec>();
        let Some(question) = aggregate.and_then(recognize::recognize) else {
            return Ok(Transformed::no(plan));
        };
        let fused = FusedAggregate::new(question, plan, Arc::clone(scheduler));
        Ok(Transformed::yes(Arc::new(fused) as _))
    });
    fused.map(|fused| fused.data)
}
