//! What a transaction that is still open makes of a table, for itself alone.

use std::sync::Arc;

use arrow::array::ArrayRef;
use thalweg_types::{ColumnId, Result, TableSchema};

use crate::state::PRIVATE_CHUNKS;
use crate::widen::Widener;
use crate::{Chunk, ChunkView, ClosedChunk, TableState};

/// A value that the count of removals never has: indexes then decide nothing by themselves.
const NEVER: u64 = u64::MAX;

impl TableState {
    /// A table without rows, such as a transaction that creates one sees.
    #[must_use]
    pub fn empty(schema: Arc<TableSchema>) -> TableState {
        TableState::new(schema)
    }

    /// The same table without its rows.
    #[must_use]
    pub fn truncated(&self) -> TableState {
        let mut state = self.clone();
        state.clear();
        state
    }

    /// The same rows under another schema; see [`Table::alter`](crate::Table::alter). Added keys
    /// are checked only when the change is applied to the table itself.
    ///
    /// # Errors
    /// Where a value for existing rows has another type than its column.
    pub fn altered(
        &self,
        schema: Arc<TableSchema>,
        added: &[(ColumnId, ArrayRef)],
    ) -> Result<TableState> {
        let widener = Widener::new(self.schema(), &schema, added)?;
        let mut state = self.clone();
        for view in self.chunks() {
            let chunk = widener.widen(&view.to_closed());
            state.replace_chunk(view.number(), Chunk::Closed(chunk));
        }
        state.set_schema(schema);
        state.set_removals_seen(NEVER);
        Ok(state)
    }

    /// Whether a chunk belongs to one transaction only.
    #[must_use]
    pub const fn is_private(chunk: u32) -> bool {
        chunk >= PRIVATE_CHUNKS
    }
}

impl ChunkView {
    /// All rows of the view, dead ones too, as a closed chunk.
    #[must_use]
    pub fn to_closed(&self) -> Arc<ClosedChunk> {
        match self.chunk() {
            Chunk::Closed(chunk) => Arc::clone(chunk),
            Chunk::Open(chunk) => {
                let all: Vec<usize> = (0..chunk.column_count()).collect();
                Arc::new(ClosedChunk::from_arrays(&self.columns(&all), self.rows()))
            }
        }
    }
}
