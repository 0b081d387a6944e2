//! Checks whether a worker can write its part of a statement. If several workers write, all are
//! asked first.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef};
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, Rows, SortField};
use thalweg_store::TableState;
use thalweg_txn::RowChanges;
use thalweg_types::{Error, Key, Result, TableSchema};

use super::{Shards, dropped, is_current, table, without};
use crate::statement::key_is_taken;

impl Shards {
    /// Checks that these changes could be made now. Concurrent changes may invalidate the answer.
    ///
    /// # Errors
    /// As [`Shards::write`].
    pub fn can_write(&self, changes: &[RowChanges]) -> Result<()> {
        let snapshot = self.database.shared.engine.snapshot();
        for changes in changes {
            let schema = table(&snapshot, changes.table)?;
            let state = snapshot.table(changes.table).ok_or_else(dropped)?;
            is_current(&schema, changes)?;
            let left = without(state, &self.row_handles.rows(&changes.kill))?;
            for key in schema.keys() {
                reject_repeated(&schema, key, &changes.append)?;
                if !changes.truncate {
                    reject_held(&schema, key, &left, &changes.append)?;
                }
            }
        }
        Ok(())
    }
}

/// Refuses rows with the key of a row that remains.
fn reject_held(
    schema: &TableSchema,
    key: &Key,
    left: &TableState,
    append: &[RecordBatch],
) -> Result<()> {
    for rows in append {
        let holders = left.probe(key, &columns_of(schema, key, rows));
        if let Some(row) = holders.iter().position(Option::is_some) {
            return Err(key_is_taken(schema, key, rows, row));
        }
    }
    Ok(())
}

/// Refuses rows if two of them have the same key. A key with a NULL in it equals no other.
fn reject_repeated(schema: &TableSchema, key: &Key, append: &[RecordBatch]) -> Result<()> {
    let uncomparable = |error| Error::internal("keys cannot be compared").with_source(error);
    let Some(first) = append.first() else { return Ok(()) };
    let fields = columns_of(schema, key, first).into_iter();
    let fields = fields.map(|column| SortField::new(column.data_type().clone()));
    let converter = RowConverter::new(fields.collect()).map_err(uncomparable)?;
    let mut all: Vec<(Vec<ArrayRef>, Rows)> = Vec::with_capacity(append.len());
    for rows in append {
        let columns = columns_of(schema, key, rows);
        let values = converter.convert_columns(&columns).map_err(uncomparable)?;
        all.push((columns, values));
    }
    let mut given = HashSet::with_capacity(append.iter().map(RecordBatch::num_rows).sum());
    for (rows, (columns, values)) in append.iter().zip(&all) {
        let is_whole = |row: usize| columns.iter().all(|column| column.is_valid(row));
        let mut places = 0..rows.num_rows();
        if let Some(row) = places.find(|row| is_whole(*row) && !given.insert(values.row(*row))) {
            return Err(key_is_taken(schema, key, rows, row));
        }
    }
    Ok(())
}

fn columns_of(schema: &TableSchema, key: &Key, rows: &RecordBatch) -> Vec<ArrayRef> {
    schema.key_positions(key).into_iter().map(|place| Arc::clone(rows.column(place))).collect()
}
