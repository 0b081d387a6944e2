//! A transaction: a snapshot overlaid with its own changes.
//!
//! It reads the same table states as all readers. Its own rows lie in private chunks of a private
//! copy of the state. Its changes stay private until its write set goes to the engine.

mod foreign_keys;
mod overlay;
mod read_committed;
mod segments;
mod temporary;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use thalweg_store::TableState;
use thalweg_types::{Error, Lsn, Result, RowId, TableId, TableSchema};

use crate::apply::added_values;
use crate::catalog::{Catalog, CatalogChange, table_is_gone};
use crate::foreign_keys::KeptKeys;
use crate::published::Snapshot;
use crate::row_locks::LockOwner;
use crate::staging::Staged;
use crate::write_set::{RowChanges, WriteSet};
use foreign_keys::ConstraintModes;
pub use foreign_keys::{ConstraintTime, Removed, RemovedKeys};
use overlay::Overlay;
use segments::Segments;

/// Changes over a snapshot that are not committed yet. Dropping it rolls back.
#[derive(Clone)]
pub struct Transaction {
    snapshot: Snapshot,
    changes: Changes,
    owner: Option<LockOwner>,
    /// The row of the snapshot whose key a statement wanted to add again.
    duplicate: Option<(TableId, RowId)>,
}

/// A transaction's changes at some point, and its snapshot at that point.
pub struct Savepoint {
    snapshot: Snapshot,
    changes: Changes,
}

/// Strength of a lock on rows that a transaction read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowLock {
    /// No other transaction may change the row. Others may share the lock.
    Share,
    /// No other transaction may change or lock the row.
    Update,
}

#[derive(Clone)]
struct Changes {
    catalog: Arc<Catalog>,
    catalog_changes: Segments<CatalogChange>,
    /// Tables that this transaction created or altered.
    own: BTreeSet<TableId>,
    /// Tables whose rows must be those of a snapshot when the transaction commits, with the last
    /// group of that snapshot.
    relied_on: BTreeMap<TableId, Lsn>,
    tables: BTreeMap<TableId, Overlay>,
    /// Rows with keys that foreign keys refer to, which were deleted or replaced.
    removed: Segments<Removed>,
    /// Keys of replaced rows that stay, under constraints that are NOT VALID.
    kept_keys: Segments<KeptKeys>,
    modes: ConstraintModes,
}

impl Transaction {
    /// Begins a transaction that reads `snapshot`.
    #[must_use]
    pub fn new(snapshot: Snapshot) -> Transaction {
        let changes = Changes {
            catalog: Arc::clone(snapshot.catalog()),
            catalog_changes: Segments::default(),
            own: BTreeSet::new(),
            relied_on: BTreeMap::new(),
            tables: BTreeMap::new(),
            removed: Segments::default(),
            kept_keys: Segments::default(),
            modes: ConstraintModes::default(),
        };
        Transaction { snapshot, changes, owner: None, duplicate: None }
    }

    /// Names the holder of the row locks that do not exclude this transaction's changes.
    #[must_use]
    pub fn owned_by(self, owner: LockOwner) -> Transaction {
        Transaction { owner: Some(owner), ..self }
    }

    /// Records that a statement fails because a row of the table has its key.
    pub fn note_duplicate(&mut self, id: TableId, row: RowId) {
        self.duplicate = (!TableState::is_private(row.chunk())).then_some((id, row));
    }

    /// The row of the snapshot that made a statement fail because of its key.
    #[must_use]
    pub fn duplicate(&self) -> Option<(TableId, RowId)> {
        self.duplicate
    }

