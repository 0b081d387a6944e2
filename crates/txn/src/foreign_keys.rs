//! Foreign keys in the transaction stage.
//!
//! The stage is the only place that sees all groups in their order, so it decides. A group that
//! adds referring rows is refused unless the referenced keys exist once it is applied. A group that
//! removes a referenced key has looked for referring rows in its snapshot; it conflicts if a later
//! group has referred to the key. [`RecentReferences`] knows these groups.

mod children;
mod kept;
mod keyed;
mod locks;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;
use arrow::record_batch::RecordBatch;
use thalweg_store::{ClosedChunk, Table, TableState, arrow_schema, arrow_type, key_text};
use thalweg_types::{
    ColumnId, Error, ForeignKey, Lsn, Result, RowId, SqlState, TableId, TableSchema,
};

use crate::catalog::{InKeyOrder, altered_meanwhile, changed_meanwhile, table_is_gone};
use crate::transaction_stage::TransactionStage;
use crate::write_set::{NewRows, TableChanges, WriteSet};
pub use children::{CancelCheck, find_children};
pub use kept::KeptKeys;
pub(crate) use keyed::apply_checked;

/// Number of keys in each of the two generations of [`RecentReferences`].
const KEYS_MAX: usize = 65_536;

/// The last group that referred to each key. Keys are stored as hashes: two keys with the same hash
/// may conflict needlessly, and no conflict is missed. Memory is bounded: the older generation is
/// dropped once the recent one is full. A key without an entry counts as referred to by the last
/// group of the dropped entries.
#[derive(Default)]
pub(crate) struct RecentReferences {
    recent: HashMap<(TableId, u32), Lsn>,
    older: HashMap<(TableId, u32), Lsn>,
    /// The last group of the dropped entries.
    floor: Lsn,
    /// A deliberate bug for tests: commits are not checked.
    pub(crate) skips_checks: bool,
}

impl RecentReferences {
    fn note(&mut self, key: (TableId, u32), lsn: Lsn) {
        if self.recent.len() >= KEYS_MAX && !self.recent.contains_key(&key) {
            let forgotten = std::mem::replace(&mut self.older, std::mem::take(&mut self.recent));
            let last = forgotten.into_values().max();
            self.floor = last.map_or(self.floor, |last| self.floor.max(last));
        }
        self.recent.insert(key, lsn);
    }

    /// The last group that may have referred to a key.
    pub(crate) fn last(&self, key: (TableId, u32)) -> Lsn {
        let found = self.recent.get(&key).or_else(|| self.older.get(&key));
        found.copied().unwrap_or(self.floor).max(self.floor)
    }

    /// Lowers the entries of groups that the log has refused: later groups reuse their numbers.
    pub(crate) fn roll_back_to(&mut self, lsn: Lsn) {
        self.recent.values_mut().chain(self.older.values_mut()).for_each(|at| *at = lsn.min(*at));
        self.floor = self.floor.min(lsn);
    }
}

/// The keys that rows refer to.
pub(crate) struct Referring {
    child: Arc<TableSchema>,
    foreign_key: ForeignKey,
    parent: TableId,
    /// Position of the referenced key among its table's keys.
    pub(crate) number: usize,
    /// The values in the order and the types of the referenced key.
    pub(crate) columns: Vec<ArrayRef>,
    /// The values in the order and the types of the foreign key.
    child_columns: Vec<ArrayRef>,
}

impl Referring {
    /// `None` if the referenced table is gone, which the caller reports.
    ///
    /// # Errors
    /// Only internal errors.
    pub(crate) fn new(
        (child, foreign_key): (&Arc<TableSchema>, &ForeignKey),
        parent: &TableSchema,
        column: impl Fn(ColumnId) -> Option<ArrayRef>,
    ) -> Result<Referring> {
        let ordered = InKeyOrder::of(foreign_key, parent);
        let ordered = ordered.ok_or_else(|| altered_meanwhile(&parent.name))?;
        let missing = || Error::internal("a row lacks a column of its foreign key");
        let child_columns: Option<Vec<ArrayRef>> =
            foreign_key.columns.iter().map(|id| column(*id)).collect();
        let columns = ordered.columns.iter().zip(&ordered.key.columns).map(|(id, of)| {
            let position = parent.position(*of).ok_or_else(missing)?;
            let wanted = arrow_type(&parent.columns[position].data_type);
            as_type(&column(*id).ok_or_else(missing)?, &wanted)
        });
        Ok(Referring {
            child: Arc::clone(child),
            foreign_key: foreign_key.clone(),
            parent: parent.id,
            number: ordered.number,
            columns: columns.collect::<Result<_>>()?,
            child_columns: child_columns.ok_or_else(missing)?,
        })
    }

