//! Uncommitted states of a table, which only their own transaction sees.

use std::sync::Arc;

use arrow::array::ArrayRef;
use thalweg_types::{ColumnId, Result, TableSchema};

use crate::state::PRIVATE_CHUNKS;
use crate::widen::Widener;
use crate::{Chunk, ChunkView, ClosedChunk, TableState};

/// A value that the removal counter never has. With it, readers search the chunks for keys that an
/// index does not find.
const NEVER: u64 = u64::MAX;

impl TableState {
    /// A table without rows, as a transaction sees that creates one.
    #[must_use]
    pub fn empty(schema: Arc<TableSchema>) -> TableState {
        TableState::new(schema)
    }

    /// Copy of this state without its rows.
    #[must_use]
    pub fn truncated(&self) -> TableState {
        let mut state = self.clone();
        state.clear();
        state
    }

    /// Copy of this state with the private chunks of a clone of an older version, in which the
    /// table had the same columns and keys. The numbers of the chunks stay. Rows of the table that
    /// the clone marked dead are alive in the copy.
    #[must_use]
    pub fn with_private_of(&self, older: &TableState) -> TableState {
        let mut state = self.clone();
        state.take_private_of(older);
        state
    }

    /// Copy of this state under another schema; see [`Table::alter`](crate::Table::alter). Added
    /// keys are checked only when the change is applied to the table itself.
    ///
    /// # Errors
    /// If a value for existing rows has another type than its column.
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

    /// True if a chunk belongs to one transaction only.
    #[must_use]
    pub const fn is_private(chunk: u32) -> bool {
        chunk >= PRIVATE_CHUNKS
    }
}

impl ChunkView {
    /// Copies all rows of the view, dead ones too, into a closed chunk. A closed chunk is shared.
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
