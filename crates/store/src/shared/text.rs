//! Texts that one writer appends while readers see the earlier ones.
//!
//! A text is stored as Arrow's views require: 16 bytes with its length and, if it has at most 12
//! bytes, the text itself. The bytes of a longer one lie in a block to which the view points.
//! Invariants:
//!
//! 1. A block is in the list of blocks before a view names it, and stays there.
//! 2. The bytes of a text are in their block before its view is written. Blocks are never rewound.
//! 3. Only [`TextWriter`] creates views. With `utf8` each is a view of a whole text.
//!
//! So every view below the written length is valid for every reader at any time.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryViewArray, GenericByteViewArray, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::ByteViewType;
use parking_lot::RwLock;

use super::{BytesWriter, SharedBytes};

const VIEW_BYTES: usize = 16;
/// The longest text that lies within its view.
const INLINE_BYTES_MAX: usize = 12;
const BLOCK_BYTES_MIN: usize = 4 << 10;
const BLOCK_BYTES_MAX: usize = 1 << 20;

type Blocks = Arc<RwLock<Vec<Arc<SharedBytes>>>>;

/// The readers' half.
pub(crate) struct SharedText {
    views: Arc<SharedBytes>,
    blocks: Blocks,
    utf8: bool,
}

impl SharedText {
    /// A range of the texts as a `Utf8View` array, or `BinaryView` if they are not UTF-8.
    pub fn array(&self, rows: Range<usize>, nulls: Option<NullBuffer>) -> ArrayRef {
        let views = self.views.share(rows.end * VIEW_BYTES);
        let views = ScalarBuffer::<u128>::new(views, rows.start, rows.len());
        let blocks: Vec<Buffer> =
            self.blocks.read().iter().map(|block| block.share_all()).collect();
        assert!(nulls.as_ref().is_none_or(|nulls| nulls.len() == rows.len()), "a bit for each row");
        if self.utf8 {
            // SAFETY: invariants 1 to 3.
            Arc::new(unsafe { StringViewArray::new_unchecked(views, blocks, nulls) })
        } else {
            // SAFETY: invariants 1 and 2.
            Arc::new(unsafe { BinaryViewArray::new_unchecked(views, blocks, nulls) })
        }
    }

    /// Bytes allocated for the views, without the blocks.
    pub fn view_bytes(&self) -> usize {
        self.views.capacity()
    }

    /// Bytes allocated for the blocks, which outlive the allocation of the views.
    pub fn block_bytes(&self) -> usize {
        self.blocks.read().iter().map(|block| block.capacity()).sum()
    }
}

/// The only writer of a column of texts.
pub(crate) struct TextWriter {
    views: BytesWriter,
    /// The writers of all blocks; only the last block has room.
    writers: Vec<BytesWriter>,
    blocks: Blocks,
    utf8: bool,
}

impl TextWriter {
    /// An empty column with room for the views of `rows` rows.
    pub fn new(rows: usize, utf8: bool) -> TextWriter {
        TextWriter {
            views: BytesWriter::with_capacity(rows * VIEW_BYTES),
            writers: Vec::new(),
            blocks: Blocks::default(),
            utf8,
        }
    }

    /// The readers' half, over the current views and all blocks.
    pub fn shared(&self) -> SharedText {
        SharedText {
            views: Arc::clone(self.views.shared()),
            blocks: Arc::clone(&self.blocks),
            utf8: self.utf8,
        }
    }

    /// Appends the values of an array whose type is that of the column.
    pub fn append_array<T: ByteViewType + ?Sized>(&mut self, array: &GenericByteViewArray<T>) {
        assert_eq!(self.utf8, T::IS_UTF8, "texts stay texts");
        // Short texts lie in their views, so the views are copied as they are.
        let is_short = |view: &u128| *view as u32 as usize <= INLINE_BYTES_MAX;
        if array.null_count() == 0 && array.views().iter().all(is_short) {
            self.views.append(array.views().inner().as_slice());
            return;
        }
        let mut views = Vec::with_capacity(array.len() * VIEW_BYTES);
        for row in 0..array.len() {
            let bytes: &[u8] = if array.is_null(row) { b"" } else { array.value(row).as_ref() };
            views.extend_from_slice(&self.view(bytes));
        }
        self.views.append(&views);
    }

    /// Appends one value of a column that is not UTF-8.
    pub fn append_binary(&mut self, bytes: &[u8]) {
        assert!(!self.utf8, "texts come as arrays of texts");
        let view = self.view(bytes);
        self.views.append(&view);
    }

