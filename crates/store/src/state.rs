//! The readers' half of a table: one version of its rows.
//!
//! A version is a list of slots, each with a chunk, the number of its visible rows, and a bitmap of
//! dead rows. Versions share chunks, so a new one costs no copy of rows.

mod moved;
mod private;
mod probe;
mod rows;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::SchemaRef;
use parking_lot::RwLock;
use thalweg_types::{RowId, TableSchema};

use crate::effect::Change;
use crate::forward::Forwards;
use crate::index::KeyIndex;
use crate::{Bitmap, Chunk, ClosedChunk, Identities};
pub(crate) use moved::concurrent_update;
use private::PrivateKeys;
use thalweg_columns::arrow_schema;
pub use view::ChunkView;

/// The first number of private chunks, those of a transaction's own; no table gets that far.
pub const PRIVATE_CHUNKS: u32 = 1 << 31;

/// One version of a table. It never changes once it is shared: a writer or a transaction that needs
/// another one changes a clone, which shares all chunks.
#[derive(Clone)]
pub struct TableState {
    schema: Arc<TableSchema>,
    arrow_schema: SchemaRef,
    /// Ascending by number.
    slots: Vec<Slot>,
    keys: Arc<[StateKey]>,
    private_keys: PrivateKeys,
    live: usize,
    /// All live rows of this version were in the indexes when the removal counter had this value.
    removals_seen: u64,
    removals: Arc<AtomicU64>,
    /// Shared by all versions: the number of the next new chunk.
    next_chunk: Arc<AtomicU32>,
    /// Shared by all versions: where compaction moved rows.
    forwards: Arc<RwLock<Forwards>>,
    identities: Arc<Identities>,
}

/// A chunk of a table, with its number, visible length and dead rows.
#[derive(Clone)]
pub(crate) struct Slot {
    pub number: u32,
    pub chunk: Chunk,
    /// Shared by all versions of the slot: its holders may hold row ids of the chunk.
    pub token: Arc<SlotToken>,
    pub length: u32,
    pub dead: Option<Arc<Bitmap>>,
}

/// Its strong count tells whether a snapshot still shows the chunk.
pub(crate) struct SlotToken;

/// A key of the table, its index and the positions of its columns.
pub(crate) struct StateKey {
    pub index: Arc<KeyIndex>,
    pub positions: Vec<usize>,
}

impl Slot {
    /// A slot without dead rows that shows the first `length` rows of a chunk.
    pub fn new(number: u32, chunk: Chunk, length: u32) -> Slot {
        Slot { number, chunk, token: Arc::new(SlotToken), length, dead: None }
    }

    /// A slot that shows all rows of a closed chunk.
    pub fn closed(number: u32, chunk: Arc<ClosedChunk>) -> Slot {
        let length = chunk.rows() as u32;
        Slot::new(number, Chunk::Closed(chunk), length)
    }

    /// The projected columns, dead rows included.
    pub fn columns(&self, projection: &[usize]) -> Vec<ArrayRef> {
        self.chunk.columns(projection, 0..self.length as usize)
    }

    /// Publishes the slot's rows to readers.
    pub fn publish(&self) {
        if let Chunk::Open(chunk) = &self.chunk {
            chunk.publish(self.length);
        }
    }

    /// True if the row is marked dead.
    #[inline]
    pub fn is_dead(&self, place: u32) -> bool {
        self.dead.as_ref().is_some_and(|dead| dead.contains(place))
    }

    /// True if the slot shows the row and it is not dead.
    #[inline]
    pub fn is_live(&self, place: u16) -> bool {
        u32::from(place) < self.length && !self.is_dead(place.into())
    }

    /// Number of dead rows.
    pub fn dead_rows(&self) -> u32 {
        self.dead.as_ref().map_or(0, |dead| dead.len())
    }

    /// Number of live rows.
    pub fn live_rows(&self) -> u32 {
        self.length - self.dead_rows()
    }

    /// True if a live row has NULL in the column.
    pub fn has_live_null(&self, column: usize) -> bool {
        let column = &self.columns(&[column])[0];
        (0..self.length).any(|place| column.is_null(place as usize) && !self.is_dead(place))
    }

    /// Marks a row dead; returns false if it was already.
    pub fn kill(&mut self, place: u32) -> bool {
        debug_assert!(place < self.length);
        Arc::make_mut(self.dead.get_or_insert_default()).insert(place)
    }

    /// Marks rows of this slot dead. Panics unless all are alive.
    fn kill_all(&mut self, rows: &[RowId]) {
        let dead = Arc::make_mut(self.dead.get_or_insert_default());
        for row in rows {
            let killed = row.row() < self.length && dead.insert(row.row());
            assert!(killed, "the writer checked that the row lives");
        }
    }

    fn revive(&mut self, place: u32) {
        let dead = self.dead.as_mut().expect("a dead row has a bitmap");
        assert!(Arc::make_mut(dead).remove(place), "only a dead row lives again");
        if dead.is_empty() {
            self.dead = None;
        }
    }
}

