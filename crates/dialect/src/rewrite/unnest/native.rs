//! Classifies the subqueries that DataFusion answers itself, correctly and with its best plans.
//!
//! The list holds shapes that are known to be right, and everything else is ours: DataFusion pulls
//! correlated predicates up through a few operators only, and its mark joins ignore NULL.

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Distinct, Expr, LogicalPlan, Operator, Subquery};

use super::contains_subquery;
use super::domain::outer_references;
use super::replace::without_source;

/// Where in a plan a subquery stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A predicate of a filter, or one of several joined by AND.
    Conjunct,
    /// Deeper in a filter's predicate.
    Filter,
    /// In a projection's expression.
    Projection,
    /// Anywhere else.
    Elsewhere,
}

/// True if a subquery of the plan over `outer` is left to DataFusion.
pub(super) fn is_native(expression: &Expr, place: Place, outer: &LogicalPlan) -> Result<bool> {
    match expression {
        Expr::ScalarSubquery(subquery) => scalar_is_native(subquery, place, outer),
        Expr::Exists(Exists { subquery, .. }) => Ok(matches!(place, Place::Conjunct)
            && is_bound(subquery, outer)?
            && is_joinable(&subquery.subquery)?),
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            if place != Place::Conjunct || contains_subquery(expr) {
                return Ok(false);
            }
            let correlated = !outer_references(&subquery.subquery)?.is_empty();
            // DataFusion's null-aware anti join takes a single key and no filter, and derives from
            // the columns of its condition alone if there may be NULLs. Upstream:
            // <https://github.com/apache/datafusion/issues/25347>.
            let has_key = matches!(expr.as_ref(), Expr::Column(_));
            Ok((!*negated || (has_key && !correlated))
                && is_bound(subquery, outer)?
                && is_joinable(&subquery.subquery)?)
        }
        _ => Ok(false),
    }
}

/// True if all outer references are to `outer` itself, and DataFusion can pull them up.
fn is_bound(subquery: &Subquery, outer: &LogicalPlan) -> Result<bool> {
    let references = outer_references(&subquery.subquery)?;
    let bound =
        references.iter().all(|reference| outer.schema().index_of_column(reference).is_ok());
    Ok(bound && (references.is_empty() || !shadows_a_column(&subquery.subquery)?))
}

