//! What a transaction that is still open makes of a table, for itself alone.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::interleave;
use thalweg_types::{ColumnId, Error, Result, RowId, TableSchema};

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

    /// Some rows of this state, dead or alive, in the order in which they are named.
    ///
    /// # Errors
    /// Where the state has no such row.
    pub fn rows_at(&self, rows: &[RowId]) -> Result<RecordBatch> {
        let all: Vec<usize> = (0..self.schema().columns.len()).collect();
        let mut chunks: Vec<(u32, Vec<ArrayRef>)> = Vec::new();
        let mut places = Vec::with_capacity(rows.len());
        for row in rows {
            let known = chunks.iter().position(|(number, _)| *number == row.chunk());
            let place = match known {
                Some(place) => place,
                None => {
                    let gone = || Error::internal(format!("no row {row:?} in this snapshot"));
                    let view = self.chunk(row.chunk()).ok_or_else(gone)?;
                    chunks.push((row.chunk(), view.columns(&all)));
                    chunks.len() - 1
                }
            };
            places.push((place, row.row() as usize));
        }
        let schema = Arc::clone(self.arrow_schema());
        if rows.is_empty() {
            return Ok(RecordBatch::new_empty(schema));
        }
        let pick = |column: usize| {
            let arrays: Vec<_> = chunks.iter().map(|(_, arrays)| arrays[column].as_ref()).collect();
            interleave(&arrays, &places)
        };
        let columns = all.iter().map(|column| pick(*column)).collect::<std::result::Result<_, _>>();
        columns
            .and_then(|columns| RecordBatch::try_new(schema, columns))
            .map_err(|error| Error::internal("rows cannot be picked").with_source(error))
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
