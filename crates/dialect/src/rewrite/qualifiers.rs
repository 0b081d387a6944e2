//! Names before a point: `t.*` over a table that is read as `s.t`, and `e.a` in a query inside
//! another one, where `e` is a relation of the outer query.
//!
//! In PostgreSQL a name before a point is a relation's. DataFusion first looks for a column `e`
//! with a field `a` in the inner query, and refuses one without fields
//! (`SELECT (SELECT count(*) FROM f WHERE f.e = e.a) FROM e`). A third part before the name rules a
//! column of the inner query out, and any relation without a schema of its own has the qualifier.
//! No upstream issue found.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FromTable, Ident, ObjectName, ObjectNamePart, Select, SelectItem,
    SelectItemQualifiedWildcardKind, Statement, TableFactor, TableWithJoins, Visit,
};

use super::build::call;
use super::names::{normalized, outer_schema};
use super::own_expressions;
use super::relations::label;

/// A relation's name in its query, and the parts that stand before it.
type Labelled = (String, Vec<Ident>);

/// The relations of the enclosing SELECTs, the innermost last.
#[derive(Default)]
pub(super) struct Qualifiers {
    levels: Vec<Vec<Labelled>>,
}

impl Qualifiers {
    /// Adds the table that a statement changes, whose columns its subqueries see.
    pub(super) fn enter_statement(&mut self, statement: &Statement) {
        let mut level = Vec::new();
        match statement {
            Statement::Update(update) => add(&update.table, &mut level),
            Statement::Delete(delete) => {
                let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) =
                    &delete.from;
                tables.iter().for_each(|table| add(table, &mut level));
            }
            _ => {}
        }
        self.levels.push(level);
    }

    /// To be followed by [`leave_select`](Qualifiers::leave_select).
    pub(super) fn enter_select(&mut self, select: &Select) {
        let mut level = Vec::new();
        select.from.iter().for_each(|from| add(from, &mut level));
        self.levels.push(level);
    }

    pub(super) fn leave_select(&mut self) {
        self.levels.pop();
    }

    /// Writes the schema before the name in `t.*` where the query reads `s.t`: DataFusion finds the
    /// relation of a star by its whole name only. To be called after everything inside the query
    /// was visited. No upstream issue found.
    pub(super) fn complete_stars(&self, select: &mut Select) {
        let Some(own) = self.levels.last() else { return };
        for item in &mut select.projection {
            let SelectItem::QualifiedWildcard(kind, _) = item else { continue };
            let SelectItemQualifiedWildcardKind::ObjectName(name) = kind else { continue };
            let ([part], Some(relation)) = (name.0.as_slice(), last(name)) else { continue };
            let has_schema =
                |(label, before): &&Labelled| *label == relation && *before != [outer_schema()];
            if let Some((_, before)) = own.iter().find(has_schema) {
                let before = before.iter().cloned().map(ObjectNamePart::Identifier);
                *name = ObjectName(before.chain([part.clone()]).collect());
            }
        }
    }

    /// Writes out a column of an outer query's relation, and an array of such columns; to be called
    /// after everything inside `expr` was visited.
    pub(super) fn respell(&self, expr: &mut Expr) {
        if let Expr::Array(array) = expr
            && self.names_outer(&array.elem)
        {
            *expr = call("make_array", std::mem::take(&mut array.elem));
            return;
        }
        let Expr::CompoundIdentifier(parts) = expr else { return };
        let ([relation, _], [outer @ .., own]) = (parts.as_slice(), self.levels.as_slice()) else {
            return;
        };
        let name = normalized(relation);
        let is_named = |(label, _): &&Labelled| *label == name;
        if own.iter().any(|labelled| is_named(&labelled)) {
            return;
        }
        let mut around = outer.iter().rev().flatten();
        if let Some((_, before)) = around.find(is_named) {
            parts.splice(..0, before.iter().cloned());
        }
    }

    /// True if the items of an array name columns of an outer query. DataFusion plans `ARRAY[…]`
    /// without the outer queries. No upstream issue found.
    fn names_outer(&self, items: &impl Visit) -> bool {
        let [outer @ .., own] = self.levels.as_slice() else { return false };
        if outer.iter().all(Vec::is_empty) {
            return false;
        }
        let found = own_expressions::look_at(items, |expr| match expr {
            Expr::Identifier(_) if own.is_empty() => ControlFlow::Break(()),
            Expr::CompoundIdentifier(parts)
                if own.is_empty() || parts.first() == Some(&outer_schema()) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    }
}

fn add(from: &TableWithJoins, level: &mut Vec<Labelled>) {
    let joined = from.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&from.relation).chain(joined) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                add(table_with_joins, level);
            }
            TableFactor::Table { name, alias: None, args: Some(_), .. }
            | TableFactor::Function { name, alias: None, .. } => {
                level.extend(last(name).map(|name| (name, vec![outer_schema()])));
            }
            factor => {
                let label = label(factor).map(|label| normalized(&label));
                level.extend(label.map(|label| (label, parts_before(factor))));
            }
        }
    }
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(normalized)
}

/// The schema that a table is named with, or else one that stands for none.
fn parts_before(factor: &TableFactor) -> Vec<Ident> {
    if let TableFactor::Table { name, alias: None, .. } = factor
        && let [before @ .., _] = name.0.as_slice()
        && !before.is_empty()
    {
        return before.iter().filter_map(|part| part.as_ident().cloned()).collect();
    }
    vec![outer_schema()]
}
