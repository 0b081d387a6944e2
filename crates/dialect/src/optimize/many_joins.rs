//! Plans with many joins keep the order of their relations.
//!
//! DataFusion's pass that looks for keys among cross joins flattens the chain of joins at each of
//! its links, and makes the columns of each join anew: the work is the cube of their number
//! (`EliminateCrossJoin`, DataFusion 55.2; no upstream issue found). PostgreSQL keeps the written
//! order from nine relations on (`join_collapse_limit`). Conditions still become keys of the joins
//! that they are about.

use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::OptimizerConfig;

use super::Pass;

/// Plans with more joins keep their order.
const JOINS_MAX: usize = 100;

pub(super) fn rewrite(
    pass: &Pass,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> PlanResult<Transformed<LogicalPlan>> {
    let mut joins = 0;
    plan.apply_with_subqueries(|node| {
        joins += usize::from(matches!(node, LogicalPlan::Join(_)));
        Ok(if joins > JOINS_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    match joins > JOINS_MAX {
        true => Ok(Transformed::no(plan)),
        false => pass.rewrite(plan, config),
    }
}
