//! The distinct keys as compact arrays of words, and an index of them.
//!
//! Many keys are looked up together: first their slots are read, then the keys to which these
//! point. Thus cache misses overlap instead of following each other.

use super::hash::hash_words;
use super::slots::{Found, Slots};
use crate::simd::widest;

/// Number of keys that are looked up together.
const AT_ONCE: usize = 512;

pub(crate) struct Table<const W: usize> {
    keys: Vec<[u64; W]>,
    /// The group without a key; it has an unused entry in `keys`.
    none: Option<u32>,
    slots: Slots,
}

impl<const W: usize> Default for Table<W> {
    fn default() -> Table<W> {
        Table { keys: Vec::new(), none: None, slots: Slots::default() }
    }
}

impl<const W: usize> Table<W> {
    /// The group of a key; creates one for a new key.
    pub fn find(&mut self, key: [u64; W]) -> u32 {
        self.make_room(1);
        self.find_hashed(&key, hash_words(&key))
    }

    /// Reserves space for `more` keys in the index.
    pub fn make_room(&mut self, more: usize) {
        let Table { keys, none, slots } = self;
        let numbered = (0..).zip(keys.iter()).filter(|(number, _)| Some(*number) != *none);
        slots.reserve(more, || numbered.map(|(number, key)| (number, hash_words(key))));
    }

    #[inline]
    fn find_hashed(&mut self, key: &[u64; W], hash: u64) -> u32 {
        let Table { keys, slots, .. } = self;
        match slots.find(hash, |number| keys[number as usize] == *key) {
            Found::Number(number) => number,
            Found::Free(place) => {
                let number = next_number(keys.len());
                slots.put(place, hash, number);
                keys.push(*key);
                number
            }
        }
    }

    /// Looks up many keys; creates groups for new ones.
    pub fn find_all(&mut self, keys: &[[u64; W]], numbers: &mut [u32]) {
        let (mut hashes, mut first, mut words) = ([0; AT_ONCE], [0; AT_ONCE], [0; AT_ONCE]);
        for (keys, numbers) in keys.chunks(AT_ONCE).zip(numbers.chunks_mut(AT_ONCE)) {
            self.make_room(keys.len());
            let hashes = &mut hashes[..keys.len()];
            widest(|| {
                hashes.iter_mut().zip(keys).for_each(|(hash, key)| *hash = hash_words(key));
            });
            for (slot, hash) in first.iter_mut().zip(hashes.iter()) {
                *slot = self.slots.first(*hash);
            }
            for (word, slot) in words.iter_mut().zip(&first[..keys.len()]) {
                *word = self.keys.get(self.slots.candidate(*slot)).map_or(0, |key| key[0]);
            }
            for (row, (key, hash)) in keys.iter().zip(hashes.iter()).enumerate() {
                let is_it = |number| words[row] == key[0] && self.keys[number as usize] == *key;
                numbers[row] = match self.slots.number(first[row], *hash) {
                    Some(number) if is_it(number) => number,
                    _ => self.find_hashed(key, *hash),
                };
            }
        }
    }

    /// Creates the group without a key.
    pub fn reserve(&mut self) -> u32 {
        let number = next_number(self.keys.len());
        self.keys.push([0; W]);
        self.none = Some(number);
        number
    }

    /// Frees the index. No key can be looked up afterwards.
    pub fn close(&mut self) {
        self.slots = Slots::default();
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// A word of the key of a group.
    pub fn word(&self, group: usize, word: usize) -> u64 {
        self.keys[group][word]
    }

    /// Bytes allocated for keys and index.
    pub fn memory_bytes(&self) -> usize {
        self.keys.capacity() * W * 8 + self.slots.memory_bytes()
    }
}

pub(super) fn next_number(groups: usize) -> u32 {
    u32::try_from(groups).expect("no more groups than there are rows in 65,536 chunks")
}
