//! Rows looked up by key.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use thalweg_types::{Error, Result, RowId};

use super::{RecordTable, Records};
use crate::workers::{Holders, KeySearch, RemoteLookups};

/// Rows that were found.
pub struct Found {
    /// For each key, the index of its row, if there is one.
    pub places: Vec<Option<u32>>,
    /// The rows, with the columns of the [`RecordTable`].
    pub rows: Vec<ArrayRef>,
    /// A number for each row that changes when the row does.
    pub versions: Vec<u64>,
    /// The indexes of keys that could not be looked up, ascending, with the errors.
    pub failures: Vec<(usize, Error)>,
}

impl Records {
    /// The rows of primary keys, as of the last durable group.
    ///
    /// # Errors
    /// If the client may not read rows, or the table is gone or was altered.
    pub async fn look_up(&self, table: &RecordTable, keys: Vec<ArrayRef>) -> Result<Found> {
        table.permit_search()?;
        let keys = table.kept_keys(keys)?;
        let cluster = self.database.shared.cluster();
        match cluster.is_present() {
            false => self.look_up_here(table, &keys),
            true => self.ask(cluster.lookups.as_ref(), table, keys).await,
        }
    }

    /// Asks the workers that own the rows.
    async fn ask(
        &self,
        lookups: &dyn RemoteLookups,
        table: &RecordTable,
        keys: Vec<ArrayRef>,
    ) -> Result<Found> {
        let search = KeySearch {
            table: Arc::clone(&table.schema),
            key: table.key.clone(),
            values: keys,
            columns: Some(table.columns.clone()),
            hidden: Arc::from([]),
        };
        let Holders { rows, values, failures } = lookups.find(search).await?;
        // Workers follow the definitions of this node, so an unchanged table here was the same
        // there all the time.
        let snapshot = self.database.shared.engine.snapshot();
        let entry = snapshot.catalog().table(table.schema.id).ok_or_else(altered)?;
        if entry.version != table.version {
            return Err(altered());
        }
        let (mut places, mut versions) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            places.push(row.map(|_| versions.len() as u32));
            versions.extend(row.map(|row| row.elsewhere().map_or(row, |(_, row)| row).0));
        }
        Ok(Found { places, rows: values.columns().to_vec(), versions, failures })
    }

    fn look_up_here(&self, table: &RecordTable, keys: &[ArrayRef]) -> Result<Found> {
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
        let versions = found.iter().map(|id| id.0).collect();
        Ok(Found { places, rows, versions, failures: Vec::new() })
    }
}

fn altered() -> Error {
    Error::new(
        thalweg_types::SqlState::SERIALIZATION_FAILURE,
        "the table was altered while its rows were looked up",
    )
    .with_hint("Ask again.")
}
