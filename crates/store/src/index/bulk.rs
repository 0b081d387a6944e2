//! Bulk insertion: rows are grouped by shard, and each shard is filled by one thread.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as TableEntry;
use parking_lot::Mutex;
use thalweg_types::RowId;

use super::{Entry, IndexInner, SHARD_SHIFT, SHARDS, spread};
use crate::cell::KeyHashes;
use crate::fork_join::ForkJoin;

/// The index entries of a chunk's rows, grouped by shard and in row order within it.
pub(crate) struct ChunkEntries {
    entries: Vec<Entry>,
    /// First entry of each shard, and the end of the last one.
    starts: [u32; SHARDS + 1],
}

impl ChunkEntries {
    /// Creates entries for the live rows without a NULL in their key.
    pub fn new(chunk: u32, hashes: &KeyHashes, is_dead: impl Fn(u32) -> bool) -> ChunkEntries {
        let rows = || {
            let all = hashes.hashes.iter().enumerate();
            all.filter(|(row, _)| !hashes.is_null(*row) && !is_dead(*row as u32))
        };
        let shard = |hash: u32| (hash >> SHARD_SHIFT) as usize;
        let mut starts = [0_u32; SHARDS + 1];
        for (_, hash) in rows() {
            starts[shard(*hash) + 1] += 1;
        }
        for index in 1..=SHARDS {
            starts[index] += starts[index - 1];
        }
        let mut next = starts;
        let mut entries = vec![Entry::new(0, RowId(0)); starts[SHARDS] as usize];
        for (row, hash) in rows() {
            let place = &mut next[shard(*hash)];
            entries[*place as usize] = Entry::new(*hash, RowId::new(chunk, row as u32));
            *place += 1;
        }
        ChunkEntries { entries, starts }
    }

    fn of_shard(&self, shard: usize) -> &[Entry] {
        &self.entries[self.starts[shard] as usize..self.starts[shard + 1] as usize]
    }
}

/// Callbacks about rows that are in an index.
pub(crate) trait KnownRows: Sync {
    fn is_same_key(&self, left: RowId, right: RowId) -> bool;
    fn is_dead(&self, row: RowId) -> bool;
}

/// A shard into which rows are inserted.
struct Insertion<'a> {
    shard: &'a mut HashTable<Entry>,
    /// Rows that took over the entry of a dead row, with the dead row.
    replaced: Vec<(RowId, RowId)>,
    /// The first row whose key a live row has.
    refused: Option<RowId>,
}

impl IndexInner {
    /// Reserves space for `rows` more entries.
    pub fn reserve(&mut self, rows: usize) {
        for shard in &mut self.shards {
            shard.reserve(rows / SHARDS, |entry| spread(entry.hash));
        }
    }

    /// Adds the rows of chunks. If some have the key of a live row, returns the first of them; the
    /// caller then withdraws all rows, since some were inserted.
    pub fn insert_chunks(
        &mut self,
        chunks: &[ChunkEntries],
        rows: &impl KnownRows,
        threads: &dyn ForkJoin,
    ) -> Result<(), RowId> {
        let insertions: Vec<Mutex<Insertion<'_>>> = self
            .shards
            .iter_mut()
            .map(|shard| Mutex::new(Insertion { shard, replaced: Vec::new(), refused: None }))
            .collect();
        threads.run(SHARDS, &|shard| {
            let mut insertion = insertions[shard].lock();
            let entries = chunks.iter().flat_map(|chunk| chunk.of_shard(shard));
            insertion.add(entries, rows);
        });
        let mut refused: Option<RowId> = None;
        for insertion in insertions {
            let insertion = insertion.into_inner();
            for (row, before) in insertion.replaced {
                self.previous.note(row, before);
            }
            refused = refused.into_iter().chain(insertion.refused).min();
        }
        refused.map_or(Ok(()), Err)
    }
}

impl Insertion<'_> {
    /// Adds entries until one is refused.
    fn add<'a>(&mut self, entries: impl Iterator<Item = &'a Entry>, rows: &impl KnownRows) {
        for &new in entries {
            let (hash, row) = (new.hash, new.row());
            let same = |old: &Entry| old.hash == hash && rows.is_same_key(row, old.row());
            match self.shard.entry(spread(hash), same, |entry| spread(entry.hash)) {
                TableEntry::Vacant(vacant) => {
                    vacant.insert(new);
                }
                TableEntry::Occupied(mut occupied) => {
                    let before = occupied.get().row();
                    if !rows.is_dead(before) {
                        self.refused = Some(row);
                        return;
                    }
                    *occupied.get_mut() = new;
                    self.replaced.push((row, before));
                }
            }
        }
    }
}
