//! The distinct keys that were met, as compact rows of `W` words, and an index of them.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::hash::hash_words;

pub(crate) struct Table<const W: usize> {
    keys: Vec<[u64; W]>,
    index: HashTable<u32>,
}

impl<const W: usize> Default for Table<W> {
    fn default() -> Table<W> {
        Table { keys: Vec::new(), index: HashTable::new() }
    }
}

impl<const W: usize> Table<W> {
    /// The number of a key, a new one if it was not met before.
    #[inline]
    pub fn find(&mut self, key: [u64; W]) -> u32 {
        let Table { keys, index } = self;
        let entry = index.entry(
            hash_words(&key),
            |number| keys[*number as usize] == key,
            |number| hash_words(&keys[*number as usize]),
        );
        match entry {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let number = next_number(keys.len());
                entry.insert(number);
                keys.push(key);
                number
            }
        }
    }

    /// A number that no key has, for the group that has none.
    pub fn reserve(&mut self) -> u32 {
        self.keys.push([0; W]);
        next_number(self.keys.len() - 1)
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn word(&self, group: usize, word: usize) -> u64 {
        self.keys[group][word]
    }

    pub fn memory_bytes(&self) -> usize {
        self.keys.capacity() * W * 8 + self.index.capacity() * 5
    }
}

fn next_number(groups: usize) -> u32 {
    u32::try_from(groups).expect("no more groups than there are rows in 65,536 chunks")
}
