//! `IN` over items that are not constant, as comparisons with each item.
//!
//! DataFusion computes the items over no rows, and takes the list for constant if each result is a
//! scalar. CASE and some functions return a scalar for no rows although they read columns, so that
//! every row would be compared with that scalar. No upstream issue found.

use datafusion::common::tree_node::TreeNode as _;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// The comparisons that a list with items that are not constant stands for, and the operator
/// between them. Constant items stay one list.
pub(super) fn comparisons(tested: &InList) -> Option<(Operator, Vec<Expr>)> {
    let InList { expr, list, negated } = tested;
    let varying = list.iter().filter(|item| varies(item)).count();
    let constant = list.len() - varying;
    // A volatile value must not be computed once for each comparison.
    if varying == 0 || (expr.is_volatile() && varying + constant.min(1) > 1) {
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
