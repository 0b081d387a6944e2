//! Scalar subqueries that may give no row, and those that give another value each time.
//!
//! A subquery without a row is NULL. DataFusion derives the nullability of its value from the
//! column. A subquery of a key would never be NULL: then `(SELECT id …) IS NULL` would be false,
//! and a NULL in the result would be an error.
//!
//! `(SELECT random()) = (SELECT random())` compares two numbers. DataFusion takes equal subqueries
//! for one value, whatever functions they call. Upstream:
//! <https://github.com/apache/datafusion/issues/21619>.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as PlanResult, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery, SubqueryAlias};
use thalweg_functions::MAY_BE_MISSING;

/// The subquery wrapped as a value that may be NULL, if it may give no row and its schema says that
/// it is never NULL. Subqueries that depend on outer rows become joins, which handle this
/// themselves.
pub(super) fn nullable_subquery(expr: &Expr) -> Option<Expr> {
    let Expr::ScalarSubquery(subquery) = expr else { return None };
    let says_never = |subquery: &Subquery| {
        let fields = subquery.subquery.schema().fields();
        fields.first().is_some_and(|field| !field.is_nullable())
    };
    let may_be_missing = subquery.outer_ref_columns.is_empty()
        && says_never(subquery)
        && !gives_one_row(&subquery.subquery);
    may_be_missing.then(|| MAY_BE_MISSING.call(vec![expr.clone()]))
}

/// Start of the names of subqueries whose value differs from one time to the next.
const VOLATILE: &str = "thalweg volatile ";

/// A subquery with volatile functions under a name of its own, so that it equals no other one.
/// `count` is the number of such subqueries so far.
///
/// # Errors
/// If the plan cannot be put together again.
pub(super) fn named_apart(expr: &Expr, count: &Cell<usize>) -> PlanResult<Option<Expr>> {
    let Expr::ScalarSubquery(subquery) = expr else { return Ok(None) };
    let is_named = matches!(subquery.subquery.as_ref(), LogicalPlan::SubqueryAlias(alias)
        if alias.alias.table().starts_with(VOLATILE));
    if is_named || !subquery.outer_ref_columns.is_empty() || !is_volatile(&subquery.subquery)? {
        return Ok(None);
    }
    count.set(count.get() + 1);
    let name = format!("{VOLATILE}{}", count.get());
    let alias = SubqueryAlias::try_new(Arc::clone(&subquery.subquery), TableReference::bare(name))?;
    Ok(Some(Expr::ScalarSubquery(Subquery {
        subquery: Arc::new(LogicalPlan::SubqueryAlias(alias)),
        ..subquery.clone()
    })))
}

fn is_volatile(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.is_volatile();
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}

/// True if a query gives one row whatever the tables contain.
fn gives_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => gives_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => gives_one_row(&alias.input),
        LogicalPlan::Sort(sort) => gives_one_row(&sort.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}
