//! Finds the first rows of each group in one pass over a stream of rows.
//!
//! A planner pass looks for a filter that admits only small values of `row_number()`
//! ([`recognize`]), and replaces the window by `TopNPerGroup`. It keeps only as many rows of each
//! group as the filter admits, while the window would sort all rows. It numbers them as the window
//! does, equal rows in any order, so that the filter stays unchanged.
//!
//! ```text
//!   Filter (number <= 2)               Filter (number <= 2)
//!     Window (row_number)                FirstOfGroups (final, by the hash of the keys)
//!       Scan                ── is ──►      FirstOfGroups (partial, of each thread's rows)
//!                                            Scan
//! ```
//!
//! If memory is short, the kept rows and those still to come are sorted after all, by the window's
//! own operators, which can spill.

mod best;
mod operator;
mod recognize;
mod retained_rows;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;

/// Must run before the passes that add sorts and repartitioning.
#[derive(Debug)]
pub struct PlanTopNPerGroup;

impl PhysicalOptimizerRule for PlanTopNPerGroup {
    fn name(&self) -> &'static str {
        "top_n_per_group"
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|plan| {
            let Some(filter) = plan.downcast_ref::<FilterExec>() else {
                return Ok(Transformed::no(plan));
            };
            match recognize::input(filter)? {
                Some(input) => Ok(Transformed::yes(recognize::over(plan, input)?)),
                None => Ok(Transformed::no(plan)),
            }
        });
        changed.map(|changed| changed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}
