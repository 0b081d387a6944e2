//! An open or a closed chunk behind one type.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::{ClosedChunk, OpenChunk};

/// An open or closed chunk, shared by the snapshots that show it.
#[derive(Clone)]
pub enum Chunk {
    Open(Arc<OpenChunk>),
    Closed(Arc<ClosedChunk>),
}

impl Chunk {
    /// Reads a range of rows of the projected columns.
    #[must_use]
    pub fn columns(&self, projection: &[usize], rows: Range<usize>) -> Vec<ArrayRef> {
        match self {
            Chunk::Open(chunk) => chunk.columns(projection, rows),
            Chunk::Closed(chunk) => chunk.columns(projection, rows),
        }
    }

    /// Bytes allocated for the chunk, with its indexes' runs.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self {
            Chunk::Open(chunk) => chunk.memory_bytes(),
            Chunk::Closed(chunk) => chunk.memory_bytes(),
        }
    }

    /// True if both are the same chunk in memory, not merely equal.
    #[must_use]
    pub fn is_same(&self, other: &Chunk) -> bool {
        match (self, other) {
            (Chunk::Open(left), Chunk::Open(right)) => Arc::ptr_eq(left, right),
            (Chunk::Closed(left), Chunk::Closed(right)) => Arc::ptr_eq(left, right),
            _ => false,
        }
    }
}
