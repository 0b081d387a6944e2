//! Foreign keys as a transaction sees them.
//!
//! A statement of a block is checked at its end, on the transaction's own state. The transaction
//! stage checks the whole transaction again when it commits.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::filter;
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, SortField};
use thalweg_store::{Table, TableState};
use thalweg_types::{
    ColumnId, Error, ForeignKey, ReferentialAction, Result, RowId, TableId, TableSchema,
};

use super::{RowLock, Savepoint, Transaction};
use crate::catalog::{InKeyOrder, table_is_gone};
use crate::foreign_keys::{CancelCheck, KeptKeys, Referring, find_children, still_referenced};
use crate::row_locks::{KeyLocks, LOCKS_OF_TABLE_MAX, TableLocks};

/// Rows of a table to which foreign keys refer, that were deleted, or replaced by rows with other
/// keys. Only the columns to which foreign keys refer are recorded.
#[derive(Clone, Debug)]
pub struct Removed {
    pub table: TableId,
    columns: Vec<ColumnId>,
    /// The values of `columns` in the rows as they were.
    old: Vec<ArrayRef>,
    /// The values of `columns` in the row that replaces each of them; `None` if they were deleted.
    new: Option<Vec<ArrayRef>>,
}

/// The times at which a transaction checks its deferrable constraints: `SET CONSTRAINTS`.
#[derive(Clone, Debug, Default)]
pub struct ConstraintModes {
    /// True for deferred; `None` if the constraint's own initial time holds.
    all: Option<bool>,
    named: BTreeMap<(TableId, String), bool>,
}

impl ConstraintModes {
    fn is_deferred(&self, child: TableId, key: &ForeignKey) -> bool {
        if !key.deferrable {
            return false;
        }
        let named = self.named.get(&(child, key.name.clone())).copied();
        named.or(self.all).unwrap_or(key.initially_deferred)
    }
}

impl Transaction {
    /// True if a constraint is checked when the transaction commits.
    #[must_use]
    pub fn is_deferred(&self, child: TableId, key: &ForeignKey) -> bool {
        self.changes.modes.is_deferred(child, key)
    }

    /// Sets the time at which a constraint is checked, or with `None` all constraints.
    pub fn set_deferred(&mut self, constraint: Option<(TableId, String)>, deferred: bool) {
        match constraint {
            Some(named) => drop(self.changes.modes.named.insert(named, deferred)),
            None => {
                self.changes.modes =
                    ConstraintModes { all: Some(deferred), named: BTreeMap::new() };
            }
        }
    }

    pub(super) fn note_removed(
        &mut self,
        id: TableId,
        rows: &[RowId],
        new: Option<&RecordBatch>,
    ) -> Result<()> {
        if rows.is_empty() || !self.changes.catalog.is_referenced(id) {
            return Ok(());
        }
        let state = self.state(id)?;
        let keys = self.changes.catalog.references_to(id);
        let columns: BTreeSet<ColumnId> =
            keys.flat_map(|(_, key)| key.parent_columns.iter().copied()).collect();
        let columns: Vec<ColumnId> = columns.into_iter().collect();
        let positions: Option<Vec<usize>> =
            columns.iter().map(|column| state.schema().position(*column)).collect();
        let positions =
            positions.ok_or_else(|| Error::internal("a referenced table lacks a column"))?;
        let mut old = state.columns_at(rows, &positions)?;
        let mut new = new.map(|new| {
            let columns = positions.iter().map(|at| ArrayRef::clone(new.column(*at)));
            columns.collect::<Vec<_>>()
        });
        if let Some(values) = &mut new {
            let is_changed: Vec<bool> =
                same_rows(&old, values)?.into_iter().map(|same| !same).collect();
            if !is_changed.contains(&true) {
                return Ok(());
            }
            if is_changed.contains(&false) {
                old = picked(&old, is_changed.clone())?;
                *values = picked(values, is_changed)?;
            }
        }
        self.changes.removed.push(Removed { table: id, columns, old, new });
        Ok(())
    }

