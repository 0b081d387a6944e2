//! The privileges that a statement needs on the table that it changes.
//!
//! As in PostgreSQL: the privilege to change the table, and `SELECT` if the statement reads its
//! columns. An unqualified name inside a subquery counts as such a column, though it may not be
//! one.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    Assignment, Delete, Expr, Ident, Insert, OnConflictAction, OnInsert, SelectItem, Update, Visit,
};
use thalweg_dialect::walk;
use thalweg_txn::{Privilege, Privileges};
use thalweg_types::{Error, Result};

use crate::catalog::DATABASE;

/// The name of the row that a conflicting insert proposes.
const EXCLUDED: &str = "excluded";

pub(crate) fn to_insert(insert: &Insert, table: &str) -> Privileges {
    let mut needed = vec![Privilege::Insert];
    let alias = insert.table_alias.as_ref().map_or(table, |alias| alias.alias.value.as_str());
    let mut reads = insert.returning.as_deref().is_some_and(|items| returns(items, alias));
    if let Some(OnInsert::OnConflict(on)) = &insert.on {
        // Finding the conflicting row reads the key's columns.
        reads |= on.conflict_target.is_some();
        if let OnConflictAction::DoUpdate(update) = &on.action {
            needed.push(Privilege::Update);
            reads |= assigns_from(&update.assignments, alias)
                || update
                    .selection
                    .as_ref()
                    .is_some_and(|condition| reads_columns(condition, alias));
        }
    }
    with_select(needed, reads)
}

pub(crate) fn to_update(update: &Update, alias: &Ident) -> Privileges {
    let alias = alias.value.as_str();
    let reads = update.selection.as_ref().is_some_and(|condition| reads_columns(condition, alias))
        || assigns_from(&update.assignments, alias)
        || update.returning.as_deref().is_some_and(|items| returns(items, alias));
    with_select(vec![Privilege::Update], reads)
}

pub(crate) fn to_delete(delete: &Delete, alias: &Ident) -> Privileges {
    let alias = alias.value.as_str();
    let reads = delete.selection.as_ref().is_some_and(|condition| reads_columns(condition, alias))
        || delete.returning.as_deref().is_some_and(|items| returns(items, alias));
    with_select(vec![Privilege::Delete], reads)
}

fn with_select(mut needed: Vec<Privilege>, reads: bool) -> Privileges {
    if reads {
        needed.push(Privilege::Select);
    }
    needed.into_iter().collect()
}

fn assigns_from(assignments: &[Assignment], alias: &str) -> bool {
    assignments.iter().any(|assignment| reads_columns(&assignment.value, alias))
}

fn returns(items: &[SelectItem], alias: &str) -> bool {
    items.iter().any(|item| match item {
        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
        item => reads_columns(item, alias),
    })
}

/// True if a column of the table with this `alias` may be read.
fn reads_columns(tree: &impl Visit, alias: &str) -> bool {
    let found = walk::visit_expressions(tree, |expr| {
        let reads = match expr {
            Expr::Identifier(ident) => !is_default(ident),
            // A schema may stand before the table.
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., table, _] => {
                    table.value.eq_ignore_ascii_case(alias)
                        && !table.value.eq_ignore_ascii_case(EXCLUDED)
                }
                _ => true,
            },
            _ => false,
        };
        if reads { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found.is_break()
}

fn is_default(ident: &Ident) -> bool {
    ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default")
}

/// Refuses names in catalogs other than the public one.
pub(super) fn refuse_hidden(statement: &Tree) -> Result<()> {
    let statement = match statement {
        Tree::Statement(statement) => statement,
        Tree::Explain(explain) => return refuse_hidden(&explain.statement),
        _ => return Ok(()),
    };
    let found = walk::visit_relations(statement.as_ref(), |name| {
        let first = name.0.first().and_then(|part| part.as_ident());
        match first {
            Some(catalog) if name.0.len() > 2 && catalog.value != DATABASE => {
                ControlFlow::Break(name.to_string())
            }
            _ => ControlFlow::Continue(()),
        }
    });
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => {
            Err(Error::unsupported(format!("the reference to another database in {name}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::Statement;
    use thalweg_dialect::parse::parse_single;

    fn needed(sql: &str) -> String {
        let Tree::Statement(statement) = parse_single(sql).unwrap().statement else {
            panic!("{sql} is no plain statement")
        };
        let alias = Ident::new("t");
        let needed = match statement.as_ref() {
            Statement::Insert(insert) => to_insert(insert, "t"),
            Statement::Update(update) => to_update(update, &alias),
            Statement::Delete(delete) => to_delete(delete, &alias),
            other => panic!("{other} changes nothing"),
        };
        needed.to_string()
    }

    /// The privileges that PostgreSQL 15 requires.
    #[test]
    fn reading_is_needed_where_columns_are_looked_at() {
        for (sql, expected) in [
            ("INSERT INTO t VALUES (1, 2)", "a"),
            ("INSERT INTO t VALUES (DEFAULT)", "a"),
            ("INSERT INTO t SELECT a FROM u", "a"),
            ("INSERT INTO t VALUES (1) RETURNING a", "ar"),
            ("INSERT INTO t VALUES (1) RETURNING *", "ar"),
            ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "a"),
            ("INSERT INTO t VALUES (1) ON CONFLICT (a) DO NOTHING", "ar"),
            ("INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET b = excluded.b", "arw"),
            ("UPDATE t SET a = 5", "w"),
            ("UPDATE t SET a = DEFAULT", "w"),
            ("UPDATE t SET a = b", "rw"),
            ("UPDATE t SET a = u.b FROM u", "w"),
            ("UPDATE t SET a = 5 WHERE t.b = 1", "rw"),
            ("UPDATE t SET a = 5 RETURNING 1", "w"),
            ("DELETE FROM t", "d"),
            ("DELETE FROM t WHERE true", "d"),
            ("DELETE FROM t WHERE a = 1", "rd"),
        ] {
            assert_eq!(needed(sql), expected, "{sql}");
        }
    }

    #[test]
    fn names_in_other_catalogs_are_refused_wherever_they_stand() {
        for sql in [
            "SELECT * FROM thalweg_row_ids.public.t",
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM thalweg_row_ids.public.t)",
            "EXPLAIN SELECT * FROM \"thalweg_row_ids\".public.t",
            "CREATE VIEW v AS SELECT * FROM thalweg_row_ids.public.t",
        ] {
            assert!(refuse_hidden(&parse_single(sql).unwrap().statement).is_err(), "{sql}");
        }
        let own = parse_single("SELECT * FROM thalweg.public.t").unwrap();
        assert!(refuse_hidden(&own.statement).is_ok());
    }
}
