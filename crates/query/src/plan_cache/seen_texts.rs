//! Texts that were seen before.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of hashes that are kept.
const TEXTS_MAX: usize = 1024;

/// The hashes of the last texts, or of other values that tell statements apart. One may have been
/// overwritten, and collisions give false positives.
pub(crate) struct SeenTexts {
    hashes: [AtomicU64; TEXTS_MAX],
    hasher: RandomState,
}

impl Default for SeenTexts {
    fn default() -> SeenTexts {
        SeenTexts { hashes: [const { AtomicU64::new(0) }; TEXTS_MAX], hasher: RandomState::new() }
    }
}

impl SeenTexts {
    pub(crate) fn note(&self, text: impl Hash) {
        let (place, hash) = self.place(text);
        place.store(hash, Ordering::Relaxed);
    }

    pub(crate) fn may_know(&self, text: impl Hash) -> bool {
        let (place, hash) = self.place(text);
        place.load(Ordering::Relaxed) == hash
    }

    fn place(&self, text: impl Hash) -> (&AtomicU64, u64) {
        let hash = self.hasher.hash_one(text);
        (&self.hashes[hash as usize % TEXTS_MAX], hash)
    }
}
