//! Spellings that DataFusion's planner refuses, rewritten to ones that it accepts.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, Function, GroupByExpr, LimitClause, OrderBy, OrderByKind,
    Query, Select, SelectItem, SetExpr, UnaryOperator, Value, Visit,
};
use thalweg_functions::WITH_TIES;
use thalweg_types::{Error, Result, SqlState};

use super::build::{arguments_of, call};
use super::figure::quoted;
use super::names::normalized;
use super::operators::binary;
use super::own_expressions;
use super::rows::parse_query;

/// Largest number of items of a `CUBE`, as in PostgreSQL.
const CUBE_MAX: usize = 12;

/// Rewrites the clauses of one query, not of those inside it.
pub(super) fn respell(query: &mut Query) -> Result<()> {
    fetch_as_limit(query)?;
    check_constants(query)?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        resolve_positions(select);
    }
    expand_tables(&mut query.body)
}

/// Constants in ORDER BY, GROUP BY and DISTINCT ON must be positions.
fn check_constants(query: &Query) -> Result<()> {
    if let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &query.order_by {
        orders.iter().try_for_each(|order| check_constant(&order.expr, "ORDER BY"))?;
    }
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    if let GroupByExpr::Expressions(keys, _) = &select.group_by {
        keys.iter().try_for_each(|key| check_constant(key, "GROUP BY"))?;
    }
    if let Some(Distinct::On(keys)) = &select.distinct {
        keys.iter().try_for_each(|key| check_constant(key, "DISTINCT ON"))?;
    }
    Ok(())
}

/// Positions that are too large are found where the number of columns is known.
fn check_constant(expr: &Expr, clause: &str) -> Result<()> {
    match expr {
        Expr::Nested(inner) => check_constant(inner, clause),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(number) if is_whole(&number.value) => Err(Error::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!("{clause} position -{} is not in select list", number.value),
            )),
            inner => match literal_number(inner) {
                true => check_constant(inner, clause),
                false => Ok(()),
            },
        },
        Expr::Value(constant) => match &constant.value {
            Value::Placeholder(_) => Ok(()),
            number if is_whole(number) => Ok(()),
            _ => {
                let error_text = format!("non-integer constant in {clause}");
                Err(Error::new(SqlState::SYNTAX_ERROR, error_text))
            }
        },
        _ => Ok(()),
    }
}

fn is_whole(number: &Value) -> bool {
    match number {
        Value::Number(digits, _) => digits.to_string().parse::<i64>().is_ok(),
        _ => false,
    }
}

fn literal_number(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Number(..)))
}

/// Window functions run after WHERE, so they cannot appear in it.
pub(super) fn check_windows(select: &Select) -> Result<()> {
    let end_at_window = |expr: &Expr| match expr {
        Expr::Function(function) if function.over.is_some() => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let clauses = [("WHERE", &select.selection), ("HAVING", &select.having)];
    for (name, clause) in clauses {
        if own_expressions::look_at(clause, end_at_window).is_break() {
            let error_text = format!("window functions are not allowed in {name}");
            return Err(Error::new(SqlState::WINDOWING_ERROR, error_text));
        }
    }
    Ok(())
}

/// Writes out the sets of elements that DataFusion does not take: `ROLLUP ((a, b), c)`, and those
/// in `GROUPING SETS (CUBE (a, b), c)`, which the parser takes for calls of functions.
pub(super) fn expand_sets(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    // DataFusion would make two columns of one name of a repeated item.
    let has_lists = |items: &[Vec<Expr>]| {
        let repeats = |(place, item)| items[..place].contains(item);
        items.iter().any(|item| item.len() != 1) || items.iter().enumerate().any(repeats)
    };
    for key in keys {
        match key {
            Expr::GroupingSets(sets) => {
                *sets = std::mem::take(sets).into_iter().flat_map(inner_sets).collect();
            }
            Expr::Rollup(items) if has_lists(items) => *key = Expr::GroupingSets(rollup(items)),
            Expr::Cube(items) if has_lists(items) && items.len() <= CUBE_MAX => {
                *key = Expr::GroupingSets(cube(items));
            }
            _ => {}
        }
    }
}

fn inner_sets(set: Vec<Expr>) -> Vec<Vec<Expr>> {
    let expanded = match set.as_slice() {
        [Expr::Function(element)] => sets_of_element(element),
        _ => None,
    };
    expanded.unwrap_or_else(|| vec![set])
}

/// The sets of `ROLLUP (…)` or `CUBE (…)`, whose items may be lists in parentheses.
fn sets_of_element(element: &Function) -> Option<Vec<Vec<Expr>>> {
    let name = normalized(element.name.0.last()?.as_ident()?);
    let items = arguments_of(element)?.into_iter().map(|item| match item {
        Expr::Tuple(members) => members.clone(),
        Expr::Nested(item) => vec![item.as_ref().clone()],
        item => vec![item.clone()],
    });
    let items: Vec<Vec<Expr>> = items.collect();
    match name.as_str() {
        "rollup" => Some(rollup(&items)),
        "cube" if items.len() <= CUBE_MAX => Some(cube(&items)),
        _ => None,
    }
}

fn rollup(items: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..=items.len()).rev().map(|count| set_of(items[..count].iter().flatten())).collect()
}

