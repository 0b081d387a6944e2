//! The index of a key: a hash table from keys to row ids.
//!
//! The index follows the *applied* state of a table, the writer's. Its invariants:
//!
//! 1. Every live row without a NULL in the key has an entry, and a key has at most one entry.
//! 2. An entry stays when its row dies. A new row with the same key takes the entry over and notes
//!    the earlier row (`previous`), so that readers of older snapshots find their row by going back
//!    step by step. Such notes exist for the newest chunks only.
//! 3. Entries are removed only when compaction drops their dead rows, or when an unpublished row is
//!    undone. The table's removal counter is raised before, while the index is locked.
//!
//! An entry stores 32 bits of its key's hash. So the table grows without reading rows, and a lookup
//! rejects most other keys without reading theirs.

mod bulk;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as TableEntry;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use thalweg_types::{ColumnId, RowId};

use crate::previous::{Before, Previous};
use crate::shared::prefetch;
pub(crate) use bulk::{ChunkEntries, KnownRows};

/// A power of two, large enough that growing one shard's table is a short pause, and that a bulk
/// load of millions of rows keeps the shard that it fills in a core's cache.
const SHARDS: usize = 256;
const SHARD_SHIFT: u32 = 32 - SHARDS.trailing_zeros();

/// Minimum number of rows for which visiting the shards one after the other pays.
const SORTED_ROWS_MIN: usize = 4_096;

/// Number of keys that are prefetched together, so that their cache misses overlap. After Chen,
/// Ailamaki, Gibbons, Mowry: "Improving Hash Join Performance through Prefetching" (ICDE 2004).
pub(crate) const FETCHED_TOGETHER: usize = 32;

/// Number of steps that a reader goes back before it scans the chunks instead.
const STEPS_MAX: usize = 1_024;

/// Ten bytes, packed so that there is no padding between entries.
#[derive(Clone, Copy)]
#[repr(C, packed(2))]
struct Entry {
    hash: u32,
    chunk: u32,
    place: u16,
}

impl Entry {
    fn new(hash: u32, row: RowId) -> Entry {
        Entry { hash, chunk: row.chunk(), place: row.row() as u16 }
    }

    fn row(self) -> RowId {
        RowId::new(self.chunk, self.place.into())
    }
}

/// The hash that a shard's table uses. All entries of a shard share the upper bits of `hash`, so
/// the multiplication spreads the lower ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The index of one key of one table.
pub struct KeyIndex {
    columns: Vec<ColumnId>,
    inner: RwLock<IndexInner>,
}

impl KeyIndex {
    pub(crate) fn new(columns: Vec<ColumnId>) -> KeyIndex {
        let shards = (0..SHARDS).map(|_| HashTable::new()).collect();
        let inner = RwLock::new(IndexInner { shards, previous: Previous::default() });
        KeyIndex { columns, inner }
    }

    /// The columns of the key, in its order.
    pub(crate) fn columns(&self) -> &[ColumnId] {
        &self.columns
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, IndexInner> {
        self.inner.write()
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, IndexInner> {
        self.inner.read()
    }

    /// Bytes allocated for entries and notes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let inner = self.inner.read();
        let tables: usize = inner.shards.iter().map(HashTable::allocation_size).sum();
        tables + inner.previous.memory_bytes()
    }
}

/// The part of an index that its lock protects.
pub(crate) struct IndexInner {
    shards: Vec<HashTable<Entry>>,
    previous: Previous,
}

/// Rows of a batch that are inserted into an index, each with a hash, a row id and a key.
pub(crate) trait NewRows {
    fn len(&self) -> usize;
    /// The hash of a row's key; `None` if the key contains a NULL.
    fn hash(&self, row: usize) -> Option<u32>;
    fn id(&self, row: usize) -> RowId;
    /// True if a row in the index has the same key.
    fn same_key(&self, row: usize, stored: RowId) -> bool;
    /// True if a row in the index is dead.
    fn is_dead(&self, stored: RowId) -> bool;
}

impl IndexInner {
    /// Adds rows. If one has the key of a live row, adds none and returns its position in the
    /// batch.
    pub fn insert(&mut self, rows: &impl NewRows) -> Result<(), usize> {
        let order = visiting_order(rows);
        for (done, &row) in order.iter().enumerate() {
            let row = row as usize;
            if let Some(hash) = rows.hash(row)
                && !self.insert_row(rows, row, hash)
            {
                for &row in order[..done].iter().rev() {
                    let row = row as usize;
                    if let Some(hash) = rows.hash(row) {
                        self.withdraw(hash, rows.id(row));
                    }
                }
                return Err(row);
            }
        }
        Ok(())
    }

