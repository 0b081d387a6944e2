//! `VACUUM`, `ANALYZE`, `REINDEX`, `CLUSTER` and `CHECKPOINT`.
//!
//! Space, statistics and indexes are maintained all the time, so that all of them but `CHECKPOINT`
//! only check the names that they are given.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use thalweg_dialect::parse::{Maintenance, MaintenanceCommand, ReindexKind};
use thalweg_txn::{Object, Securable, no_namespace, no_table};
use thalweg_types::{Error, Result, SqlState, TableSchema};

use super::target::QualifiedName;
use super::{Execution, folded};
use crate::catalog::{DATABASE, is_system_relation};
use crate::outcome::Outcome;

pub(super) async fn run(execution: &Execution<'_>, maintenance: &Maintenance) -> Result<Outcome> {
    let tag = tag(maintenance.command);
    if execution.in_block
        && let Some(command) = outside_of_blocks(maintenance)
    {
        let message = format!("{command} cannot run inside a transaction block");
        return Err(Error::new(SqlState::ACTIVE_TRANSACTION, message));
    }
    match maintenance.command {
        MaintenanceCommand::Checkpoint => checkpoint(execution).await?,
        MaintenanceCommand::Vacuum | MaintenanceCommand::Analyze => {
            return visit_tables(execution, maintenance, Outcome::command(tag));
        }
        MaintenanceCommand::Reindex(kind) => {
            let names = maintenance.objects.iter().map(|(name, _)| name);
            names.into_iter().try_for_each(|name| check_reindexed(execution, kind, name))?;
        }
        MaintenanceCommand::Cluster => {
            let names = maintenance.objects.iter().map(|(name, _)| name);
            let index = maintenance.index.as_ref();
            names.into_iter().try_for_each(|name| check_clustered(execution, name, index))?;
        }
    }
    Ok(Outcome::command(tag))
}

fn tag(command: MaintenanceCommand) -> &'static str {
    match command {
        MaintenanceCommand::Vacuum => "VACUUM",
        MaintenanceCommand::Analyze => "ANALYZE",
        MaintenanceCommand::Cluster => "CLUSTER",
        MaintenanceCommand::Checkpoint => "CHECKPOINT",
        MaintenanceCommand::Reindex(_) => "REINDEX",
    }
}

/// The command's name in the error of a transaction block; `None` if a block may have it.
fn outside_of_blocks(maintenance: &Maintenance) -> Option<&'static str> {
    match maintenance.command {
        MaintenanceCommand::Vacuum => Some("VACUUM"),
        MaintenanceCommand::Cluster if maintenance.objects.is_empty() => Some("CLUSTER"),
        MaintenanceCommand::Reindex(ReindexKind::Schema) => Some("REINDEX SCHEMA"),
        MaintenanceCommand::Reindex(ReindexKind::Database) => Some("REINDEX DATABASE"),
        MaintenanceCommand::Reindex(ReindexKind::System) => Some("REINDEX SYSTEM"),
        MaintenanceCommand::Reindex(_) if maintenance.is_concurrent => Some("REINDEX CONCURRENTLY"),
        _ => None,
    }
}