    /// True if a row refers to a key: none of its values is NULL.
    pub(crate) fn refers(&self, row: usize) -> bool {
        self.child_columns.iter().all(|column| column.is_valid(row))
    }

    pub(crate) fn foreign_key(&self) -> &ForeignKey {
        &self.foreign_key
    }

    pub(crate) fn parent(&self) -> TableId {
        self.parent
    }

    /// For each row, the row that it refers to in a state of the referenced table.
    pub(crate) fn holders(&self, parent: &TableState) -> Vec<Option<RowId>> {
        let key = parent.schema().keys().nth(self.number);
        let unknown = || vec![None; self.rows()];
        key.map_or_else(unknown, |key| parent.probe(key, &self.columns))
    }

    fn rows(&self) -> usize {
        self.child_columns.first().map_or(0, |column| column.len())
    }

    /// The first row whose key has no holder.
    pub(crate) fn first_orphan(&self, holders: &[Option<RowId>]) -> Option<usize> {
        (0..self.rows()).find(|row| self.refers(*row) && holders[*row].is_none())
    }

    /// PostgreSQL's error for a row without its referenced row.
    pub(crate) fn error(&self, row: usize, parent: &str) -> Error {
        let positions = self.foreign_key.columns.iter().filter_map(|id| self.child.position(*id));
        let positions: Vec<usize> = positions.collect();
        let key = key_text(&self.child, &positions, &self.child_columns, row);
        let (table, name) = (&self.child.name, &self.foreign_key.name);
        let message = format!(
            "insert or update on table \"{table}\" violates foreign key constraint \"{name}\""
        );
        Error::new(SqlState::FOREIGN_KEY_VIOLATION, message)
            .with_detail(format!("Key {key} is not present in table \"{parent}\"."))
            .with_constraint(&self.child, name)
    }
}

/// A column converted to another type of the same family. A value that the type cannot have becomes
/// NULL, since no row of that type has the value.
///
/// # Errors
/// Only internal errors: the types were compared when the constraint was made.
pub(crate) fn as_type(column: &ArrayRef, wanted: &arrow::datatypes::DataType) -> Result<ArrayRef> {
    if column.data_type() == wanted {
        return Ok(Arc::clone(column));
    }
    cast(column, wanted)
        .map_err(|error| Error::internal("a foreign key has another type").with_source(error))
}

/// PostgreSQL's error for a key that rows still refer to. `columns` are those of the referenced
/// table, in the order of the foreign key.
#[must_use]
pub fn still_referenced(
    (parent, child): (&TableSchema, &TableSchema),
    foreign_key: &ForeignKey,
    columns: &[ArrayRef],
    row: usize,
) -> Error {
    let positions = foreign_key.parent_columns.iter().filter_map(|id| parent.position(*id));
    let key = key_text(parent, &positions.collect::<Vec<_>>(), columns, row);
    let (table, name, child_name) = (&parent.name, &foreign_key.name, &child.name);
    let message = format!(
        "update or delete on table \"{table}\" violates foreign key constraint \"{name}\" on \
         table \"{child_name}\""
    );
    Error::new(SqlState::FOREIGN_KEY_VIOLATION, message)
        .with_detail(format!("Key {key} is still referenced from table \"{child_name}\"."))
        .with_constraint(child, name)
}

