//! A chunk as seen by one snapshot.

use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, UInt16Array, UInt64Array};
use arrow::buffer::BooleanBuffer;
use thalweg_types::RowId;

use super::Slot;
use crate::closed::taken;
use crate::{Bitmap, Chunk, Dictionary, Zone};

/// A chunk as seen by one snapshot. It keeps the chunk's memory alive.
#[derive(Clone)]
pub struct ChunkView {
    slot: Slot,
    chosen: Option<Arc<Chosen>>,
}

/// The live rows to which a view is narrowed.
struct Chosen {
    /// Ascending.
    places: UInt16Array,
    /// All other rows, computed for callers that ask for dead rows.
    others: OnceLock<Bitmap>,
}

impl ChunkView {
    pub(crate) fn new(slot: Slot) -> ChunkView {
        ChunkView { slot, chosen: None }
    }

    /// A view of the chunk in which only the given live rows are alive. `places` are their offsets,
    /// ascending.
    #[must_use]
    pub fn narrowed(&self, places: Vec<u16>) -> ChunkView {
        debug_assert!(places.is_sorted() && places.iter().all(|place| self.slot.is_live(*place)));
        let chosen = Chosen { places: places.into(), others: OnceLock::new() };
        ChunkView { slot: self.slot.clone(), chosen: Some(Arc::new(chosen)) }
    }

    /// The offsets of the rows to which the view was narrowed; `None` if it was not.
    #[must_use]
    pub fn chosen(&self) -> Option<&UInt16Array> {
        self.chosen.as_ref().map(|chosen| &chosen.places)
    }

    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    /// The chunk's number, stable for the life of the table.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.slot.number
    }

    /// Number of rows that the chunk shows, dead ones included.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.slot.length as usize
    }

    /// Number of live rows; in a narrowed view, of those alone.
    #[must_use]
    pub fn live_rows(&self) -> usize {
        match &self.chosen {
            Some(chosen) => chosen.places.len(),
            None => self.slot.live_rows() as usize,
        }
    }

    /// The chunk itself, which may have more rows than the view shows.
    #[must_use]
    pub fn chunk(&self) -> &Chunk {
        &self.slot.chunk
    }

    /// The dead rows; `None` if there are none.
    #[must_use]
    pub fn dead(&self) -> Option<&Bitmap> {
        let Some(chosen) = &self.chosen else { return self.slot.dead.as_deref() };
        Some(chosen.others.get_or_init(|| {
            let mut others = Bitmap::full(self.slot.length);
            for place in chosen.places.values() {
                others.remove((*place).into());
            }
            others
        }))
    }

    /// The projected columns, dead rows included.
    #[must_use]
    pub fn columns(&self, projection: &[usize]) -> Vec<ArrayRef> {
        self.slot.columns(projection)
    }

    /// Gathers rows of the projected columns by their offsets.
    #[must_use]
    pub fn take(&self, projection: &[usize], places: &UInt16Array) -> Vec<ArrayRef> {
        match &self.slot.chunk {
            Chunk::Closed(chunk) => {
                projection.iter().map(|column| chunk.take(*column, places)).collect()
            }
            Chunk::Open(chunk) => {
                // Reading an open chunk copies bits and nested values, so only the necessary range
                // is read.
                let first = places.values().iter().min().map_or(0, |first| *first);
                let behind = places.values().iter().max().map_or(0, |last| usize::from(*last) + 1);
                let columns = chunk.columns(projection, usize::from(first)..behind);
                let places = places.values().iter().map(|place| place - first);
                let places = UInt16Array::from_iter_values(places);
                columns.iter().map(|column| taken(column, &places)).collect()
            }
        }
    }

    /// A bit for each row, set if it is alive; `None` if all are.
    #[must_use]
    pub fn live_mask(&self) -> Option<BooleanBuffer> {
        let length = self.slot.length;
        if let Some(chosen) = &self.chosen {
            let mut alive = Bitmap::new();
            for place in chosen.places.values() {
                alive.insert((*place).into());
            }
            return Some(alive.mask(length));
        }
        self.dead().map(|dead| dead.complement(length).mask(length))
    }

    /// The row ids of the given offsets, as the numbers in [`RowId`].
    #[must_use]
    pub fn row_ids(&self, places: impl Iterator<Item = usize>) -> UInt64Array {
        let id = |place: usize| {
            debug_assert!(place < self.rows(), "rows of the chunk");
            RowId::new(self.slot.number, place as u32).0
        };
        places.map(id).collect()
    }

    /// The minimum, maximum and null count of a column; `None` for an open chunk.
    #[must_use]
    pub fn zone(&self, index: usize) -> Option<&Zone> {
        match &self.slot.chunk {
            Chunk::Closed(chunk) => Some(chunk.zone(index)),
            Chunk::Open(_) => None,
        }
    }

    /// The dictionary of a column that is dictionary-encoded.
    #[must_use]
    pub fn dictionary(&self, index: usize) -> Option<&Dictionary> {
        match &self.slot.chunk {
            Chunk::Closed(chunk) => chunk.dictionary(index),
            Chunk::Open(_) => None,
        }
    }
}
