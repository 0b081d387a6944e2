//! A pass of the planner: sorts a union as a whole if its parts cannot be merged in an order.
//!
//! DataFusion sorts each part of a union, and merges them. If a part returns one column twice,
//! DataFusion mistakes an order by both for an order by the first, concludes that the union has no
//! order but this one, and rejects its own plan. Upstream:
//! <https://github.com/apache/datafusion/issues/16171>.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;

/// The pass. It runs directly after the one of DataFusion that makes such merges.
#[derive(Debug)]
pub struct SortedUnions;

impl PhysicalOptimizerRule for SortedUnions {
    fn name(&self) -> &'static str {
        "sorted_unions"
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let sorted = plan.transform_up(|plan| {
            let merge = plan.downcast_ref::<SortPreservingMergeExec>();
            let Some(merge) = merge.filter(|merge| merge.input().is::<UnionExec>()) else {
                return Ok(Transformed::no(plan));
            };
            let order = merge.expr();
            if merge.input().equivalence_properties().ordering_satisfy(order.clone())? {
                return Ok(Transformed::no(plan));
            }
            let rows = Arc::new(CoalescePartitionsExec::new(Arc::clone(merge.input())));
            let sort = SortExec::new(order.clone(), rows).with_fetch(merge.fetch());
            Ok(Transformed::yes(Arc::new(sort) as Arc<dyn ExecutionPlan>))
        });
        sorted.map(|sorted| sorted.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}
