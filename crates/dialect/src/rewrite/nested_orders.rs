//! `(SELECT -v AS v FROM t ORDER BY v + 1 LIMIT 1)`: within an expression of ORDER BY, a name is a
//! column of the input. DataFusion takes the output of that name. Upstream:
//! <https://github.com/apache/datafusion/issues/4854>.
//!
//! The output gets a name of its own, and a query around it gives it back the name by which outer
//! queries know it. The rows of a sorted derived table keep their order.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor,
};
use thalweg_types::Result;

use super::build::column_of;
use super::figure::{column_name, quoted};
use super::names::{Marks, is_named_within, names_within, normalized, output_of};
use super::rows::parse_query;

/// The name of the derived table.
const ORDERED: &str = "thalweg ordered";

/// Puts a query around one whose order needs it.
pub(super) fn wrap(query: &mut Query, marks: &mut Marks) -> Result<()> {
    let Query { body, order_by: Some(order_by), .. } = query else { return Ok(()) };
    let SetExpr::Select(select) = body.as_mut() else { return Ok(()) };
    let OrderByKind::Expressions(orders) = &mut order_by.kind else { return Ok(()) };
    let within = names_within(orders);
    if within.is_empty() || !needs_own_names(select, &within) || !query.locks.is_empty() {
        return Ok(());
    }
    let aliases = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(normalized(alias)),
        _ => None,
    });
    let aliases: Vec<String> = aliases.collect();
    let is_unique = |alias: &Ident| {
        let alias = normalized(alias);
        aliases.iter().filter(|other| **other == alias).count() == 1
    };
    let mut shown = Vec::with_capacity(select.projection.len());
    for item in &mut select.projection {
        let (expr, name, keeps_alias) = match item {
            SelectItem::UnnamedExpr(expr) => {
                let name = column_name(expr).unwrap_or_else(|| "?column?".to_owned());
                (expr, quoted(name), false)
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let keeps_alias =
                    is_unique(alias) && !is_named_within(expr, &normalized(alias), &within);
                (expr, alias.clone(), keeps_alias)
            }
            _ => return Ok(()),
        };
        let own = if keeps_alias { name.clone() } else { marks.mark(&normalized(&name)) };
        for order in orders.iter_mut().filter(|_| !keeps_alias) {
            if matches!(&order.expr, Expr::Identifier(key) if normalized(key) == normalized(&name))
            {
                order.expr = Expr::Identifier(own.clone());
            }
        }
        if !keeps_alias {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: own.clone() };
        }
        let source = column_of(&quoted(ORDERED), &normalized(&own));
        shown.push(SelectItem::ExprWithAlias { expr: source, alias: name });
    }
    around(query, shown)
}

/// True if an output has the name of an input that the order uses. Each output needs a name that is
/// known here, and outputs of equal rows have no order by other columns.
fn needs_own_names(select: &Select, within: &HashSet<String>) -> bool {
    let is_listed = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    let conflicts = |item: &SelectItem| {
        output_of(item).is_some_and(|(expr, name)| is_named_within(expr, &name, within))
    };
    select.distinct.is_none()
        && select.into.is_none()
        && select.projection.iter().all(is_listed)
        && select.projection.iter().any(conflicts)
}

/// `SELECT shown FROM (query) AS "thalweg ordered"`
fn around(query: &mut Query, shown: Vec<SelectItem>) -> Result<()> {
    let outer = parse_query(&format!("SELECT 1 FROM \"{ORDERED}\""))?;
    let inner = std::mem::replace(query, outer);
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    select.projection = shown;
    let alias = TableAlias { explicit: true, name: quoted(ORDERED), columns: vec![], at: None };
    let (subquery, alias) = (Box::new(inner), Some(alias));
    if let Some(from) = select.from.first_mut() {
        from.relation = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
    }
    Ok(())
}
