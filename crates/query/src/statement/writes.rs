//! Recognizes statements that write. A read-only transaction refuses them.

use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{Query, SetExpr, Statement};
use thalweg_dialect::parse::{SettingOwner, altered_sequence};
use thalweg_types::{Error, Result, SqlState};

/// Accepts statements that do not write.
///
/// # Errors
/// The error of a read-only transaction for the others.
pub(crate) fn check_writable(tree: &Tree) -> Result<()> {
    let Some(command) = command_that_writes(tree) else { return Ok(()) };
    let message = format!("cannot execute {command} in a read-only transaction");
    Err(Error::new(SqlState::READ_ONLY_TRANSACTION, message))
}

/// True if a statement does not read the transaction's snapshot, so that the modes may change after
/// it.
pub(crate) fn is_about_settings(tree: &Tree) -> bool {
    match tree {
        Tree::Statement(statement) => {
            matches!(statement.as_ref(), Statement::Set(_) | Statement::ShowVariable { .. })
        }
        Tree::Reset(_) => true,
        _ => false,
    }
}

/// The name of a statement's command, if it writes.
fn command_that_writes(tree: &Tree) -> Option<String> {
    match tree {
        Tree::Statement(statement) => named(statement),
        Tree::CreateExternalTable(_) => Some("CREATE EXTERNAL TABLE".to_owned()),
        Tree::Explain(explain) if explain.options.analyze => {
            command_that_writes(&explain.statement)
        }
        _ => None,
    }
}

fn named(statement: &Statement) -> Option<String> {
    let command = match statement {
        Statement::Query(query) => return changed_by(query),
        Statement::Explain { analyze: true, statement, .. } => return named(statement),
        Statement::Drop { object_type, .. } => return Some(format!("DROP {object_type}")),
        Statement::Insert(_) => "INSERT",
        Statement::Update(_) => "UPDATE",
        Statement::Delete(_) => "DELETE",
        Statement::Truncate(_) => "TRUNCATE TABLE",
        Statement::Copy { to: false, .. } => "COPY FROM",
        Statement::CreateTable(_) => "CREATE TABLE",
        Statement::CreateView(_) => "CREATE VIEW",
        Statement::CreateSchema { .. } => "CREATE SCHEMA",
        Statement::CreateRole(_) => "CREATE ROLE",
        Statement::AlterTable(alter) if altered_sequence(alter).is_some() => "ALTER SEQUENCE",
        Statement::AlterTable(_) => "ALTER TABLE",
        Statement::CreateSequence { .. } => "CREATE SEQUENCE",
        Statement::CreateIndex(_) => "CREATE INDEX",
        Statement::AlterIndex { .. } => "ALTER INDEX",
        Statement::AlterSchema(_) => "ALTER SCHEMA",
        Statement::AlterRole { name, .. } if SettingOwner::of(name) == SettingOwner::Database => {
            "ALTER DATABASE"
        }
        Statement::AlterRole { .. } => "ALTER ROLE",
        Statement::Grant(_) => "GRANT",
        Statement::Revoke(_) => "REVOKE",
        _ => return None,
    };
    Some(command.to_owned())
}

/// The parser represents `WITH … INSERT …` as a query. Locking rows counts as writing.
fn changed_by(query: &Query) -> Option<String> {
    if let Some(clause) = query.locks.first() {
        return Some(format!("SELECT FOR {}", clause.lock_type));
    }
    match query.body.as_ref() {
        SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change) => {
            return named(change);
        }
        SetExpr::Select(select) if select.into.is_some() => return Some("SELECT INTO".to_owned()),
        SetExpr::Query(inner) => {
            if let Some(command) = changed_by(inner) {
                return Some(command);
            }
        }
        _ => {}
    }
    let tables = query.with.iter().flat_map(|with| &with.cte_tables);
    tables.map(|table| changed_by(&table.query)).find(Option::is_some).flatten()
}