/// The members, each once.
fn set_of<'e>(members: impl Iterator<Item = &'e Expr>) -> Vec<Expr> {
    let mut set: Vec<Expr> = Vec::new();
    for member in members {
        if !set.contains(member) {
            set.push(member.clone());
        }
    }
    set
}

fn cube(items: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let set = |bits: usize| {
        let chosen = items.iter().enumerate().filter(|(place, _)| (bits >> place) & 1 == 1);
        set_of(chosen.flat_map(|(_, item)| item))
    };
    (0..1 << items.len()).map(set).collect()
}

/// `GROUP BY ()` makes one group of all rows, even if there are none, and so does HAVING without
/// GROUP BY.
pub(super) fn group_once(select: &mut Select) {
    let GroupByExpr::Expressions(keys, modifiers) = &mut select.group_by else { return };
    let before = keys.len();
    keys.retain(|key| !matches!(key, Expr::Tuple(members) if members.is_empty()));
    // A list in parentheses stands for its members, also beside GROUPING SETS.
    if keys.iter().any(|key| matches!(key, Expr::Tuple(_))) {
        let members = |key| match key {
            Expr::Tuple(members) => members,
            key => vec![key],
        };
        *keys = std::mem::take(keys).into_iter().flat_map(members).collect();
        return;
    }
    let is_without_groups = keys.is_empty() && modifiers.is_empty();
    // A call may be an aggregate, which makes one group already.
    let takes_one_group = before != keys.len()
        || (select.having.is_some() && !calls(&select.having) && !calls(&select.projection));
    if !is_without_groups || !takes_one_group {
        return;
    }
    let rows = call("count", vec![Expr::value(Value::Number("1".to_owned(), false))]);
    let zero = Expr::value(Value::Number("0".to_owned(), false));
    let always = binary(rows, BinaryOperator::GtEq, zero);
    select.having = Some(match select.having.take() {
        Some(having) => binary(Expr::Nested(Box::new(having)), BinaryOperator::And, always),
        None => always,
    });
}

fn calls(part: &impl Visit) -> bool {
    let is_call = |expr: &Expr| match expr {
        Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    own_expressions::look_at(part, is_call).is_break()
}

/// `DISTINCT ON (1)` means the first output column.
fn resolve_positions(select: &mut Select) {
    let Some(Distinct::On(expressions)) = &mut select.distinct else { return };
    for expression in expressions {
        let Expr::Value(value) = &*expression else { continue };
        let Value::Number(number, _) = &value.value else { continue };
        let Ok(position) = number.to_string().parse::<usize>() else { continue };
        // The number of columns behind `*` is not known here.
        let items = select.projection.iter().take(position);
        let mut named = items.map(|item| match item {
            SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. } => {
                Some(item)
            }
            _ => None,
        });
        if position > 0
            && named.clone().all(|item| item.is_some())
            && let Some(Some(item)) = named.nth(position - 1)
        {
            *expression = item.clone();
        }
    }
}

/// `FETCH FIRST n ROWS ONLY` becomes `LIMIT n`. A call around the count marks WITH TIES for the
/// plan.
fn fetch_as_limit(query: &mut Query) -> Result<()> {
    let Some(fetch) = query.fetch.take() else { return Ok(()) };
    if fetch.percent {
        return Err(Error::unsupported("FETCH FIRST with PERCENT"));
    }
    let one = || Expr::value(Value::Number("1".to_owned(), false));
    let mut quantity = fetch.quantity.unwrap_or_else(one);
    if fetch.with_ties {
        quantity = call(WITH_TIES, vec![quantity]);
    }
    let offset = match query.limit_clause.take() {
        Some(LimitClause::LimitOffset { offset, .. }) => offset,
        _ => None,
    };
    let limit = Some(quantity);
    query.limit_clause = Some(LimitClause::LimitOffset { limit, offset, limit_by: vec![] });
    Ok(())
}

/// `TABLE t` is `SELECT * FROM t`.
fn expand_tables(body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::Table(table) => {
            let Some(name) = table.table_name.as_deref() else { return Ok(()) };
            let parts = table.schema_name.as_deref().into_iter().chain([name]);
            let name = parts.map(|part| quoted(part).to_string()).collect::<Vec<_>>().join(".");
            *body = *parse_query(&format!("SELECT * FROM {name}"))?.body;
            Ok(())
        }
        SetExpr::SetOperation { left, right, .. } => {
            expand_tables(left)?;
            expand_tables(right)
        }
        _ => Ok(()),
    }
}
