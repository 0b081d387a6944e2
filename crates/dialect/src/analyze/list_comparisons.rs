//! Comparisons of arrays, which Arrow orders differently: see
//! [`comparison`](thalweg_functions::comparison).

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::Between;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use thalweg_functions::{comparison, item_type};

/// The function in the place of a comparison of two arrays.
pub(super) fn of_lists(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if is_right_in_arrow(*op, left, schema) || is_right_in_arrow(*op, right, schema) {
                return None;
            }
            Some(comparison(*op)?.call(vec![left.as_ref().clone(), right.as_ref().clone()]))
        }
        Expr::Between(Between { expr, negated, low, high })
            if !is_right_in_arrow(Operator::Lt, expr, schema) =>
        {
            let compared = |op, bound: &Expr| {
                Some(comparison(op)?.call(vec![expr.as_ref().clone(), bound.clone()]))
            };
            Some(match negated {
                false => compared(Operator::GtEq, low)?.and(compared(Operator::LtEq, high)?),
                true => compared(Operator::Lt, low)?.or(compared(Operator::Gt, high)?),
            })
        }
        _ => None,
    }
}

/// True unless the operand is an array that Arrow compares differently. Equality differs only for
/// items of some types.
fn is_right_in_arrow(op: Operator, operand: &Expr, schema: &DFSchema) -> bool {
    let Ok(given @ ArrowType::List(_)) = operand.get_type(schema) else { return true };
    let is_equality = matches!(op, Operator::Eq | Operator::NotEq);
    let item = item_type(&given);
    is_equality && !item.is_floating() && !matches!(item, ArrowType::Interval(_))
}
