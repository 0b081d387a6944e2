//! The temporary tables, views and sequences of a session.
//!
//! An engine without a directory holds those of all sessions of a database, each session's in a
//! namespace of its own. It starts with the first of them. A session's snapshot shows the database
//! and the objects of its namespace. A commit takes the changes of temporary objects out of the
//! transaction: the database's engine commits the others first, and then that engine, which has
//! checked before that nothing can make its part fail.

mod engine;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use thalweg_execution::cancel::on_own_thread;
use thalweg_txn::{
    Catalog, CatalogChange, Durability, Engine, Privilege, Referenced, Snapshot, Transaction,
    WriteSet, is_temporary_namespace,
};
use thalweg_types::{Error, Result, SqlState, TableId};
use tokio::sync::OwnedMutexGuard;

use crate::catalog::DATABASE;
use crate::database::DatabaseShared;
use crate::statement::Execution;

pub(crate) use engine::TemporaryEngine;

/// The namespace of temporary objects as statements name it, whatever its number is.
pub(crate) const ALIAS: &str = "pg_temp";

/// A namespace as definitions show it: without the number of the session's own.
pub(crate) fn shown_namespace(namespace: &str) -> &str {
    if is_temporary_namespace(namespace) { ALIAS } else { namespace }
}

/// The end of a transaction for the rows of a temporary table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnCommit {
    DeleteRows,
    Drop,
}

/// The temporary objects of one session. Costs nothing before the first one is created.
#[derive(Default)]
pub(crate) struct TemporaryObjects {
    opened: OnceLock<Opened>,
    joined: Mutex<Option<Joined>>,
    on_commit: Mutex<BTreeMap<TableId, OnCommit>>,
    /// Held from the check of changes until they are made. A commit whose caller has stopped
    /// waiting may go on beside the session's next statements.
    committing: Arc<tokio::sync::Mutex<()>>,
}

struct Opened {
    engine: Arc<Engine>,
    namespace: Arc<str>,
}

/// A catalog with the temporary objects of a session, and the two catalogs that it was made of.
struct Joined {
    base: Arc<Catalog>,
    temporary: Arc<Catalog>,
    catalog: Arc<Catalog>,
}

impl TemporaryObjects {
    /// The namespace of the session's temporary objects; `None` before the first one.
    pub(crate) fn namespace(&self) -> Option<&Arc<str>> {
        self.opened.get().map(|opened| &opened.namespace)
    }

    /// The newest snapshot of the database, with the session's temporary objects.
    pub(crate) fn snapshot(&self, database: &DatabaseShared) -> Snapshot {
        let base = database.engine.snapshot();
        let Some(opened) = self.opened.get() else { return base };
        let temporary = opened.engine.snapshot();
        if !temporary.catalog().has_namespace(&opened.namespace) {
            return base;
        }
        let catalog = self.joined(base.catalog(), temporary.catalog(), &opened.namespace);
        base.with_temporary(&temporary, catalog)
    }

    /// The joined catalog. It stays the same object until one of its parts changes, so that cached
    /// plans stay valid.
    fn joined(
        &self,
        base: &Arc<Catalog>,
        temporary: &Arc<Catalog>,
        namespace: &str,
    ) -> Arc<Catalog> {
        let mut kept = self.joined.lock();
        if let Some(joined) = kept.as_mut()
            && Arc::ptr_eq(&joined.base, base)
            && (Arc::ptr_eq(&joined.temporary, temporary)
                || joined.temporary.has_same_namespace(temporary, namespace))
        {
            joined.temporary = Arc::clone(temporary);
            return Arc::clone(&joined.catalog);
        }
        let catalog = Arc::new(base.with_temporary(temporary, namespace));
        let (base, temporary) = (Arc::clone(base), Arc::clone(temporary));
        *kept = Some(Joined { base, temporary, catalog: Arc::clone(&catalog) });
        catalog
    }

