//! Randomness, real and seeded.

use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random numbers.
pub trait Random: Send + Sync {
    /// A uniformly distributed number.
    fn next_u64(&self) -> u64;
}

/// The operating system's source of randomness.
pub struct RealRandom;

impl Random for RealRandom {
    #[expect(clippy::disallowed_methods, reason = "this is the real source")]
    fn next_u64(&self) -> u64 {
        getrandom::u64().expect("the operating system has a source of randomness")
    }
}

/// Numbers that follow from a seed: SplitMix64 (Steele, Lea, Flood 2014).
pub struct SeededRandom {
    state: AtomicU64,
}

impl SeededRandom {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom { state: AtomicU64::new(seed) }
    }

    /// A number below `limit`, which must not be 0. Slightly biased for huge limits.
    pub fn below(&self, limit: u64) -> u64 {
        assert!(limit > 0, "there is no number below 0");
        self.next_u64() % limit
    }

    /// True with probability one half.
    pub fn coin(&self) -> bool {
        self.next_u64() & 1 == 1
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again() {
        let numbers = |seed| {
            let random = SeededRandom::new(seed);
            [random.next_u64(), random.next_u64(), random.next_u64()]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        // The first output for seed 0 in the authors' reference code.
        assert_eq!(numbers(0)[0], 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn real_randomness_differs() {
        assert_ne!(RealRandom.next_u64(), RealRandom.next_u64());
    }
}
