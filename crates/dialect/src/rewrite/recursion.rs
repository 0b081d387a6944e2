//! `WITH RECURSIVE` queries: refuses clauses that the planner ignores, and marks the expressions of
//! the recursive part, so that their types are known later.
//!
//! DataFusion casts the columns of the recursive part to the types of the first one, and ignores
//! ORDER BY and LIMIT of the query. PostgreSQL refuses both. A cast that DataFusion adds looks like
//! one that is written out. Therefore each written expression of the recursive part is put into a
//! call that does nothing and is gone once the plan is optimised. The pass over unions looks for
//! casts of such calls (`analyze/recursive_types.rs`). No upstream issue found.

use std::ops::ControlFlow;

use crate::walk;
use datafusion::sql::sqlparser::ast::{
    Cte, DataType, ExactNumberInfo, Expr, ObjectName, Query, Select, SelectItem, SetExpr,
    SetOperator, Value,
};
use thalweg_types::{Error, Result};

use super::build::{call, cast, text};
use super::names::normalized;

/// The function around a cast: see [`casts`](super::casts).
const MARKER: &str = "cast_as_told";

/// Checks and marks the queries in the `WITH RECURSIVE` of a query.
pub(super) fn mark(query: &mut Query) -> Result<()> {
    let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return Ok(()) };
    with.cte_tables.iter_mut().try_for_each(mark_one)
}

fn mark_one(cte: &mut Cte) -> Result<()> {
    let name = normalized(&cte.alias.name);
    let query = cte.query.as_mut();
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = query.body.as_mut()
    else {
        return Ok(());
    };
    if !names(right.as_ref(), &name) {
        return Ok(());
    }
    for (is_present, clause) in [
        (query.order_by.is_some(), "ORDER BY"),
        (query.limit_clause.is_some() || query.fetch.is_some(), "LIMIT"),
    ] {
        if is_present {
            return Err(Error::unsupported(format!("{clause} in a recursive query")));
        }
    }
    if let Some(select) = select_of(left) {
        items(select).for_each(widen);
    }
    if let Some(select) = select_of(right) {
        items(select).filter(|item| may_be_cast(item)).for_each(|item| {
            *item = call(MARKER, vec![item.clone(), text("recursive".to_owned())]);
        });
    }
    Ok(())
}

/// True if a query refers to a relation by its name alone.
fn names(query: &SetExpr, name: &str) -> bool {
    let is_name = |relation: &ObjectName| match relation.0.as_slice() {
        [part] => match part.as_ident() {
            Some(part) if normalized(part) == name => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        },
        _ => ControlFlow::Continue(()),
    };
    walk::visit_relations(query, is_name).is_break()
}

fn select_of(part: &mut SetExpr) -> Option<&mut Select> {
    match part {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => select_of(&mut query.body),
        _ => None,
    }
}

fn items(select: &mut Select) -> impl Iterator<Item = &mut Expr> {
    select.projection.iter_mut().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    })
}

/// Casts a number with a point to the greatest precision: each step may need more digits before the
/// point.
fn widen(item: &mut Expr) {
    let Expr::Value(value) = &*item else { return };
    let Value::Number(digits, _) = &value.value else { return };
    let digits = digits.to_string();
    let Some((_, fraction)) = digits.split_once('.') else { return };
    if fraction.bytes().all(|digit| digit.is_ascii_digit()) && fraction.len() < 20 {
        let digits = ExactNumberInfo::PrecisionAndScale(38, fraction.len() as i64);
        *item = cast(item.clone(), DataType::Numeric(digits));
    }
}

/// True for expressions that are planned as a cast, or as something around one.
fn may_be_cast(item: &Expr) -> bool {
    match item {
        Expr::Nested(inner) => may_be_cast(inner),
        Expr::Cast { .. }
        | Expr::TypedString(_)
        | Expr::BinaryOp { .. }
        | Expr::UnaryOp { .. }
        | Expr::Case { .. }
        | Expr::Interval(_) => true,
        _ => false,
    }
}
