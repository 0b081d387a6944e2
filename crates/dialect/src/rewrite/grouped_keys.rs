//! `SELECT t.id, t.name … GROUP BY t.id`, where `id` is the primary key of `t`: the other columns
//! of a row follow from its key, so that PostgreSQL takes them beside aggregates. They become keys
//! of the groups, which stay the same groups.
//!
//! DataFusion does so for tables that report their keys, and derives wrong facts from them in other
//! places.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::walk;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Ident, Join, JoinOperator, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins, Value, Visitor,
};

use super::aggregates::names_aggregate;
use super::build::column_of;
use super::names::normalized;
use super::relations::{Relations, label};

/// A column as an expression names it: its relation, if that is written, and its name.
type Named = (Option<String>, String);

fn name_of(expr: &Expr) -> Option<Named> {
    match expr {
        Expr::Identifier(name) => Some((None, normalized(name))),
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [.., relation, column] => Some((Some(normalized(relation)), normalized(column))),
            _ => None,
        },
        Expr::Nested(inner) => name_of(inner),
        _ => None,
    }
}

/// The keys of a query's groups that are columns; `None` if it has none, or has grouping sets.
fn keys(select: &Select) -> Option<Vec<Named>> {
    let GroupByExpr::Expressions(keys, modifiers) = &select.group_by else { return None };
    let is_set =
        |key: &Expr| matches!(key, Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_));
    if !modifiers.is_empty() || keys.iter().any(is_set) {
        return None;
    }
    let keys: Vec<Named> = keys.iter().filter_map(|key| written(select, key)).collect();
    (!keys.is_empty()).then_some(keys)
}

/// The column of a key, which may be the position of an output column.
fn written(select: &Select, key: &Expr) -> Option<Named> {
    let Expr::Value(value) = key else { return name_of(key) };
    let Value::Number(number, _) = &value.value else { return None };
    let place = number.parse::<usize>().ok()?.checked_sub(1)?;
    match select.projection.get(place)? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => name_of(expr),
        _ => None,
    }
}

/// Columns that are used outside of aggregates.
#[derive(Default)]
struct Used {
    columns: BTreeSet<Named>,
    /// Number of calls of aggregates around the present expression.
    aggregates: usize,
    /// Number of queries around it.
    depth: usize,
}

fn is_aggregate(function: &Function) -> bool {
    function.over.is_none() && names_aggregate(function)
}

impl Visitor for Used {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if is_aggregate(function) => self.aggregates += 1,
            // A name without its relation is one of the inner query's where it is known there.
            Expr::Identifier(_) if self.depth > 0 => {}
            _ if self.aggregates > 0 && self.depth == 0 => {}
            _ => self.columns.extend(name_of(expr)),
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && is_aggregate(function)
        {
            self.aggregates -= 1;
        }
        ControlFlow::Continue(())
    }
}

/// The columns that a query uses outside of aggregates, behind its groups; and `true` for a star.
fn used(select: &Select, order: &[Expr]) -> (BTreeSet<Named>, bool) {
    let mut used = Used::default();
    let mut has_star = false;
    for item in &select.projection {
        has_star |= matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        let _ = walk::visit(item, &mut used);
    }
    let _ = walk::visit(&select.having, &mut used);
    let _ = walk::visit(&select.distinct, &mut used);
    let _ = walk::visit(&select.named_window, &mut used);
    // The name of an output column comes first in ORDER BY.
    let outputs = output_names(select);
    let is_output =
        |expr: &Expr| matches!(name_of(expr), Some((None, name)) if outputs.contains(&name));
    for expr in order.iter().filter(|expr| !is_output(expr)) {
        let _ = walk::visit(expr, &mut used);
    }
    (used.columns, has_star)
}

/// The expressions of a query's ORDER BY.
pub(super) fn order_of(query: &Query) -> Vec<Expr> {
    match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(items)) => {
            items.iter().map(|item| item.expr.clone()).collect()
        }
        _ => Vec::new(),
    }
}

/// True if the keys of the relations have to be known: a column outside of aggregates is no key of
/// the groups.
pub(super) fn may_follow(select: &Select, order: &[Expr]) -> bool {
    let Some(keys) = keys(select) else { return false };
    let (used, has_star) = used(select, order);
    has_star || used.iter().any(|(_, column)| keys.iter().all(|(_, key)| key != column))
}

fn output_names(select: &Select) -> Vec<String> {
    let names = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(normalized(alias)),
        _ => None,
    });
    names.collect()
}

/// The column that an output column of the name is.
fn output_named(select: &Select, name: &str) -> Option<Named> {
    select.projection.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if normalized(alias) == name => name_of(expr),
        _ => None,
    })
}

