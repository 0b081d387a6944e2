//! Texts and bytes that functions make, and their limits: a few characters of SQL must not take all
//! of a machine's memory. The length of a value is known, and checked, before the value exists.

use std::sync::Arc;

use crate::statement_control::{check_cancelled, check_value};
use arrow::array::builder::GenericByteViewBuilder;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, StringViewArray, StringViewBuilder,
};
use arrow::buffer::Buffer;
use arrow::datatypes::{ByteViewType, DataType as ArrowType};
use thalweg_types::{Error, Result, SqlState};

/// PostgreSQL's limit of one value.
const VALUE_BYTES_MAX: usize = (1 << 30) - 1;
/// Maximum size of the values of one column, which are in memory together.
const COLUMN_BYTES_MAX: usize = 4 << 30;
/// Number of bytes after which the statement's memory is checked again.
const LOOKED_AT: usize = 64 << 10;
/// Longer values keep the memory in which they were built; shorter ones are copied.
const MOVED_BYTES_MIN: usize = 64 << 10;
/// Texts that grow beyond this many bytes grow by a quarter at a time, shorter ones by half.
const LONG_TEXT_BYTES: usize = 1 << 20;
/// Size of an item of a list, beside the bytes of a text that it does not hold itself.
const ITEM_BYTES: usize = 16;
/// Longest text that an item holds itself.
const INLINE_BYTES_MAX: usize = 12;

/// The texts of one column, and their size.
#[derive(Default)]
pub struct BoundedTexts {
    texts: StringViewBuilder,
    bytes: usize,
}

impl BoundedTexts {
    /// # Errors
    /// If a text of so many bytes is too long, or one too many.
    pub fn allow(&self, bytes: usize) -> Result<()> {
        allow_next(self.bytes, bytes)
    }

    pub fn value(&mut self, text: &str) {
        self.bytes += text.len();
        self.texts.append_value(text);
    }

    /// Appends a text, without a copy if it is long.
    pub fn owned(&mut self, text: String) {
        if text.len() < MOVED_BYTES_MIN {
            return self.value(&text);
        }
        self.bytes += text.len();
        append_long(&mut self.texts, text.into_bytes());
    }

    pub fn null(&mut self) {
        self.texts.append_null();
    }

    /// Appends a text, which `write` puts together.
    ///
    /// # Errors
    /// If `write` fails.
    pub fn write(&mut self, write: impl FnOnce(&mut Text) -> Result<()>) -> Result<()> {
        let mut text = Text { made: self, text: String::new() };
        write(&mut text)?;
        let text = text.text;
        self.owned(text);
        Ok(())
    }

    pub fn finish(mut self) -> ArrayRef {
        Arc::new(self.texts.finish())
    }
}

/// A text that grows up to the limit.
pub struct Text<'m> {
    made: &'m BoundedTexts,
    text: String,
}

impl Text<'_> {
    /// # Errors
    /// If it becomes too long.
    pub fn push(&mut self, piece: &str) -> Result<()> {
        let length = self.text.len().saturating_add(piece.len());
        if length > self.text.capacity() {
            self.grow(length)?;
        }
        self.text.push_str(piece);
        Ok(())
    }

    /// Inserts a piece in front of a byte.
    ///
    /// # Errors
    /// If the text becomes too long.
    pub fn insert(&mut self, at: usize, piece: &str) -> Result<()> {
        let length = self.text.len().saturating_add(piece.len());
        if length > self.text.capacity() {
            self.grow(length)?;
        }
        self.text.insert_str(at, piece);
        Ok(())
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Number of characters behind a byte.
    #[must_use]
    pub fn chars_behind(&self, at: usize) -> usize {
        self.text[at..].chars().count()
    }

    /// Makes room for a text of so many bytes and some more.
    fn grow(&mut self, length: usize) -> Result<()> {
        let more = if length < LONG_TEXT_BYTES { length / 2 } else { length / 4 };
        let capacity = length.saturating_add(more).min(VALUE_BYTES_MAX).max(length);
        self.made.allow(capacity)?;
        self.text.reserve_exact(capacity - self.text.len());
        Ok(())
    }
}

/// Counts the items of lists while they are built. Their vectors double when they are full.
#[derive(Default)]
pub struct Growth {
    bytes: usize,
    /// The size from which on the statement's memory is checked again.
    checked_next: usize,
}

impl Growth {
    /// Counts one more item with so many bytes of text.
    ///
    /// # Errors
    /// If the statement has too little memory for all of them, or was canceled.
    pub fn item(&mut self, text_bytes: usize) -> Result<()> {
        let own = if text_bytes > INLINE_BYTES_MAX { text_bytes } else { 0 };
        self.bytes = self.bytes.saturating_add(ITEM_BYTES).saturating_add(own);
        match self.bytes >= self.checked_next {
            true => self.check(),
            false => Ok(()),
        }
    }

    #[cold]
    fn check(&mut self) -> Result<()> {
        self.checked_next = self.bytes + (self.bytes / 4).max(LOOKED_AT);
        check_cancelled()?;
        match self.bytes >= LOOKED_AT {
            true => check_value(self.bytes, self.bytes),
            false => Ok(()),
        }
    }
}

/// The bytes of one column, and their size.
#[derive(Default)]
pub struct BoundedBytes {
    values: BinaryViewBuilder,
    bytes: usize,
}

impl BoundedBytes {
    /// One more value, of these pieces.
    ///
    /// # Errors
    /// If it is too long, or one too many.
    pub fn value(&mut self, pieces: &[&[u8]]) -> Result<()> {
        let length = pieces.iter().map(|piece| piece.len()).fold(0, usize::saturating_add);
        allow_next(self.bytes, length)?;
        self.bytes += length;
        match length < MOVED_BYTES_MIN {
            true => self.values.append_value(pieces.concat()),
            false => append_long(&mut self.values, pieces.concat()),
        }
        Ok(())
    }

