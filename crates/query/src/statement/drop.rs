//! `DROP TABLE`, `DROP VIEW`, `DROP INDEX`, `DROP SEQUENCE`, `DROP SCHEMA`.

use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType};
use thalweg_txn::{CatalogChange, Object, Referenced, Securable};
use thalweg_types::{Error, Result, SqlState};

use super::dependents::{bind_views, drop_held, drop_objects};
use super::target::QualifiedName;
use super::{Execution, index, sequence};
use crate::outcome::{Notice, Outcome};

pub(super) async fn run(
    execution: &mut Execution<'_>,
    kind: ObjectType,
    names: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<Outcome> {
    if kind != ObjectType::Index {
        bind_views(execution).await?;
    }
    let mut notices: Vec<Notice> = Vec::new();
    let mut requested = Vec::new();
    for name in names {
        let existing = || QualifiedName::existing(&execution.names.catalog(), name);
        let dropped = match kind {
            ObjectType::Table | ObjectType::View => existing()
                .and_then(|name| find(execution, kind, &name))
                .map(|object| requested.push(object)),
            ObjectType::Sequence => existing()
                .and_then(|name| sequence::find_to_drop(execution, &name))
                .map(|object| requested.push(object)),
            ObjectType::Index => existing()
                .and_then(|name| index::drop(execution, &name, cascade))
                .map(|notice| notices.extend(notice)),
            ObjectType::Schema => {
                let name = QualifiedName::of(name)?.name;
                drop_namespace(execution, &name, cascade).map(|notice| notices.extend(notice))
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
                notices.push(format!("{}, skipping", error.message()).into());
            }
            dropped => dropped?,
        }
    }
    notices.extend(drop_objects(execution, &requested, cascade)?);
    let mut outcome = Outcome::command(&format!("DROP {kind}"));
    outcome.notices = notices;
    Ok(outcome)
}

/// The object of a name, if it is of that kind and the current role may drop it.
fn find(execution: &Execution<'_>, kind: ObjectType, name: &QualifiedName) -> Result<Referenced> {
    let catalog = execution.names.catalog();
    let wanted = if kind == ObjectType::Table { "table" } else { "view" };
    if catalog.table_of_index(&name.namespace, &name.name).is_some() {
        let message = format!("\"{}\" is not a {wanted}", name.name);
        let hint = "Use DROP INDEX to remove it.";
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint(hint));
    }
    let object = match name.find(&catalog).map_err(|error| missing(error, wanted, name))? {
        Object::Table(entry) if kind == ObjectType::Table => Referenced::Table(entry.schema.id),
        Object::View(_) if kind == ObjectType::View => named(name),
        Object::External(_) if kind == ObjectType::Table => named(name),
        other => {
            let message = format!("\"{}\" is not a {wanted}", name.name);
            let hint = format!("Use DROP {} to remove it.", other.kind().to_uppercase());
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint(hint));
        }
    };
    execution.names.rights().may_drop(&name.namespace, &name.name)?;
    Ok(object)
}

fn named(name: &QualifiedName) -> Referenced {
    Referenced::named(&name.namespace, &name.name)
}

/// As in PostgreSQL, the error names the kind of object that was looked for.
fn missing(error: Error, wanted: &str, name: &QualifiedName) -> Error {
    if error.state() != SqlState::UNDEFINED_TABLE {
        return error;
    }
    Error::new(error.state(), format!("{wanted} \"{}\" does not exist", name.name))
}

/// Drops a schema, with `cascade` also what it holds and what depends on that.
fn drop_namespace(execution: &Execution<'_>, name: &str, cascade: bool) -> Result<Option<Notice>> {
    let catalog = execution.names.catalog();
    if catalog.has_namespace(name) {
        execution.names.rights().owns(&Securable::Namespace(name.to_owned()))?;
    }
    let dropped = if cascade { drop_held(execution, name)? } else { None };
    let change = CatalogChange::DropNamespace { name: name.to_owned() };
    execution.names.with(|t| t.change_catalog(change))?;
    Ok(dropped)
}
