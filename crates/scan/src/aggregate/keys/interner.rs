//! Numbers texts: each distinct text is stored once.
//!
//! A text is stored as an Arrow view: short ones lie within it, longer ones in blocks of bytes. So
//! short texts compare like integers, and building an array copies views only.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray, UInt32Array, make_view};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::take;

use super::hash::{hash_bytes, hash_words};
use super::slots::{Found, Slots};
use super::table::next_number;
use crate::aggregate::texts::INLINE_BYTES_MAX;
use crate::aggregate::vector::Rows;

/// Number of texts that are looked up together.
const AT_ONCE: usize = 512;

const BLOCK_BYTES_MIN: usize = 1 << 12;
const BLOCK_BYTES_MAX: usize = 1 << 24;

#[derive(Default)]
pub(crate) struct Interner {
    views: Vec<u128>,
    /// The bytes of long texts. Blocks never move.
    blocks: Vec<Vec<u8>>,
    slots: Slots,
}

fn is_short(view: u128) -> bool {
    view as u32 <= INLINE_BYTES_MAX as u32
}

/// The hash of a short text.
fn hash_view(view: u128) -> u64 {
    hash_words(&[view as u64, (view >> 64) as u64])
}

/// Compares length and first four bytes of two long texts.
fn are_alike(left: u128, right: u128) -> bool {
    left as u64 == right as u64
}

/// The bytes of a long text.
fn long(blocks: &[Vec<u8>], view: u128) -> &[u8] {
    let (length, block, start) = (view as u32, (view >> 64) as u32, (view >> 96) as u32);
    &blocks[block as usize][start as usize..start as usize + length as usize]
}

impl Interner {
    /// The number of a text; assigns a new one to a new text.
    pub fn intern(&mut self, text: &[u8]) -> u32 {
        let view = make_view(text, 0, 0);
        let hash = if is_short(view) { hash_view(view) } else { hash_bytes(text) };
        self.make_room(1);
        self.find(view, hash, text)
    }

    /// Reserves space for `more` texts in the index.
    fn make_room(&mut self, more: usize) {
        let Interner { views, blocks, slots } = self;
        let hash = |view: u128| match is_short(view) {
            true => hash_view(view),
            false => hash_bytes(long(blocks, view)),
        };
        slots.reserve(more, || (0..).zip(views.iter().map(|view| hash(*view))));
    }

    /// Finds or creates the number of a text by its view; `text` is read only if it is long.
    #[inline]
    fn find(&mut self, view: u128, hash: u64, text: &[u8]) -> u32 {
        match self.slots.find(hash, |number| self.is_it(number, view, text)) {
            Found::Number(number) => number,
            Found::Free(place) => {
                let number = next_number(self.views.len());
                self.slots.put(place, hash, number);
                let kept = if is_short(view) { view } else { self.keep(text) };
                self.views.push(kept);
                number
            }
        }
    }

    #[inline]
    fn is_it(&self, number: u32, view: u128, text: &[u8]) -> bool {
        let known = self.views[number as usize];
        match is_short(view) {
            true => known == view,
            false => are_alike(known, view) && self.long(known) == text,
        }
    }