async fn checkpoint(execution: &Execution<'_>) -> Result<()> {
    if !execution.is_superuser() {
        let message = "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT";
        return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    let database = execution.database.clone();
    let written = thalweg_runtime::spawn_blocking(move || database.checkpoint()).await;
    written.map_err(|_| Error::internal("a thread that writes a checkpoint died"))?
}

/// Checks the tables of `VACUUM` and `ANALYZE`. Those that the role does not own, and other
/// relations, are skipped with a warning.
fn visit_tables(
    execution: &Execution<'_>,
    maintenance: &Maintenance,
    mut outcome: Outcome,
) -> Result<Outcome> {
    let is_vacuum = maintenance.command == MaintenanceCommand::Vacuum;
    let has_columns = maintenance.objects.iter().any(|(_, columns)| !columns.is_empty());
    if is_vacuum && has_columns && !maintenance.analyzes {
        let message = "ANALYZE option must be specified when a column list is provided";
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let catalog = execution.names.catalog();
    let verb = if is_vacuum { "vacuum" } else { "analyze" };
    for (name, columns) in &maintenance.objects {
        if is_system_relation(name) {
            continue;
        }
        let name = QualifiedName::existing(&catalog, name)?;
        let object = name.find(&catalog)?;
        let securable = Securable::relation(&name.namespace, &name.name);
        let skipped = match object {
            Object::Table(_) if execution.names.rights().is_owner(&securable) => None,
            Object::Table(_) => Some(format!("only table or database owner can {verb} it")),
            _ => Some(format!("cannot {verb} non-tables or special system tables")),
        };
        if let Some(reason) = skipped {
            let warning = format!("skipping \"{}\" --- {reason}", name.name);
            outcome = outcome.with_warning(SqlState::WARNING, warning);
        } else if let Object::Table(entry) = object {
            check_columns(&entry.schema, columns)?;
        }
    }
    Ok(outcome)
}

fn check_columns(table: &TableSchema, columns: &[Ident]) -> Result<()> {
    for (place, column) in columns.iter().map(folded).enumerate() {
        if table.column_named(&column).is_none() {
            let table = &table.name;
            let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
            return Err(Error::new(SqlState::UNDEFINED_COLUMN, message));
        }
        if columns[..place].iter().any(|other| folded(other) == column) {
            let table = &table.name;
            let message =
                format!("column \"{column}\" of relation \"{table}\" appears more than once");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
    }
    Ok(())
}

fn check_reindexed(execution: &Execution<'_>, kind: ReindexKind, name: &ObjectName) -> Result<()> {
    let catalog = execution.names.catalog();
    match kind {
        ReindexKind::Database | ReindexKind::System => {
            if QualifiedName::of(name)?.name != DATABASE {
                let message = "can only reindex the currently open database";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            Ok(())
        }
        ReindexKind::Schema => {
            let name = QualifiedName::of(name)?.name;
            if !catalog.has_namespace(&name) {
                return Err(no_namespace(&name));
            }
            execution.names.rights().owns(&Securable::Namespace(name))
        }
        ReindexKind::Table => {
            let name = QualifiedName::existing(&catalog, name)?;
            match name.find(&catalog)? {
                Object::Table(_) => {
                    let table = Securable::relation(&name.namespace, &name.name);
                    execution.names.rights().owns(&table)
                }
                _ => {
                    let message = format!("\"{}\" is not a table or materialized view", name.name);
                    Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
                }
            }
        }
        ReindexKind::Index => check_reindexed_index(execution, name),
    }
}

fn check_reindexed_index(execution: &Execution<'_>, name: &ObjectName) -> Result<()> {
    let catalog = execution.names.catalog();
    let wanted = QualifiedName::existing(&catalog, name)?;
    // The path finds relations and no indexes, which are searched for in all of its schemas.
    let path = crate::catalog::SearchPath::current();
    let is_searched = |namespace: &str| match name.0.len() {
        1 => path.all().any(|searched| searched == namespace),
        _ => wanted.namespace == namespace,
    };
    let found = catalog.tables().find(|entry| {
        is_searched(&entry.schema.namespace)
            && entry.schema.index_names().any(|index| index == wanted.name)
    });
    if let Some(entry) = found {
        let table = Securable::relation(&entry.schema.namespace, &entry.schema.name);
        return execution.names.rights().owns(&table);
    }
    match catalog.object(&wanted.namespace, &wanted.name) {
        Some(_) => {
            let message = format!("\"{}\" is not an index", wanted.name);
            Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
        None => Err(no_table(&wanted.name)),
    }
}

fn check_clustered(
    execution: &Execution<'_>,
    name: &ObjectName,
    index: Option<&Ident>,
) -> Result<()> {
    let catalog = execution.names.catalog();
    let name = QualifiedName::existing(&catalog, name)?;
    let Object::Table(entry) = name.find(&catalog)? else {
        let message = format!("\"{}\" is not a table or materialized view", name.name);
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
    };
    execution.names.rights().owns(&Securable::relation(&name.namespace, &name.name))?;
    let table = &name.name;
    let message = match index.map(folded) {
        None => format!("there is no previously clustered index for table \"{table}\""),
        Some(index) if entry.schema.index_names().any(|known| known == index) => return Ok(()),
        Some(index) => format!("index \"{index}\" for table \"{table}\" does not exist"),
    };
    Err(Error::new(SqlState::UNDEFINED_OBJECT, message))
}
