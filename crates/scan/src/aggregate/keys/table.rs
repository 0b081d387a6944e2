//! The distinct keys that were met, as compact rows of words, and an index of them.
//!
//! Many keys are looked for at once: first where each may be, then what is there. Waits for
//! memory then lie side by side instead of one behind the other.

use super::hash::hash_words;
use super::slots::{Found, Slots};
use crate::simd::widest;

/// How many keys are looked for at once.
const AT_ONCE: usize = 512;

pub(crate) struct Table<const W: usize> {
    keys: Vec<[u64; W]>,
    /// The number that stands for none, and has an entry among the keys.
    none: Option<u32>,
    slots: Slots,
}

impl<const W: usize> Default for Table<W> {
    fn default() -> Table<W> {
        Table { keys: Vec::new(), none: None, slots: Slots::default() }
    }
}

impl<const W: usize> Table<W> {
    /// The number of a key, a new one if it was not met before.
    pub fn find(&mut self, key: [u64; W]) -> u32 {
        self.make_room(1);
        self.find_hashed(&key, hash_words(&key))
    }

    /// Makes room for so many more keys in the index.
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

    /// The numbers of many keys.
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

    /// A number that no key has, for the group that has none.
    pub fn reserve(&mut self) -> u32 {
        let number = next_number(self.keys.len());
        self.keys.push([0; W]);
        self.none = Some(number);
        number
    }

    /// Forgets the index.
    pub fn close(&mut self) {
        self.slots = Slots::default();
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn word(&self, group: usize, word: usize) -> u64 {
        self.keys[group][word]
    }

    pub fn memory_bytes(&self) -> usize {
        self.keys.capacity() * W * 8 + self.slots.memory_bytes()
    }
}

pub(super) fn next_number(groups: usize) -> u32 {
    u32::try_from(groups).expect("no more groups than there are rows in 65,536 chunks")
}
