//! Scalar subqueries that may give no row: then the value is NULL.
//!
//! DataFusion derives their nullability from their column. A subquery of a key would never be NULL:
//! then `(SELECT id …) IS NULL` would be false, and a NULL in the result would be an error.

use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
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