    /// Records keys that replaced rows keep under constraints which are NOT VALID.
    pub(super) fn note_kept(
        &mut self,
        id: TableId,
        rows: &[RowId],
        new: &RecordBatch,
    ) -> Result<()> {
        let catalog = Arc::clone(&self.changes.catalog);
        let child = &catalog.table(id).ok_or_else(table_is_gone)?.schema;
        for key in child.foreign_keys.iter().filter(|key| key.unvalidated) {
            let positions: Vec<usize> =
                key.columns.iter().filter_map(|column| child.position(*column)).collect();
            let old = self.state(id)?.columns_at(rows, &positions)?;
            let new: Vec<ArrayRef> =
                positions.iter().map(|at| ArrayRef::clone(new.column(*at))).collect();
            self.changes.kept_keys.extend(KeptKeys::of((child, key), &old, &new)?);
        }
        Ok(())
    }

    /// True if [`kill_replaced`](Self::kill_replaced) has something to record for a table.
    #[must_use]
    pub fn records_replaced(&self, id: TableId) -> bool {
        let has_unvalidated =
            |table: &TableSchema| table.foreign_keys.iter().any(|key| key.unvalidated);
        let entry = self.changes.catalog.table(id);
        self.changes.catalog.is_referenced(id)
            || entry.is_some_and(|entry| has_unvalidated(&entry.schema))
    }

    /// Number of entries of [`removed_from`](Self::removed_from) so far.
    #[must_use]
    pub fn removed_count(&self) -> usize {
        self.changes.removed.len()
    }

    /// Like [`removed_count`](Self::removed_count), at a savepoint.
    #[must_use]
    pub fn removed_count_at(savepoint: &Savepoint) -> usize {
        savepoint.changes.removed.len()
    }

    /// The removed rows behind the first entries. Only tables that foreign keys refer to are
    /// recorded.
    #[must_use]
    pub fn removed_from(&self, first: usize) -> Vec<Removed> {
        self.changes.removed.iter_from(first).cloned().collect()
    }

    /// The tables with foreign keys that the transaction has changed.
    fn children_changed(&self) -> Vec<TableId> {
        if !self.changes.catalog.has_foreign_keys() {
            return Vec::new();
        }
        let refers = |id: &TableId| {
            let entry = self.changes.catalog.table(*id);
            entry.is_some_and(|entry| !entry.schema.foreign_keys.is_empty())
        };
        self.changes.tables.keys().copied().filter(refers).collect()
    }

    /// Checks that the rows which were added since a savepoint, or all, refer to rows that the
    /// transaction sees. Deferred constraints are left to the commit.
    ///
    /// # Errors
    /// The first row without its referenced row (`23503`).
    pub fn check_new_references(&mut self, before: Option<&Savepoint>) -> Result<()> {
        for id in self.children_changed() {
            for referring in self.new_references(id, before)? {
                if self.changes.modes.is_deferred(id, referring.foreign_key()) {
                    continue;
                }
                let parent = self.state(referring.parent())?;
                let holders = referring.holders(&parent);
                let first = before.map_or(0, |before| before.changes.kept_keys.len());
                let kept = self.changes.kept_keys.iter_from(first);
                if let Some(row) = referring.first_new_orphan(&holders, kept)? {
                    return Err(referring.error(row, &parent.schema().name));
                }
            }
        }
        Ok(())
    }

    /// The keys that new rows of a table refer to: those added since a savepoint, or all.
    fn new_references(
        &mut self,
        id: TableId,
        before: Option<&Savepoint>,
    ) -> Result<Vec<Referring>> {
        let catalog = Arc::clone(&self.changes.catalog);
        let child = &catalog.table(id).ok_or_else(table_is_gone)?.schema;
        let Some(overlay) = self.changes.tables.get_mut(&id) else { return Ok(Vec::new()) };
        let old = before.and_then(|before| before.changes.tables.get(&id));
        let old = old.filter(|old| old.is_truncated() == overlay.is_truncated());
        let mut referring = Vec::new();
        for rows in overlay.new_rows_from(old.map_or(0, |old| old.chunk_count()))? {
            let column = |id: ColumnId| Some(ArrayRef::clone(rows.column(child.position(id)?)));
            for key in &child.foreign_keys {
                let parent = catalog.table(key.parent).ok_or_else(table_is_gone)?;
                referring.push(Referring::new((child, key), &parent.schema, column)?);
            }
        }
        Ok(referring)
    }