    fn open(&self, database: &DatabaseShared) -> Result<&Opened> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let engine = Arc::clone(database.temporary.start()?);
        let namespace = database.temporary.new_namespace().into();
        Ok(self.opened.get_or_init(|| Opened { engine, namespace }))
    }

    /// Records the end of a transaction for the rows of a table. The table's creation may be rolled
    /// back: its id is never used again.
    pub(crate) fn at_commit(&self, table: TableId, action: OnCommit) {
        self.on_commit.lock().insert(table, action);
    }

    /// Adds the changes of `ON COMMIT` to a transaction that is about to be committed.
    ///
    /// # Errors
    /// 0A000 if a table whose rows are not deleted refers to one whose rows are.
    pub(crate) fn before_commit(&self, transaction: &mut Transaction) -> Result<()> {
        let mut on_commit = self.on_commit.lock();
        if on_commit.is_empty() || !transaction.changes_temporary() {
            return Ok(());
        }
        let catalog = Arc::clone(transaction.catalog());
        // A commit that fails brings a dropped table back.
        let before = transaction.snapshot().catalog();
        on_commit.retain(|id, _| catalog.table(*id).or_else(|| before.table(*id)).is_some());
        let having = |wanted| on_commit.iter().filter(move |(_, action)| **action == wanted);
        let emptied: BTreeSet<TableId> = having(OnCommit::DeleteRows).map(|(id, _)| *id).collect();
        check_references(&catalog, &emptied)?;
        for id in emptied {
            if catalog.table(id).is_some() && transaction.changes_table(id) {
                transaction.truncate(id)?;
            }
        }
        let dropped = having(OnCommit::Drop).filter(|(id, _)| catalog.table(**id).is_some());
        let dropped: Vec<Referenced> = dropped.map(|(id, _)| Referenced::Table(*id)).collect();
        apply(transaction, catalog.removal(&dropped))
    }

    /// Drops all temporary objects in a transaction, as `DISCARD TEMP` does.
    ///
    /// # Errors
    /// Only for internal errors.
    pub(crate) fn discard_in(&self, transaction: &mut Transaction) -> Result<()> {
        let catalog = Arc::clone(transaction.catalog());
        match catalog.temporary() {
            Some(namespace) => apply(transaction, catalog.removal_of_all(namespace)),
            None => Ok(()),
        }
    }

    /// Begins the commit of the changes to temporary objects. With `is_checked`, finds out first
    /// whether they can be made, because other changes are committed before them.
    ///
    /// # Errors
    /// A constraint that does not hold; too little memory.
    pub(crate) async fn prepare(&self, changes: Transaction, is_checked: bool) -> Result<Prepared> {
        let opened = self.opened.get();
        let opened = opened.ok_or_else(|| Error::internal("there are no temporary objects"))?;
        let engine = Arc::clone(&opened.engine);
        let turn = Arc::clone(&self.committing).lock_owned().await;
        let copy = is_checked.then(|| changes.clone());
        let write_set = write_set(changes).await?;
        if let Some(copy) = copy {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let on_result = move |result| {
                // The waiting task may be gone.
                let _ = sender.send(result);
            };
            engine.check(self::write_set(copy).await?, Box::new(on_result));
            receiver.await.map_err(|_| no_answer())??;
        }
        Ok(Prepared { engine, write_set: WriteSet { is_checked, ..write_set }, _turn: turn })
    }

    /// Drops everything that the session has created. Its statements must have ended.
    fn end(&self) {
        if let Some(opened) = self.opened.get() {
            opened.engine.drop_namespace(opened.namespace.to_string());
        }
    }
}

/// Changes to temporary objects that are about to be committed.
pub(crate) struct Prepared {
    engine: Arc<Engine>,
    write_set: WriteSet,
    /// Keeps the session's other commits from changing what was checked.
    _turn: OwnedMutexGuard<()>,
}

impl Prepared {
    /// # Errors
    /// A constraint that does not hold, unless that was checked before.
    pub(crate) async fn commit(self) -> Result<()> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let on_result = move |result| {
            // The waiting task may be gone; the changes are made all the same.
            let _ = sender.send(result);
        };
        self.engine.commit(self.write_set, Durability::None, Box::new(on_result));
        receiver.await.map_err(|_| no_answer())?.map(drop)
    }
}

