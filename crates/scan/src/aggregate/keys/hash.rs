//! Hashes of keys. They never leave the process.

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
const SEED: u64 = 0x2545_F491_4F6C_DD1D;

/// Adds 64 bits to a hash.
#[inline(always)]
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(MULTIPLIER);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
pub(crate) fn hash_words<const W: usize>(words: &[u64; W]) -> u64 {
    words.iter().fold(SEED, |hash, word| mix(hash, *word))
}

pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words
        .iter()
        .fold(SEED ^ bytes.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    if rest.is_empty() {
        return mix(hash, MULTIPLIER);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(mix(hash, u64::from_le_bytes(last)), MULTIPLIER)
}
