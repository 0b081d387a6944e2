//! Foreign keys of rows that are written by key.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take_record_batch;
use thalweg_types::{ColumnId, Error, Result};

use super::Referring;
use crate::catalog::table_is_gone;
use crate::keyed::{KeyedChange, KeyedRows, Outcome};
use crate::transaction_stage::TransactionStage;

/// Passes the first `count` rows to `apply`, except rows that refer to a key that does not exist.
/// With `stop`, only the rows before the first such row are applied.
///
/// # Errors
/// Errors of `apply`; if the change is not supported because of a foreign key.
pub(crate) fn apply_checked(
    stage: &mut TransactionStage,
    rows: &KeyedRows,
    count: usize,
    stop: bool,
    apply: impl FnOnce(&mut TransactionStage, &KeyedRows, usize) -> Result<Outcome>,
) -> Result<Outcome> {
    if !stage.catalog.has_foreign_keys() {
        return apply(stage, rows, count);
    }
    refuse_removed_keys(stage, rows)?;
    let referring = stage.referring_keyed(rows)?;
    if referring.is_empty() {
        return apply(stage, rows, count);
    }
    let mut orphans: Vec<(usize, Error)> = Vec::new();
    for keys in &referring {
        let parent = &stage.tables.get(&keys.parent).ok_or_else(table_is_gone)?.table;
        let holders = parent.key_holders(keys.number, &keys.columns)?;
        let is_orphan = |row: &usize| keys.refers(*row) && holders[*row].is_none();
        let name = &parent.schema().name;
        orphans.extend((0..count).filter(is_orphan).map(|row| (row, keys.error(row, name))));
    }
    let lsn = stage.lsn.next();
    referring.iter().for_each(|keys| stage.note_references(keys, lsn));
    orphans.sort_by_key(|(row, _)| *row);
    orphans.dedup_by_key(|(row, _)| *row);
    let Some((first, _)) = orphans.first() else { return apply(stage, rows, count) };
    if stop {
        let first = *first;
        let (written, mut refused) = apply(stage, rows, first)?;
        if refused.is_empty() {
            refused.extend(orphans.into_iter().take(1));
        }
        return Ok((written, refused));
    }
    let has_parents = |row: &usize| orphans.binary_search_by_key(row, |(row, _)| *row).is_err();
    let valid: Vec<usize> = (0..count).filter(has_parents).collect();
    let (written, refused) = apply(stage, &picked(rows, &valid)?, valid.len())?;
    let mut refused: Vec<(usize, Error)> =
        refused.into_iter().map(|(row, error)| (valid[row], error)).collect();
    refused.extend(orphans);
    refused.sort_by_key(|(row, _)| *row);
    Ok((written, refused))
}

/// Refuses changes that may remove a key that foreign keys refer to: the stage does not search for
/// referring rows, since that may take long.
///
/// # Errors
/// If the change may remove such a key.
fn refuse_removed_keys(stage: &TransactionStage, rows: &KeyedRows) -> Result<()> {
    if !stage.catalog.is_referenced(rows.table) {
        return Ok(());
    }
    let schema = &stage.catalog.table(rows.table).ok_or_else(table_is_gone)?.schema;
    let may_change = |column: &ColumnId| {
        let is_primary =
            schema.primary_key.as_ref().is_some_and(|key| key.columns.contains(column));
        let position = schema.position(*column);
        // The primary key finds the row, so that it stays.
        !is_primary
            && match &rows.change {
                KeyedChange::Put(put) => *put != thalweg_store::Put::Create,
                KeyedChange::Patch(patch) | KeyedChange::Merge(patch) => {
                    position.is_some_and(|at| patch.columns.contains(&at))
                }
                KeyedChange::Remove => true,
            }
    };
    let mut keys = stage.catalog.references_to(rows.table);
    let is_removed = matches!(rows.change, KeyedChange::Remove)
        || keys.any(|(_, key)| key.parent_columns.iter().any(may_change));
    match is_removed {
        true => Err(Error::unsupported(format!(
            "removing keys of table \"{}\" by key, to which foreign keys refer,",
            schema.name
        ))
        .with_hint("Use SQL: DELETE or UPDATE.")),
        false => Ok(()),
    }
}

impl TransactionStage {
    /// The keys that rows of the record API refer to.
    ///
    /// # Errors
    /// If only a part of a foreign key is written, or it refers to the same table.
    pub(crate) fn referring_keyed(&self, rows: &KeyedRows) -> Result<Vec<Referring>> {
        let child = &self.catalog.table(rows.table).ok_or_else(table_is_gone)?.schema;
        let mut referring = Vec::new();
        if matches!(rows.change, KeyedChange::Remove) {
            return Ok(referring);
        }
        for foreign_key in &child.foreign_keys {
            let offset_in_rows = |position: usize| match &rows.change {
                KeyedChange::Patch(patch) => patch.columns.iter().position(|at| *at == position),
                _ => Some(position),
            };
            let positions: Vec<usize> =
                foreign_key.columns.iter().filter_map(|id| child.position(*id)).collect();
            let is_written = |position: &usize| match &rows.change {
                KeyedChange::Patch(patch) | KeyedChange::Merge(patch) => {
                    patch.columns.contains(position)
                }
                KeyedChange::Put(_) | KeyedChange::Remove => true,
            };
            let written = positions.iter().filter(|position| is_written(position)).count();
            let is_patch = matches!(rows.change, KeyedChange::Patch(_));
            if written == 0 && is_patch {
                continue;
            }
            if written < positions.len() || foreign_key.parent == child.id {
                let name = &foreign_key.name;
                return Err(Error::unsupported(format!(
                    "writing these columns by key because of the foreign key \"{name}\""
                ))
                .with_hint("Use SQL, or write all columns of the foreign key."));
            }
            let column = |id: ColumnId| {
                let at = offset_in_rows(child.position(id)?)?;
                (at < rows.rows.num_columns()).then(|| ArrayRef::clone(rows.rows.column(at)))
            };
            let parent = self.catalog.table(foreign_key.parent).ok_or_else(table_is_gone)?;
            referring.push(Referring::new((child, foreign_key), &parent.schema, column)?);
        }
        Ok(referring)
    }
}

/// Some of the rows, by their positions.
fn picked(rows: &KeyedRows, wanted: &[usize]) -> Result<KeyedRows> {
    let indices = UInt32Array::from_iter_values(wanted.iter().map(|row| *row as u32));
    let batch = take_record_batch(&rows.rows, &indices)
        .map_err(|error| Error::internal("rows cannot be picked").with_source(error))?;
    let expected = rows.expected.as_ref();
    Ok(KeyedRows {
        table: rows.table,
        version: rows.version,
        change: rows.change.clone(),
        rows: batch,
        places: wanted.iter().map(|row| rows.places[*row]).collect(),
        expected: expected.map(|expected| wanted.iter().map(|row| expected[*row]).collect()),
    })
}