    /// The locks on keys that the changes since a savepoint need: shared ones on the keys that new
    /// rows refer to, exclusive ones on referenced keys that were removed.
    pub(super) fn key_locks_since(&mut self, before: &Savepoint) -> Result<Vec<TableLocks>> {
        if !self.changes.catalog.has_foreign_keys() {
            return Ok(Vec::new());
        }
        let mut locks = self.reference_locks_since(before)?;
        for removed in self.removed_from(before.changes.removed.len()) {
            let state = self.state(removed.table)?;
            for ordered in self.referenced_keys(state.schema()) {
                let Some(columns) = removed.old_values(&ordered.key.columns) else { continue };
                let holders = state.probe(&ordered.key, &columns);
                let is_gone = |row: usize| {
                    holders[row].is_none() && columns.iter().all(|column| column.is_valid(row))
                };
                let is_gone = (0..holders.len()).map(is_gone).collect::<Vec<_>>();
                let columns = picked(&columns, is_gone)?;
                let keys = KeyLocks { number: ordered.number, columns, lock: RowLock::Update };
                locks.extend(self.locks_of_keys(state.schema(), keys));
            }
        }
        Ok(locks)
    }

    /// Shared locks on the keys that new rows refer to, each key once. There are none if these are
    /// more keys than an owner may lock: the commit checks that the keys exist.
    fn reference_locks_since(&mut self, before: &Savepoint) -> Result<Vec<TableLocks>> {
        let mut wanted: BTreeMap<(TableId, usize), WantedKeys> = BTreeMap::new();
        for id in self.children_changed() {
            for referring in self.new_references(id, Some(before))? {
                let wanted = wanted.entry((referring.parent(), referring.number)).or_default();
                if wanted.hashes.len() > LOCKS_OF_TABLE_MAX {
                    continue;
                }
                let parent = self.state(referring.parent())?;
                let holders = referring.holders(&parent);
                let hashes = Table::key_hashes(&referring.columns);
                // Other transactions do not see the transaction's own rows, which need no lock.
                let is_others = |row: usize| {
                    referring.refers(row)
                        && holders[row].is_some_and(|row| !TableState::is_private(row.chunk()))
                };
                let is_first = |row| is_others(row) && wanted.hashes.insert(hashes[row]);
                let is_first = (0..holders.len()).map(is_first).collect::<Vec<_>>();
                let keys = KeyLocks {
                    number: referring.number,
                    columns: picked(&referring.columns, is_first)?,
                    lock: RowLock::Share,
                };
                wanted.locks.extend(self.locks_of_keys(parent.schema(), keys));
            }
        }
        let is_bounded = |wanted: &WantedKeys| wanted.hashes.len() <= LOCKS_OF_TABLE_MAX;
        let wanted = wanted.into_values().filter(is_bounded);
        Ok(wanted.flat_map(|wanted| wanted.locks).collect())
    }

    /// The keys of a table that foreign keys refer to, each once.
    fn referenced_keys(&self, table: &TableSchema) -> Vec<InKeyOrder> {
        let mut seen = BTreeSet::new();
        let keys = self.changes.catalog.references_to(table.id);
        let keys = keys.filter_map(|(_, key)| InKeyOrder::of(key, table));
        keys.filter(|key| seen.insert(key.number)).collect()
    }

    /// `None` if no key is to be locked, or no other transaction knows the table.
    fn locks_of_keys(&self, table: &TableSchema, keys: KeyLocks) -> Option<TableLocks> {
        let is_empty = keys.columns.first().is_none_or(|column| column.is_empty());
        let entry = self.snapshot.catalog().table(table.id).filter(|_| !is_empty)?;
        Some(TableLocks {
            table: table.id,
            version: entry.version,
            rows: Vec::new(),
            added: Vec::new(),
            truncated: false,
            keys: Some(keys),
            snapshot: self.snapshot.lsn(),
        })
    }
}