/// A table in FROM whose key is known.
struct Keyed {
    name: Ident,
    columns: Vec<String>,
    key: Vec<String>,
}

/// The relations of FROM: their names and columns, with the key of those that have one. `None` if
/// the columns of one are not known.
fn relations_of(
    from: &[TableWithJoins],
    relations: &Relations<'_>,
) -> Vec<(String, Option<Vec<String>>, Option<Keyed>)> {
    let mut found = Vec::new();
    let mut add = |factor: &TableFactor| {
        let Some(name) = label(factor) else { return };
        let columns = relations.columns_of(factor);
        let keyed = relations.key_of(factor).zip(columns.clone());
        let keyed = keyed.map(|(key, columns)| Keyed { name: name.clone(), columns, key });
        found.push((normalized(&name), columns, keyed));
    };
    fn each(from: &TableWithJoins, add: &mut impl FnMut(&TableFactor)) {
        let joined = from.joins.iter().map(|join| &join.relation);
        for factor in std::iter::once(&from.relation).chain(joined) {
            match factor {
                TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    each(table_with_joins, add);
                }
                factor => add(factor),
            }
        }
    }
    for from in from {
        each(from, &mut add);
    }
    found
}

/// Adds the columns that follow from the keys of the groups. `order` holds the expressions of
/// ORDER BY.
pub(super) fn complete(select: &mut Select, order: &[Expr], relations: &Relations<'_>) {
    let Some(keys) = keys(select) else { return };
    if !may_follow(select, order) {
        return;
    }
    let all = relations_of(&select.from, relations);
    if all.iter().all(|(_, _, keyed)| keyed.is_none()) {
        return;
    }
    let is_left = select.from.iter().flat_map(|from| &from.joins).all(keeps_left_keys);
    // The relation that a column is of, by its place.
    let home = |(relation, column): &Named| -> Option<usize> {
        if let Some(relation) = relation {
            return all.iter().position(|(name, _, _)| name == relation);
        }
        let has = |columns: &Option<Vec<String>>| {
            columns.as_ref().is_none_or(|columns| columns.contains(column))
        };
        let mut holders =
            all.iter().enumerate().filter(|(_, (_, columns, _))| has(columns)).map(|(at, _)| at);
        match (holders.next(), holders.next()) {
            (Some(only), None) => Some(only),
            // A merged key is the left one's; other names of several relations are ambiguous.
            (first, _) if is_left => first,
            _ => None,
        }
    };
    let grouped = |key: &Named| match home(key) {
        Some(at) => Some((at, key.1.clone())),
        // A name that no input column has is that of an output column.
        None => {
            let named = key.0.is_none().then(|| output_named(select, &key.1)).flatten()?;
            Some((home(&named)?, named.1))
        }
    };
    let grouped: BTreeSet<(usize, String)> = keys.iter().filter_map(grouped).collect();
    let is_grouped = |at: usize, column: &str| {
        grouped.iter().any(|(home, grouped)| *home == at && grouped == column)
    };
    let (used, _) = used(select, order);
    let mut wanted: BTreeSet<(usize, String)> =
        used.iter().filter_map(|column| Some((home(column)?, column.1.clone()))).collect();
    for (at, (name, columns, _)) in all.iter().enumerate() {
        if select.projection.iter().any(|item| shows(item, name)) {
            wanted.extend(columns.iter().flatten().map(|column| (at, column.clone())));
        }
    }
    let mut added = Vec::new();
    for (at, column) in wanted {
        let Some(keyed) = &all[at].2 else { continue };
        let follows = keyed.key.iter().all(|key| is_grouped(at, key));
        if follows && !is_grouped(at, &column) && keyed.columns.contains(&column) {
            added.push(column_of(&keyed.name, &column));
        }
    }
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        keys.extend(added);
    }
}

/// True if the merged keys of a join are those of its left side.
fn keeps_left_keys(join: &Join) -> bool {
    matches!(
        join.join_operator,
        JoinOperator::Join(_)
            | JoinOperator::Inner(_)
            | JoinOperator::Left(_)
            | JoinOperator::LeftOuter(_)
            | JoinOperator::CrossJoin(_)
    )
}

/// True for `*`, and for `t.*` of that relation.
fn shows(item: &SelectItem, relation: &str) -> bool {
    match item {
        SelectItem::Wildcard(_) => true,
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            let last = name.0.last().and_then(|part| part.as_ident());
            last.is_some_and(|last| normalized(last) == relation)
        }
        _ => false,
    }
}

/// Completes the groups of a query that is one SELECT, with its ORDER BY.
pub(super) fn complete_query(query: &mut Query, relations: &Relations<'_>) {
    let order = order_of(query);
    if let SetExpr::Select(select) = query.body.as_mut() {
        complete(select, &order, relations);
    }
}
