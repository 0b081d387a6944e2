//! A pass of the planner: removes the limit of a grouping whose input is in the order of its keys.
//!
//! DataFusion gives a limit to a grouping without aggregates whose rows are limited above. Over
//! sorted input, a grouping with a limit declares that its groups come in the order of the input,
//! but the operator that runs it returns them in the order of a heap: a sort above, which relies on
//! the order, ends too early and loses groups. If only a number of groups is wanted, and no order
//! of them, the operator fails. Upstream: <https://github.com/apache/datafusion/pull/25349>.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

/// The pass. It runs after DataFusion's last pass that gives limits to groupings. Their inputs are
/// sorted by then.
#[derive(Debug)]
pub struct SortedGroups;

impl PhysicalOptimizerRule for SortedGroups {
    fn name(&self) -> &'static str {
        "sorted_groups"
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let unlimited = plan.transform_up(|plan| {
            let Some(grouping) = plan.downcast_ref::<AggregateExec>() else {
                return Ok(Transformed::no(plan));
            };
            let is_sorted = *grouping.input_order_mode() != InputOrderMode::Linear;
            match is_sorted && grouping.limit_options().is_some() {
                true => Ok(Transformed::yes(Arc::new(grouping.with_new_limit_options(None)) as _)),
                false => Ok(Transformed::no(plan)),
            }
        });
        unlimited.map(|unlimited| unlimited.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}
