//! Transactions at READ COMMITTED: each statement reads a newer snapshot, and locks the rows that
//! it changes.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use thalweg_store::TableState;
use thalweg_types::{Lsn, Result, RowId, TableId};

use super::overlay::{NewChunk, Overlay};
use super::{RowLock, Savepoint, Transaction};
use crate::catalog::{CatalogChange, altered_meanwhile, table_is_gone};
use crate::published::Snapshot;
use crate::row_locks::TableLocks;

impl Transaction {
    /// Moves the transaction's changes to a newer snapshot. A transaction that has changed
    /// definitions of permanent objects keeps its snapshot.
    ///
    /// # Errors
    /// If another transaction has altered or dropped a table that this one has changed, or has
    /// changed a row that this one has changed without a lock (`40001`). If a foreign key that is
    /// newer than the snapshot refers to a table of which this transaction has removed rows
    /// (`40001`): its statements did not look for referring rows. The transaction cannot be used
    /// then.
    pub fn rebase(&mut self, now: &Snapshot) -> Result<()> {
        if now.lsn() <= self.snapshot.lsn() || self.has_definitions() {
            return Ok(());
        }
        for (id, overlay) in &mut self.changes.tables {
            // A temporary table that this transaction has created or altered: no other session
            // changes it.
            if self.changes.own.contains(id) {
                continue;
            }
            let entry = now.catalog().table(*id).ok_or_else(table_is_gone)?;
            if overlay.version != Some(entry.version) {
                return Err(altered_meanwhile(&entry.schema.name));
            }
            if !overlay.kill.is_empty()
                && let Some(child) = now.catalog().new_reference_to(*id, self.snapshot.catalog())
            {
                return Err(altered_meanwhile(&child.schema.name));
            }
            overlay.rebase(now.table(*id).ok_or_else(table_is_gone)?)?;
        }
        let mut catalog = Arc::clone(now.catalog());
        for change in self.changes.catalog_changes.iter() {
            catalog = Arc::new(catalog.after(change, now.lsn().next())?);
        }
        self.changes.catalog = catalog;
        self.snapshot = now.clone();
        Ok(())
    }

    /// True if the transaction has changed definitions of permanent objects.
    #[must_use]
    pub fn has_definitions(&self) -> bool {
        !self.changes.catalog_changes.iter().all(CatalogChange::is_temporary)
    }

    /// The locks that the changes since a savepoint need: on rows that were deleted, replaced or
    /// locked, and on the keys of new rows. Requests of [`Transaction::lock`] are taken out of the
    /// transaction.
    ///
    /// # Errors
    /// Only for internal errors: rows that do not fit their table.
    pub fn locks_since(&mut self, before: &Savepoint) -> Result<Vec<TableLocks>> {
        let mut locks = Vec::new();
        if self.has_definitions() {
            return Ok(locks);
        }
        for (id, overlay) in &mut self.changes.tables {
            locks.extend(overlay.locks_since(*id, before.changes.tables.get(id))?);
        }
        locks.extend(self.key_locks_since(before)?);
        Ok(locks)
    }

    /// Hides rows from the next statement, until [`Transaction::show_hidden`].
    ///
    /// # Errors
    /// If there is no such table.
    pub fn hide(&mut self, id: TableId, row: RowId) -> Result<()> {
        self.overlay(id)?.hide(row);
        Ok(())
    }

    /// Shows hidden rows again.
    ///
    /// # Errors
    /// As [`Transaction::rebase`].
    pub fn show_hidden(&mut self) -> Result<()> {
        for (id, overlay) in &mut self.changes.tables {
            // Nothing is hidden in a table that this transaction has created or altered, and its
            // base has the columns from before.
            if !self.changes.own.contains(id) {
                overlay.renew()?;
            }
        }
        Ok(())
    }
}

impl Overlay {
    /// Moves the changes to a newer state of the table, which has the same version.
    fn rebase(&mut self, now: &Arc<TableState>) -> Result<()> {
        if Arc::ptr_eq(&self.base, now) {
            return Ok(());
        }
        self.base = Arc::clone(now);
        self.renew()
    }

    /// Builds the state anew from the snapshot's state and the changes.
    fn renew(&mut self) -> Result<()> {
        self.look_at_unseen()?;
        let mut state = match self.is_truncated() {
            true => self.base.truncated().with_private_of(&self.state),
            false => self.base.with_private_of(&self.state),
        };
        let mut killed: Vec<RowId> = self.kill.iter().copied().collect();
        // Rows of one chunk are processed together.
        killed.sort_unstable();
        state.hide(&killed)?;
        self.state = Arc::new(state);
        Ok(())
    }

    fn hide(&mut self, row: RowId) {
        // A row that is dead already needs no hiding.
        let _ = Arc::make_mut(&mut self.state).hide(&[row]);
    }

    /// See [`Transaction::locks_since`]. `None` if no lock is needed.
    fn locks_since(&mut self, id: TableId, old: Option<&Overlay>) -> Result<Option<TableLocks>> {
        let Some(version) = self.version else { return Ok(None) };
        self.look_at_unseen()?;
        // `TRUNCATE` drops the list.
        let old = old.filter(|old| old.is_truncated() == self.is_truncated());
        let (killed, chunks) = old.map_or((0, 0), |old| (old.kill.len(), old.chunks.len()));
        let mut rows: Vec<(RowId, RowLock)> =
            self.kill.iter_from(killed).map(|row| (*row, RowLock::Update)).collect();
        rows.extend(self.locked.take());
        let mut added = Vec::new();
        if self.state.schema().keys().next().is_some() {
            let new = self.chunks.iter_from(chunks);
            added.extend(new.filter_map(|(_, chunk)| match chunk {
                NewChunk::Rows(rows) => Some(rows.clone()),
                // The keys of bulk loads are checked by the commit alone.
                NewChunk::Chunk(_) | NewChunk::Staged(_) => None,
            }));
        }
        if rows.is_empty() && added.iter().all(|rows: &RecordBatch| rows.num_rows() == 0) {
            return Ok(None);
        }
        let truncated = self.is_truncated();
        let snapshot = Lsn(0);
        Ok(Some(TableLocks { table: id, version, rows, added, truncated, keys: None, snapshot }))
    }
}
