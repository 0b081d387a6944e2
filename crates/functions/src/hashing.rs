//! `hashtext` and `hashtextextended`: the numbers that PostgreSQL has for texts, by which
//! applications name advisory locks.
//!
//! They are Bob Jenkins's `lookup3` (2006) with a beginning of PostgreSQL's own, over the bytes of
//! the text.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array};
use arrow::datatypes::{DataType as ArrowType, Int64Type};
use datafusion::logical_expr::ScalarUDF;
use thalweg_types::Result;
use thalweg_values::scalar_function::Function;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    const TEXT: ArrowType = ArrowType::Utf8View;
    let of_text: &[&[ArrowType]] = &[&[TEXT]];
    let of_text_and_seed: &[&[ArrowType]] = &[&[TEXT, ArrowType::Int64]];
    vec![
        Function::new("hashtext", of_text, ArrowType::Int32, hash_text).into_udf(),
        Function::new("hashtextextended", of_text_and_seed, ArrowType::Int64, hash_text_from_seed)
            .into_udf(),
    ]
}

fn hash_text(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = columns[0].as_string_view().iter();
    let hashes = texts.map(|text| text.map(|text| hash(text.as_bytes(), 0).1.cast_signed()));
    Ok(Arc::new(hashes.collect::<Int32Array>()))
}

fn hash_text_from_seed(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let seeds = columns[1].as_primitive::<Int64Type>().iter();
    let hashes = columns[0].as_string_view().iter().zip(seeds).map(|(text, seed)| {
        let (high, low) = hash(text?.as_bytes(), seed?.cast_unsigned());
        Some(((u64::from(high) << 32) | u64::from(low)).cast_signed())
    });
    Ok(Arc::new(hashes.collect::<Int64Array>()))
}

/// Two words that depend on all of the bytes.
fn hash(bytes: &[u8], seed: u64) -> (u32, u32) {
    let first = 0x9e37_79b9_u32.wrapping_add(bytes.len() as u32).wrapping_add(3_923_095);
    let mut state = [first; 3];
    if seed != 0 {
        add(&mut state, [(seed >> 32) as u32, seed as u32, 0]);
        mix(&mut state);
    }
    let mut blocks = bytes.chunks_exact(12);
    for block in &mut blocks {
        add(&mut state, [word(&block[..4]), word(&block[4..8]), word(&block[8..])]);
        mix(&mut state);
    }
    let mut rest = [0; 12];
    rest[..blocks.remainder().len()].copy_from_slice(blocks.remainder());
    // The lowest byte of the last word is the length's.
    add(&mut state, [word(&rest[..4]), word(&rest[4..8]), word(&rest[8..]) << 8]);
    finish(&mut state);
    (state[1], state[2])
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("a word has four bytes"))
}

fn add(state: &mut [u32; 3], words: [u32; 3]) {
    for (part, word) in state.iter_mut().zip(words) {
        *part = part.wrapping_add(word);
    }
}

/// Each word in turn, beside the two that follow it in the round.
fn mix(state: &mut [u32; 3]) {
    for (step, turn) in [4, 6, 8, 16, 19, 4].into_iter().enumerate() {
        let [a, b, c] = [step % 3, (step + 1) % 3, (step + 2) % 3];
        state[a] = state[a].wrapping_sub(state[c]) ^ state[c].rotate_left(turn);
        state[c] = state[c].wrapping_add(state[b]);
    }
}

fn finish(state: &mut [u32; 3]) {
    for (step, turn) in [14, 11, 25, 16, 4, 14, 24].into_iter().enumerate() {
        let [to, from] = [(step + 2) % 3, (step + 1) % 3];
        state[to] = (state[to] ^ state[from]).wrapping_sub(state[from].rotate_left(turn));
    }
}
