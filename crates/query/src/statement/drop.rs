//! `DROP TABLE`, `DROP VIEW`, `DROP INDEX`, `DROP SEQUENCE`, `DROP SCHEMA`.

use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType};
use thalweg_txn::{Catalog, CatalogChange, Object, Securable};
use thalweg_types::{Error, Result, SqlState};

use super::target::QualifiedName;
use super::{Execution, index, sequence};
use crate::outcome::{Notice, Outcome};

pub(super) fn run(
    execution: &mut Execution<'_>,
    kind: ObjectType,
    names: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<Outcome> {
    let mut notices = Vec::new();
    for name in names {
        let existing = || QualifiedName::existing(&execution.names.catalog(), name);
        let dropped = match kind {
            ObjectType::Table | ObjectType::View => {
                existing().and_then(|name| drop_object(execution, kind, &name, cascade))
            }
            ObjectType::Sequence => existing()
                .and_then(|name| sequence::drop(execution, &name, cascade))
                .map(|dropped| notices.extend(dropped)),
            ObjectType::Index => existing().and_then(|name| index::drop(execution, &name)),
            ObjectType::Schema => {
                drop_namespace(execution, &QualifiedName::of(name)?.name, cascade)
            }
            other => return Err(Error::unsupported(format!("DROP {other}"))),
        };
        match dropped {
            Err(error)
                if if_exists
                    && matches!(
                        error.state(),
                        SqlState::UNDEFINED_TABLE
                            | SqlState::UNDEFINED_OBJECT
                            | SqlState::INVALID_SCHEMA_NAME
                    ) =>
            {
                notices.push(format!("{}, skipping", error.message()));
            }
            dropped => dropped?,
        }
    }
    let mut outcome = Outcome::command(&format!("DROP {kind}"));
    outcome.notices = notices.into_iter().map(Notice::from).collect();
    Ok(outcome)
}

fn drop_object(
    execution: &Execution<'_>,
    kind: ObjectType,
    name: &QualifiedName,
    cascade: bool,
) -> Result<()> {
    let catalog = execution.names.catalog();
    let wanted = if kind == ObjectType::Table { "table" } else { "view" };
    if catalog.table_of_index(&name.namespace, &name.name).is_some() {
        let message = format!("\"{}\" is not a {wanted}", name.name);
        let hint = "Use DROP INDEX to remove it.";
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint(hint));
    }
    let change = match name.find(&catalog).map_err(|error| missing(error, wanted, name))? {
        Object::Table(entry) if kind == ObjectType::Table => {
            CatalogChange::DropTable { id: entry.schema.id }
        }
        Object::View(_) if kind == ObjectType::View => undefine(name),
        Object::External(_) if kind == ObjectType::Table => undefine(name),
        other => {
            let message = format!("\"{}\" is not a {wanted}", name.name);
            let hint = format!("Use DROP {} to remove it.", other.kind().to_uppercase());
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint(hint));
        }
    };
    execution.names.rights().may_drop(&name.namespace, &name.name)?;
    let table = match &change {
        CatalogChange::DropTable { id } => Some(*id),
        _ => None,
    };
    execution.names.with(|t| t.change_catalog(change))?;
    table.map_or(Ok(()), |table| sequence::drop_owned(execution, table, cascade))
}

fn undefine(name: &QualifiedName) -> CatalogChange {
    CatalogChange::Undefine { namespace: name.namespace.clone(), name: name.name.clone() }
}

/// As in PostgreSQL, the error names the kind of object that was looked for.
fn missing(error: Error, wanted: &str, name: &QualifiedName) -> Error {
    if error.state() != SqlState::UNDEFINED_TABLE {
        return error;
    }
    Error::new(error.state(), format!("{wanted} \"{}\" does not exist", name.name))
}

fn drop_namespace(execution: &Execution<'_>, name: &str, cascade: bool) -> Result<()> {
    let catalog = execution.names.catalog();
    if catalog.has_namespace(name) {
        execution.names.rights().owns(&Securable::Namespace(name.to_owned()))?;
    }
    if cascade {
        sequence::drop_defaults_outside(execution, name)?;
        for change in drops_in(&catalog, name) {
            execution.names.with(|t| t.change_catalog(change))?;
        }
    }
    let change = CatalogChange::DropNamespace { name: name.to_owned() };
    execution.names.with(|t| t.change_catalog(change))
}

fn drops_in(catalog: &Catalog, namespace: &str) -> Vec<CatalogChange> {
    catalog
        .objects(namespace)
        .map(|(name, object)| match object {
            Object::Table(entry) => CatalogChange::DropTable { id: entry.schema.id },
            Object::View(_) | Object::External(_) | Object::Sequence(_) => {
                CatalogChange::Undefine { namespace: namespace.to_owned(), name: name.to_owned() }
            }
        })
        .collect()
}
