//! The keys of a transaction's private rows.

use std::sync::Arc;

use hashbrown::HashTable;
use thalweg_types::RowId;

use super::{Slot, StateKey};
use crate::cell::KeyHashes;

/// For each key of the table, the rows of private chunks by the hash of their key. The clones of a
/// transaction's state share it and copy it on write.
#[derive(Clone, Default)]
pub(super) struct PrivateKeys(Vec<Arc<HashTable<Entry>>>);

#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    row: RowId,
}

fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl PrivateKeys {
    /// Adds the rows of a chunk.
    pub fn add(&mut self, keys: &[StateKey], slot: &Slot) {
        self.0.resize_with(keys.len(), Arc::default);
        for (key, table) in keys.iter().zip(&mut self.0) {
            let hashes = KeyHashes::new(&slot.columns(&key.positions));
            let table = Arc::make_mut(table);
            for (place, &hash) in hashes.hashes.iter().enumerate() {
                if !hashes.is_null(place) {
                    let entry = Entry { hash, row: RowId::new(slot.number, place as u32) };
                    table.insert_unique(spread(hash), entry, |entry| spread(entry.hash));
                }
            }
        }
    }

    /// The rows whose key has this hash, dead or alive.
    pub fn candidates(&self, key: usize, hash: u32) -> impl Iterator<Item = RowId> + '_ {
        let table = self.0.get(key);
        let entries = table.into_iter().flat_map(move |table| table.iter_hash(spread(hash)));
        entries.filter(move |entry| entry.hash == hash).map(|entry| entry.row)
    }
}
