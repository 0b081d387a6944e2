//! Sums beside aggregates of distinct values.
//!
//! DataFusion makes two groupings of one where all distinct values are of one expression, and adds
//! up in the outer one what the inner one has added up. A sum of numerics has more digits than they
//! have, and a sum of such sums more still: whatever compares it was made for the former. Where a
//! column would get another type, the grouping stays as it is.

use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::OptimizerConfig;

use super::Pass;

/// DataFusion's name of the pass.
pub(super) const GUARDED: &str = "single_distinct_aggregation_to_group_by";

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