/// True if an output of the plan has the name of a column of a table in it. DataFusion adds the
/// columns of the correlation to the outputs, and then can't tell the two apart.
fn shadows_a_column(plan: &LogicalPlan) -> Result<bool> {
    let is_output = |name: &String| {
        let mut outputs = plan.schema().iter();
        outputs.any(|(qualifier, field)| qualifier.is_none() && field.name() == name)
    };
    let mut shadows = false;
    plan.apply(|node| {
        let mut columns = node.schema().iter();
        shadows |= columns.any(|(qualifier, field)| qualifier.is_some() && is_output(field.name()));
        Ok(if shadows { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(shadows)
}

/// A filter with the correlation, over a plan without, under operators that don't count rows.
fn is_joinable(plan: &LogicalPlan) -> Result<bool> {
    if outer_references(plan)?.is_empty() {
        return Ok(true);
    }
    match plan {
        LogicalPlan::Projection(projection) => {
            let correlated = projection.expr.iter().any(Expr::contains_outer);
            Ok(!correlated && is_joinable(&projection.input)?)
        }
        LogicalPlan::SubqueryAlias(alias) => is_joinable(&alias.input),
        LogicalPlan::Distinct(Distinct::All(input)) => is_joinable(input),
        LogicalPlan::Filter(filter) => {
            let plain = split_conjunction(&filter.predicate)
                .into_iter()
                .all(|predicate| !(predicate.contains_outer() && contains_subquery(predicate)));
            Ok(plain && outer_references(&filter.input)?.is_empty())
        }
        _ => Ok(false),
    }
}

/// DataFusion runs a scalar subquery without outer references on its own, and joins a plain
/// aggregate whose correlation is by equalities with columns.
fn scalar_is_native(subquery: &Subquery, place: Place, outer: &LogicalPlan) -> Result<bool> {
    if outer_references(&subquery.subquery)?.is_empty() {
        return Ok(without_source(&subquery.subquery).is_none());
    }
    if place == Place::Elsewhere || !is_bound(subquery, outer)? {
        return Ok(false);
    }
    aggregates_by_equality(&subquery.subquery, false)
}

/// `computes` is true if a value is computed from the aggregates. DataFusion's join leaves it NULL
/// for outer rows without any inner ones, which is right if the aggregates of no rows are NULL and
/// each operator gives NULL for NULL.
fn aggregates_by_equality(plan: &LogicalPlan, computes: bool) -> Result<bool> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let mut expressions = projection.expr.iter();
            let plain = expressions.all(|expression| {
                let inside = !expression.contains_outer() && !contains_subquery(expression);
                inside && is_null_for_null(expression)
            });
            let mut expressions = projection.expr.iter();
            let computes = computes || !expressions.all(is_bare_column);
            Ok(plain && aggregates_by_equality(&projection.input, computes)?)
        }
        LogicalPlan::SubqueryAlias(alias) => aggregates_by_equality(&alias.input, computes),
        LogicalPlan::Aggregate(aggregate) => {
            if computes && !aggregate.aggr_expr.iter().all(is_null_of_nothing) {
                return Ok(false);
            }
            let mut expressions = aggregate.aggr_expr.iter();
            let plain = expressions
                .all(|expression| !expression.contains_outer() && !contains_subquery(expression));
            Ok(plain && aggregate.group_expr.is_empty() && filters_by_equality(&aggregate.input)?)
        }
        _ => Ok(false),
    }
}

fn is_bare_column(expression: &Expr) -> bool {
    match expression {
        Expr::Alias(alias) => is_bare_column(&alias.expr),
        expression => matches!(expression, Expr::Column(_)),
    }
}

/// True if an expression is NULL whenever its columns are: arithmetic of at least one column.
fn is_null_for_null(expression: &Expr) -> bool {
    let is_arithmetic = |name: &str| {
        ["integer_", "float_", "numeric_", "postgres_cast"]
            .iter()
            .any(|family| name.starts_with(family))
    };
    match expression {
        Expr::Column(_) => true,
        Expr::Alias(alias) => is_null_for_null(&alias.expr),
        Expr::Cast(cast) => is_null_for_null(&cast.expr),
        Expr::Negative(operand) => is_null_for_null(operand),
        Expr::BinaryExpr(binary) if binary.op.is_numerical_operators() => {
            is_null_for_null(&binary.left) || is_null_for_null(&binary.right)
        }
        Expr::ScalarFunction(call) if is_arithmetic(call.func.name()) => {
            call.args.iter().any(is_null_for_null)
        }
        _ => false,
    }
}

/// True if an aggregate of no rows is NULL.
fn is_null_of_nothing(expression: &Expr) -> bool {
    match expression {
        Expr::Alias(alias) => is_null_of_nothing(&alias.expr),
        Expr::AggregateFunction(call) => call.func.name() != "count",
        _ => false,
    }
}

fn filters_by_equality(plan: &LogicalPlan) -> Result<bool> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => filters_by_equality(&alias.input),
        LogicalPlan::Filter(filter) => {
            let plain = split_conjunction(&filter.predicate)
                .into_iter()
                .all(|predicate| !predicate.contains_outer() || is_column_equality(predicate));
            Ok(plain && outer_references(&filter.input)?.is_empty())
        }
        _ => Ok(false),
    }
}

fn is_column_equality(predicate: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = predicate else {
        return false;
    };
    matches!(
        (left.as_ref(), right.as_ref()),
        (Expr::Column(_), Expr::OuterReferenceColumn(..))
            | (Expr::OuterReferenceColumn(..), Expr::Column(_))
    )
}