/// The locks that a statement wants on one key of a table.
#[derive(Default)]
struct WantedKeys {
    /// The hashes of the keys. Locks know keys by their hashes.
    hashes: HashSet<u32>,
    locks: Vec<TableLocks>,
}

fn picked(columns: &[ArrayRef], which: Vec<bool>) -> Result<Vec<ArrayRef>> {
    let which = which.into();
    let pick = |column: &ArrayRef| {
        filter(column, &which)
            .map_err(|error| Error::internal("keys cannot be picked").with_source(error))
    };
    columns.iter().map(pick).collect()
}

/// The keys of removed rows, in the columns to which one foreign key refers.
#[derive(Debug)]
pub struct RemovedKeys {
    /// The values in the order of the foreign key's columns, none of which is NULL.
    pub old: Vec<ArrayRef>,
    /// The values that replace them; `None` if the rows were deleted.
    pub new: Option<Vec<ArrayRef>>,
}

impl Removed {
    /// The keys of these rows that a foreign key may refer to. Rows that keep their key are left
    /// out. `None` if the foreign key is newer than the removal: its definition checked all rows.
    ///
    /// # Errors
    /// Only internal errors.
    pub fn keys(&self, foreign_key: &ForeignKey) -> Result<Option<RemovedKeys>> {
        let columns = &foreign_key.parent_columns;
        let Some(old) = self.old_values(columns) else { return Ok(None) };
        let new = self.new.as_ref().and_then(|new| self.of_columns(new, columns));
        let rows = old.first().map_or(0, |column| column.len());
        let is_same = match &new {
            None => vec![false; rows],
            Some(new) => same_rows(&old, new)?,
        };
        let is_removed =
            |row: usize| !is_same[row] && old.iter().all(|column| column.is_valid(row));
        let is_removed: Vec<bool> = (0..rows).map(is_removed).collect();
        let new = new.map(|new| picked(&new, is_removed.clone())).transpose()?;
        Ok(Some(RemovedKeys { old: picked(&old, is_removed)?, new }))
    }

    /// The old values of some columns; `None` if one was not recorded.
    fn old_values(&self, columns: &[ColumnId]) -> Option<Vec<ArrayRef>> {
        self.of_columns(&self.old, columns)
    }

    fn of_columns(&self, values: &[ArrayRef], columns: &[ColumnId]) -> Option<Vec<ArrayRef>> {
        let offset = |id: &ColumnId| self.columns.iter().position(|column| column == id);
        columns.iter().map(|id| Some(ArrayRef::clone(&values[offset(id)?]))).collect()
    }

    /// The action of a foreign key for these rows.
    #[must_use]
    pub fn action(&self, foreign_key: &ForeignKey) -> ReferentialAction {
        match self.new {
            None => foreign_key.on_delete,
            Some(_) => foreign_key.on_update,
        }
    }
}

/// For each row, true if two lists of columns have the same values.
fn same_rows(one: &[ArrayRef], other: &[ArrayRef]) -> Result<Vec<bool>> {
    let compared = |error| Error::internal("keys cannot be compared").with_source(error);
    let fields = one.iter().map(|column| SortField::new(column.data_type().clone()));
    let converter = RowConverter::new(fields.collect()).map_err(compared)?;
    let one = converter.convert_columns(one).map_err(compared)?;
    let other = converter.convert_columns(other).map_err(compared)?;
    Ok(one.iter().zip(other.iter()).map(|(one, other)| one == other).collect())
}

/// The constraints that [`Transaction::check_removed_keys`] checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintTime {
    /// Constraints that the end of a statement checks.
    Statement,
    /// All: the statement is a transaction of its own.
    Whole,
    /// Constraints that are deferred now.
    Deferred,
    /// Constraints that may have been deferred.
    Commit,
}