    /// The snapshot that the transaction reads, without its changes.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The catalog with this transaction's changes.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.changes.catalog
    }

    /// True if there is nothing to commit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.catalog_changes.is_empty() && self.changes.tables.is_empty()
    }

    /// True if some of its rows were staged in the log.
    #[must_use]
    pub fn has_staged(&self) -> bool {
        self.changes.tables.values().any(Overlay::has_staged)
    }

    /// True if it has changes that take long to encode for the log.
    #[must_use]
    pub fn has_bulks(&self) -> bool {
        self.changes.tables.values().any(Overlay::has_bulks)
    }

    /// A table's rows as this transaction sees them.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn state(&mut self, id: TableId) -> Result<Arc<TableState>> {
        if let Some(overlay) = self.changes.tables.get_mut(&id) {
            overlay.look_at_unseen()?;
            return Ok(Arc::clone(&overlay.state));
        }
        self.snapshot.table(id).cloned().ok_or_else(table_is_gone)
    }

    /// Adds rows. Keys are checked when the transaction commits.
    ///
    /// # Errors
    /// If there is no such table, or no memory for the rows.
    pub fn append(&mut self, id: TableId, rows: RecordBatch) -> Result<()> {
        // A lower bound: texts longer than eight bytes count when the system's figures are read
        // next.
        self.snapshot.make_room(rows.num_rows() * rows.num_columns() * size_of::<u64>())?;
        self.append_always(id, rows)
    }

    /// Adds the database's own rows, even if there is no memory for users' rows.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn append_always(&mut self, id: TableId, rows: RecordBatch) -> Result<()> {
        if rows.num_rows() > 0 {
            self.overlay(id)?.append(rows);
        }
        Ok(())
    }

    /// Adds a chunk that a loader built and staged in the log.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn append_staged(&mut self, id: TableId, staged: Arc<Staged>) -> Result<()> {
        self.overlay(id)?.append_staged(staged);
        Ok(())
    }

    /// Removes rows that this transaction sees.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn kill(&mut self, id: TableId, rows: &[RowId]) -> Result<()> {
        self.note_removed(id, rows, None)?;
        self.overlay(id)?.kill(rows)
    }

    /// Removes rows that this transaction sees, which `new` rows replace one by one. The caller
    /// adds the new rows.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn kill_replaced(&mut self, id: TableId, rows: &[RowId], new: &RecordBatch) -> Result<()> {
        self.note_removed(id, rows, Some(new))?;
        self.note_kept(id, rows, new)?;
        self.overlay(id)?.kill(rows)
    }

    /// Locks rows that this transaction sees. Its commit fails if another transaction changed them
    /// meanwhile.
    ///
    /// # Errors
    /// If there is no such table, or its rows lie on other nodes.
    pub fn lock(&mut self, id: TableId, rows: &[RowId], lock: RowLock) -> Result<()> {
        if rows.iter().any(|row| row.elsewhere().is_some()) {
            return Err(Error::unsupported("locking rows in a transaction block of a cluster"));
        }
        self.overlay(id)?.lock(rows, lock);
        Ok(())
    }

    /// Makes the commit depend on all rows of a table as of the snapshot, for changes that are
    /// correct only for these. The commit fails if another transaction changed or added a row.
    pub fn rely_on(&mut self, id: TableId) {
        // No other transaction knows a table that this one created.
        if self.snapshot.table(id).is_some() {
            self.changes.relied_on.entry(id).or_insert(self.snapshot.lsn());
        }
    }

    /// Removes all rows of a table.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn truncate(&mut self, id: TableId) -> Result<()> {
        self.overlay(id)?.truncate();
        Ok(())
    }

    /// Changes the catalog.
    ///
    /// # Errors
    /// If the change does not fit, or alters a table that this transaction has written to.
    pub fn change_catalog(&mut self, mut change: CatalogChange) -> Result<()> {
        let before = Arc::clone(&self.changes.catalog);
        if let CatalogChange::AlterTable { schema, expected, .. } = &mut change {
            let own = self.changes.own.contains(&schema.id);
            *expected = if own { None } else { before.table(schema.id).map(|entry| entry.version) };
        }
        let after = Arc::new(before.after(&change, self.snapshot.lsn().next())?);
        match &change {
            CatalogChange::CreateTable { schema } => {
                let state = Arc::new(TableState::empty(Arc::new(schema.clone())));
                self.changes.own.insert(schema.id);
                self.changes.tables.insert(schema.id, Overlay::new(state, None));
            }
            CatalogChange::AlterTable { schema, added, .. } => {
                let values = added_values(&before, schema, added.as_deref())?;
                let overlay = self.overlay(schema.id)?;
                if overlay.has_changes() && !differ_in_indexes_only(overlay.state.schema(), schema)
                {
                    return Err(Error::unsupported(
                        "altering a table that the same transaction has written to",
                    )
                    .with_hint("Commit first, then alter the table."));
                }
                overlay.alter(schema, &values)?;
                self.changes.own.insert(schema.id);
            }
            CatalogChange::DropTable { id } => {
                self.changes.tables.remove(id);
                self.changes.relied_on.remove(id);
            }
            _ => {}
        }
        self.changes.catalog = after;
        self.changes.catalog_changes.push(change);
        Ok(())
    }

    /// The changes to the catalog so far.
    #[must_use]
    pub fn catalog_changes(&self) -> Vec<CatalogChange> {
        self.changes.catalog_changes.iter().cloned().collect()
    }

    /// Rows that this transaction deleted from a table whose rows lie on other nodes: true if all
    /// of them, or else the list.
    #[must_use]
    pub fn killed_elsewhere(&self, id: TableId) -> (bool, Arc<[RowId]>) {
        // No other transaction knows a table that this one created.
        if self.snapshot.table(id).is_none() {
            return (true, Arc::from([]));
        }
        match self.changes.tables.get(&id) {
            Some(overlay) => (overlay.is_truncated(), overlay.killed_elsewhere()),
            None => (false, Arc::from([])),
        }
    }

    /// Removes and returns the changes to the tables selected by `of`, whose rows lie on other
    /// nodes.
    ///
    /// # Errors
    /// Only for internal errors: rows that do not fit their table.
    pub fn take_rows(&mut self, of: impl Fn(TableId) -> bool) -> Result<Vec<RowChanges>> {
        let tables = std::mem::take(&mut self.changes.tables);
        let (there, here): (BTreeMap<_, _>, _) = tables.into_iter().partition(|(id, _)| of(*id));
        self.changes.tables = here;
        let there = there.into_iter().filter(|(_, overlay)| overlay.has_changes());
        there.map(|(id, overlay)| overlay.into_rows(id)).collect()
    }

    /// Remembers the changes so far. The cost does not depend on their number.
    #[must_use]
    pub fn savepoint(&mut self) -> Savepoint {
        Savepoint { snapshot: self.snapshot.clone(), changes: self.changes.share() }
    }

    /// A copy of the transaction for read-only use.
    #[must_use]
    pub fn share(&mut self) -> Transaction {
        let (snapshot, owner) = (self.snapshot.clone(), self.owner);
        Transaction { snapshot, changes: self.changes.share(), owner, duplicate: None }
    }

    /// The transaction as it was at a savepoint.
    #[must_use]
    pub fn at(savepoint: &Savepoint) -> Transaction {
        let (snapshot, changes) = (savepoint.snapshot.clone(), savepoint.changes.clone());
        Transaction { snapshot, changes, owner: None, duplicate: None }
    }

    /// Restores the changes and the snapshot of the savepoint, which can be used again.
    pub fn roll_back_to(&mut self, savepoint: &Savepoint) {
        self.snapshot = savepoint.snapshot.clone();
        self.changes = savepoint.changes.clone();
    }

    /// All changes, encoded for the log.
    ///
    /// # Errors
    /// Only for internal errors: rows that do not fit their table.
    pub fn into_write_set(self) -> Result<WriteSet> {
        self.into_write_set_while(|| true)
    }

    /// Like [`into_write_set`](Transaction::into_write_set), but stops once `is_wanted` returns
    /// false, which is called before each chunk.
    ///
    /// # Errors
    /// Like [`into_write_set`](Transaction::into_write_set), and if it was stopped.
    pub fn into_write_set_while(mut self, is_wanted: impl Fn() -> bool) -> Result<WriteSet> {
        let mut tables = Vec::with_capacity(self.changes.tables.len());
        for (id, overlay) in self.changes.tables {
            if overlay.has_changes() {
                tables.push(overlay.into_changes(id, &is_wanted)?);
            }
        }
        let kept = self.changes.kept_keys.take();
        Ok(WriteSet {
            snapshot: self.snapshot.lsn(),
            relied_on: self.changes.relied_on.into_iter().collect(),
            owner: self.owner,
            kept_keys: (!kept.is_empty()).then(|| Arc::new(kept)),
            catalog: self.changes.catalog_changes.take(),
            tables,
            is_checked: false,
        })
    }

    fn overlay(&mut self, id: TableId) -> Result<&mut Overlay> {
        if !self.changes.tables.contains_key(&id) {
            let version = self.changes.catalog.table(id).ok_or_else(table_is_gone)?.version;
            let state = self.snapshot.table(id).cloned().ok_or_else(table_is_gone)?;
            self.changes.tables.insert(id, Overlay::new(state, Some(version)));
        }
        Ok(self.changes.tables.get_mut(&id).expect("it was inserted just now"))
    }
}

/// True if the schemas differ in indexes and foreign keys only, so that rows of one fit the other
/// unchanged.
fn differ_in_indexes_only(before: &TableSchema, after: &TableSchema) -> bool {
    let (indexes, foreign_keys) = (after.indexes.clone(), after.foreign_keys.clone());
    TableSchema { indexes, foreign_keys, ..before.clone() } == *after
}

impl Changes {
    /// A copy whose cost does not depend on the number of changes.
    fn share(&mut self) -> Changes {
        Changes {
            catalog: Arc::clone(&self.catalog),
            catalog_changes: self.catalog_changes.share(),
            own: self.own.clone(),
            relied_on: self.relied_on.clone(),
            tables: self.tables.iter_mut().map(|(id, table)| (*id, table.share())).collect(),
            removed: self.removed.share(),
            kept_keys: self.kept_keys.share(),
            modes: self.modes.clone(),
        }
    }
}