    #[inline]
    fn insert_row(&mut self, rows: &impl NewRows, row: usize, hash: u32) -> bool {
        let same = |entry: &Entry| entry.hash == hash && rows.same_key(row, entry.row());
        let id = rows.id(row);
        match self.shard(hash).entry(spread(hash), same, |entry| spread(entry.hash)) {
            TableEntry::Vacant(vacant) => {
                vacant.insert(Entry::new(hash, id));
            }
            TableEntry::Occupied(mut occupied) => {
                let before = occupied.get().row();
                if !rows.is_dead(before) {
                    return false;
                }
                *occupied.get_mut() = Entry::new(hash, id);
                self.previous.note(id, before);
            }
        }
        true
    }

    /// Finds the entry of a key, or where it would be inserted. If a known bucket still holds the
    /// entry of its row, no search is necessary.
    #[inline]
    pub fn find_slot(
        &mut self,
        hash: u32,
        known: Option<Likely>,
        same_key: impl Fn(RowId) -> bool,
    ) -> Slotted<'_> {
        let same = |entry: &Entry| entry.hash == hash && same_key(entry.row());
        let shard = &mut self.shards[(hash >> SHARD_SHIFT) as usize];
        let previous = &mut self.previous;
        if let Some(Likely { bucket, row }) = known
            && shard.get_bucket(bucket).is_some_and(|entry| entry.row() == row)
        {
            let Ok(entry) = shard.get_bucket_entry(bucket) else {
                unreachable!("it was just looked at")
            };
            return Slotted { hash, entry: TableEntry::Occupied(entry), previous };
        }
        let entry = shard.entry(spread(hash), same, |entry| spread(entry.hash));
        Slotted { hash, entry, previous }
    }

    /// The row that holds the entry of a key, dead or alive.
    #[inline]
    pub fn find(&self, hash: u32, same_key: impl Fn(RowId) -> bool) -> Option<RowId> {
        let same = |entry: &Entry| entry.hash == hash && same_key(entry.row());
        let shard = &self.shards[(hash >> SHARD_SHIFT) as usize];
        shard.find(spread(hash), same).map(|entry| entry.row())
    }

    /// Prefetches the entries of keys without comparing them: the first entry with the same tag is
    /// nearly always the key's.
    #[inline]
    pub fn prefetch(&self, hashes: &[u32]) {
        for &hash in hashes {
            let shard = &self.shards[(hash >> SHARD_SHIFT) as usize];
            let bucket = shard.find_bucket_index(spread(hash), |_| true);
            if let Some(entry) = bucket.and_then(|bucket| shard.get_bucket(bucket)) {
                prefetch(entry);
            }
        }
    }

    /// Prefetches the next [`FETCHED_TOGETHER`] hashes if `next` is the first of such a group.
    #[inline]
    pub fn prefetch_from(&self, hashes: &[u32], next: usize) {
        if next.is_multiple_of(FETCHED_TOGETHER) {
            let end = hashes.len().min(next + FETCHED_TOGETHER);
            self.prefetch(&hashes[next..end]);
        }
    }

    /// An entry with this hash, which hardly ever belongs to another key.
    #[inline]
    pub fn likely(&self, hash: u32) -> Option<Likely> {
        let shard = &self.shards[(hash >> SHARD_SHIFT) as usize];
        let bucket = shard.find_bucket_index(spread(hash), |entry| entry.hash == hash)?;
        Some(Likely { bucket, row: shard.get_bucket(bucket)?.row() })
    }

    fn shard(&mut self, hash: u32) -> &mut HashTable<Entry> {
        &mut self.shards[(hash >> SHARD_SHIFT) as usize]
    }

    /// Removes a row as if it had never been inserted: the row that held its entry before gets it
    /// back.
    pub fn withdraw(&mut self, hash: u32, row: RowId) {
        let before = self.previous.forget(row);
        let is_row = |entry: &Entry| entry.hash == hash && entry.row() == row;
        let Ok(mut entry) = self.shard(hash).find_entry(spread(hash), is_row) else { return };
        match before {
            Before::Row(before) => *entry.get_mut() = Entry::new(hash, before),
            Before::Nothing | Before::Forgotten => {
                entry.remove();
            }
        }
    }

