//! Knowledge of which columns lie in chunk files already.

use std::collections::{HashMap, HashSet};

use thalweg_log::{ChunkFile, Stored, files_to_rewrite};
use thalweg_store::{Chunk, ChunkView, ClosedChunk, ColumnHandle, TableState};

use crate::published::Snapshot;

/// The columns in the chunk files of the last checkpoint, or of the one that the database was
/// opened from.
///
/// A column is known by its address in memory. A closed chunk that is altered, compacted or
/// reopened gets other columns, except for those that stay as they are.
#[derive(Default)]
pub(crate) struct StoredColumns {
    pub(crate) files: Vec<ChunkFile>,
    places: HashMap<ColumnHandle, Stored>,
}

impl StoredColumns {
    /// Columns in these files, none of them known yet.
    pub(crate) fn in_files(files: Vec<ChunkFile>) -> StoredColumns {
        StoredColumns { files, places: HashMap::new() }
    }

    pub(crate) fn insert(&mut self, column: ColumnHandle, place: Stored) {
        self.places.insert(column, place);
    }

    pub(crate) fn get(&self, column: &ColumnHandle) -> Option<Stored> {
        self.places.get(column).copied()
    }

    /// The files whose living columns the next checkpoint writes anew.
    pub(super) fn files_to_rewrite(&self, snapshot: &Snapshot, rows_min: usize) -> HashSet<u64> {
        let chunks = snapshot.tables().flat_map(|(_, state)| state.chunks());
        let closed = chunks.filter_map(|view| storable(&view, rows_min).cloned());
        let columns = closed.flat_map(|chunk| {
            let places: Vec<Stored> =
                chunk.column_handles().filter_map(|column| self.get(&column)).collect();
            places
        });
        files_to_rewrite(&self.files, columns)
    }

    /// About how many bytes of a table the next checkpoint writes, as they take in memory.
    pub(crate) fn bytes_to_write(&self, state: &TableState, rows_min: usize) -> u64 {
        let is_stored = |view: &ChunkView| {
            let known = |chunk: &std::sync::Arc<ClosedChunk>| {
                chunk.column_handles().all(|column| self.places.contains_key(&column))
            };
            storable(view, rows_min).is_some_and(known)
        };
        let unstored = state.chunks().filter(|view| !is_stored(view));
        unstored.map(|view| view.chunk().memory_bytes() as u64).sum()
    }
}

/// The closed chunk of a view if its columns go to a chunk file: all of its rows are shown, so that
/// later checkpoints can refer to it, and it has at least `rows_min` rows.
pub(super) fn storable(view: &ChunkView, rows_min: usize) -> Option<&std::sync::Arc<ClosedChunk>> {
    match view.chunk() {
        Chunk::Closed(chunk) if chunk.rows() == view.rows() && chunk.rows() >= rows_min => {
            Some(chunk)
        }
        _ => None,
    }
}
