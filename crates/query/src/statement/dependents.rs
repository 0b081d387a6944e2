//! Drops of objects with what depends on them, and the binding of views that were created before
//! bindings existed.

use std::sync::Arc;

use thalweg_txn::{
    Catalog, CatalogChange, Dependent, DropReason, Object, Referenced, Securable, View, cannot_drop,
};
use thalweg_types::{Error, Key, Result, SqlState, TableId, TableSchema};

use super::Execution;
use super::sequence::SequenceDefault;
use crate::catalog::bind;
use crate::outcome::Notice;

/// Binds the views that were written before bindings existed, so that the statement that follows
/// sees what depends on its objects. Views that cannot be planned stay unbound.
pub(super) async fn bind_views(execution: &Execution<'_>) -> Result<()> {
    let catalog = execution.names.catalog();
    let unbound = catalog.views().filter(|(_, _, view)| view.binding.is_none());
    for (namespace, name, view) in unbound {
        let owner = catalog.access(&Securable::relation(namespace, name)).owner;
        let number = execution.names.catalog().next_view_number();
        let bound = Box::pin(bind(&execution.state, name, &view.query, owner, number)).await;
        let Ok(bound) = bound else { continue };
        let given = view.columns.iter().cloned();
        let columns = given.chain(bound.names.into_iter().skip(view.columns.len())).collect();
        let binding = Some(Arc::new(bound.binding));
        let view = View { query: view.query.clone(), columns, binding };
        execution.names.with(|t| t.change_catalog(define(namespace, name, view)))?;
    }
    Ok(())
}

fn define(namespace: &str, name: &str, view: View) -> CatalogChange {
    CatalogChange::Define {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        object: Object::View(view),
        replace: true,
    }
}

/// Drops objects and the sequences that they own. With `cascade`, drops all that depends on them
/// first, and returns a notice.
///
/// # Errors
/// Without `cascade`, if something depends on the objects.
pub(super) fn drop_objects(
    execution: &Execution<'_>,
    requested: &[Referenced],
    cascade: bool,
) -> Result<Option<Notice>> {
    let catalog = execution.names.catalog();
    let steps = catalog.with_dependents(requested);
    let defaults = defaults_over(&catalog, &steps);
    let mut dependencies = catalog.dependencies(&steps);
    dependencies.extend(defaults.iter().map(|default| default.dependency(&catalog)));
    if !cascade {
        cannot_drop(&catalog, requested, &dependencies)?;
    }
    drop_steps(execution, &steps, &defaults)?;
    Ok(cascade_notice(dependencies.into_iter().map(|known| known.dependent).collect()))
}

/// Drops the objects of a schema and all that depends on them, and returns a notice.
pub(super) fn drop_held(execution: &Execution<'_>, namespace: &str) -> Result<Option<Notice>> {
    let catalog = execution.names.catalog();
    let steps = catalog.with_dependents(&catalog.held_by(namespace));
    let defaults = defaults_over(&catalog, &steps);
    let shown = steps.iter().rev().filter(|step| step.reason != DropReason::Owned);
    let mut dropped: Vec<String> =
        shown.map(|step| catalog.describe_referenced(&step.object)).collect();
    dropped.extend(defaults.iter().map(|default| default.dependency(&catalog).dependent));
    drop_steps(execution, &steps, &defaults)?;
    Ok(cascade_notice(dropped))
}

/// The defaults that use sequences among the steps of a drop, and whose columns stay.
fn defaults_over(catalog: &Catalog, steps: &[Dependent]) -> Vec<SequenceDefault> {
    let is_dropped = |default: &SequenceDefault| {
        let table = default.table.id;
        steps.iter().any(|step| match step.object {
            Referenced::Table(id) => id == table,
            Referenced::Column(id, column) => (id, column) == (table, default.column),
            Referenced::Sequence(_) | Referenced::Constraint(..) | Referenced::Named { .. } => {
                false
            }
        })
    };
    let sequences = steps.iter().filter_map(|step| match step.object {
        Referenced::Sequence(id) => Some(id),
        _ => None,
    });
    let defaults = sequences.flat_map(|id| SequenceDefault::all(catalog, id));
    defaults.filter(|default| !is_dropped(default)).collect()
}

fn drop_steps(
    execution: &Execution<'_>,
    steps: &[Dependent],
    defaults: &[SequenceDefault],
) -> Result<()> {
    for default in defaults {
        default.drop(execution)?;
    }
    for step in steps {
        drop_one(execution, &step.object)?;
    }
    Ok(())
}

/// `drop cascades to view v`, from descriptions of dropped objects; `None` if there is none.
fn cascade_notice(dropped: Vec<String>) -> Option<Notice> {
    let lines = dropped.into_iter().map(|object| format!("drop cascades to {object}"));
    let mut lines: Vec<String> = lines.collect();
    match lines.len() {
        0 => None,
        1 => lines.pop().map(Notice::from),
        count => {
            let message = format!("drop cascades to {count} other objects");
            Some(Notice { detail: Some(lines.join("\n")), ..Notice::from(message) })
        }
    }
}

