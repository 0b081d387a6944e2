//! What a worker knows of its shards without looking at their rows.

use std::sync::Arc;

use thalweg_store::TableState;
use thalweg_txn::Snapshot;
use thalweg_types::{ColumnId, TableId};

use super::Shards;
use crate::scan::value_counts;
use crate::workers::NAMESPACE;

/// What is known of a shard.
pub struct ShardSight {
    pub table: TableId,
    pub rows: u64,
    /// About how many different values columns have, of those of which that is known.
    pub values: Vec<(ColumnId, u64)>,
}

impl Shards {
    /// How many rows all tables have here together.
    #[must_use]
    pub fn rows(&self) -> u64 {
        let snapshot = self.database.shared.engine.snapshot();
        shown(&snapshot).map(|(_, state)| state.rows() as u64).sum()
    }

    /// How many bytes all tables take here together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.database.size().0
    }

    /// What is known of each table.
    #[must_use]
    pub fn sights(&self) -> Vec<ShardSight> {
        let snapshot = self.database.shared.engine.snapshot();
        let sights = shown(&snapshot).map(|(table, state)| {
            let columns = state.schema().columns.iter().map(|column| column.id);
            let values = columns.zip(value_counts(state));
            let values = values.filter_map(|(column, count)| Some((column, count? as u64)));
            ShardSight { table, rows: state.rows() as u64, values: values.collect() }
        });
        sights.collect()
    }
}

/// Tables that are not the workers' own.
fn shown(snapshot: &Snapshot) -> impl Iterator<Item = (TableId, &Arc<TableState>)> {
    let catalog = snapshot.catalog();
    let is_shown =
        |id: TableId| catalog.table(id).is_some_and(|entry| entry.schema.namespace != NAMESPACE);
    snapshot.tables().filter(move |(id, _)| is_shown(*id))
}
