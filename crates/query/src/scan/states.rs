//! The rows that a scan reads: a table's as one snapshot shows them, or those of several databases
//! that have the same table, as workers of one process do.

use std::sync::Arc;

use thalweg_store::{ChunkView, TableState};

/// States of one table, each of another database. Row ids tell rows of one of them apart only.
pub(crate) struct States {
    first: Arc<TableState>,
    others: Vec<Arc<TableState>>,
}

impl From<Arc<TableState>> for States {
    fn from(state: Arc<TableState>) -> States {
        States { first: state, others: Vec::new() }
    }
}

impl States {
    /// Several, which must have the same columns.
    pub(crate) fn together(first: Arc<TableState>, others: Vec<Arc<TableState>>) -> States {
        States { first, others }
    }

    /// The one whose schema is that of all.
    pub(super) fn first(&self) -> &TableState {
        &self.first
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &Arc<TableState>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(super) fn rows(&self) -> usize {
        self.each().map(|state| state.rows()).sum()
    }

    /// The chunks that have any row.
    pub(super) fn chunks(&self) -> Vec<ChunkView> {
        let chunks = self.each().flat_map(|state| state.chunks());
        chunks.filter(|chunk| chunk.live_rows() > 0).collect()
    }
}
