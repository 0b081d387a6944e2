//! Whole chunks that are added: by bulk loads, replay and checkpoints.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use thalweg_types::{Error, Result, RowId};

use super::Table;
use crate::cell::KeyHashes;
use crate::effect::Change;
use crate::fork_join::{ForkJoin, ThisThread};
use crate::index::{ChunkEntries, KnownRows};
use crate::previous;
use crate::state::{Slot, StateKey};
use crate::{Chunk, ClosedChunk, Effect};

/// Number of chunks that are indexed at once. It bounds how long readers wait for the index and how
/// much memory the collected entries take.
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
        threads: &dyn ForkJoin,
        effect: &mut Effect,
    ) -> Result<Vec<u32>> {
        let slots: Vec<Slot> =
            chunks.into_iter().map(|chunk| Slot::closed(self.take_number(), chunk)).collect();
        let numbers = slots.iter().map(|slot| slot.number).collect();
        self.add_slots(&slots, threads, effect)?;
        Ok(numbers)
    }

    /// Adds closed chunks, ascending by number. Their dead rows are not indexed.
    pub(super) fn add_slots(
        &mut self,
        slots: &[Slot],
        threads: &dyn ForkJoin,
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
            if let Err(row) = self.index_slots(key, slots, threads) {
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

    /// Inserts the live rows of closed chunks into one index. If a row has the key of another live
    /// row, stops and returns it; some of the rows are in the index then.
    pub(super) fn index_slots(
        &self,
        key: &StateKey,
        slots: &[Slot],
        threads: &dyn ForkJoin,
    ) -> Result<(), RowId> {
        let rows = IndexedRows { table: self, key };
        key.index.write().reserve(slots.iter().map(|slot| slot.live_rows() as usize).sum());
        for slots in slots.chunks(INDEXED_CHUNKS) {
            let entries: Vec<OnceLock<ChunkEntries>> =
                slots.iter().map(|_| OnceLock::new()).collect();
            threads.run(slots.len(), &|place| {
                entries[place].get_or_init(|| chunk_entries(key, &slots[place]));
            });
            let entries: Vec<ChunkEntries> = entries
                .into_iter()
                .map(|entries| entries.into_inner().expect("the threads did each piece"))
                .collect();
            key.index.write().insert_chunks(&entries, &rows, threads)?;
        }
        Ok(())
    }

    /// Withdraws rows from indexes after a failed insertion.
    fn withdraw_slots(&self, keys: &[StateKey], slots: &[Slot]) {
        if slots.len() > previous::CHUNKS_MAX {
            // Notes of so many chunks are not kept, so rows cannot get their former entries back.
            // Dead rows that readers still see lose theirs; raising the counter makes those readers
            // scan.
            self.applied.removals().fetch_add(1, Ordering::AcqRel);
        }
        for key in keys {
            for slot in slots.iter().rev() {
                self.withdraw_rows(key, slot.number, 0, slot.length);
            }
        }
    }

    /// The error for a row whose key exists.
    fn taken(&self, place: usize, key: &StateKey, row: RowId) -> Error {
        let slot = self.applied.slot(row.chunk()).expect("the row was just added");
        let columns = slot.columns(&key.positions);
        self.duplicate(place, &columns, row.row() as usize)
    }

    /// Checks types and NOT NULL. Dead rows may violate NOT NULL: they died before the table was
    /// altered.
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

/// The table's rows as an index compares them.
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
