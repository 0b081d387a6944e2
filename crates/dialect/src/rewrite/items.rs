//! `e` for the values of `jsonb_array_elements(…) AS e`, whose column is called `value`.
//!
//! In PostgreSQL the name of a function in FROM stands for its rows, and for the values if the
//! function has a single column. Columns of that name take precedence.

use std::ops::ControlFlow;

use crate::walk;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderByExpr, Query, Select, SetExpr, TableFactor, VisitorMut,
};

use super::build::column_of;
use super::figure::change_output;
use super::names::normalized;
use super::relations::{Relations, label};
use super::sources::{ITEM, name_of_items};

/// True if names of functions may stand for values, which requires the columns of other relations.
pub(super) fn may_be_named(select: &Select) -> bool {
    factors(select).any(|factor| name_of_items(factor).is_some())
}

/// Replaces such names by columns, in a SELECT and in its ORDER BY.
pub(super) fn name_columns(
    select: &mut Select,
    orders: &mut [OrderByExpr],
    relations: &Relations<'_>,
) {
    let mut names: Vec<String> =
        factors(select).filter_map(name_of_items).map(normalized).collect();
    if names.is_empty() {
        return;
    }
    for columns in factors(select).filter_map(|factor| relations.columns_of(factor)) {
        names.retain(|name| !columns.contains(name));
    }
    let mut items = Items { names, relations, hidden: Vec::new() };
    let output = items.name_output(select);
    let keys = std::mem::replace(&mut select.group_by, GroupByExpr::Expressions(vec![], vec![]));
    let _ = walk::visit_mut(select, &mut items);
    select.group_by = items.name_keys(keys, &output);
    for order in orders {
        // A name alone means the output column, where there is one.
        let is_output =
            matches!(&order.expr, Expr::Identifier(name) if output.contains(&normalized(name)));
        if !is_output {
            let _ = walk::visit_mut(&mut order.expr, &mut items);
        }
    }
}

/// The relations of FROM, without those in parentheses.
fn factors(select: &Select) -> impl Iterator<Item = &TableFactor> {
    select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    })
}

struct Items<'a> {
    names: Vec<String>,
    relations: &'a Relations<'a>,
    /// The names that have another meaning in each enclosing query.
    hidden: Vec<Vec<String>>,
}

impl Items<'_> {
    /// Gives the output columns the names that they have as written, and returns these.
    fn name_output(&mut self, select: &mut Select) -> Vec<String> {
        change_output(select, |expr| {
            let before = expr.clone();
            let _ = walk::visit_mut(expr, self);
            *expr != before
        })
    }

    /// Replaces names in the keys of groups, except where a key is the name of an output column.
    fn name_keys(&mut self, keys: GroupByExpr, output: &[String]) -> GroupByExpr {
        let (mut keys, modifiers) = match keys {
            GroupByExpr::Expressions(keys, modifiers) => (keys, modifiers),
            all => return all,
        };
        for key in &mut keys {
            let is_output =
                matches!(&*key, Expr::Identifier(name) if output.contains(&normalized(name)));
            if !is_output {
                let _ = walk::visit_mut(key, self);
            }
        }
        GroupByExpr::Expressions(keys, modifiers)
    }

    fn stands_for_values(&self, name: &Ident) -> bool {
        let name = normalized(name);
        self.names.contains(&name) && !self.hidden.iter().any(|hidden| hidden.contains(&name))
    }

    /// The names among ours that the relations of a query inside have, or their columns.
    fn hidden_by(&self, body: &SetExpr) -> Vec<String> {
        match body {
            SetExpr::Select(select) => {
                let own = factors(select).flat_map(|factor| {
                    let columns = self.relations.columns_of(factor).unwrap_or_default();
                    columns.into_iter().chain(label(factor).map(|name| normalized(&name)))
                });
                own.filter(|name| self.names.contains(name)).collect()
            }
            SetExpr::SetOperation { left, right, .. } => {
                let mut hidden = self.hidden_by(left);
                hidden.extend(self.hidden_by(right));
                hidden
            }
            _ => Vec::new(),
        }
    }
}

impl VisitorMut for Items<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let hidden = self.hidden_by(&query.body);
        self.hidden.push(hidden);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.hidden.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = &*expr
            && self.stands_for_values(name)
        {
            *expr = column_of(name, ITEM);
        }
        ControlFlow::Continue(())
    }
}
