//! Bits that one writer sets while readers copy the first ones.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::buffer::{BooleanBuffer, Buffer};

/// A fixed number of bits, all clear at first. All accesses are relaxed; publishing rows orders
/// writes before reads.
pub(crate) struct AtomicBits(Box<[AtomicU64]>);

impl AtomicBits {
    /// `bits` clear bits, rounded up to whole words.
    pub fn new(bits: usize) -> AtomicBits {
        AtomicBits((0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Sets a bit. Panics if it is out of range.
    pub fn set(&self, index: usize) {
        self.0[index / 64].fetch_or(1 << (index % 64), Ordering::Relaxed);
    }

    /// Reads a bit. Panics if it is out of range.
    pub fn get(&self, index: usize) -> bool {
        self.0[index / 64].load(Ordering::Relaxed) >> (index % 64) & 1 == 1
    }

    /// Clears all bits at `start` and above.
    pub fn clear_from(&self, start: usize) {
        let Some((first, rest)) = self.0.get(start / 64..).and_then(|words| words.split_first())
        else {
            return;
        };
        first.fetch_and((1 << (start % 64)) - 1, Ordering::Relaxed);
        for word in rest {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Copies a range of the bits.
    pub fn copy(&self, bits: Range<usize>) -> BooleanBuffer {
        let first = bits.start / 64;
        let words = &self.0[first..bits.end.div_ceil(64).max(first)];
        let words: Vec<u64> = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        BooleanBuffer::new(Buffer::from_vec(words), bits.start - first * 64, bits.len())
    }

    /// A larger set that starts with the bits of this one.
    pub fn grown(&self, bits: usize) -> AtomicBits {
        let grown = AtomicBits::new(bits);
        for (to, from) in grown.0.iter().zip(&self.0) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        grown
    }

    /// Bytes of the words.
    pub fn memory_bytes(&self) -> usize {
        self.0.len() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_set_cleared_and_carried_on() {
        let bits = AtomicBits::new(130);
        for index in [0, 63, 64, 65, 129] {
            bits.set(index);
        }
        bits.clear_from(65);
        let bits = bits.grown(1_000);
        bits.set(999);
        let set: Vec<usize> = (0..1_000).filter(|index| bits.get(*index)).collect();
        assert_eq!(set, [0, 63, 64, 999]);
        assert_eq!(bits.copy(0..65).set_indices().collect::<Vec<_>>(), [0, 63, 64]);
        assert_eq!(bits.copy(63..66).set_indices().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(bits.copy(999..1_000).count_set_bits(), 1);
        assert_eq!(bits.copy(1_000..1_000).len(), 0);
        bits.clear_from(1_000);
        bits.clear_from(0);
        assert_eq!(bits.copy(0..1_000).count_set_bits(), 0);
    }
}
