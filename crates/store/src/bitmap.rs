//! A set of row offsets within one chunk.

use arrow::buffer::{BooleanBuffer, Buffer};
use thalweg_types::RowId;

const WORDS: usize = RowId::CHUNK_ROWS / 64;

/// A set of row offsets within one chunk, one bit for each.
///
/// Words beyond the last offset ever inserted are not stored: an empty bitmap takes no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    count: u32,
}

impl Bitmap {
    /// An empty set, without an allocation.
    #[must_use]
    pub fn new() -> Bitmap {
        Bitmap::default()
    }

    /// The set of all offsets below `rows`.
    #[must_use]
    pub fn full(rows: u32) -> Bitmap {
        assert!(rows as usize <= RowId::CHUNK_ROWS, "a chunk has at most 65,536 places");
        let mut words = vec![u64::MAX; rows as usize / 64];
        if !rows.is_multiple_of(64) {
            words.push((1 << (rows % 64)) - 1);
        }
        Bitmap { words, count: rows }
    }

    /// Builds the bitmap from words; the lowest bit of the first word is offset 0.
    ///
    /// `None` if there are more words than a chunk has rows.
    #[must_use]
    pub fn from_words(mut words: Vec<u64>) -> Option<Bitmap> {
        if words.len() > WORDS {
            return None;
        }
        while words.last() == Some(&0) {
            words.pop();
        }
        let count = words.iter().map(|word| word.count_ones()).sum();
        Some(Bitmap { words, count })
    }

    /// The words of the set, as [`Bitmap::from_words`] takes them; trailing zero words may be
    /// missing.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// True if the offset is in the set. Offsets beyond the last word are not.
    #[must_use]
    pub fn contains(&self, place: u32) -> bool {
        self.words.get(place as usize / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// Adds an offset; returns false if it was in already.
    pub fn insert(&mut self, place: u32) -> bool {
        assert!((place as usize) < RowId::CHUNK_ROWS, "a chunk has at most 65,536 places");
        let word = place as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let bit = 1 << (place % 64);
        let added = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += u32::from(added);
        added
    }

    /// Removes an offset; returns false if it was not in.
    pub fn remove(&mut self, place: u32) -> bool {
        let removed = self.contains(place);
        if removed {
            self.words[place as usize / 64] &= !(1 << (place % 64));
            self.count -= 1;
        }
        removed
    }

    /// Number of offsets in the set.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.count
    }

    /// True if the set contains no offset.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of offsets in the set below this one; `None` if this one is not in the set.
    #[must_use]
    pub fn rank(&self, place: u32) -> Option<u32> {
        if !self.contains(place) {
            return None;
        }
        let word = place as usize / 64;
        let below: u32 = self.words[..word].iter().map(|word| word.count_ones()).sum();
        let mask = (1_u64 << (place % 64)) - 1;
        Some(below + (self.words[word] & mask).count_ones())
    }

    /// The offsets in the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| Ones(word, index as u32 * 64))
    }

    /// The offsets below `rows` that are not in the set.
    #[must_use]
    pub fn complement(&self, rows: u32) -> Bitmap {
        let mut words = Bitmap::full(rows).words;
        for (word, own) in words.iter_mut().zip(&self.words) {
            *word &= !own;
        }
        Bitmap::from_words(words).expect("no more words than a full bitmap")
    }

    /// One bit for each offset below `rows`, set if the offset is in the set.
    #[must_use]
    pub fn mask(&self, rows: u32) -> BooleanBuffer {
        let mut words = self.words.clone();
        words.resize((rows as usize).div_ceil(64), 0);
        BooleanBuffer::new(Buffer::from_vec(words), 0, rows as usize)
    }

    /// Bytes allocated for the words.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.words.capacity() * 8
    }
}

/// Iterator over the one bits of a word, offset by its first bit's offset.
struct Ones(u64, u32);

impl Iterator for Ones {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let place = self.1 + self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_and_go() {
        let mut bitmap = Bitmap::new();
        assert!(bitmap.insert(65_535) && bitmap.insert(3) && !bitmap.insert(3));
        assert_eq!(bitmap.iter().collect::<Vec<_>>(), [3, 65_535]);
        assert!(bitmap.remove(65_535) && !bitmap.remove(65_535));
        assert_eq!((bitmap.len(), bitmap.contains(3), bitmap.contains(4)), (1, true, false));
    }

    #[test]
    fn the_complement_has_the_other_places() {
        let mut bitmap = Bitmap::new();
        for place in (0..70).step_by(2) {
            bitmap.insert(place);
        }
        let others = bitmap.complement(67);
        assert_eq!(others.iter().collect::<Vec<_>>(), (1..67).step_by(2).collect::<Vec<_>>());
        let mask = bitmap.complement(130).mask(130);
        assert_eq!(mask.count_set_bits(), 130 - 35);
        assert!(mask.value(129) && !mask.value(68));
        assert_eq!(Bitmap::full(64).len(), 64);
        assert_eq!(Bitmap::new().complement(0), Bitmap::new());
    }
}
