//! `JOIN … USING (k)`: the one column that stands for both keys.
//!
//! DataFusion takes a bare `k` for the left side's key. That is NULL for rows which only the right
//! side of a RIGHT or FULL join has, and ambiguous in the conditions of later joins. Here a bare
//! `k` becomes the key that PostgreSQL means: the left one, the right one of RIGHT joins, and
//! `coalesce` of both for FULL joins. `*` shows merged columns first, as PostgreSQL does.
//!
//! The statement alone has to tell which relation a key belongs to. Where it does not (NATURAL, or
//! a key of one of several joined relations), DataFusion's reading stays.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, GroupByExpr, Ident, Join, JoinConstraint,
    JoinOperator, ObjectName, OrderByExpr, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, VisitMut, VisitorMut,
    WildcardAdditionalOptions,
};

use super::build::{call, column_of};
use super::figure::quoted;
use super::names::normalized;

/// A key that stands for several.
#[derive(Clone)]
struct Merged {
    name: String,
    value: Expr,
    /// The relations that have a key of this name.
    relations: Vec<Ident>,
}

impl Merged {
    /// Whether DataFusion would read the bare name in the same way.
    fn is_plain(&self) -> bool {
        matches!(self.value, Expr::CompoundIdentifier(_))
    }
}

/// What the relations of one item of FROM are called, and which keys they share.
#[derive(Default)]
struct Scope {
    relations: Vec<Ident>,
    /// In the order in which `*` shows them.
    merged: Vec<Merged>,
}

impl Scope {
    /// The key `name` of the relations so far, where it is clear which one has it.
    fn key(&self, name: &str) -> Option<Merged> {
        if let Some(merged) = self.merged.iter().find(|merged| merged.name == name) {
            return Some(merged.clone());
        }
        match self.relations.as_slice() {
            [only] => Some(Merged {
                name: name.to_owned(),
                value: column_of(only, name),
                relations: vec![only.clone()],
            }),
            _ => None,
        }
    }

    /// Takes the keys of one more join.
    fn merge(&mut self, keys: &[String], right: &Ident, side: Side) -> Option<()> {
        let mut merged = Vec::with_capacity(keys.len());
        for name in keys {
            let mut key = self.key(name)?;
            key.value = match side {
                Side::Left => key.value,
                Side::Right => column_of(right, name),
                Side::Both => call("coalesce", vec![key.value, column_of(right, name)]),
            };
            key.relations.push(right.clone());
            merged.push(key);
        }
        self.merged.retain(|old| !keys.contains(&old.name));
        merged.append(&mut self.merged);
        self.merged = merged;
        Some(())
    }
}

/// Which side of a join has the keys of all rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
    Both,
}

fn side_of(operator: &JoinOperator) -> Option<(Side, &JoinConstraint)> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => Some((Side::Left, constraint)),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
            Some((Side::Right, constraint))
        }
        JoinOperator::FullOuter(constraint) => Some((Side::Both, constraint)),
        JoinOperator::CrossJoin(constraint) => Some((Side::Left, constraint)),
        _ => None,
    }
}

fn using_keys(constraint: &JoinConstraint) -> Option<Vec<String>> {
    let JoinConstraint::Using(names) = constraint else { return None };
    names.iter().map(|name| Some(normalized(name.0.last()?.as_ident()?))).collect()
}

/// What a relation is called in its query.
fn label(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, alias: None, args: None, .. } => {
            name.0.last()?.as_ident().cloned()
        }
        _ => None,
    }
}

/// The relations and shared keys of an item of FROM; `each` sees every join, and what is to the
/// left of it.
fn scope_of(from: &TableWithJoins, mut each: impl FnMut(usize, &Scope, &Ident)) -> Option<Scope> {
    let mut scope = Scope { relations: vec![label(&from.relation)?], merged: Vec::new() };
    for (place, join) in from.joins.iter().enumerate() {
        let right = label(&join.relation)?;
        let (side, constraint) = side_of(&join.join_operator)?;
        each(place, &scope, &right);
        match constraint {
            JoinConstraint::Natural => return None,
            constraint => {
                if let Some(keys) = using_keys(constraint) {
                    scope.merge(&keys, &right, side)?;
                }
            }
        }
        scope.relations.push(right);
    }
    Some(scope)
}

fn scopes_of(select: &Select) -> Option<Vec<Scope>> {
    let joins_using = |join: &Join| {
        side_of(&join.join_operator).is_some_and(|(_, on)| matches!(on, JoinConstraint::Using(_)))
    };
    if !select.from.iter().any(|from| from.joins.iter().any(joins_using)) {
        return None;
    }
    select.from.iter().map(|from| scope_of(from, |_, _, _| {})).collect()
}

