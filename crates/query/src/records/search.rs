//! Rows looked up by key.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use thalweg_types::{Error, Result, RowId};

use super::{RecordTable, Records};

/// Rows that were found.
pub struct Found {
    /// For each key, the place of its row among the rows, if there is one.
    pub places: Vec<Option<u32>>,
    /// The rows, with the columns that the table was announced with.
    pub rows: Vec<ArrayRef>,
    /// A number for each row that changes when the row does.
    pub versions: Vec<u64>,
}

impl Records {
    /// The rows of primary keys, as of the last durable group.
    ///
    /// # Errors
    /// Where the client may not look at rows, or the table is gone or was altered.
    pub fn look_up(&self, table: &RecordTable, keys: &[ArrayRef]) -> Result<Found> {
        table.permit_search()?;
        let snapshot = self.database.shared.engine.snapshot();
        let state = snapshot.table(table.schema.id).ok_or_else(altered)?;
        if state.schema() != &table.schema {
            return Err(altered());
        }
        let ids = state.probe(&table.key, keys);
        let mut found: Vec<RowId> = Vec::with_capacity(ids.len());
        let places = ids.iter().map(|id| {
            id.map(|id| {
                found.push(id);
                found.len() as u32 - 1
            })
        });
        let places = places.collect();
        let rows: RecordBatch = state.rows_at(&found)?;
        let rows = table.columns.iter().map(|place| Arc::clone(rows.column(*place))).collect();
        Ok(Found { places, rows, versions: found.iter().map(|id| id.0).collect() })
    }
}

fn altered() -> Error {
    Error::new(
        thalweg_types::SqlState::SERIALIZATION_FAILURE,
        "the table was altered while its rows were looked up",
    )
    .with_hint("Ask again.")
}
