//! Comparisons of a column with constants in one form: the column on the left, one zero, one NaN.
//!
//! DataFusion's `simplify_predicates` takes two equalities of a column for a contradiction unless
//! they are the same expression. `c = 'b' AND 'b' = c` became false, and so did `f = 0 AND
//! f = '-0'`. Among bounds of one value it prefers the strict one, but it recognises a strict bound
//! by the operator alone, which a constant on the left reverses. The guarded pass gets the filters
//! and conditions of joins in a form in which two equalities differ only if their values do.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::OptimizerConfig;

use super::Pass;

pub(super) fn rewrite(
    pass: &Pass,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> PlanResult<Transformed<LogicalPlan>> {
    let Transformed { data: plan, transformed: changed, .. } = in_one_form(plan);
    let mut rewritten = pass.rewrite(plan, config)?;
    rewritten.transformed |= changed;
    Ok(rewritten)
}

/// The conditions of the node in one form, and those of the filters directly below a filter, which
/// the pass merges with it.
fn in_one_form(plan: LogicalPlan) -> Transformed<LogicalPlan> {
    match plan {
        LogicalPlan::Filter(mut filter) => {
            let condition = condition_in_one_form(filter.predicate);
            filter.predicate = condition.data;
            let mut changed = condition.transformed;
            if let LogicalPlan::Filter(_) = filter.input.as_ref() {
                let below = in_one_form(Arc::unwrap_or_clone(filter.input));
                filter.input = Arc::new(below.data);
                changed |= below.transformed;
            }
            Transformed::new_transformed(LogicalPlan::Filter(filter), changed)
        }
        LogicalPlan::Join(mut join) => {
            let condition = join.filter.map(condition_in_one_form);
            let changed = condition.as_ref().is_some_and(|condition| condition.transformed);
            join.filter = condition.map(|condition| condition.data);
            Transformed::new_transformed(LogicalPlan::Join(join), changed)
        }
        other => Transformed::no(other),
    }
}

fn condition_in_one_form(condition: Expr) -> Transformed<Expr> {
    let parts = split_conjunction(&condition);
    if parts.iter().all(|part| comparison_in_one_form(part).is_none()) {
        return Transformed::no(condition);
    }
    let parts = split_conjunction_owned(condition);
    let parts = parts.into_iter().map(|part| comparison_in_one_form(&part).unwrap_or(part));
    Transformed::yes(conjunction(parts).unwrap_or_default())
}

/// Another form of a comparison of a column with a constant; `None` if it has this form already.
fn comparison_in_one_form(part: &Expr) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = part else { return None };
    let (column, op, value) = match (left.as_ref(), right.as_ref()) {
        (column @ Expr::Column(_), Expr::Literal(value, None)) => {
            (column, *op, with_one_zero(value)?)
        }
        // Metadata of a literal would make equal literals differ.
        (column @ Expr::Column(_), Expr::Literal(value, Some(_))) if is_ordering(*op) => {
            (column, *op, with_one_zero(value).unwrap_or_else(|| value.clone()))
        }
        (Expr::Literal(value, _), column @ Expr::Column(_)) => {
            (column, op.swap()?, with_one_zero(value).unwrap_or_else(|| value.clone()))
        }
        _ => return None,
    };
    if !is_ordering(op) {
        return None;
    }
    let (column, value) = (Box::new(column.clone()), Box::new(Expr::Literal(value, None)));
    Some(Expr::BinaryExpr(BinaryExpr::new(column, op, value)))
}

/// True for the operators whose comparisons DataFusion merges.
fn is_ordering(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Zero without a sign, or the one NaN; `None` for any other value.
pub(crate) fn with_one_zero(value: &ScalarValue) -> Option<ScalarValue> {
    Some(match value {
        ScalarValue::Float32(Some(number)) if number.is_nan() => {
            let same = number.to_bits() == f32::NAN.to_bits();
            return (!same).then_some(ScalarValue::Float32(Some(f32::NAN)));
        }
        ScalarValue::Float64(Some(number)) if number.is_nan() => {
            let same = number.to_bits() == f64::NAN.to_bits();
            return (!same).then_some(ScalarValue::Float64(Some(f64::NAN)));
        }
        ScalarValue::Float32(Some(number)) if *number == 0.0 && number.is_sign_negative() => {
            ScalarValue::Float32(Some(0.0))
        }
        ScalarValue::Float64(Some(number)) if *number == 0.0 && number.is_sign_negative() => {
            ScalarValue::Float64(Some(0.0))
        }
        _ => return None,
    })
}