fn no_answer() -> Error {
    Error::internal("the engine of temporary tables gave no answer")
}

/// A hold on a session's temporary objects: that of the session, or of a commit that goes on after
/// the session's end. The objects are dropped with the last hold.
#[derive(Clone, Default)]
pub(crate) struct OwnTemporaryObjects(Arc<DroppedAtEnd>);

#[derive(Default)]
struct DroppedAtEnd(Arc<TemporaryObjects>);

impl std::ops::Deref for OwnTemporaryObjects {
    type Target = Arc<TemporaryObjects>;

    fn deref(&self) -> &Arc<TemporaryObjects> {
        let held: &DroppedAtEnd = &self.0;
        &held.0
    }
}

impl Drop for DroppedAtEnd {
    fn drop(&mut self) {
        self.0.end();
    }
}

async fn write_set(changes: Transaction) -> Result<WriteSet> {
    match changes.has_bulks() {
        true => on_own_thread(move |_| changes.into_temporary_write_set()).await?,
        false => changes.into_temporary_write_set(),
    }
}

fn apply(transaction: &mut Transaction, changes: Vec<CatalogChange>) -> Result<()> {
    changes.into_iter().try_for_each(|change| transaction.change_catalog(change))
}

fn check_references(catalog: &Catalog, emptied: &BTreeSet<TableId>) -> Result<()> {
    for id in emptied {
        let mut children = catalog.references_to(*id).map(|(child, _)| child);
        let stays = children.find(|child| !emptied.contains(&child.schema.id));
        if let (Some(child), Some(parent)) = (stays, catalog.table(*id)) {
            let message = "unsupported ON COMMIT and foreign key combination";
            let detail = format!(
                "Table \"{}\" references \"{}\", but they do not have the same ON COMMIT setting.",
                child.schema.name, parent.schema.name
            );
            let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            return Err(error.with_detail(detail));
        }
    }
    Ok(())
}

/// The namespace of the session's temporary objects, which is created if it is missing.
///
/// # Errors
/// 42501 if the role may not create temporary tables; if the system refuses threads.
pub(crate) fn own_namespace(execution: &Execution<'_>) -> Result<String> {
    let catalog = execution.names.catalog();
    if let Some(namespace) = catalog.temporary() {
        return Ok(namespace.to_owned());
    }
    execution.names.rights().on_database(Privilege::Temporary).map_err(|error| {
        let message =
            format!("permission denied to create temporary tables in database \"{DATABASE}\"");
        Error::new(error.state(), message)
    })?;
    let name = execution.temporary.open(&execution.database.shared)?.namespace.to_string();
    let change = CatalogChange::CreateNamespace { name: name.clone() };
    execution.names.with(|t| t.change_catalog(change))?;
    Ok(name)
}

/// A new id for a table or sequence of a namespace.
///
/// # Errors
/// If the system refuses threads.
pub(crate) fn new_id(execution: &Execution<'_>, namespace: &str) -> Result<TableId> {
    match is_temporary_namespace(namespace) {
        true => {
            let opened = execution.temporary.open(&execution.database.shared)?;
            Ok(opened.engine.allocate_table_id())
        }
        false => Ok(execution.database.shared.engine.allocate_table_id()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    #[tokio::test]
    async fn objects_last_as_long_as_a_commit_holds_them() {
        let database = Database::in_memory().unwrap();
        let own = OwnTemporaryObjects::default();
        let opened = own.open(&database.shared).unwrap();
        let (engine, namespace) = (Arc::clone(&opened.engine), opened.namespace.to_string());
        let create = |name: &str| {
            let catalog = vec![CatalogChange::CreateNamespace { name: name.to_owned() }];
            let write_set = WriteSet { catalog, ..WriteSet::default() };
            engine.commit_and_wait(write_set, Durability::None).unwrap();
        };
        create(&namespace);
        let of_commit = own.clone();
        drop(own);
        create("before");
        assert!(engine.snapshot().catalog().has_namespace(&namespace));
        drop(of_commit);
        create("after");
        assert!(!engine.snapshot().catalog().has_namespace(&namespace));
    }
}
