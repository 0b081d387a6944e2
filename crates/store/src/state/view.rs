//! A chunk as one snapshot shows it.

use std::ops::Range;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::buffer::BooleanBuffer;
use thalweg_types::RowId;

use super::Slot;
use crate::{Bitmap, Chunk, Dictionary, Zone};

/// A chunk as one snapshot shows it. It keeps the chunk's memory alive.
#[derive(Clone)]
pub struct ChunkView {
    slot: Slot,
}

impl ChunkView {
    pub(crate) fn new(slot: Slot) -> ChunkView {
        ChunkView { slot }
    }

    #[must_use]
    pub fn number(&self) -> u32 {
        self.slot.number
    }

    /// How many rows the chunk shows, dead ones included.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.slot.length as usize
    }

    #[must_use]
    pub fn live_rows(&self) -> usize {
        self.slot.live_rows() as usize
    }

    #[must_use]
    pub fn chunk(&self) -> &Chunk {
        &self.slot.chunk
    }

    /// The dead rows, if there are any.
    #[must_use]
    pub fn dead(&self) -> Option<&Bitmap> {
        self.slot.dead.as_deref()
    }

    /// Some columns, dead rows included.
    #[must_use]
    pub fn columns(&self, projection: &[usize]) -> Vec<ArrayRef> {
        self.slot.columns(projection)
    }

    /// Some columns of one row.
    #[must_use]
    pub fn row(&self, projection: &[usize], row: usize) -> Vec<ArrayRef> {
        assert!(row < self.rows(), "a row of the chunk");
        self.slot.chunk.columns(projection, row..row + 1)
    }

    /// A bit for each row, set if it is alive; `None` if all are.
    #[must_use]
    pub fn live_mask(&self) -> Option<BooleanBuffer> {
        self.dead().map(|dead| dead.complement(self.slot.length).mask(self.slot.length))
    }

    /// The ids of some of the rows, as the numbers in [`RowId`].
    #[must_use]
    pub fn row_ids(&self, range: Range<usize>) -> UInt64Array {
        assert!(range.end <= self.rows(), "rows of the chunk");
        range.map(|row| RowId::new(self.slot.number, row as u32).0).collect()
    }

    /// What is known about a column's values; `None` for an open chunk.
    #[must_use]
    pub fn zone(&self, index: usize) -> Option<&Zone> {
        match &self.slot.chunk {
            Chunk::Closed(chunk) => Some(chunk.zone(index)),
            Chunk::Open(_) => None,
        }
    }

    /// A column's dictionary, if it is kept as one.
    #[must_use]
    pub fn dictionary(&self, index: usize) -> Option<&Dictionary> {
        match &self.slot.chunk {
            Chunk::Closed(chunk) => chunk.dictionary(index),
            Chunk::Open(_) => None,
        }
    }
}
