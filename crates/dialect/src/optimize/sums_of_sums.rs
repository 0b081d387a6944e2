//! Aggregates of distinct values that are all of one expression.
//!
//! DataFusion splits such a grouping in two, and the outer one adds up the sums of the inner one. A
//! sum of numerics has more digits than its argument, and a sum of such sums has more still, but
//! the expressions above were planned for the type of the former. If a column would get another
//! type, the grouping stays as it is. It also stays for `array_agg(DISTINCT x)`: its items are
//! sorted, and those of the inner grouping are not.

use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::OptimizerConfig;

use super::Pass;

pub(super) fn rewrite(
    pass: &Pass,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> PlanResult<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
    if aggregate.aggr_expr.iter().any(collects_distinct_items) {
        return Ok(Transformed::no(plan));
    }
    let rewritten = pass.rewrite(plan.clone(), config)?;
    match have_same_types(&plan, &rewritten.data) {
        true => Ok(rewritten),
        false => Ok(Transformed::no(plan)),
    }
}

fn collects_distinct_items(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => collects_distinct_items(&alias.expr),
        Expr::AggregateFunction(call) => call.params.distinct && call.func.name() == "array_agg",
        _ => false,
    }
}

fn have_same_types(plan: &LogicalPlan, other: &LogicalPlan) -> bool {
    let (fields, others) = (plan.schema().fields(), other.schema().fields());
    fields.iter().map(|field| field.data_type()).eq(others.iter().map(|field| field.data_type()))
}