impl Transaction {
    /// Checks that no row refers to keys that were removed, by foreign keys without an action. Only
    /// rows behind the first entries of [`removed_from`](Self::removed_from) are checked.
    ///
    /// # Errors
    /// The first key that a row still refers to (`23503`); errors of `check`.
    pub fn check_removed_keys(
        &mut self,
        first: usize,
        time: ConstraintTime,
        check: CancelCheck<'_>,
    ) -> Result<()> {
        let catalog = Arc::clone(&self.changes.catalog);
        for removed in self.removed_from(first) {
            for (child, key) in catalog.references_to(removed.table) {
                let is_checked = match time {
                    ConstraintTime::Statement => !self.is_deferred(child.schema.id, key),
                    ConstraintTime::Whole => true,
                    ConstraintTime::Deferred => self.is_deferred(child.schema.id, key),
                    ConstraintTime::Commit => key.deferrable,
                };
                // A default may be the removed key.
                let is_left = matches!(
                    removed.action(key),
                    ReferentialAction::NoAction | ReferentialAction::SetDefault
                );
                if is_checked && is_left {
                    self.check_unreferenced(&removed, (&child.schema, key), true, check)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that no row refers to removed keys. With `may_return`, keys that a row of the table
    /// has again are left out.
    ///
    /// # Errors
    /// The first key that a row still refers to (`23503`); errors of `check`.
    pub fn check_unreferenced(
        &mut self,
        removed: &Removed,
        (child, key): (&Arc<TableSchema>, &ForeignKey),
        may_return: bool,
        check: CancelCheck<'_>,
    ) -> Result<()> {
        check()?;
        let state = self.state(removed.table)?;
        let parent = Arc::clone(state.schema());
        let Some(RemovedKeys { mut old, .. }) = removed.keys(key)? else { return Ok(()) };
        if may_return && let Some(ordered) = InKeyOrder::of(key, &parent) {
            let offset = |id: &ColumnId| key.parent_columns.iter().position(|column| column == id);
            let columns = ordered.key.columns.iter().filter_map(offset);
            let columns: Vec<ArrayRef> = columns.map(|at| ArrayRef::clone(&old[at])).collect();
            let holders = state.probe(&ordered.key, &columns);
            old = picked(&old, holders.into_iter().map(|holder| holder.is_none()).collect())?;
        }
        let found = find_children(&*self.state(child.id)?, &key.columns, &old, check)?;
        match found.into_iter().map(|(_, row)| row).min() {
            None => Ok(()),
            Some(row) => Err(still_referenced((&parent, child), key, &old, row)),
        }
    }

    /// Checks that all rows of a table refer to rows that the transaction sees.
    ///
    /// # Errors
    /// The first row without its referenced row (`23503`). Errors of `check`, which runs before
    /// each chunk.
    pub fn check_all_references(
        &mut self,
        id: TableId,
        key: &ForeignKey,
        check: CancelCheck<'_>,
    ) -> Result<()> {
        let catalog = Arc::clone(&self.changes.catalog);
        let child = &catalog.table(id).ok_or_else(table_is_gone)?.schema;
        let parent = self.state(key.parent)?;
        let positions: Option<Vec<usize>> =
            key.columns.iter().map(|id| child.position(*id)).collect();
        let positions =
            positions.ok_or_else(|| Error::internal("a row lacks a column of its foreign key"))?;
        for chunk in self.state(id)?.chunks() {
            check()?;
            let columns = chunk.columns(&positions);
            let columns = match chunk.live_mask() {
                None => columns,
                Some(live) => picked(&columns, live.iter().collect())?,
            };
            let column = |id: ColumnId| {
                let at = key.columns.iter().position(|known| *known == id)?;
                Some(ArrayRef::clone(&columns[at]))
            };
            let referring = Referring::new((child, key), parent.schema(), column)?;
            if let Some(row) = referring.first_orphan(&referring.holders(&parent)) {
                return Err(referring.error(row, &parent.schema().name));
            }
        }
        Ok(())
    }
}