/// Gives bare names of shared keys their meaning, in everything but FROM.
pub(super) fn resolve_names(select: &mut Select, orders: &mut [OrderByExpr]) {
    let Some(scopes) = scopes_of(select) else { return };
    let merged: Vec<Merged> = scopes.into_iter().flat_map(|scope| scope.merged).collect();
    let mut output = Vec::new();
    let mut has_wildcard = false;
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                let name = normalized(name);
                if let Some(found) = merged.iter().find(|merged| merged.name == name) {
                    let (expr, alias) = (found.value.clone(), quoted(name.clone()));
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
                output.push(name);
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                output.push(normalized(alias));
                replace(expr, &merged);
            }
            SelectItem::UnnamedExpr(expr) => replace(expr, &merged),
            _ => has_wildcard = true,
        }
    }
    for clause in [&mut select.selection, &mut select.having, &mut select.qualify] {
        replace(clause, &merged);
    }
    if let GroupByExpr::Expressions(expressions, _) = &mut select.group_by {
        replace(expressions, &merged);
    }
    for order in orders {
        // A name alone means the output column, where there is one.
        let is_output = matches!(&order.expr, Expr::Identifier(name)
            if has_wildcard || output.contains(&normalized(name)));
        if !is_output {
            replace(&mut order.expr, &merged);
        }
    }
}

/// Spells out `*` and the conditions of joins; after the output columns have got their names.
pub(super) fn expand(select: &mut Select) {
    let Some(scopes) = scopes_of(select) else { return };
    let projection = std::mem::take(&mut select.projection);
    for item in projection {
        match item {
            SelectItem::Wildcard(options) if options.opt_exclude.is_none() => {
                scopes.iter().for_each(|scope| show_all(scope, &options, &mut select.projection));
            }
            other => select.projection.push(other),
        }
    }
    for from in &mut select.from {
        let mut conditions = Vec::new();
        // Names in `ON` mean what is to the left of them.
        let _ = scope_of(from, |place, left, right| {
            conditions.push((
                place,
                left.merged.clone(),
                condition(left, &from.joins[place], right),
            ));
        });
        for (place, merged, condition) in conditions {
            let Some(on) = constraint_of(&mut from.joins[place].join_operator) else { continue };
            match (&mut *on, condition) {
                (_, Some(condition)) => *on = JoinConstraint::On(condition),
                (JoinConstraint::On(given), None) => replace(given, &merged),
                _ => {}
            }
        }
    }
}

/// `left.k = right.k AND …`, where DataFusion's USING would look at another key than it should.
fn condition(left: &Scope, join: &Join, right: &Ident) -> Option<Expr> {
    let (side, constraint) = side_of(&join.join_operator)?;
    let keys = using_keys(constraint)?;
    let is_plain =
        |name: &String| left.merged.iter().all(|merged| merged.name != *name || merged.is_plain());
    if side == Side::Left && left.relations.len() == 1 && keys.iter().all(is_plain) {
        return None;
    }
    let equal = |name: &String| {
        let (left, right) = (Box::new(left.key(name)?.value), Box::new(column_of(right, name)));
        Some(Expr::BinaryOp { left, op: BinaryOperator::Eq, right })
    };
    let equal: Vec<Expr> = keys.iter().map(equal).collect::<Option<_>>()?;
    equal.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    })
}

fn constraint_of(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

/// Merged columns, then what else each relation has.
fn show_all(scope: &Scope, options: &WildcardAdditionalOptions, items: &mut Vec<SelectItem>) {
    for Merged { name, value, .. } in &scope.merged {
        items.push(match value {
            Expr::CompoundIdentifier(_) => SelectItem::UnnamedExpr(value.clone()),
            value => SelectItem::ExprWithAlias { expr: value.clone(), alias: quoted(name.clone()) },
        });
    }
    for relation in &scope.relations {
        let keys = scope.merged.iter().filter(|merged| merged.relations.contains(relation));
        let keys: Vec<ObjectName> =
            keys.map(|merged| ObjectName::from(vec![quoted(merged.name.clone())])).collect();
        let exclude = (!keys.is_empty()).then_some(ExcludeSelectItem::Multiple(keys));
        let kind = SelectItemQualifiedWildcardKind::ObjectName(vec![relation.clone()].into());
        let options = WildcardAdditionalOptions { opt_exclude: exclude, ..options.clone() };
        items.push(SelectItem::QualifiedWildcard(kind, options));
    }
}

/// Puts the shared keys in place of their bare names; queries inside have names of their own.
fn replace(node: &mut impl VisitMut, merged: &[Merged]) {
    let _ = node.visit(&mut Replace { merged, depth: 0 });
}

struct Replace<'a> {
    merged: &'a [Merged],
    depth: usize,
}

impl VisitorMut for Replace<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let (0, Expr::Identifier(name)) = (self.depth, &*expr) {
            let name = normalized(name);
            if let Some(found) = self.merged.iter().find(|merged| merged.name == name) {
                *expr = found.value.clone();
            }
        }
        ControlFlow::Continue(())
    }
}
