//! Deletes or replaces the rows that a statement found.
//!
//! Many rows are processed batch by batch. In between, the task yields its thread and checks for
//! cancellation.

use std::collections::HashMap;

use arrow::array::{AsArray, BooleanArray};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::UInt64Type;
use arrow::record_batch::RecordBatch;
use thalweg_store::arrow_schema;
use thalweg_types::{Error, Result, RowId, TableSchema};

use super::{Execution, Shaper, Target, conflict};

/// The row ids that were found, each once: a row that several rows of `FROM` match is changed once,
/// by the first of them.
#[derive(Default)]
pub(super) struct Found {
    pub(super) ids: Vec<RowId>,
    /// For each chunk with found rows, a bit for each of its rows.
    seen: HashMap<u64, Vec<u64>>,
}

impl Found {
    /// The rows of a batch whose ids, in its first column, were not seen before.
    pub(super) fn take_in(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let column = batch.column(0).as_primitive::<UInt64Type>();
        let first: Vec<bool> = column.values().iter().map(|id| self.insert_first(*id)).collect();
        let fresh = column.values().iter().zip(&first).filter(|(_, first)| **first);
        self.ids.extend(fresh.map(|(id, _)| RowId(*id)));
        if first.iter().all(|first| *first) {
            return Ok(batch.clone());
        }
        filter_record_batch(batch, &BooleanArray::from(first)).map_err(misfit)
    }

    /// Returns true if a row is seen for the first time.
    fn insert_first(&mut self, id: u64) -> bool {
        let (chunk, row) = (id / RowId::CHUNK_ROWS as u64, id as usize % RowId::CHUNK_ROWS);
        let rows = self.seen.entry(chunk).or_default();
        let (word, bit) = (row / 64, 1 << (row % 64));
        if rows.len() <= word {
            rows.resize(word + 1, 0);
        }
        let is_first = rows[word] & bit == 0;
        rows[word] |= bit;
        is_first
    }

    /// Removes the rows from their table, which new rows replace.
    async fn kill_replaced(
        &self,
        execution: &Execution<'_>,
        target: &Target,
        new: &[RecordBatch],
    ) -> Result<()> {
        if !execution.names.with(|t| Ok(t.records_replaced(target.id())))? {
            return self.kill(execution, target).await;
        }
        let new = concat(target.schema(), new)?;
        execution.names.with(|t| t.kill_replaced(target.id(), &self.ids, &new))
    }

    /// Removes the rows from their table.
    pub(super) async fn kill(&self, execution: &Execution<'_>, target: &Target) -> Result<()> {
        for (place, ids) in self.ids.chunks(RowId::CHUNK_ROWS).enumerate() {
            give_way(place).await;
            execution.names.with(|t| t.kill(target.id(), ids))?;
        }
        Ok(())
    }
}

/// Yields the thread, except before the first of several pieces of work.
pub(super) async fn give_way(place: usize) {
    if place > 0 {
        tokio::task::yield_now().await;
    }
}

/// Replaces rows by new ones. Each batch holds the old row's id, then all columns. Returns the new
/// rows.
pub(super) async fn replace(
    execution: &Execution<'_>,
    target: &Target,
    batches: Vec<RecordBatch>,
) -> Result<Vec<RecordBatch>> {
    let id = target.id();
    let schema = target.schema();
    let all: Vec<usize> = (0..schema.columns.len()).collect();
    let counters = execution.names.with(|t| Ok(t.state(id)?.identities().clone()))?;
    let shaper = Shaper::new(&execution.state, schema, &all, counters)?;
    let (mut found, mut new) = (Found::default(), Vec::with_capacity(batches.len()));
    for (place, batch) in batches.into_iter().enumerate() {
        give_way(place).await;
        let batch = found.take_in(&batch)?;
        let values: Vec<usize> = (1..batch.num_columns()).collect();
        let values = batch.project(&values).map_err(misfit)?;
        new.push(shaper.shape(&values)?);
    }
    found.kill_replaced(execution, target, &new).await?;
    if execution.in_block {
        new = vec![concat(schema, &new)?];
        conflict::reject_duplicates(execution, target, &new[0])?;
    }
    for (place, rows) in new.iter().enumerate() {
        give_way(place).await;
        execution.names.with(|t| t.append(id, rows.clone()))?;
    }
    Ok(new)
}

/// All rows as one batch of their table.
pub(super) fn concat(schema: &TableSchema, batches: &[RecordBatch]) -> Result<RecordBatch> {
    concat_batches(&arrow_schema(schema), batches).map_err(misfit)
}

fn misfit(error: arrow::error::ArrowError) -> Error {
    Error::internal("rows do not fit their table").with_source(error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray, UInt64Array};

    use super::*;

    #[test]
    fn a_row_is_found_once() {
        let elsewhere = RowId::base_of_node(1) + RowId::new(7, 3).0;
        let places = [RowId::new(7, 3), RowId::new(7, 65_535), RowId::new(8, 3), RowId(elsewhere)];
        let batch = |places: &[RowId], names: &[&str]| {
            let ids: ArrayRef = Arc::new(UInt64Array::from_iter_values(places.iter().map(|p| p.0)));
            let names: ArrayRef = Arc::new(StringArray::from(names.to_vec()));
            RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap()
        };
        let mut found = Found::default();
        let all = batch(&places, &["a", "b", "c", "d"]);
        assert_eq!(found.take_in(&all).unwrap(), all);
        let again = [places[1], RowId::new(7, 4), RowId::new(7, 4), places[3]];
        let left = found.take_in(&batch(&again, &["e", "f", "g", "h"])).unwrap();
        assert_eq!(left, batch(&[RowId::new(7, 4)], &["f"]));
        assert_eq!(found.ids, [&places[..], &[RowId::new(7, 4)]].concat());
    }
}
