//! `tableoid`: the number of the table that a row is from, which is not stored in tables.
//!
//! If the statement names the table, the number is that of its name.

use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, Expr, Ident, ObjectName, Select, TableFactor, VisitMut,
};

use super::build::{cast, text};
use super::figure::{change_output, quoted};
use super::names::normalized;
use super::own_expressions;

const TABLE_OID: &str = "tableoid";

/// Replaces `tableoid` by numbers in one SELECT, not in those inside it.
pub(super) fn number_tables(select: &mut Select) {
    let mut tables = Vec::new();
    for from in &select.from {
        let joined = from.joins.iter().map(|join| &join.relation);
        tables.extend(std::iter::once(&from.relation).chain(joined).filter_map(named));
    }
    if tables.is_empty() {
        return;
    }
    let numbers = Numbers { tables };
    // Output columns keep the name that they have as written.
    change_output(select, |expr| numbers.replace(expr));
    numbers.replace(select);
}

/// A table in FROM: its name there, and its own name.
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
}

impl Numbers {
    /// Replaces `tableoid` in the expressions of a node. Returns true if there was one.
    fn replace(&self, node: &mut impl VisitMut) -> bool {
        let mut changed = false;
        own_expressions::change(node, |expr| {
            if let Some(number) = self.number_of(expr) {
                *expr = number;
                changed = true;
            }
        });
        changed
    }

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