    /// Creates the view of a text; appends a long one to a block.
    fn view(&mut self, bytes: &[u8]) -> [u8; VIEW_BYTES] {
        if bytes.len() <= INLINE_BYTES_MAX {
            let mut view = [0; VIEW_BYTES];
            view[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
            view[4..4 + bytes.len()].copy_from_slice(bytes);
            view
        } else {
            let block = self.reserve(bytes.len());
            let offset = block.written() as u32;
            block.append(bytes);
            let mut view = [0; VIEW_BYTES];
            view[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
            view[4..8].copy_from_slice(&bytes[..4]);
            view[8..12].copy_from_slice(&(self.writers.len() as u32 - 1).to_le_bytes());
            view[12..].copy_from_slice(&offset.to_le_bytes());
            view
        }
    }

    /// The block for the next text; a new one if the last has no room for it.
    fn reserve(&mut self, length: usize) -> &mut BytesWriter {
        let last = self.writers.last();
        if last.is_none_or(|last| last.remaining() < length) {
            let double = last.map_or(0, |last| last.written() * 2);
            let bytes = double.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX).max(length);
            let block = BytesWriter::with_capacity(bytes);
            self.blocks.write().push(Arc::clone(block.shared()));
            self.writers.push(block);
        }
        self.writers.last_mut().expect("a block was just made sure of")
    }

    /// Moves the views into an allocation for `rows` rows. The blocks stay.
    pub fn grow(&mut self, rows: usize) {
        let mut views = BytesWriter::with_capacity(rows * VIEW_BYTES);
        views.append(self.views.as_slice());
        self.views = views;
    }

    /// Copies a range of the views for a reader, since the writer's may be rewound.
    pub fn copy(&self, rows: Range<usize>) -> SharedText {
        let copied = &self.views.as_slice()[rows.start * VIEW_BYTES..rows.end * VIEW_BYTES];
        let mut views = BytesWriter::with_capacity(copied.len());
        views.append(copied);
        let views = Arc::clone(views.shared());
        SharedText { views, blocks: Arc::clone(&self.blocks), utf8: self.utf8 }
    }

    /// Discards the views from row `rows` on; their bytes stay in the blocks. Panics if one was
    /// shared.
    pub fn rewind(&mut self, rows: usize) {
        self.views.rewind(rows * VIEW_BYTES);
    }

    /// The bytes of one text.
    pub fn value(&self, row: usize) -> &[u8] {
        let view = &self.views.as_slice()[row * VIEW_BYTES..][..VIEW_BYTES];
        let length = u32::from_le_bytes(view[..4].try_into().expect("four bytes")) as usize;
        if length <= INLINE_BYTES_MAX {
            return &view[4..4 + length];
        }
        let word = |at: usize| u32::from_le_bytes(view[at..at + 4].try_into().expect("four bytes"));
        &self.writers[word(8) as usize].as_slice()[word(12) as usize..][..length]
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;

    #[test]
    fn texts_come_back_after_growing_and_rewinding() {
        let long = "a text that does not lie in its view".repeat(300);
        let texts = ["", "short", "exactly 12 b", "thirteen bytes", &long, "last"];
        let mut writer = TextWriter::new(3, true);
        writer.append_array(&StringViewArray::from(texts[..3].to_vec()));
        let held = writer.shared().array(0..3, None);
        writer.grow(8);
        writer.append_array(&StringViewArray::from(vec!["forgotten by the rewinding"]));
        writer.rewind(3);
        writer.append_array(&StringViewArray::from(texts[3..].to_vec()));
        let all = writer.shared().array(0..6, None);
        all.to_data().validate_full().unwrap();
        assert_eq!(all.as_string_view().iter().flatten().collect::<Vec<_>>(), texts);
        let middle = writer.shared().array(2..5, None);
        assert_eq!(middle.as_string_view().iter().flatten().collect::<Vec<_>>(), texts[2..5]);
        assert_eq!(held.as_string_view().iter().flatten().collect::<Vec<_>>(), texts[..3]);
        for (row, text) in texts.iter().enumerate() {
            assert_eq!(writer.value(row), text.as_bytes());
        }
    }

    #[test]
    fn short_texts_take_no_block_beside_whatever_their_array_keeps() {
        let long = StringViewArray::from(vec!["short", "a text that does not lie in its view"]);
        let mut writer = TextWriter::new(3, true);
        writer.append_array(&long.slice(0, 1));
        assert!(writer.writers.is_empty());
        writer.append_array(&long);
        assert_eq!(writer.writers.len(), 1);
        let all = writer.shared().array(0..3, None);
        all.to_data().validate_full().unwrap();
        let texts = ["short", "short", "a text that does not lie in its view"];
        assert_eq!(all.as_string_view().iter().flatten().collect::<Vec<_>>(), texts);
    }

    #[test]
    fn bytes_need_not_be_utf8() {
        let mut writer = TextWriter::new(2, false);
        writer.append_binary(&[0xFF; 20]);
        writer.append_array(&BinaryViewArray::from(vec![None::<&[u8]>]));
        let array = writer.shared().array(0..2, Some(NullBuffer::from(vec![true, false])));
        assert_eq!(array.as_binary_view().value(0), [0xFF; 20]);
        assert!(array.is_null(1));
    }
}
