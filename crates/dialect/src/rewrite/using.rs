//! `JOIN … USING (k)` and `NATURAL JOIN`: the one column that stands for both keys.
//!
//! DataFusion takes a bare `k` for the left side's key. It is NULL for rows which only the right
//! side of a RIGHT or FULL join has, and ambiguous in the conditions of later joins. Here a bare
//! `k` becomes the key that PostgreSQL means: the left one, the right one of RIGHT joins, and
//! `coalesce` of both for FULL joins. `*` shows merged columns first, as PostgreSQL does.
//!
//! The columns of all relations ([`Relations`]) tell which relation has a key, and by which keys
//! NATURAL joins. If they are not known, and the statement does not tell, DataFusion's reading
//! stays.

mod scope;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, GroupByExpr, Join, JoinConstraint, JoinOperator,
    ObjectName, OrderByExpr, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor,
    TableWithJoins, Value, VisitMut, WildcardAdditionalOptions,
};

use super::figure::quoted;
use super::names::normalized;
use super::own_expressions;
use super::relations::Relations;
use scope::{Merged, Shown, Side};
pub(super) use scope::{Scope, constraint_of, may_lack_rows};

/// The scopes of a FROM in which keys are merged.
fn scopes_of(select: &Select, relations: &Relations) -> Option<Vec<Scope>> {
    if !select.from.iter().any(merges_keys) {
        return None;
    }
    select.from.iter().map(|from| Scope::of(from, relations)).collect()
}

fn merges_keys(from: &TableWithJoins) -> bool {
    let inside = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, alias: None } => merges_keys(table_with_joins),
        _ => false,
    };
    let merges = |join: &Join| {
        let constraint = constraint_of(&join.join_operator);
        matches!(constraint, Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
            || inside(&join.relation)
    };
    inside(&from.relation) || from.joins.iter().any(merges)
}

/// Gives bare names of shared keys their meaning, in everything but FROM.
pub(super) fn resolve_names(
    select: &mut Select,
    orders: &mut [OrderByExpr],
    relations: &Relations,
) {
    let Some(scopes) = scopes_of(select, relations) else { return };
    let merged: Vec<Merged> = scopes.iter().flat_map(Scope::merged).cloned().collect();
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
pub(super) fn expand(select: &mut Select, relations: &Relations) {
    let Some(scopes) = scopes_of(select, relations) else { return };
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
        spell_conditions(from, relations);
    }
}

/// Names in a join's condition refer to the relations to the left of it.
fn spell_conditions(from: &mut TableWithJoins, relations: &Relations) {
    let inside = |factor: &mut TableFactor| {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            spell_conditions(table_with_joins, relations);
        }
    };
    let Some(mut left) = Scope::of_factor(&from.relation, relations) else { return };
    inside(&mut from.relation);
    for join in &mut from.joins {
        let Some(right) = Scope::of_factor(&join.relation, relations) else { return };
        let Some(joined) = left.joined(join, &right) else { return };
        let condition = condition(&left, join, &right);
        inside(&mut join.relation);
        if let Some(constraint) = constraint_mut(&mut join.join_operator) {
            match (&mut *constraint, condition) {
                (_, Some(condition)) => *constraint = JoinConstraint::On(condition),
                (JoinConstraint::On(given), None) => {
                    let merged: Vec<Merged> =
                        left.merged().chain(right.merged()).cloned().collect();
                    replace(given, &merged);
                }
                _ => {}
            }
        }
        left = joined;
    }
}

/// `left.k = right.k AND …`, if DataFusion would compare other keys.
fn condition(left: &Scope, join: &Join, right: &Scope) -> Option<Expr> {
    let constraint = constraint_of(&join.join_operator)?;
    let is_natural = matches!(constraint, JoinConstraint::Natural);
    if !is_natural && !matches!(constraint, JoinConstraint::Using(_)) {
        return None;
    }
    let is_plain = |scope: &Scope| matches!(scope.shown.as_slice(), [Shown::Rest(_)]);
    let side = Side::of(&join.join_operator)?;
    if !is_natural && side == Side::Left && is_plain(left) && is_plain(right) {
        return None;
    }
    let equal = |name: &String| {
        let (left, right) = (Box::new(left.key(name)?.value), Box::new(right.key(name)?.value));
        Some(Expr::BinaryOp { left, op: BinaryOperator::Eq, right })
    };
    let equal: Vec<Expr> = left.keys(join, right)?.iter().map(equal).collect::<Option<_>>()?;
    let all = equal.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    });
    // Without a common column the join is a cross join.
    Some(all.unwrap_or_else(|| Expr::value(Value::Boolean(true))))
}

fn constraint_mut(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
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

/// Merged columns, then the other columns of each relation.
fn show_all(scope: &Scope, options: &WildcardAdditionalOptions, items: &mut Vec<SelectItem>) {
    for shown in &scope.shown {
        items.push(match shown {
            Shown::Key(Merged { name, value, .. }) => match value {
                Expr::CompoundIdentifier(_) => SelectItem::UnnamedExpr(value.clone()),
                value => {
                    SelectItem::ExprWithAlias { expr: value.clone(), alias: quoted(name.clone()) }
                }
            },
            Shown::Rest(relation) => {
                let keys = scope.keys_of(relation).into_iter();
                let keys: Vec<ObjectName> =
                    keys.map(|key| ObjectName::from(vec![quoted(key)])).collect();
                if relation.columns.as_ref().is_some_and(|own| own.len() == keys.len()) {
                    // Nothing is left of it, which DataFusion would refuse.
                    continue;
                }
                let exclude = (!keys.is_empty()).then_some(ExcludeSelectItem::Multiple(keys));
                let name = vec![relation.name.clone()].into();
                let kind = SelectItemQualifiedWildcardKind::ObjectName(name);
                let options = WildcardAdditionalOptions { opt_exclude: exclude, ..options.clone() };
                SelectItem::QualifiedWildcard(kind, options)
            }
        });
    }
}

/// Puts the shared keys in place of their bare names; queries inside have names of their own.
fn replace(node: &mut impl VisitMut, merged: &[Merged]) {
    own_expressions::change(node, |expr| {
        let Expr::Identifier(name) = &*expr else { return };
        let name = normalized(name);
        if let Some(found) = merged.iter().find(|merged| merged.name == name) {
            *expr = found.value.clone();
        }
    });
}
