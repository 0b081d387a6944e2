//! Closing of full chunks.

use std::sync::Arc;

use thalweg_types::{RowId, TableSchema};

use super::Table;
use crate::effect::Change;
use crate::{ClosedChunk, Effect, OpenChunk};

/// A full open chunk, all of whose rows are published, ready to be closed.
pub struct FullChunk {
    pub number: u32,
    chunk: Arc<OpenChunk>,
    schema: Arc<TableSchema>,
}

impl FullChunk {
    /// Builds the closed chunk and its runs for the table's indexes. Takes milliseconds; any thread
    /// may do it.
    #[must_use]
    pub fn build(&self) -> Arc<ClosedChunk> {
        let projection: Vec<usize> = (0..self.schema.columns.len()).collect();
        let columns = self.chunk.columns(&projection, 0..RowId::CHUNK_ROWS);
        let closed = Arc::new(ClosedChunk::from_arrays(&columns, RowId::CHUNK_ROWS));
        closed.prepare(&self.schema);
        closed
    }
}

impl Table {
    /// The chunks that became full since the last call, each once.
    pub fn take_full(&mut self) -> Vec<FullChunk> {
        let schema = Arc::clone(self.schema());
        let published = |opened: &&mut super::Opened| {
            opened.appender.chunk().published() as usize == RowId::CHUNK_ROWS
        };
        let full = self.opened.iter_mut().filter(|opened| !opened.given).filter(published);
        full.map(|opened| {
            opened.given = true;
            let chunk = Arc::clone(opened.appender.chunk());
            FullChunk { number: opened.number, chunk, schema: Arc::clone(&schema) }
        })
        .collect()
    }

    /// Replaces a full open chunk by its closed form.
    ///
    /// Returns false if there is nothing to replace any more because the table was truncated,
    /// altered or compacted since.
    pub fn swap(&mut self, number: u32, chunk: Arc<ClosedChunk>, effect: &mut Effect) -> bool {
        let Some(opened) = self.take_opened(number) else { return false };
        assert_eq!(opened.appender.rows(), chunk.rows(), "the same rows");
        self.apply(Change::Swapped { number, chunk, opened }, effect);
        true
    }
}
