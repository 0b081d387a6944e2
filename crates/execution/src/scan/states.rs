//! The rows that a scan reads: a table's rows in one snapshot, or those of several databases with
//! the same table, as for workers of one process.

use std::sync::Arc;

use thalweg_store::{ChunkView, TableState};

/// States of one table in several databases. Row ids are unique only within one of them.
pub struct States {
    first: Arc<TableState>,
    others: Vec<Arc<TableState>>,
}

impl From<Arc<TableState>> for States {
    fn from(state: Arc<TableState>) -> States {
        States { first: state, others: Vec::new() }
    }
}

impl States {
    /// Combines several states, which must have the same columns.
    pub fn together(first: Arc<TableState>, others: Vec<Arc<TableState>>) -> States {
        States { first, others }
    }

    /// The state whose schema applies to all.
    pub(super) fn first(&self) -> &TableState {
        &self.first
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &Arc<TableState>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(super) fn rows(&self) -> usize {
        self.each().map(|state| state.rows()).sum()
    }

    /// The chunks that have rows.
    pub(super) fn chunks(&self) -> Vec<ChunkView> {
        let chunks = self.each().flat_map(|state| state.chunks());
        chunks.filter(|chunk| chunk.live_rows() > 0).collect()
    }
}
