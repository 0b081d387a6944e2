//! Conditions without columns, above aggregates that give a row even for no rows.
//!
//! DataFusion moves a condition below an aggregate if all columns of the condition are keys, also
//! if it has none: `SELECT count(*) FROM t HAVING (SELECT false)` counted no rows, and gave a row.
//! Here such a condition stays in its place, and the pass only sees the other conditions.

use std::sync::Arc;

use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Aggregate, Expr, Filter, GroupingSet, LogicalPlan};
use datafusion::optimizer::OptimizerConfig;

use super::Pass;

pub(super) fn rewrite(
    pass: &Pass,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> PlanResult<Transformed<LogicalPlan>> {
    let Some((aggregate, conditions)) = conditions_over_rows_of_none(&plan) else {
        return pass.rewrite(plan, config);
    };
    let (staying, others): (Vec<Expr>, Vec<Expr>) =
        conditions.into_iter().cloned().partition(names_no_column);
    let Some(staying) = conjunction(staying) else { return pass.rewrite(plan, config) };
    let Some(others) = conjunction(others) else { return Ok(Transformed::no(plan)) };
    let others = Filter::try_new(others, Arc::clone(aggregate))?;
    let moved = pass.rewrite(LogicalPlan::Filter(others), config)?;
    if !moved.transformed {
        return Ok(Transformed::no(plan));
    }
    moved.map_data(|below| Ok(LogicalPlan::Filter(Filter::try_new(staying, Arc::new(below))?)))
}

/// The conditions of filters over an aggregate that gives a row even for no rows. The lowest filter
/// comes first, as in one filter with all conditions.
fn conditions_over_rows_of_none(plan: &LogicalPlan) -> Option<(&Arc<LogicalPlan>, Vec<&Expr>)> {
    let LogicalPlan::Filter(filter) = plan else { return None };
    let (aggregate, mut conditions) = match filter.input.as_ref() {
        LogicalPlan::Aggregate(aggregate) if has_row_of_none(aggregate) => {
            (&filter.input, Vec::new())
        }
        below => conditions_over_rows_of_none(below)?,
    };
    conditions.extend(split_conjunction(&filter.predicate));
    Some((aggregate, conditions))
}

fn has_row_of_none(aggregate: &Aggregate) -> bool {
    match aggregate.group_expr.as_slice() {
        [] => true,
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.iter().any(Vec::is_empty),
        [Expr::GroupingSet(_)] => true,
        _ => false,
    }
}

/// True if the condition has no columns. A condition on an outer query's columns becomes part of a
/// join.
fn names_no_column(condition: &Expr) -> bool {
    condition.column_refs().is_empty() && !condition.contains_outer()
}
