//! `SELECT x, x AS y … GROUP BY x, ROLLUP (y)`: PostgreSQL groups by two results of one expression,
//! and `y` is NULL in the groups of `x` alone. DataFusion replaces `y` by its expression, and sees
//! the same key twice. A call that returns its argument makes the second result an expression of
//! its own. No upstream issue found.

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem};

use super::build::call;
use super::names::normalized;
use super::own_expressions;
use super::relations::Relations;

/// The results that a grouping set names and that repeat the expression of a result before them:
/// their names and expressions.
fn repeated(select: &Select) -> Vec<(String, Expr)> {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return Vec::new() };
    let is_set =
        |key: &Expr| matches!(key, Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_));
    if !keys.iter().any(is_set) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (place, item) in select.projection.iter().enumerate() {
        let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
        let is_same = |other: &SelectItem| match other {
            SelectItem::UnnamedExpr(other) | SelectItem::ExprWithAlias { expr: other, .. } => {
                other == expr
            }
            _ => false,
        };
        if select.projection[..place].iter().any(is_same) {
            found.push((normalized(alias), expr.clone()));
        }
    }
    let mut names = Vec::new();
    let _ = own_expressions::look_at(keys, |key| {
        names.extend(name_of(key));
        std::ops::ControlFlow::Continue(())
    });
    found.retain(|(name, _)| names.contains(name));
    found
}

fn name_of(key: &Expr) -> Option<String> {
    match key {
        Expr::Identifier(name) => Some(normalized(name)),
        _ => None,
    }
}

/// True if the columns of the relations have to be known.
pub(super) fn may_repeat(select: &Select) -> bool {
    !repeated(select).is_empty()
}

/// Makes each repeated result an expression of its own, here and in the keys.
pub(super) fn tell_apart(select: &mut Select, relations: &Relations<'_>) {
    let mut found = repeated(select);
    // The name of an input column comes first. Columns that are not known have any name.
    for from in &select.from {
        for factor in
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        {
            match relations.columns_of(factor) {
                Some(columns) => found.retain(|(name, _)| !columns.contains(name)),
                None => return,
            }
        }
    }
    for (name, expr) in found {
        let apart = call("may_be_missing", vec![expr]);
        for item in &mut select.projection {
            if let SelectItem::ExprWithAlias { expr, alias } = item
                && normalized(alias) == name
            {
                *expr = apart.clone();
            }
        }
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            own_expressions::change_inner_first(keys, |key| {
                if name_of(key).as_ref() == Some(&name) {
                    *key = apart.clone();
                }
            });
        }
    }
}