    /// Appends a long text to a block and returns its view.
    fn keep(&mut self, text: &[u8]) -> u128 {
        let has_room = |block: &Vec<u8>| block.len() + text.len() <= block.capacity();
        if !self.blocks.last().is_some_and(has_room) {
            let last = self.blocks.last().map_or(0, Vec::capacity);
            let bytes = (last * 2).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX).max(text.len());
            self.blocks.push(Vec::with_capacity(bytes));
        }
        let number = self.blocks.len() - 1;
        let block = &mut self.blocks[number];
        let start = block.len();
        block.extend_from_slice(text);
        make_view(text, number as u32, start as u32)
    }

    fn long(&self, view: u128) -> &[u8] {
        long(&self.blocks, view)
    }

    /// Calls `take` with the position of each row in `rows`, the row, and the number of its text.
    /// NULL gets the number 0.
    pub fn intern_rows(
        &mut self,
        (texts, start): (&StringViewArray, usize),
        rows: Rows<'_>,
        mut take: impl FnMut(usize, usize, u32),
    ) {
        let count = rows.count();
        let (mut hashes, mut first, mut known) = ([0; AT_ONCE], [0; AT_ONCE], [0; AT_ONCE]);
        for from in (0..count).step_by(AT_ONCE) {
            let places = from..count.min(from + AT_ONCE);
            self.make_room(places.len());
            for (place, hash) in places.clone().zip(&mut hashes) {
                let row = start + rows.get(place);
                let view = texts.views()[row];
                // The hash of a NULL row is not used, and the text under it may be invalid.
                *hash = match is_short(view) || texts.is_null(row) {
                    true => hash_view(view),
                    false => hash_bytes(texts.value(row).as_bytes()),
                };
            }
            for (slot, hash) in first.iter_mut().zip(&hashes[..places.len()]) {
                *slot = self.slots.first(*hash);
            }
            // Separate loops let cache misses overlap, which branches between rows would prevent.
            for (view, slot) in known.iter_mut().zip(&first[..places.len()]) {
                *view = self.views.get(self.slots.candidate(*slot)).copied().unwrap_or(0);
            }
            for (at, place) in places.enumerate() {
                let (row, slot, hash) = (rows.get(place), first[at], hashes[at]);
                if texts.is_null(start + row) {
                    take(place, row, 0);
                    continue;
                }
                let view = texts.views()[start + row];
                let text = if is_short(view) { &[] } else { texts.value(start + row).as_bytes() };
                let number = match self.slots.number(slot, hash) {
                    Some(number) if known[at] == view && is_short(view) => number,
                    Some(number) if !is_short(view) && self.is_it(number, view, text) => number,
                    _ => self.find(view, hash, text),
                };
                take(place, row, number);
            }
        }
    }

    /// Frees the index. No text can be looked up afterwards.
    pub fn close(&mut self) {
        self.slots = Slots::default();
    }

    /// Hashes of all texts, which depend on their content alone.
    pub fn content_hashes(&self) -> Vec<u64> {
        (0..self.views.len() as u32).map(|number| self.with_text(number, hash_bytes)).collect()
    }

    /// Calls `work` with the bytes of a text.
    pub fn with_text<R>(&self, number: u32, work: impl FnOnce(&[u8]) -> R) -> R {
        let view = self.views[number as usize];
        match is_short(view) {
            true => work(&view.to_le_bytes()[4..4 + view as u32 as usize]),
            false => work(self.long(view)),
        }
    }

    /// The texts of some numbers; numbers of NULL rows are ignored. Arrow validates each distinct
    /// text once, rather than once for each number.
    pub fn array(&self, numbers: Vec<u32>, nulls: Option<NullBuffer>) -> ArrayRef {
        let blocks: Vec<Buffer> =
            self.blocks.iter().map(|block| Buffer::from_slice_ref(block.as_slice())).collect();
        let texts = StringViewArray::try_new(self.views.clone().into(), blocks, None);
        let texts = texts.expect("only texts are interned");
        if nulls.is_none() && numbers.iter().copied().eq(0..self.views.len() as u32) {
            return Arc::new(texts);
        }
        let numbers = UInt32Array::new(numbers.into(), nulls);
        take(&texts, &numbers, None).expect("each number is that of a text")
    }

    /// Bytes allocated for texts and index.
    pub fn memory_bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(Vec::capacity).sum();
        blocks + self.views.capacity() * 16 + self.slots.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;

    fn numbers_of(interner: &mut Interner, texts: &StringViewArray, rows: Rows<'_>) -> Vec<u32> {
        let mut numbers = vec![u32::MAX; rows.count()];
        interner.intern_rows((texts, 0), rows, |place, row, number| {
            assert_eq!(row, rows.get(place));
            numbers[place] = number;
        });
        numbers
    }

    #[test]
    fn equal_texts_have_one_number_and_come_back() {
        let mut interner = Interner::default();
        let long = "longer than what fits into a view".repeat(900);
        let texts: Vec<String> = (0..2_000)
            .map(|n| if n % 2 == 0 { format!("text {n}") } else { format!("a long text {n}") })
            .chain([String::new(), long])
            .collect();
        let array = StringViewArray::from_iter_values(texts.iter());
        let numbers = numbers_of(&mut interner, &array, Rows::All(texts.len()));
        assert_eq!(numbers, (0..texts.len() as u32).collect::<Vec<_>>());
        let some = [7, 1_999, 2_000, 2_001, 7];
        let numbers = numbers_of(&mut interner, &array, Rows::Some(&some));
        assert_eq!(numbers, some.map(u32::from));
        for row in some.map(usize::from) {
            assert_eq!(interner.intern(texts[row].as_bytes()), row as u32);
            assert!(interner.with_text(row as u32, |text| text == texts[row].as_bytes()));
        }
        let nulls = NullBuffer::from(vec![true, false, true, true]);
        let shown = interner.array(vec![2_001, 0, 2, 3], Some(nulls));
        let shown: Vec<_> = shown.as_string_view().iter().collect();
        let expected = [Some(texts[2_001].as_str()), None, Some("text 2"), Some("a long text 3")];
        assert_eq!(shown, expected);
    }

    #[test]
    fn null_takes_no_number() {
        let mut interner = Interner::default();
        let texts = StringViewArray::from(vec![Some("a"), None, Some("b"), None]);
        assert_eq!(numbers_of(&mut interner, &texts, Rows::All(4)), [0, 0, 1, 0]);
        assert_eq!(interner.views.len(), 2);
    }
}
