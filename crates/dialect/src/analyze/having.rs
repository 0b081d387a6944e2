//! Conditions that name no column, above aggregates that give a row for no rows.
//!
//! DataFusion moves a condition below an aggregate where all columns that it names are keys, also
//! where it names none: `SELECT count(*) FROM t HAVING (SELECT false)` counted no rows, and gave a
//! row. Such a condition names one of the aggregate's columns here, which changes nothing else.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result as PlanResult};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, Filter, GroupingSet, LogicalPlan, Operator,
};

/// The same filter, where a plan is one.
///
/// # Errors
/// Where the plan cannot be put together again.
pub(super) fn kept_above(plan: LogicalPlan) -> PlanResult<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
    let Some(place) = aggregated(&filter.input).pop() else { return Ok(Transformed::no(plan)) };
    let column = Column::from(filter.input.schema().qualified_field(place));
    let mut changed = false;
    let mut conditions = Vec::new();
    for condition in split_conjunction_owned(filter.predicate.clone()) {
        let names_none = names_no_column(&condition)?;
        changed |= names_none;
        conditions.push(if names_none { naming(condition, &column) } else { condition });
    }
    match conjunction(conditions) {
        Some(predicate) if changed => {
            let filter = Filter::try_new(predicate, Arc::clone(&filter.input))?;
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        _ => Ok(Transformed::no(plan)),
    }
}

/// The places of a plan's columns that are those of an aggregate which gives a row for no rows;
/// none where a filter would not get as far as there.
fn aggregated(plan: &LogicalPlan) -> Vec<usize> {
    match plan {
        LogicalPlan::Aggregate(aggregate) if has_row_of_none(aggregate) => {
            (0..aggregate.schema.fields().len()).collect()
        }
        LogicalPlan::Filter(filter) => aggregated(&filter.input),
        LogicalPlan::Sort(sort) => aggregated(&sort.input),
        LogicalPlan::SubqueryAlias(alias) => aggregated(&alias.input),
        LogicalPlan::Projection(projection) => {
            let below = aggregated(&projection.input);
            let schema = projection.input.schema();
            let is_of_those = |expr: &Expr| match expr.clone().unalias() {
                Expr::Column(column) => {
                    schema.index_of_column(&column).is_ok_and(|place| below.contains(&place))
                }
                _ => false,
            };
            let places = projection.expr.iter().enumerate();
            places.filter(|(_, expr)| is_of_those(expr)).map(|(place, _)| place).collect()
        }
        _ => Vec::new(),
    }
}

fn has_row_of_none(aggregate: &Aggregate) -> bool {
    match aggregate.group_expr.as_slice() {
        [] => true,
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.iter().any(Vec::is_empty),
        [Expr::GroupingSet(_)] => true,
        _ => false,
    }
}

/// Whether a condition names no column, and is not known before the plan is run: constants are
/// folded. Joins are made of `EXISTS` and `IN`, and of what names an outer query's columns.
fn names_no_column(condition: &Expr) -> PlanResult<bool> {
    if !condition.column_refs().is_empty() || condition.contains_outer() {
        return Ok(false);
    }
    let is_join = condition.exists(|expr| {
        Ok(match expr {
            Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
            Expr::Exists(_) | Expr::InSubquery(_) => true,
            _ => false,
        })
    })?;
    let is_open = condition
        .exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_) | Expr::Placeholder(_))))?;
    Ok(!is_join && (is_open || condition.is_volatile()))
}

/// The same, or what is never true.
fn naming(condition: Expr, column: &Column) -> Expr {
    let column = || Box::new(Expr::Column(column.clone()));
    let never = BinaryExpr::new(column(), Operator::IsDistinctFrom, column());
    condition.or(Expr::BinaryExpr(never))
}
