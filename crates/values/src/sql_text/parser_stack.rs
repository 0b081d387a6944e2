//! Stack for the parser: callers' threads may have two megabytes of it, or less.

use super::depth::Depth;

/// Trees within these limits take less stack than any thread has left.
const SHALLOW: Depth = Depth { brackets: 32, operators: 128, words: 64 };

/// Longer statements are parsed with stack for the greatest allowed depth.
const SHORT_TOKENS: usize = 1_000;

/// Stack that parsing takes at the limits of [`super::depth`], in bytes.
const LEAST_BYTES: usize = 32 << 20;

/// Size of another stack. Pages that are not used take no memory.
const ROOM_BYTES: usize = 64 << 20;

/// Parses with enough stack for a tree of this depth.
pub fn for_tree<T>(depth: Depth, tokens: usize, parse: impl FnOnce() -> T) -> T {
    let is_shallow = depth.brackets <= SHALLOW.brackets
        && depth.operators <= SHALLOW.operators
        && depth.words <= SHALLOW.words
        && tokens <= SHORT_TOKENS;
    match is_shallow {
        true => parse(),
        false => stacker::maybe_grow(LEAST_BYTES, ROOM_BYTES, parse),
    }
}