    /// Restores the entry of a row that was dead and lives again.
    pub fn revive(&mut self, hash: u32, row: RowId, same_key: impl Fn(RowId) -> bool) {
        let same =
            |entry: &Entry| entry.hash == hash && (entry.row() == row || same_key(entry.row()));
        let shard = self.shard(hash);
        match shard.entry(spread(hash), same, |entry| spread(entry.hash)) {
            TableEntry::Vacant(vacant) => {
                vacant.insert(Entry::new(hash, row));
            }
            TableEntry::Occupied(mut occupied) => *occupied.get_mut() = Entry::new(hash, row),
        }
    }

    /// Points the entry of a row that compaction moved to its new id, if the row still holds it.
    pub fn repoint(&mut self, hash: u32, from: RowId, to: RowId) {
        let is_row = |entry: &Entry| entry.hash == hash && entry.row() == from;
        if let Some(entry) = self.shard(hash).find_mut(spread(hash), is_row) {
            *entry = Entry::new(hash, to);
            self.previous.note(to, from);
        }
    }

    /// Reverts [`repoint`](Self::repoint).
    pub fn repoint_back(&mut self, hash: u32, from: RowId, to: RowId) {
        self.previous.forget(to);
        let is_row = |entry: &Entry| entry.hash == hash && entry.row() == to;
        if let Some(entry) = self.shard(hash).find_mut(spread(hash), is_row) {
            *entry = Entry::new(hash, from);
        }
    }

    /// Removes the entry of a dead row that compaction dropped, if the row still holds it.
    pub fn drop_dead(&mut self, hash: u32, row: RowId) {
        let is_row = |entry: &Entry| entry.hash == hash && entry.row() == row;
        if let Ok(entry) = self.shard(hash).find_entry(spread(hash), is_row) {
            entry.remove();
        }
    }

    /// Reports the rows that may have a key with this hash and that a reader sees, dead or alive.
    ///
    /// Returns false if there may be further ones, because notes are missing or the way back is too
    /// long.
    pub fn candidates(
        &self,
        hash: u32,
        is_visible: impl Fn(RowId) -> bool,
        mut found: impl FnMut(RowId),
    ) -> bool {
        let shard = &self.shards[(hash >> SHARD_SHIFT) as usize];
        let mut complete = true;
        for entry in shard.iter_hash(spread(hash)).filter(|entry| entry.hash == hash) {
            let mut row = entry.row();
            let mut steps = 0;
            loop {
                if is_visible(row) {
                    found(row);
                    break;
                }
                steps += 1;
                match self.previous.before(row) {
                    Before::Row(before) if steps < STEPS_MAX => row = before,
                    Before::Nothing => break,
                    Before::Row(_) | Before::Forgotten => {
                        complete = false;
                        break;
                    }
                }
            }
        }
        complete
    }
}

/// The bucket of an entry a moment ago, and its row.
#[derive(Clone, Copy)]
pub(crate) struct Likely {
    bucket: usize,
    pub row: RowId,
}

/// The slot of a key in an index, with or without an entry.
pub(crate) struct Slotted<'a> {
    hash: u32,
    entry: TableEntry<'a, Entry>,
    previous: &'a mut Previous,
}

impl Slotted<'_> {
    /// The row that holds the entry, dead or alive.
    #[inline]
    pub fn row(&self) -> Option<RowId> {
        match &self.entry {
            TableEntry::Occupied(entry) => Some(entry.get().row()),
            TableEntry::Vacant(_) => None,
        }
    }

    /// Points the entry to a row; notes the row that held it before.
    #[inline]
    pub fn fill(self, row: RowId) {
        match self.entry {
            TableEntry::Occupied(mut entry) => {
                self.previous.note(row, entry.get().row());
                *entry.get_mut() = Entry::new(self.hash, row);
            }
            TableEntry::Vacant(entry) => {
                entry.insert(Entry::new(self.hash, row));
            }
        }
    }
}

/// The order in which rows are inserted: as they are, or grouped by shard if they are many.
fn visiting_order(rows: &impl NewRows) -> Vec<u32> {
    let length = u32::try_from(rows.len()).expect("a batch has less than 2^32 rows");
    if rows.len() < SORTED_ROWS_MIN {
        return (0..length).collect();
    }
    let shard = |row: u32| rows.hash(row as usize).map_or(0, |hash| (hash >> SHARD_SHIFT) as usize);
    let mut starts = [0_u32; SHARDS + 1];
    for row in 0..length {
        starts[shard(row) + 1] += 1;
    }
    for index in 1..=SHARDS {
        starts[index] += starts[index - 1];
    }
    let mut order = vec![0; rows.len()];
    for row in 0..length {
        let next = &mut starts[shard(row)];
        order[*next as usize] = row;
        *next += 1;
    }
    order
}