    pub fn null(&mut self) {
        self.values.append_null();
    }

    pub fn finish(mut self) -> ArrayRef {
        Arc::new(self.values.finish())
    }
}

/// Appends a text, without a copy if it is long, and leaves it empty.
pub(crate) fn append_taking(texts: &mut StringViewBuilder, text: &mut String) {
    match text.len() < MOVED_BYTES_MIN {
        true => texts.append_value(text.as_str()),
        false => append_long(texts, std::mem::take(text).into_bytes()),
    }
    text.clear();
}

/// Appends a value without a copy. The bytes are of the builder's type.
fn append_long<T: ByteViewType>(values: &mut GenericByteViewBuilder<T>, mut bytes: Vec<u8>) {
    let length = bytes.len();
    if bytes.capacity() - length > length / 4 {
        bytes.shrink_to_fit();
    }
    let block = values.append_block(Buffer::from_vec(bytes));
    let length = u32::try_from(length).expect("a value is shorter than 2^30 bytes");
    values.try_append_view(block, 0, length).expect("the block is the value");
}

/// Checks that a value of so many bytes may be made behind others of a column.
fn allow_next(before: usize, bytes: usize) -> Result<()> {
    if bytes > VALUE_BYTES_MAX {
        return Err(Error::new(SqlState::LIMIT_EXCEEDED, "requested length too large"));
    }
    let together = before.saturating_add(bytes);
    if together / LOOKED_AT != before / LOOKED_AT {
        check_value(bytes, before)?;
    }
    check_column(together)
}

/// # Errors
/// If so many bytes, which are not allocated yet, are too many for the values of one column.
pub fn allow_together(bytes: usize) -> Result<()> {
    if bytes >= LOOKED_AT {
        check_value(bytes, 0)?;
    }
    check_column(bytes)
}

/// Checks that a function may read the longest of some texts, with `times` bytes of memory for each
/// byte of the text.
///
/// # Errors
/// If the statement has too little memory.
pub fn allow_reading(texts: &StringViewArray, times: usize) -> Result<()> {
    let longest = texts.lengths().max().unwrap_or(0);
    allow_together((longest as usize).saturating_mul(times))
}

fn check_column(bytes: usize) -> Result<()> {
    if bytes <= COLUMN_BYTES_MAX {
        return Ok(());
    }
    let message = "the texts of several rows are too long to be made together";
    Err(Error::new(SqlState::OUT_OF_MEMORY, message)
        .with_hint("Ask for shorter texts, or for fewer rows."))
}

/// Checks that the results for all values of a column fit in memory together, if each is at most
/// `times` as long as its value. Many rows may share one long text; their results are separate.
///
/// # Errors
/// If they would take too much.
pub fn allow_all(column: &dyn Array, times: usize) -> Result<()> {
    let bytes = own_bytes(column);
    // Most results are as long as their arguments; longer ones count as they are written.
    allow_together(bytes)?;
    check_column(usize::saturating_mul(bytes, times))
}

/// Size of the values of a column if each row has its own, in bytes.
pub fn own_bytes(column: &dyn Array) -> usize {
    match column.data_type() {
        ArrowType::Utf8View => {
            let lengths = column.as_string_view().lengths();
            lengths.map(|length| length as usize).sum()
        }
        ArrowType::BinaryView => {
            let lengths = column.as_binary_view().lengths();
            lengths.map(|length| length as usize).sum()
        }
        ArrowType::List(_) => {
            let lists = column.as_list::<i32>();
            let (first, last) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
            let items = lists.values();
            let taken = (last - first) as usize;
            // The items of a list share its buffers: each row has its part of them.
            items.get_array_memory_size() / items.len().max(1) * taken
        }
        // Others hold each value by itself.
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_made_together_have_a_limit() {
        let made = BoundedTexts { bytes: COLUMN_BYTES_MAX - 10, ..BoundedTexts::default() };
        assert!(made.allow(10).is_ok());
        assert_eq!(made.allow(11).unwrap_err().state().0, "53200");
    }

    #[test]
    fn a_text_grows_to_the_limit_of_a_value() {
        let mut made = BoundedTexts::default();
        let half = "x".repeat(VALUE_BYTES_MAX / 2);
        let written = made.write(|text| {
            text.push(&half)?;
            text.push(&half)?;
            text.push("xx")
        });
        assert_eq!(written.unwrap_err().state().0, "54000");
        made.write(|text| text.push("short")).unwrap();
        assert_eq!(made.finish().as_string_view().value(0), "short");
    }

    #[test]
    fn a_long_text_has_little_room_beyond_its_end() {
        let mut made = BoundedTexts::default();
        let piece = "x".repeat(1_000);
        let written = made.write(|text| {
            for _ in 0..10_000 {
                text.push(&piece)?;
                assert!(text.text.capacity() <= text.text.len() * 3 / 2 + 1);
            }
            assert!(text.text.capacity() <= text.text.len() * 5 / 4 + 1);
            Ok(())
        });
        written.unwrap();
    }

    #[test]
    fn rows_that_share_a_text_are_counted_each() {
        let long = "x".repeat(1 << 20);
        let shared = StringViewArray::from(vec![long.as_str()]);
        let rows = arrow::array::UInt32Array::from(vec![0; 4_096]);
        let column = arrow::compute::take(&shared, &rows, None).unwrap();
        assert!(allow_all(&*column, 1).is_ok());
        assert_eq!(allow_all(&*column, 2).unwrap_err().state().0, "53200");
    }
}
