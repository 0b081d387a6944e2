//! `tableoid`: the number of the table that a row is from, which tables don't hold.
//!
//! Where the statement says what table is meant, the number is that of its name.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, Expr, Ident, ObjectName, Query, Select, TableFactor, VisitMut, VisitorMut,
};

use super::build::{cast, text};
use super::figure::quoted;
use super::names::normalized;

const TABLE_OID: &str = "tableoid";

/// Puts numbers in the places of one SELECT's `tableoid`, not of those inside it.
pub(super) fn number_tables(select: &mut Select) {
    let mut tables = Vec::new();
    for from in &select.from {
        let joined = from.joins.iter().map(|join| &join.relation);
        tables.extend(std::iter::once(&from.relation).chain(joined).filter_map(named));
    }
    if !tables.is_empty() {
        let _ = VisitMut::visit(select, &mut Numbers { tables, depth: 0 });
    }
}

/// A table in FROM: what it is called there, and its name.
fn named(factor: &TableFactor) -> Option<(Ident, ObjectName)> {
    let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
    let called = match alias {
        Some(alias) => alias.name.clone(),
        None => name.0.last()?.as_ident()?.clone(),
    };
    Some((called, name.clone()))
}

struct Numbers {
    tables: Vec<(Ident, ObjectName)>,
    /// How many queries are around the expression that is being visited.
    depth: usize,
}

impl Numbers {
    fn number_of(&self, expr: &Expr) -> Option<Expr> {
        let table = match expr {
            Expr::Identifier(column) if normalized(column) == TABLE_OID => {
                let [(_, only)] = self.tables.as_slice() else { return None };
                only
            }
            Expr::CompoundIdentifier(path) => {
                let [table, column] = path.as_slice() else { return None };
                let table = normalized(table);
                let known = |(called, _): &&(Ident, ObjectName)| normalized(called) == table;
                let (_, name) = self.tables.iter().find(known)?;
                (normalized(column) == TABLE_OID).then_some(name)?
            }
            _ => return None,
        };
        let class = cast(text(table.to_string()), SqlType::Regclass);
        let oid = SqlType::Custom(ObjectName::from(vec![quoted("oid")]), vec![]);
        Some(cast(class, oid))
    }
}

impl VisitorMut for Numbers {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0
            && let Some(number) = self.number_of(expr)
        {
            *expr = number;
        }
        ControlFlow::Continue(())
    }
}
