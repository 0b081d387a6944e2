//! The distinct integer keys, and an index of them.
//!
//! For dense keys the index is an array with an element for each number between the least and the
//! greatest key, and nothing is compared. Otherwise it is a hash table. The index switches between
//! both forms as keys arrive.

use super::hash::hash_words;
use super::slots::{Found, Slots};
use super::table::next_number;
use crate::simd::widest;

/// Number of keys that are looked up together.
const AT_ONCE: usize = 512;

/// Up to this many elements, an array is used however sparse it is.
const SPAN_SMALL: u64 = 1 << 18;

/// Above that, an array is used if at least one in this many elements is occupied.
const SPARSE_MAX: u64 = 4;

const NOBODY: u32 = u32::MAX;

pub(crate) struct Numbers {
    keys: Vec<i64>,
    /// The group without a key (NULL); it has an unused entry in `keys`.
    none: Option<u32>,
    least: i64,
    greatest: i64,
    index: Index,
    /// Capacity with which a hash table is created.
    room: usize,
}

enum Index {
    /// For each integer from `first` on, its group.
    Places {
        first: i64,
        numbers: Vec<u32>,
    },
    Hashed(Slots),
}

fn hash(key: i64) -> u64 {
    hash_words(&[key as u64])
}

/// The distance between two numbers.
fn span(least: i64, greatest: i64) -> u64 {
    greatest.wrapping_sub(least) as u64
}

impl Default for Numbers {
    fn default() -> Numbers {
        // The first keys are less than this, which creates the array.
        let index = Index::Places { first: i64::MAX, numbers: Vec::new() };
        let (least, greatest) = (i64::MAX, i64::MIN);
        Numbers { keys: Vec::new(), none: None, least, greatest, index, room: 0 }
    }
}

impl Numbers {
    /// The group of a key; creates one for a new key.
    pub fn find(&mut self, key: i64) -> u32 {
        let mut number = [0];
        self.find_all(&[key], &mut number);
        number[0]
    }

    /// Looks up many keys; creates groups for new ones.
    pub fn find_all(&mut self, keys: &[i64], numbers: &mut [u32]) {
        let (least, greatest) = widest(|| {
            let first = (i64::MAX, i64::MIN);
            keys.iter().fold(first, |(least, most), key| (least.min(*key), most.max(*key)))
        });
        if keys.is_empty() {
            return;
        }
        self.prepare(least, greatest);
        let Numbers { keys: known, none, index, .. } = self;
        match index {
            Index::Places { first, numbers: places } => {
                for (key, number) in keys.iter().zip(numbers) {
                    let place = &mut places[key.wrapping_sub(*first) as usize];
                    if *place == NOBODY {
                        *place = next_number(known.len());
                        known.push(*key);
                    }
                    *number = *place;
                }
            }
            Index::Hashed(slots) => find_hashed((known, *none), slots, keys, numbers),
        }
    }

    /// Chooses an index that also covers numbers between the two.
    fn prepare(&mut self, least: i64, greatest: i64) {
        if self.least <= least && greatest <= self.greatest {
            // Many new keys may have made an array worthwhile.
            let is_hashed = matches!(self.index, Index::Hashed(_));
            if !is_hashed || span(self.least, self.greatest) > self.keys.len() as u64 * 2 {
                return;
            }
        }
        (self.least, self.greatest) = (self.least.min(least), self.greatest.max(greatest));
        let span = span(self.least, self.greatest);
        let is_close = span < SPAN_SMALL.max(self.keys.len() as u64 * SPARSE_MAX);
        match &mut self.index {
            Index::Places { first, numbers } if is_close && *first <= self.least => {
                let length = self.greatest.wrapping_sub(*first) as usize + 1;
                numbers.resize(length.max(numbers.len()), NOBODY);
            }
            Index::Hashed(_) if !is_close => {}
            _ if is_close => self.give_places(),
            _ => self.hash_all(),
        }
    }

    fn give_places(&mut self) {
        self.index = Index::Hashed(Slots::default());
        // Keys may arrive in descending order, so leave room below the least one.
        let room = (span(self.least, self.greatest) / 2) as i64;
        let first = if self.keys.is_empty() { self.least } else { self.least.saturating_sub(room) };
        let length = self.greatest.wrapping_sub(first) as usize + 1;
        let mut numbers = vec![NOBODY; length];
        for (number, key) in (0..).zip(&self.keys) {
            if self.none != Some(number) {
                numbers[key.wrapping_sub(first) as usize] = number;
            }
        }
        self.index = Index::Places { first, numbers };
    }

    fn hash_all(&mut self) {
        self.close();
        let mut slots = Slots::default();
        make_room(&mut slots, self.keys.len().max(self.room), &self.keys, self.none);
        self.index = Index::Hashed(slots);
    }

    /// Sets the capacity of a hash table that is created later.
    pub fn make_room(&mut self, room: usize) {
        self.room = room;
    }