/// The new rows of a group as a batch. `None` if they do not fit the table's columns, which is
/// reported when the group is applied.
fn fitting_batch(rows: &NewRows, schema: &TableSchema) -> Option<RecordBatch> {
    let of_chunk = |chunk: &ClosedChunk| {
        let fits = chunk.column_count() == schema.columns.len();
        fits.then(|| chunk.batch(&arrow_schema(schema)))
    };
    let batch = match rows {
        NewRows::Batch { rows, .. } => Some(rows.clone()),
        NewRows::Chunk { chunk, .. } => of_chunk(chunk),
        NewRows::Staged(staged) => of_chunk(staged.chunk()),
    };
    batch.filter(|batch| batch.num_columns() == schema.columns.len())
}

/// Referenced keys of rows that a group kills.
pub(crate) struct Killed {
    pub(crate) table: TableId,
    pub(crate) number: usize,
    pub(crate) columns: Vec<ArrayRef>,
}

/// The check of one group, prepared before its rows are applied.
pub(crate) struct Check {
    snapshot: Lsn,
    kept: Option<Arc<Vec<KeptKeys>>>,
    killed: Vec<Killed>,
    referring: Vec<Referring>,
    truncated: BTreeSet<TableId>,
}

impl Check {
    /// `None` if the group concerns no foreign key.
    ///
    /// # Errors
    /// If a referenced table is gone; internal errors.
    pub(crate) fn prepare(stage: &TransactionStage, write_set: &WriteSet) -> Result<Option<Check>> {
        if !stage.catalog.has_foreign_keys() {
            return Ok(None);
        }
        let mut check = Check {
            snapshot: write_set.snapshot,
            kept: write_set.kept_keys.clone(),
            killed: Vec::new(),
            referring: Vec::new(),
            truncated: BTreeSet::new(),
        };
        for changes in &write_set.tables {
            // The rows were made for other columns, which is reported when they are applied.
            if stage.is_outdated(changes) {
                continue;
            }
            if changes.truncate {
                check.truncated.insert(changes.table);
            }
            check.killed.extend(stage.killed_keys(changes)?);
            for rows in &changes.append {
                check.referring.extend(stage.referring(changes.table, rows)?);
            }
        }
        Ok(Some(check))
    }

    /// Checks the group once its rows are applied, and records the keys that it refers to.
    ///
    /// # Errors
    /// If a row refers to a key that does not exist (`23503`). If the group removes a key that
    /// another one has referred to after the group's snapshot (`40001`).
    pub(crate) fn verify(self, stage: &mut TransactionStage, lsn: Lsn) -> Result<()> {
        if stage.references.skips_checks {
            return Ok(());
        }
        for referring in &self.referring {
            let parent = &stage.tables.get(&referring.parent).ok_or_else(table_is_gone)?.table;
            let holders = parent.key_holders(referring.number, &referring.columns)?;
            if let Some(row) = referring
                .first_new_orphan(&holders, self.kept.iter().flat_map(|kept| kept.iter()))?
            {
                return Err(referring.error(row, &parent.schema().name));
            }
        }
        for killed in &self.killed {
            self.verify_killed(stage, killed, lsn)?;
        }
        for table in &self.truncated {
            self.verify_truncated(stage, *table)?;
        }
        self.referring.iter().for_each(|referring| stage.note_references(referring, lsn));
        Ok(())
    }

    fn verify_killed(&self, stage: &TransactionStage, killed: &Killed, lsn: Lsn) -> Result<()> {
        let table = &stage.tables.get(&killed.table).ok_or_else(table_is_gone)?.table;
        let holders = table.key_holders(killed.number, &killed.columns)?;
        let hashes = Table::key_hashes(&killed.columns);
        let has_null = |row: usize| killed.columns.iter().any(|column| column.is_null(row));
        let mut gone =
            (0..hashes.len()).filter(|row| holders[*row].is_none() && !has_null(*row)).peekable();
        if gone.peek().is_none() {
            return Ok(());
        }
        // The statement did not look for rows of a constraint that is newer than its snapshot.
        let is_newer = |version: Lsn| version > self.snapshot && version != lsn;
        let mut children = stage.catalog.references_to(killed.table);
        if let Some((child, _)) = children.find(|(child, _)| is_newer(child.version)) {
            return Err(altered_meanwhile(&child.schema.name));
        }
        let key = |row: usize| (killed.table, hashes[row]);
        match gone.any(|row| stage.references.last(key(row)) > self.snapshot) {
            true => Err(changed_meanwhile(&table.schema().name)),
            false => Ok(()),
        }
    }

