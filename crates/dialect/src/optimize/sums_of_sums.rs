//! Sums beside aggregates of distinct values.
//!
//! If all distinct aggregates have the same expression, DataFusion splits the grouping in two, and
//! the outer one adds up the sums of the inner one. A sum of numerics has more digits than its
//! argument, and a sum of such sums has more still, but the expressions above were planned for the
//! type of the former. If a column would get another type, the grouping stays as it is.

use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::OptimizerConfig;

use super::Pass;

pub(super) fn rewrite(
    pass: &Pass,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> PlanResult<Transformed<LogicalPlan>> {
    if !matches!(plan, LogicalPlan::Aggregate(_)) {
        return Ok(Transformed::no(plan));
    }
    let rewritten = pass.rewrite(plan.clone(), config)?;
    match have_same_types(&plan, &rewritten.data) {
        true => Ok(rewritten),
        false => Ok(Transformed::no(plan)),
    }
}

fn have_same_types(plan: &LogicalPlan, other: &LogicalPlan) -> bool {
    let (fields, others) = (plan.schema().fields(), other.schema().fields());
    fields.iter().map(|field| field.data_type()).eq(others.iter().map(|field| field.data_type()))
}
