//! Tests of one value against several lists, which DataFusion merges into one list.
//!
//! It reduces `d NOT IN (1, 5) OR d NOT IN (2, 3)` to the items that both lists have. There are
//! none, so it takes the condition for true, but for NULL it is NULL. This pass makes the tested
//! values look different, so that DataFusion does not merge their lists.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, ScalarUDF};
use thalweg_values::cast_function::CastFunction;
use thalweg_values::types;

/// Rewrites `AND` and `OR` so that the lists on the right test another value than all lists before
/// them.
pub(super) fn apart(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    if !matches!(op, Operator::And | Operator::Or) {
        return None;
    }
    let mut before = Vec::new();
    lists(left, *op, &mut before);
    if before.is_empty() {
        return None;
    }
    let right = Box::new(told_apart(right, *op, &mut before, schema)?);
    Some(Expr::BinaryExpr(BinaryExpr::new(left.clone(), *op, right)))
}

/// The lists of a chain of one operator.
fn lists(expr: &Expr, op: Operator, found: &mut Vec<InList>) {
    match expr {
        Expr::InList(list) => found.push(list.clone()),
        Expr::BinaryExpr(binary) if binary.op == op => {
            lists(&binary.left, op, found);
            lists(&binary.right, op, found);
        }
        _ => {}
    }
}

fn told_apart(
    expr: &Expr,
    op: Operator,
    before: &mut Vec<InList>,
    schema: &DFSchema,
) -> Option<Expr> {
    match expr {
        Expr::InList(list) => {
            let mut marked = list.clone();
            while before.iter().any(|b| b.expr == marked.expr && may_vanish(op, b, &marked)) {
                marked = of_another(&marked, schema)?;
            }
            before.push(marked.clone());
            (marked.expr != list.expr).then_some(Expr::InList(marked))
        }
        Expr::BinaryExpr(binary) if binary.op == op => {
            let left = told_apart(&binary.left, op, before, schema);
            let right = told_apart(&binary.right, op, before, schema);
            if left.is_none() && right.is_none() {
                return None;
            }
            let left = left.map_or_else(|| binary.left.clone(), Box::new);
            let right = right.map_or_else(|| binary.right.clone(), Box::new);
            Some(Expr::BinaryExpr(BinaryExpr::new(left, op, right)))
        }
        _ => None,
    }
}

/// True if the merged list may be empty, here or below a `NOT`. All other merges keep NULL.
fn may_vanish(op: Operator, left: &InList, right: &InList) -> bool {
    match op {
        Operator::Or => left.negated || right.negated,
        _ => !(left.negated && right.negated),
    }
}

/// A copy of the list test whose value looks different to DataFusion.
fn of_another(list: &InList, schema: &DFSchema) -> Option<InList> {
    let (_, field) = list.expr.to_field(schema).ok()?;
    let to = types::from_field(&field).ok()?;
    let same = ScalarUDF::from(CastFunction::new(to, field));
    let tested = Arc::new(same).call(vec![list.expr.as_ref().clone()]);
    Some(InList::new(Box::new(tested), list.list.clone(), list.negated))
}
