//! Replaces chunks by their compacted form.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::ArrayRef;
use thalweg_types::{Error, Result, RowId, SqlState};

use super::Table;
use super::replay::impossible;
use crate::cell::KeyHashes;
use crate::compaction::{Built, gather};
use crate::effect::Change;
use crate::forward::Forward;
use crate::state::{Slot, StateKey};
use crate::{Bitmap, Chunk, ClosedChunk, Effect};

impl Table {
    /// Replaces the sources of a compaction by the new chunk, and returns its number.
    ///
    /// Rows that died meanwhile are dead in the new chunk. Fails (`40001`) without changes if the
    /// table was truncated, altered or otherwise compacted since the plan was made.
    pub fn apply_compaction(&mut self, built: Built, effect: &mut Effect) -> Result<u32> {
        let same_columns = built.schema.columns.iter().map(|column| column.id);
        let unaltered = Arc::ptr_eq(&built.schema, self.schema())
            || same_columns.eq(self.schema().columns.iter().map(|column| column.id));
        let sources_there = built.sources.iter().all(|(number, taken)| {
            self.applied.slot(*number).is_some_and(|slot| covers(slot, taken))
        });
        if !unaltered || !sources_there {
            return Err(Error::new(
                SqlState::SERIALIZATION_FAILURE,
                "the chunks that were compacted have changed",
            ));
        }
        let number = self.take_number();
        self.replace_sources(number, built.chunk, &built.sources, effect);
        Ok(number)
    }

    /// Repeats a compaction from the log.
    pub fn apply_compaction_at(
        &mut self,
        number: u32,
        sources: &[(u32, Bitmap)],
        effect: &mut Effect,
    ) -> Result<()> {
        let mut taken: Vec<(&Slot, &Bitmap)> = Vec::with_capacity(sources.len());
        for (source, rows) in sources {
            let slot = self.applied.slot(*source).filter(|slot| covers(slot, rows));
            taken.push((slot.ok_or_else(|| impossible(*source, 0))?, rows));
        }
        let rows: usize = sources.iter().map(|(_, rows)| rows.len() as usize).sum();
        let mut numbers: Vec<u32> = sources.iter().map(|(source, _)| *source).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let possible = rows <= RowId::CHUNK_ROWS
            && numbers.len() == sources.len()
            && self.applied.slot(number).is_none();
        if !possible {
            return Err(impossible(number, 0));
        }
        let chunk = Arc::new(gather(self.schema().columns.len(), &taken));
        self.raise_next_chunk(number + 1);
        self.replace_sources(number, chunk, sources, effect);
        Ok(())
    }

    fn replace_sources(
        &mut self,
        number: u32,
        chunk: Arc<ClosedChunk>,
        sources: &[(u32, Bitmap)],
        effect: &mut Effect,
    ) {
        let slots: Vec<Slot> = sources
            .iter()
            .map(|(source, _)| self.applied.slot(*source).expect("the caller checked").clone())
            .collect();
        let mut moved = Vec::with_capacity(slots.len());
        let mut added = Slot::closed(number, chunk);
        let mut start = 0;
        for (slot, (source, taken)) in slots.iter().zip(sources) {
            for (rank, row) in taken.iter().enumerate() {
                if slot.is_dead(row) {
                    added.kill(start + rank as u32);
                }
            }
            let token = Arc::downgrade(&slot.token);
            let forward = Forward { token, target: number, start, taken: taken.clone() };
            moved.push((*source, forward));
            start += taken.len();
        }
        assert_eq!(start, added.length, "the new chunk has the rows that were taken");
        self.applied.forwards().write().extend(moved);
        self.repoint(&slots, sources, number);
        let opened = sources.iter().filter_map(|(source, _)| self.take_opened(*source)).collect();
        let added = (added.length > 0).then_some(added);
        self.apply(Change::Compacted { sources: slots, added, opened }, effect);
    }

    /// Points the indexes to the rows' new ids and removes the entries of dropped rows.
    fn repoint(&self, slots: &[Slot], sources: &[(u32, Bitmap)], number: u32) {
        self.applied.removals().fetch_add(1, Ordering::AcqRel);
        for key in self.applied.keys().iter() {
            let mut next = 0;
            for (slot, (_, taken)) in slots.iter().zip(sources) {
                let hashes = slot_hashes(slot, key);
                // Releasing the lock between chunks lets waiting readers in.
                let mut index = key.index.write();
                for row in 0..slot.length {
                    index.prefetch_from(&hashes.hashes, row as usize);
                    let place = taken.contains(row).then_some(next);
                    next += u32::from(place.is_some());
                    if hashes.is_null(row as usize) {
                        continue;
                    }
                    let hash = hashes.hashes[row as usize];
                    let from = RowId::new(slot.number, row);
                    match place {
                        Some(place) => index.repoint(hash, from, RowId::new(number, place)),
                        None => index.drop_dead(hash, from),
                    }
                }
            }
        }
    }

    /// The old and new ids of the rows of a compacted chunk, while its forward is kept.
    pub(super) fn moves(&self, source: u32) -> Vec<(RowId, RowId)> {
        self.applied.forwards().read().moves(source)
    }
}

fn slot_hashes(slot: &Slot, key: &StateKey) -> KeyHashes {
    let columns: Vec<ArrayRef> = slot.columns(&key.positions);
    KeyHashes::new(&columns)
}

/// True if a chunk gets no more rows and has all those that were taken.
fn covers(slot: &Slot, taken: &Bitmap) -> bool {
    let full = slot.length as usize == RowId::CHUNK_ROWS;
    let settled = full || matches!(slot.chunk, Chunk::Closed(_));
    settled && taken.iter().last().is_none_or(|last| last < slot.length)
}
