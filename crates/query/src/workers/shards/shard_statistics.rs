//! A worker's information about its shards that needs no scan.

use std::sync::Arc;

use thalweg_execution::scan::value_counts;
use thalweg_store::TableState;
use thalweg_txn::Snapshot;
use thalweg_types::{ColumnId, TableId};

use super::Shards;
use crate::workers::NAMESPACE;

/// Information about a shard.
pub struct ShardStatistics {
    pub table: TableId,
    pub rows: u64,
    /// Estimated numbers of distinct values, for columns where they are known.
    pub values: Vec<(ColumnId, u64)>,
}

impl Shards {
    /// Number of rows of all tables here together.
    #[must_use]
    pub fn rows(&self) -> u64 {
        let snapshot = self.database.shared.engine.snapshot();
        shown(&snapshot).map(|(_, state)| state.rows() as u64).sum()
    }

    /// Size of all tables here together, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.database.size().0
    }

    /// Information about each table.
    #[must_use]
    pub fn shard_statistics(&self) -> Vec<ShardStatistics> {
        let snapshot = self.database.shared.engine.snapshot();
        let sights = shown(&snapshot).map(|(table, state)| {
            let columns = state.schema().columns.iter().map(|column| column.id);
            let values = columns.zip(value_counts(state));
            let values = values.filter_map(|(column, count)| Some((column, count? as u64)));
            ShardStatistics { table, rows: state.rows() as u64, values: values.collect() }
        });
        sights.collect()
    }
}

/// Tables other than the internal ones.
fn shown(snapshot: &Snapshot) -> impl Iterator<Item = (TableId, &Arc<TableState>)> {
    let catalog = snapshot.catalog();
    let is_shown =
        |id: TableId| catalog.table(id).is_some_and(|entry| entry.schema.namespace != NAMESPACE);
    snapshot.tables().filter(move |(id, _)| is_shown(*id))
}