impl TableState {
    pub(crate) fn new(schema: Arc<TableSchema>) -> TableState {
        let identities = Arc::new(Identities::default());
        identities.adopt(&schema);
        let mut state = TableState {
            arrow_schema: arrow_schema(&schema),
            schema,
            slots: Vec::new(),
            keys: Arc::new([]),
            private_keys: PrivateKeys::default(),
            live: 0,
            removals_seen: 0,
            removals: Arc::new(AtomicU64::new(0)),
            next_chunk: Arc::new(AtomicU32::new(1)),
            forwards: Arc::default(),
            identities,
        };
        state.renew_keys();
        state
    }

    /// The table's schema as of this version.
    #[must_use]
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The schema of record batches of this version.
    #[must_use]
    pub fn arrow_schema(&self) -> &SchemaRef {
        &self.arrow_schema
    }

    /// The counters of auto-numbered columns.
    #[must_use]
    pub fn identities(&self) -> &Arc<Identities> {
        &self.identities
    }

    /// The number of the table's next new chunk. Numbers are never reused, even after a chunk is
    /// removed, so that a row id never comes to denote another row.
    #[must_use]
    pub fn next_chunk(&self) -> u32 {
        self.next_chunk.load(Ordering::Acquire)
    }

    /// Number of live rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.live
    }

    /// All chunks, ascending by number; private chunks come last.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = ChunkView> + '_ {
        self.slots.iter().map(|slot| ChunkView::new(slot.clone()))
    }

    /// The chunk of that number; `None` if this version does not show it.
    #[must_use]
    pub fn chunk(&self, number: u32) -> Option<ChunkView> {
        self.slot(number).map(|slot| ChunkView::new(slot.clone()))
    }

    /// Bytes of the rows, dead-row bitmaps, forwards of moved rows and indexes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let chunks: usize = self
            .slots
            .iter()
            .map(|slot| {
                let dead = slot.dead.as_ref().map_or(0, |dead| dead.memory_bytes());
                slot.chunk.memory_bytes() + dead
            })
            .sum();
        let ways = self.forwards.read().memory_bytes();
        chunks + ways + self.keys.iter().map(|key| key.index.memory_bytes()).sum::<usize>()
    }

    /// Marks rows dead in this clone alone: changes of an uncommitted transaction.
    ///
    /// Rows that are dead already stay so. Panics if this state does not show one of the rows.
    pub fn kill_private(&mut self, rows: &[RowId]) {
        for &row in rows {
            let slot = self.slot_mut(row.chunk()).expect("the row is one of this state's");
            assert!(row.row() < slot.length, "the row is one of this state's");
            let killed = slot.kill(row.row());
            self.live -= usize::from(killed);
        }
    }

    /// Adds a chunk to this clone alone and returns its number, at least [`PRIVATE_CHUNKS`].
    pub fn add_private_chunk(&mut self, chunk: Arc<ClosedChunk>) -> u32 {
        assert_eq!(chunk.column_count(), self.schema.columns.len(), "the table's columns");
        let last = self.slots.last().map_or(0, |slot| slot.number);
        let number = PRIVATE_CHUNKS.max(last + 1);
        let slot = Slot::closed(number, chunk);
        self.private_keys.add(&self.keys, &slot);
        self.insert(slot);
        number
    }

    /// Adds the private chunks of a clone of an older version. The cost depends on their number,
    /// not on that of their rows.
    pub(crate) fn take_private_of(&mut self, older: &TableState) {
        assert_eq!(self.keys.len(), older.keys.len(), "the table's keys have not changed");
        self.private_keys = older.private_keys.clone();
        let first = older.slots.partition_point(|slot| slot.number < PRIVATE_CHUNKS);
        older.slots[first..].iter().for_each(|slot| self.insert(slot.clone()));
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub(crate) fn keys(&self) -> &Arc<[StateKey]> {
        &self.keys
    }

    pub(crate) fn removals(&self) -> &Arc<AtomicU64> {
        &self.removals
    }

    pub(crate) fn chunk_numbers(&self) -> &AtomicU32 {
        &self.next_chunk
    }

    pub(crate) fn forwards(&self) -> &RwLock<Forwards> {
        &self.forwards
    }

    #[inline]
    fn place(&self, number: u32) -> Result<usize, usize> {
        // Without gaps the position follows from the first number.
        let guess = number.wrapping_sub(self.slots.first().map_or(0, |slot| slot.number)) as usize;
        if self.slots.get(guess).is_some_and(|slot| slot.number == number) {
            return Ok(guess);
        }
        self.slots.binary_search_by_key(&number, |slot| slot.number)
    }

    #[inline]
    pub(crate) fn slot(&self, number: u32) -> Option<&Slot> {
        self.place(number).ok().map(|place| &self.slots[place])
    }

    fn slot_mut(&mut self, number: u32) -> Option<&mut Slot> {
        self.place(number).ok().map(|place| &mut self.slots[place])
    }

    /// True if the state shows the row, dead or alive.
    pub(crate) fn shows(&self, row: RowId) -> bool {
        self.slot(row.chunk()).is_some_and(|slot| row.row() < slot.length)
    }

    #[inline]
    pub(crate) fn is_dead(&self, row: RowId) -> bool {
        self.slot(row.chunk()).is_none_or(|slot| slot.is_dead(row.row()))
    }
}

