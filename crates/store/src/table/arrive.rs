//! Chunks that come in whole: bulk loads, and what logs and checkpoints hold.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use thalweg_types::{Error, Result, RowId};

use super::Table;
use crate::cell::KeyHashes;
use crate::effect::Change;
use crate::index::{ChunkEntries, KnownRows};
use crate::previous;
use crate::state::{Slot, StateKey};
use crate::workers::{ThisThread, Workers};
use crate::{Chunk, ClosedChunk, Effect};

/// How many chunks go into an index at once. Readers wait that long at most, and what is
/// gathered for it stays small.
const INDEXED_CHUNKS: usize = 64;

impl Table {
    /// Adds a chunk as it is, and returns its number.
    ///
    /// If a row has the key of a live one, nothing changes (`23505`).
    pub fn append_chunk(&mut self, chunk: Arc<ClosedChunk>, effect: &mut Effect) -> Result<u32> {
        let numbers = self.append_chunks(vec![chunk], &ThisThread, effect)?;
        Ok(numbers[0])
    }

    /// Adds chunks as they are, and returns their numbers.
    ///
    /// If a row has the key of a live one, nothing changes (`23505`).
    pub fn append_chunks(
        &mut self,
        chunks: Vec<Arc<ClosedChunk>>,
        workers: &dyn Workers,
        effect: &mut Effect,
    ) -> Result<Vec<u32>> {
        let slots: Vec<Slot> =
            chunks.into_iter().map(|chunk| Slot::closed(self.take_number(), chunk)).collect();
        let numbers = slots.iter().map(|slot| slot.number).collect();
        self.add_slots(&slots, workers, effect)?;
        Ok(numbers)
    }

    /// Adds closed chunks, ascending by number. Their dead rows are in no index.
    pub(super) fn add_slots(
        &mut self,
        slots: &[Slot],
        workers: &dyn Workers,
        effect: &mut Effect,
    ) -> Result<()> {
        for slot in slots {
            let Chunk::Closed(chunk) = &slot.chunk else { unreachable!("bulk chunks are closed") };
            self.check_chunk(slot, chunk)?;
        }
        let mark = effect.changes.len();
        for slot in slots {
            self.apply(Change::Added { slot: slot.clone() }, effect);
        }
        let keys = Arc::clone(self.applied.keys());
        for (place, key) in keys.iter().enumerate() {
            if let Err(row) = self.index_slots(key, slots, workers) {
                let error = self.taken(place, key, row);
                self.withdraw_slots(&keys[..=place], slots);
                while effect.changes.len() > mark {
                    self.undo_rows(effect.changes.pop().expect("longer than the mark"));
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Puts the live rows of closed chunks into one index. Stops at a row whose key another live
    /// row has, and says which; some of the rows are in the index then.
    pub(super) fn index_slots(
        &self,
        key: &StateKey,
        slots: &[Slot],
        workers: &dyn Workers,
    ) -> Result<(), RowId> {
        let rows = IndexedRows { table: self, key };
        key.index.write().reserve(slots.iter().map(|slot| slot.live_rows() as usize).sum());
        for slots in slots.chunks(INDEXED_CHUNKS) {
            let entries: Vec<OnceLock<ChunkEntries>> =
                slots.iter().map(|_| OnceLock::new()).collect();
            workers.run(slots.len(), &|place| {
                entries[place].get_or_init(|| chunk_entries(key, &slots[place]));
            });
            let entries: Vec<ChunkEntries> = entries
                .into_iter()
                .map(|entries| entries.into_inner().expect("the workers did each piece"))
                .collect();
            key.index.write().insert_chunks(&entries, &rows, workers)?;
        }
        Ok(())
    }

    /// Takes what was put into indexes out again.
    fn withdraw_slots(&self, keys: &[StateKey], slots: &[Slot]) {
        if slots.len() > previous::CHUNKS_MAX {
            // It is not known any more for all of them who had their entries before, so that
            // dead rows that readers still see lose theirs.
            self.applied.removals().fetch_add(1, Ordering::AcqRel);
        }
        for key in keys {
            for slot in slots.iter().rev() {
                self.withdraw_rows(key, slot.number, 0, slot.length);
            }
        }
    }

    /// The error for a row whose key is there already.
    fn taken(&self, place: usize, key: &StateKey, row: RowId) -> Error {
        let slot = self.applied.slot(row.chunk()).expect("the row was just added");
        let columns = slot.columns(&key.positions);
        self.duplicate(place, &columns, row.row() as usize)
    }

    /// Dead rows may be what the table does not take any more: they died before it was altered.
    fn check_chunk(&self, slot: &Slot, chunk: &ClosedChunk) -> Result<()> {
        let fields = self.applied.arrow_schema().fields();
        if fields.len() != chunk.column_count() {
            return Err(self.wrong_columns());
        }
        for (index, field) in fields.iter().enumerate() {
            if field.data_type() != chunk.data_type(index) {
                return Err(self.wrong_columns());
            }
            let may_lack = !field.is_nullable() && chunk.zone(index).null_count > 0;
            if may_lack && slot.has_live_null(index) {
                return Err(self.not_null(field.name()));
            }
        }
        Ok(())
    }
}

fn chunk_entries(key: &StateKey, slot: &Slot) -> ChunkEntries {
    let hashes = KeyHashes::new(&slot.columns(&key.positions));
    ChunkEntries::new(slot.number, &hashes, |row| slot.is_dead(row))
}

/// The rows of a table as one of its indexes asks about them.
struct IndexedRows<'a> {
    table: &'a Table,
    key: &'a StateKey,
}

impl KnownRows for IndexedRows<'_> {
    fn is_same_key(&self, left: RowId, right: RowId) -> bool {
        self.table.is_same_key(self.key, left, right)
    }

    fn is_dead(&self, row: RowId) -> bool {
        self.table.applied.is_dead(row)
    }
}