/// Drops an object whose dependents are gone. A column is left to `ALTER TABLE`.
fn drop_one(execution: &Execution<'_>, object: &Referenced) -> Result<()> {
    let change = match object {
        Referenced::Table(id) => CatalogChange::DropTable { id: *id },
        Referenced::Column(..) => return Ok(()),
        Referenced::Constraint(table, name) => return drop_foreign_key(execution, *table, name),
        Referenced::Sequence(id) => {
            let catalog = execution.names.catalog();
            let Some((namespace, name, _)) = catalog.sequence(*id) else { return Ok(()) };
            CatalogChange::Undefine { namespace: namespace.to_owned(), name: name.to_owned() }
        }
        Referenced::Named { namespace, name } => {
            unbind_dependents(execution, object)?;
            CatalogChange::Undefine { namespace: namespace.clone(), name: name.clone() }
        }
    };
    execution.names.with(|t| t.change_catalog(change))
}

fn drop_foreign_key(execution: &Execution<'_>, table: TableId, name: &str) -> Result<()> {
    let catalog = execution.names.catalog();
    let Some(entry) = catalog.table(table) else { return Ok(()) };
    let mut schema = entry.schema.as_ref().clone();
    schema.foreign_keys.retain(|key| key.name != name);
    let change = CatalogChange::AlterTable { schema, added: None, expected: None };
    execution.names.with(|t| t.change_catalog(change))
}

/// With `cascade`, drops the foreign keys that refer to a key which is dropped, and returns a
/// notice. `subject` describes the key.
///
/// # Errors
/// Without `cascade`, if foreign keys refer to the key.
pub(super) fn drop_foreign_keys_over(
    execution: &Execution<'_>,
    table: &TableSchema,
    key: &Key,
    subject: &str,
    cascade: bool,
) -> Result<Option<Notice>> {
    let catalog = execution.names.catalog();
    if table.keys().filter(|other| other.columns == key.columns).count() > 1 {
        return Ok(None);
    }
    let over = catalog.foreign_keys_over(table.id, &key.columns, table);
    let described = |(child, name): &(TableId, String)| {
        catalog.describe_referenced(&Referenced::Constraint(*child, name.clone()))
    };
    let described: Vec<String> = over.iter().map(described).collect();
    if !cascade && !over.is_empty() {
        let on = |dependent: &String| format!("{dependent} depends on index {}", key.name);
        let detail: Vec<String> = described.iter().map(on).collect();
        let message = format!("cannot drop {subject} because other objects depend on it");
        return Err(Error::new(SqlState::DEPENDENT_OBJECTS, message)
            .with_detail(detail.join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    for (child, name) in &over {
        drop_foreign_key(execution, *child, name)?;
    }
    Ok(cascade_notice(described))
}

/// Views that read each other have no order in which they can be dropped. Those that are dropped
/// later no longer depend on the first one.
fn unbind_dependents(execution: &Execution<'_>, object: &Referenced) -> Result<()> {
    let catalog = execution.names.catalog();
    for step in catalog.with_dependents(std::slice::from_ref(object)) {
        let Referenced::Named { namespace, name } = &step.object else { continue };
        let Some(Object::View(view)) = catalog.object(namespace, name) else { continue };
        if step.reason != DropReason::Requested {
            let view = View { binding: None, ..view.clone() };
            execution.names.with(|t| t.change_catalog(define(namespace, name, view)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use thalweg_txn::{Durability, Transaction};
    use thalweg_types::SqlState;

    use super::*;
    use crate::Database;

    /// Defines views as versions without bindings have written them.
    async fn define_unbound(database: &Database, views: &[(&str, &str)]) {
        let mut transaction = Transaction::new(database.shared.engine.snapshot());
        for (name, query) in views {
            let view = View { query: (*query).to_owned(), columns: Vec::new(), binding: None };
            transaction.change_catalog(define("public", name, view)).unwrap();
        }
        database.shared.commit_here(transaction, Durability::None).await.unwrap();
    }

    #[tokio::test]
    async fn old_views_are_bound_before_their_tables_change() {
        let database = Database::in_memory().unwrap();
        let mut session = database.session();
        session.execute("CREATE TABLE t (a integer, b integer)").await.unwrap();
        session.execute("INSERT INTO t VALUES (1, 2)").await.unwrap();
        let views = [
            ("v", "SELECT * FROM t"),
            ("w", "SELECT a FROM v"),
            ("broken", "SELECT * FROM missing"),
        ];
        define_unbound(&database, &views).await;
        for sql in [
            "SELECT * FROM v",
            "ALTER TABLE t ADD COLUMN c integer",
            "ALTER TABLE t RENAME TO u",
            "ALTER TABLE u RENAME COLUMN a TO aa",
            "SELECT a, b FROM v",
            "SELECT a FROM w",
        ] {
            session.execute(sql).await.unwrap();
        }
        let error = session.execute("SELECT c FROM v").await.err().unwrap();
        assert_eq!(error.state(), SqlState::UNDEFINED_COLUMN);
        let error = session.execute("DROP TABLE u").await.err().unwrap();
        assert_eq!(error.state(), SqlState::DEPENDENT_OBJECTS);
        let outcome = session.execute("DROP TABLE u CASCADE").await.unwrap();
        let notice = outcome.notices.first().unwrap();
        assert_eq!(notice.message, "drop cascades to 2 other objects");
        let detail = "drop cascades to view v\ndrop cascades to view w";
        assert_eq!(notice.detail.as_deref(), Some(detail));
        session.execute("DROP VIEW broken").await.unwrap();
    }
}
