//! A transaction: a snapshot with its own changes laid over it.
//!
//! It reads through the same table states as everybody else; its own rows lie in private chunks of
//! a private copy of the state. Nothing is shared until its write set goes to the engine.

mod overlay;
mod segments;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use thalweg_store::TableState;
use thalweg_types::{Error, Result, RowId, TableId, TableSchema};

use crate::apply::added_values;
use crate::catalog::{Catalog, CatalogChange, table_is_gone};
use crate::published::Snapshot;
use crate::staging::Staged;
use crate::write_set::{RowChanges, WriteSet};
use overlay::Overlay;
use segments::Segments;

#[derive(Clone)]
pub struct Transaction {
    snapshot: Snapshot,
    changes: Changes,
}

/// What a transaction had changed at some point.
pub struct Savepoint(Changes);

/// How a transaction that read rows wants them kept until it commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowLock {
    /// Unchanged. Others may want the same.
    Share,
    /// Unchanged, and unlocked by anybody else.
    Update,
}

#[derive(Clone)]
struct Changes {
    catalog: Arc<Catalog>,
    catalog_changes: Segments<CatalogChange>,
    /// Tables that this transaction created or altered.
    own: BTreeSet<TableId>,
    /// Tables whose rows must be those of the snapshot when the transaction commits.
    relied_on: BTreeSet<TableId>,
    tables: BTreeMap<TableId, Overlay>,
}

impl Transaction {
    #[must_use]
    pub fn new(snapshot: Snapshot) -> Transaction {
        let changes = Changes {
            catalog: Arc::clone(snapshot.catalog()),
            catalog_changes: Segments::default(),
            own: BTreeSet::new(),
            relied_on: BTreeSet::new(),
            tables: BTreeMap::new(),
        };
        Transaction { snapshot, changes }
    }

    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The catalog with this transaction's changes.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.changes.catalog
    }

    /// Whether there is anything to commit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.catalog_changes.is_empty() && self.changes.tables.is_empty()
    }

    /// Whether some of its rows were sent ahead to the log.
    #[must_use]
    pub fn has_staged(&self) -> bool {
        self.changes.tables.values().any(Overlay::has_staged)
    }

    /// Whether it has changes that take a while to be encoded for the log.
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
        // What texts take beyond eight bytes counts once the system is asked.
        self.snapshot.make_room(rows.num_rows() * rows.num_columns() * size_of::<u64>())?;
        self.append_always(id, rows)
    }

    /// Adds rows of the database's own, also where there is no memory for those of its users.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn append_always(&mut self, id: TableId, rows: RecordBatch) -> Result<()> {
        if rows.num_rows() > 0 {
            self.overlay(id)?.append(rows);
        }
        Ok(())
    }

    /// Adds a chunk that a loader built, already on its way to the log.
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
        self.overlay(id)?.kill(rows)
    }

    /// Keeps rows that this transaction sees as they are: it can't commit where another one
    /// changed them meanwhile.
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

    /// Keeps a table as the snapshot shows it, for changes that are right for these rows only: the
    /// transaction can't commit where another one changed any of them, or added one.
    pub fn rely_on(&mut self, id: TableId) {
        // Nobody else knows a table that this transaction created.
        if self.snapshot.table(id).is_some() {
            self.changes.relied_on.insert(id);
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

    /// What this transaction took away from a table whose rows lie on other nodes: whether all of
    /// them, and else which.
    #[must_use]
    pub fn killed_elsewhere(&self, id: TableId) -> (bool, Arc<[RowId]>) {
        // Nobody else knows a table that this transaction created.
        if self.snapshot.table(id).is_none() {
            return (true, Arc::from([]));
        }
        match self.changes.tables.get(&id) {
            Some(overlay) => (overlay.is_truncated(), overlay.killed_elsewhere()),
            None => (false, Arc::from([])),
        }
    }

    /// Takes out the changes to rows of these tables, whose rows lie on other nodes.
    ///
    /// # Errors
    /// Only for mistakes: rows that do not fit their table.
    pub fn take_rows(&mut self, of: impl Fn(TableId) -> bool) -> Result<Vec<RowChanges>> {
        let tables = std::mem::take(&mut self.changes.tables);
        let (there, here): (BTreeMap<_, _>, _) = tables.into_iter().partition(|(id, _)| of(*id));
        self.changes.tables = here;
        let there = there.into_iter().filter(|(_, overlay)| overlay.has_changes());
        there.map(|(id, overlay)| overlay.into_rows(id)).collect()
    }

    /// Remembers the changes so far; costs the same however many there are.
    #[must_use]
    pub fn savepoint(&mut self) -> Savepoint {
        Savepoint(self.changes.share())
    }

    /// The same transaction once more, for somebody who looks at it and changes nothing.
    #[must_use]
    pub fn share(&mut self) -> Transaction {
        Transaction { snapshot: self.snapshot.clone(), changes: self.changes.share() }
    }

    pub fn roll_back_to(&mut self, savepoint: &Savepoint) {
        self.changes = savepoint.0.clone();
    }

    /// All changes, encoded for the log.
    ///
    /// # Errors
    /// Only for mistakes: rows that do not fit their table.
    pub fn into_write_set(self) -> Result<WriteSet> {
        self.into_write_set_while(|| true)
    }

    /// The same as long as it is wanted, which is asked before each chunk.
    ///
    /// # Errors
    /// As [`into_write_set`](Transaction::into_write_set), and where it was not wanted any more.
    pub fn into_write_set_while(mut self, is_wanted: impl Fn() -> bool) -> Result<WriteSet> {
        let mut tables = Vec::with_capacity(self.changes.tables.len());
        for (id, overlay) in self.changes.tables {
            if overlay.has_changes() {
                tables.push(overlay.into_changes(id, &is_wanted)?);
            }
        }
        Ok(WriteSet {
            snapshot: self.snapshot.lsn(),
            relied_on: self.changes.relied_on.into_iter().collect(),
            catalog: self.changes.catalog_changes.take(),
            tables,
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

/// Whether rows that were made for one schema fit the other as they are, and in every respect.
fn differ_in_indexes_only(before: &TableSchema, after: &TableSchema) -> bool {
    TableSchema { indexes: after.indexes.clone(), ..before.clone() } == *after
}

impl Changes {
    /// A copy that costs the same however much was changed.
    fn share(&mut self) -> Changes {
        Changes {
            catalog: Arc::clone(&self.catalog),
            catalog_changes: self.catalog_changes.share(),
            own: self.own.clone(),
            relied_on: self.relied_on.clone(),
            tables: self.tables.iter_mut().map(|(id, table)| (*id, table.share())).collect(),
        }
    }
}
