//! Texts by number: each distinct one is kept once.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray, StringViewBuilder};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::hash::hash_bytes;

/// How many of the texts that were met last are found without looking into the table.
const RECENT: usize = 256;

/// The longest text that lies within its view.
const INLINE_BYTES_MAX: u32 = 12;

#[derive(Default)]
pub(crate) struct Interner {
    bytes: Vec<u8>,
    /// Where each text ends in `bytes`.
    ends: Vec<usize>,
    table: HashTable<u32>,
    /// Short texts as views, and their numbers; empty until a text is interned.
    recent: Vec<(u128, u32)>,
}

impl Interner {
    /// The number of a text, a new one if it was not met before.
    pub fn intern(&mut self, text: &[u8]) -> u32 {
        let Interner { bytes, ends, table, .. } = self;
        let known = |number: u32| text_at(bytes, ends, number);
        let hash = hash_bytes(text);
        let entry =
            table.entry(hash, |number| known(*number) == text, |number| hash_bytes(known(*number)));
        match entry {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let number = u32::try_from(ends.len()).expect("fewer texts than rows of a table");
                entry.insert(number);
                bytes.extend_from_slice(text);
                ends.push(bytes.len());
                number
            }
        }
    }

    /// The number of a row's text.
    pub fn intern_row(&mut self, texts: &StringViewArray, row: usize) -> u32 {
        let view = texts.views()[row];
        if view as u32 > INLINE_BYTES_MAX {
            return self.intern(texts.value(row).as_bytes());
        }
        if self.recent.is_empty() {
            // No text has this view: it says more bytes than it has.
            self.recent = vec![(u128::MAX, 0); RECENT];
        }
        let folded = (view >> 64) as u64 ^ view as u64;
        let place = (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize;
        if self.recent[place].0 == view {
            return self.recent[place].1;
        }
        let number = self.intern(texts.value(row).as_bytes());
        self.recent[place] = (view, number);
        number
    }

    pub fn text(&self, number: u32) -> &[u8] {
        text_at(&self.bytes, &self.ends, number)
    }

    /// The texts of some numbers, `None` for NULL.
    pub fn array(&self, numbers: impl Iterator<Item = Option<u32>>) -> ArrayRef {
        let mut texts = StringViewBuilder::new();
        for number in numbers {
            let text = number.map(|number| {
                std::str::from_utf8(self.text(number)).expect("only texts are interned")
            });
            texts.append_option(text);
        }
        Arc::new(texts.finish())
    }

    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * 8 + self.table.capacity() * 5
    }
}

fn text_at<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &bytes[start..ends[number]]
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;

    #[test]
    fn equal_texts_have_one_number_and_come_back() {
        let mut interner = Interner::default();
        let long = "longer than what fits into a view".repeat(9);
        let texts: Vec<String> =
            (0..2_000).map(|n| format!("text {n}")).chain([String::new(), long]).collect();
        let array = StringViewArray::from_iter_values(texts.iter());
        let numbers: Vec<u32> = (0..texts.len()).map(|r| interner.intern_row(&array, r)).collect();
        assert_eq!(numbers, (0..texts.len() as u32).collect::<Vec<_>>());
        for row in [7, 1_999, 2_000, 2_001, 7] {
            assert_eq!(interner.intern_row(&array, row), row as u32);
            assert_eq!(interner.intern(texts[row].as_bytes()), row as u32);
        }
        let shown = interner.array([Some(2_001), None, Some(3)].into_iter());
        let shown: Vec<_> = shown.as_string_view().iter().collect();
        assert_eq!(shown, [Some(texts[2_001].as_str()), None, Some("text 3")]);
    }
}
