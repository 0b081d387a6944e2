//! The first rows of each group, found while the rows stream by.
//!
//! A pass of the planner looks for a filter that asks for small numbers of `row_number()` alone
//! ([`recognize`]), and puts `FirstOfGroups` in the place of the window: of each group it keeps as
//! many rows as are asked for, where the window would sort all rows. It numbers them as the window
//! does, among equal ones in any order, so that the filter stays as it is.
//!
//! ```text
//!   Filter (number <= 2)               Filter (number <= 2)
//!     Window (row_number)                FirstOfGroups (final, by the hash of the keys)
//!       Scan                ── is ──►      FirstOfGroups (partial, of each thread's rows)
//!                                            Scan
//! ```
//!
//! Where memory is short, the rows that were kept and those that are still to come are sorted after
//! all, by the window's own operators, which go to disk.

mod best;
mod kept;
mod operator;
mod recognize;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;

/// To be applied while no operator sorts rows or deals them out yet.
#[derive(Debug)]
pub(crate) struct KeepFirstOfGroups;

impl PhysicalOptimizerRule for KeepFirstOfGroups {
    fn name(&self) -> &'static str {
        "keep_first_of_groups"
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
