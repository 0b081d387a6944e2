//! Aggregates fused into the shard scan.
//!
//! A planner pass looks for an aggregate over the scan of one table, with or without filters and
//! projections between ([`recognize`]), and replaces it by a [`FusedAggregate`], which reads chunks
//! directly. If the pass is not certain that the answer would be the same, it keeps DataFusion's
//! operators.
//!
//! ```text
//!   Aggregate(final)                           FusedAggregate
//!     Aggregate(partial)                         (chunks, filter, keys, measures)
//!       Projection        ── recognized as ──►
//!         Filter
//!           ShardScan
//! ```
//!
//! A [`QueryScheduler`] decides which threads or nodes do the work.

mod arithmetic;
mod conversion;
mod direct;
mod execution;
mod expression;
mod filter;
mod measures;
mod merge_partials;
mod merged;
mod output;
mod partial_state;
mod recognize;
mod scan_filter;
mod scheduler;
mod spilled;
mod time;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

pub use direct::Direct;
pub use execution::FusedAggregate;
pub use merge_partials::Answer;
pub use merged::MergedGroups;
pub use merged::Scheduling;
pub(crate) use scan_filter::row_filter_of;
pub use scheduler::LocalQueryScheduler;
pub use scheduler::{Found, QueryScheduler, Scattered, SchedulerKind, Watch};
pub use spilled::{Spilled, Spills};

/// The pass of this module. It runs when joins are ordered, and aggregates that statistics or
/// limits answer faster are gone. Later passes would insert repartitioning for the operators that
/// are replaced.
#[derive(Debug)]
pub struct FuseAggregates {
    /// The scheduler that runs the fused aggregates.
    pub scheduler: Arc<dyn QueryScheduler>,
}

impl PhysicalOptimizerRule for FuseAggregates {
    fn name(&self) -> &'static str {
        "fuse_aggregates"
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

/// Fuses a plan's aggregates into their scans where possible.
///
/// # Errors
/// If a plan cannot be rebuilt over its new inputs.
pub fn fuse(
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