    /// All tables that refer to a truncated one are truncated, too, or empty.
    fn verify_truncated(&self, stage: &TransactionStage, table: TableId) -> Result<()> {
        for (child, _) in stage.catalog.references_to(table) {
            let id = child.schema.id;
            let rows = stage.tables.get(&id).map_or(0, |child| child.table.applied().rows());
            if !self.truncated.contains(&id) && rows > 0 {
                return Err(changed_meanwhile(&child.schema.name));
            }
        }
        Ok(())
    }
}

impl TransactionStage {
    fn note_references(&mut self, referring: &Referring, lsn: Lsn) {
        let hashes = Table::key_hashes(&referring.columns);
        for (row, hash) in hashes.into_iter().enumerate() {
            if referring.refers(row) {
                self.references.note((referring.parent, hash), lsn);
            }
        }
    }

    /// True if the table has another version than the one that the rows were made for.
    fn is_outdated(&self, changes: &TableChanges) -> bool {
        let entry = self.catalog.table(changes.table);
        let now = entry.map(|entry| entry.version);
        changes.version.is_some_and(|version| now != Some(version))
    }

    /// The referenced keys of rows that a group kills.
    pub(crate) fn killed_keys(&self, changes: &TableChanges) -> Result<Vec<Killed>> {
        let id = changes.table;
        if changes.kill.is_empty() || !self.catalog.is_referenced(id) {
            return Ok(Vec::new());
        }
        let Some(writer) = self.tables.get(&id) else { return Ok(Vec::new()) };
        // A row that is dead is reported when the group is applied.
        let rows = changes.kill.iter().filter_map(|row| writer.table.locate(*row));
        let rows: Vec<RowId> = rows.collect();
        let schema = writer.table.schema();
        let numbers: BTreeSet<usize> = self
            .catalog
            .references_to(id)
            .filter_map(|(_, key)| Some(schema.key_of_columns(&key.parent_columns)?.0))
            .collect();
        let mut killed = Vec::with_capacity(numbers.len());
        for number in numbers {
            let Some(key) = schema.keys().nth(number) else { continue };
            let columns = writer.table.applied().columns_at(&rows, &schema.key_positions(key))?;
            killed.push(Killed { table: id, number, columns });
        }
        Ok(killed)
    }

    /// The keys that new rows of a table refer to.
    pub(crate) fn referring(&self, id: TableId, rows: &NewRows) -> Result<Vec<Referring>> {
        let Some(entry) = self.catalog.table(id) else { return Ok(Vec::new()) };
        let child = &entry.schema;
        if child.foreign_keys.is_empty() {
            return Ok(Vec::new());
        }
        let Some(batch) = fitting_batch(rows, child) else { return Ok(Vec::new()) };
        let column = |id: ColumnId| Some(Arc::clone(batch.column(child.position(id)?)));
        let mut referring = Vec::with_capacity(child.foreign_keys.len());
        for foreign_key in &child.foreign_keys {
            let parent = self.catalog.table(foreign_key.parent).ok_or_else(table_is_gone)?;
            referring.push(Referring::new((child, foreign_key), &parent.schema, column)?);
        }
        Ok(referring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgotten_references_count_as_recent() {
        let mut references = RecentReferences::default();
        let key = |hash| (TableId(1), hash);
        references.note(key(0), Lsn(5));
        assert_eq!((references.last(key(0)), references.last(key(1))), (Lsn(5), Lsn(0)));
        for hash in 0..2 * KEYS_MAX as u32 {
            references.note(key(hash), Lsn(6 + u64::from(hash)));
        }
        assert_eq!(references.last(key(7)), Lsn(13));
        (0..KEYS_MAX as u32).for_each(|hash| references.note(key(hash), Lsn(1_000_000)));
        assert!(references.recent.len() + references.older.len() <= 2 * KEYS_MAX);
        // The first generation reached this group.
        assert_eq!(references.last(key(u32::MAX)), Lsn(5 + KEYS_MAX as u64));
        references.roll_back_to(Lsn(9));
        assert_eq!(references.last(key(3)), Lsn(9));
    }
}