    /// Creates the group without a key, or returns it.
    pub fn reserve(&mut self) -> u32 {
        *self.none.get_or_insert_with(|| {
            self.keys.push(0);
            next_number(self.keys.len() - 1)
        })
    }

    /// Frees the index. No key can be looked up afterwards.
    pub fn close(&mut self) {
        self.index = Index::Hashed(Slots::default());
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The key of a group; the word number is ignored, since there is one.
    pub fn word(&self, group: usize, _: usize) -> u64 {
        self.keys[group] as u64
    }

    /// Bytes allocated for keys and index.
    pub fn memory_bytes(&self) -> usize {
        let index = match &self.index {
            Index::Places { numbers, .. } => numbers.capacity() * 4,
            Index::Hashed(slots) => slots.memory_bytes(),
        };
        self.keys.capacity() * 8 + index
    }
}

fn make_room(slots: &mut Slots, more: usize, known: &[i64], none: Option<u32>) {
    let numbered = (0..).zip(known).filter(|(number, _)| none != Some(*number));
    slots.reserve(more, || numbered.map(|(number, key)| (number, hash(*key))));
}

fn find_hashed(
    (known, none): (&mut Vec<i64>, Option<u32>),
    slots: &mut Slots,
    keys: &[i64],
    numbers: &mut [u32],
) {
    let (mut hashes, mut first, mut met) = ([0; AT_ONCE], [0; AT_ONCE], [0; AT_ONCE]);
    for (keys, numbers) in keys.chunks(AT_ONCE).zip(numbers.chunks_mut(AT_ONCE)) {
        make_room(slots, keys.len(), known, none);
        let hashes = &mut hashes[..keys.len()];
        widest(|| hashes.iter_mut().zip(keys).for_each(|(of, key)| *of = hash(*key)));
        for (slot, hash) in first.iter_mut().zip(hashes.iter()) {
            *slot = slots.first(*hash);
        }
        for (met, slot) in met.iter_mut().zip(&first[..keys.len()]) {
            *met = known.get(slots.candidate(*slot)).copied().unwrap_or(0);
        }
        for (row, (key, hash)) in keys.iter().zip(hashes.iter()).enumerate() {
            numbers[row] = match slots.number(first[row], *hash) {
                Some(number) if met[row] == *key => number,
                _ => match slots.find(*hash, |number| known[number as usize] == *key) {
                    Found::Number(number) => number,
                    Found::Free(place) => {
                        let number = next_number(known.len());
                        slots.put(place, *hash, number);
                        known.push(*key);
                        number
                    }
                },
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Numbers that were met, block by block, against a map.
    fn check(blocks: &[Vec<i64>]) -> Numbers {
        let mut numbers = Numbers::default();
        let mut expected: HashMap<i64, u32> = HashMap::new();
        for (round, block) in blocks.iter().enumerate() {
            let mut found = vec![0; block.len()];
            numbers.find_all(block, &mut found);
            for (key, number) in block.iter().zip(found) {
                let next = expected.len() as u32 + u32::from(numbers.none.is_some());
                assert_eq!(*expected.entry(*key).or_insert(next), number, "{key}");
                assert_eq!(numbers.word(number as usize, 0), *key as u64);
            }
            if round == 0 {
                assert_eq!(numbers.reserve() as usize, expected.len());
            }
        }
        assert_eq!(numbers.len(), expected.len() + 1);
        numbers
    }

    #[test]
    fn numbers_are_those_of_a_map_whatever_index_is_in_use() {
        let block =
            |round: i64, of: fn(i64) -> i64| (0..700).map(|n| of(round * 700 + n)).collect();
        let blocks = |of: fn(i64) -> i64| (0..30).map(|r| block(r, of)).collect::<Vec<Vec<i64>>>();
        let is_hashed = |numbers: &Numbers| matches!(numbers.index, Index::Hashed(_));
        assert!(!is_hashed(&check(&blocks(|n| n))));
        assert!(!is_hashed(&check(&blocks(|n| 1_000_000_000_000 - n * 3))));
        assert!(!is_hashed(&check(&blocks(|n| n * 7_919 % 1_000 - 500))));
        assert!(is_hashed(&check(&blocks(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64)))));
        let ends = vec![vec![0, 5, -5], vec![i64::MAX, i64::MIN, 0], vec![1, i64::MIN, -5]];
        assert!(is_hashed(&check(&ends)));
    }

    #[test]
    fn an_index_of_hashes_becomes_one_of_places() {
        let far = 600_000;
        let mut blocks: Vec<Vec<i64>> = vec![vec![far], vec![0]];
        blocks.extend((0..far / 2_000).map(|n| (n * 2_000..(n + 1) * 2_000).collect()));
        let numbers = check(&blocks);
        assert!(matches!(numbers.index, Index::Places { .. }));
        assert!(numbers.memory_bytes() < far as usize * 24);
    }
}
