//! `IN` over items that are not constant, as comparisons with each item.
//!
//! DataFusion computes the items over no rows, and takes the list for constant if each result is a
//! scalar. CASE and some functions return a scalar for no rows although they read columns, so that
//! every row would be compared with that scalar. No upstream issue found.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode as _;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use thalweg_functions::LISTED;

use super::interval_order;

/// The comparisons that a list with items that are not constant stands for, and the operator
/// between them. Constant items stay one list.
pub(super) fn comparisons(tested: &InList) -> Option<(Operator, Vec<Expr>)> {
    let InList { expr, list, negated } = tested;
    let varying = list.iter().filter(|item| varies(item)).count();
    if varying == 0 || must_be_one_call(tested) {
        return None;
    }
    let (compare, between) = match negated {
        false => (Operator::Eq, Operator::Or),
        true => (Operator::NotEq, Operator::And),
    };
    let (varying, constant): (Vec<Expr>, Vec<Expr>) = list.iter().cloned().partition(varies);
    let constant =
        (!constant.is_empty()).then(|| Expr::InList(InList::new(expr.clone(), constant, *negated)));
    let varying = varying
        .into_iter()
        .map(|item| Expr::BinaryExpr(BinaryExpr::new(expr.clone(), compare, Box::new(item))));
    Some((between, constant.into_iter().chain(varying).collect()))
}

/// The call that stands for a list whose tested value is volatile: it must not be computed once for
/// each comparison.
pub(super) fn one_call(tested: &InList, schema: &DFSchema) -> Option<Expr> {
    if !must_be_one_call(tested) || tested.expr.get_type(schema).ok()?.is_nested() {
        return None;
    }
    let values = std::iter::once(tested.expr.as_ref()).chain(&tested.list);
    let values = values.map(|value| interval_order::comparable(value, schema)).collect();
    let listed = LISTED.call(values);
    Some(if tested.negated { Expr::Not(Box::new(listed)) } else { listed })
}

fn must_be_one_call(InList { expr, list, .. }: &InList) -> bool {
    expr.is_volatile() && list.len() > 1 && list.iter().any(varies)
}

/// True if an item may have another value for each row.
fn varies(item: &Expr) -> bool {
    let depends = item.exists(|part| {
        Ok(matches!(
            part,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        ))
    });
    depends.unwrap_or(true) || item.is_volatile()
}