/// Changes of the writer's own state and of a clone that is about to be published.
impl TableState {
    /// Applies a change.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Extended { slot, .. } => self.extend(slot),
            Change::Added { slot } => self.insert(slot.clone()),
            Change::Killed { rows } => self.kill_all(rows),
            Change::Swapped { number, chunk, .. } => {
                self.replace_chunk(*number, Chunk::Closed(Arc::clone(chunk)));
            }
            Change::Compacted { sources, added, .. } => {
                for source in sources {
                    self.remove(source.number);
                }
                if let Some(slot) = added {
                    self.insert(slot.clone());
                }
            }
            Change::Replaced { after, .. } => *self = TableState::clone(after),
        }
    }

    pub(crate) fn set_removals_seen(&mut self, removals: u64) {
        self.removals_seen = removals;
    }

    /// Marks a row dead; returns false if it was already, or is not shown.
    pub(crate) fn kill(&mut self, row: RowId) -> bool {
        let killed = self
            .slot_mut(row.chunk())
            .is_some_and(|slot| row.row() < slot.length && slot.kill(row.row()));
        self.live -= usize::from(killed);
        killed
    }

    /// Marks rows dead that are all alive. Consecutive rows of one chunk need one lookup of the
    /// chunk.
    pub(crate) fn kill_all(&mut self, rows: &[RowId]) {
        for rows in rows.chunk_by(|left, right| left.chunk() == right.chunk()) {
            let slot = self.slot_mut(rows[0].chunk()).expect("rows that live are shown");
            slot.kill_all(rows);
        }
        self.live -= rows.len();
    }

    pub(crate) fn revive(&mut self, row: RowId) {
        self.slot_mut(row.chunk()).expect("a dead row's chunk is there").revive(row.row());
        self.live += 1;
    }

    /// Shows more rows of an open chunk, which may be new, or replaces a closed one that was
    /// reopened.
    fn extend(&mut self, longer: &Slot) {
        match self.place(longer.number) {
            Ok(place) => {
                let slot = &mut self.slots[place];
                assert!(longer.length >= slot.length, "chunks grow");
                self.live += (longer.length - slot.length) as usize;
                slot.chunk = longer.chunk.clone();
                slot.length = longer.length;
            }
            Err(_) => self.insert(longer.clone()),
        }
    }

    /// Undoes [`extend`](Self::extend): shows fewer rows of an open chunk; removes it at length 0.
    pub(crate) fn shorten(&mut self, number: u32, length: u32) {
        let place = self.place(number).expect("the chunk that is undone is there");
        let slot = &mut self.slots[place];
        self.live -= (slot.length - length) as usize;
        slot.length = length;
        if length == 0 {
            self.slots.remove(place);
        }
    }

    pub(crate) fn insert(&mut self, slot: Slot) {
        let place = self.place(slot.number).expect_err("chunk numbers are never reused");
        self.live += slot.live_rows() as usize;
        self.slots.insert(place, slot);
    }

    pub(crate) fn remove(&mut self, number: u32) -> Slot {
        let place = self.place(number).expect("the chunk that goes is there");
        let slot = self.slots.remove(place);
        self.live -= slot.live_rows() as usize;
        slot
    }

    /// Replaces a chunk by another form of the same rows.
    pub(crate) fn replace_chunk(&mut self, number: u32, chunk: Chunk) {
        self.slot_mut(number).expect("the chunk that is replaced is there").chunk = chunk;
    }

    /// Removes all rows and starts with new indexes; the old ones keep serving older states.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.live = 0;
        self.keys = Arc::new([]);
        self.renew_keys();
    }

    /// Switches to another schema. The caller has replaced all chunks with its columns.
    pub(crate) fn set_schema(&mut self, schema: Arc<TableSchema>) {
        self.identities.adopt(&schema);
        self.arrow_schema = arrow_schema(&schema);
        self.schema = schema;
        self.renew_keys();
    }

    /// Builds the keys of the schema: existing ones keep their index, new ones get an empty one.
    fn renew_keys(&mut self) {
        // Each index is reused once, since two keys may have the same columns.
        let mut old: Vec<Arc<KeyIndex>> =
            self.keys.iter().map(|key| Arc::clone(&key.index)).collect();
        let keys = self.schema.keys().map(|key| {
            let place = old.iter().position(|old| old.columns() == key.columns);
            let index = match place {
                Some(place) => old.remove(place),
                None => Arc::new(KeyIndex::new(key.columns.clone())),
            };
            StateKey { index, positions: self.schema.key_positions(key) }
        });
        self.keys = keys.collect();
        self.private_keys = PrivateKeys::default();
        for slot in self.slots.iter().filter(|slot| slot.number >= PRIVATE_CHUNKS) {
            self.private_keys.add(&self.keys, slot);
        }
    }
}
