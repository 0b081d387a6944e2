//! Locks on the keys that foreign keys refer to.
//!
//! A block whose new rows refer to a key shares a lock on it, like PostgreSQL's `FOR KEY SHARE`:
//! others may change the row with the key, and must wait before they remove the key. A block that
//! has removed a key keeps others from referring to it until the block ends.

use std::collections::HashSet;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use thalweg_store::Table;
use thalweg_types::Result;

use super::{Killed, Referring, fitting_batch};
use crate::keyed::KeyedRows;
use crate::lock_stage::Attempt;
use crate::row_locks::{KeyLocks, LockOwner, TableLocks};
use crate::transaction::RowLock;
use crate::transaction_stage::TransactionStage;
use crate::write_set::TableChanges;

impl TransactionStage {
    /// Tries to take the locks on keys in `keys`. `None` if all keys were locked.
    pub(crate) fn try_lock_references(
        &mut self,
        owner: LockOwner,
        wanted: &TableLocks,
        keys: &KeyLocks,
    ) -> Result<Option<Attempt>> {
        let id = wanted.table;
        let Some(writer) = self.tables.get(&id) else { return Ok(None) };
        let hashes = Table::key_hashes(&keys.columns);
        let is_share = keys.lock == RowLock::Share;
        if is_share && !self.row_locks.has_room_for_references(owner, id, hashes.len()) {
            // The commit checks that the keys exist.
            return Ok(None);
        }
        let holders = writer.table.key_holders(keys.number, &keys.columns)?;
        for (holder, hash) in holders.into_iter().zip(hashes) {
            let key = (keys.number as u32, hash);
            let (excluding, is_stale) = match keys.lock {
                RowLock::Share => {
                    (self.row_locks.other_on_key(Some(owner), id, key), holder.is_none())
                }
                RowLock::Update => {
                    let referring = self.row_locks.other_referring(Some(owner), id, key);
                    let other = referring.or(self.row_locks.other_on_key(Some(owner), id, key));
                    (other, self.references.last((id, hash)) > wanted.snapshot)
                }
            };
            if let Some(by) = excluding {
                return Ok(Some(Attempt::Blocked { by, table: id }));
            }
            if is_stale {
                return Ok(Some(Attempt::Stale));
            }
            match keys.lock {
                RowLock::Share => self.row_locks.take_reference(owner, id, key),
                RowLock::Update => self.row_locks.take_key(owner, id, key),
            }
        }
        Ok(None)
    }

    /// An owner that keeps a group from removing a key, or from referring to one.
    pub(crate) fn blocker_of_references(
        &self,
        owner: Option<LockOwner>,
        tables: &[TableChanges],
    ) -> Option<LockOwner> {
        tables.iter().find_map(|changes| {
            let killed = self.killed_keys(changes).unwrap_or_default();
            let by_removal =
                killed.iter().find_map(|killed| self.blocker_of_removal(owner, killed, changes));
            let by_reference = || {
                changes.append.iter().find_map(|rows| {
                    let referring = self.referring(changes.table, rows).unwrap_or_default();
                    referring.iter().find_map(|keys| self.blocker_of_referring(owner, keys))
                })
            };
            by_removal.or_else(by_reference)
        })
    }

    fn blocker_of_removal(
        &self,
        owner: Option<LockOwner>,
        killed: &Killed,
        changes: &TableChanges,
    ) -> Option<LockOwner> {
        if !self.row_locks.has_table(killed.table) {
            return None;
        }
        let schema = self.tables.get(&killed.table)?.table.schema();
        let positions = schema.key_positions(schema.keys().nth(killed.number)?);
        let hashes = |rows: RecordBatch| {
            let columns = positions.iter().map(|at| ArrayRef::clone(rows.column(*at)));
            Table::key_hashes(&columns.collect::<Vec<_>>())
        };
        let batches = changes.append.iter().filter_map(|rows| fitting_batch(rows, schema));
        let added: HashSet<u32> = batches.flat_map(hashes).collect();
        let removed = Table::key_hashes(&killed.columns);
        let mut removed = removed.into_iter().filter(|hash| !added.contains(hash));
        removed.find_map(|hash| {
            self.row_locks.other_referring(owner, killed.table, (killed.number as u32, hash))
        })
    }

    fn blocker_of_referring(
        &self,
        owner: Option<LockOwner>,
        referring: &Referring,
    ) -> Option<LockOwner> {
        let parent = referring.parent();
        if !self.row_locks.has_table(parent) {
            return None;
        }
        let table = &self.tables.get(&parent)?.table;
        let holders = table.key_holders(referring.number, &referring.columns).ok()?;
        let hashes = Table::key_hashes(&referring.columns).into_iter().enumerate();
        // A key without a committed row is an error at once: if it is locked, a block has added it
        // and not committed yet.
        let mut known = hashes.filter(|(row, _)| referring.refers(*row) && holders[*row].is_some());
        known.find_map(|(_, hash)| {
            self.row_locks.other_on_key(owner, parent, (referring.number as u32, hash))
        })
    }

    /// An owner that keeps rows of the record API from referring to a key.
    pub(crate) fn blocker_of_keyed_references(&self, rows: &KeyedRows) -> Option<LockOwner> {
        if !self.catalog.has_foreign_keys() {
            return None;
        }
        // An error is reported when the rows are applied.
        let referring = self.referring_keyed(rows).unwrap_or_default();
        referring.iter().find_map(|keys| self.blocker_of_referring(None, keys))
    }
}
