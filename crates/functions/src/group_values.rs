//! Values of one of many groups, in no more memory than they need.
//!
//! A group receives its rows of a batch as a slice. A slice of texts holds on to all texts of its
//! batch, and lists all buffers of that batch; concatenated slices list the buffers of each. With a
//! hundred thousand groups that is quadratic in memory and in time. So values are copied out of
//! their batch at once, and a group has a few pieces however many batches came.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MutableArrayData, StructArray, make_array,
};
use arrow::compute::concat;
use arrow::datatypes::DataType as ArrowType;
use arrow::error::ArrowError;

/// A group with so many pieces merges the small ones into one.
const PIECES_MAX: usize = 8;

/// Size of an array beside its values: its own description, and those of its buffers.
const ARRAY_BYTES: usize = 256;

#[derive(Debug, Default)]
pub(super) struct GroupValues {
    /// Each at least twice as long as the one behind it, but for the last few.
    pieces: Vec<ArrayRef>,
    /// Size of the pieces in bytes.
    bytes: usize,
}

impl GroupValues {
    /// Adds a copy of some values.
    ///
    /// # Errors
    /// If the values become too many for one array.
    pub(super) fn push(&mut self, values: &ArrayRef) -> Result<(), ArrowError> {
        if values.is_empty() {
            return Ok(());
        }
        let piece = compact(values);
        self.bytes += size_of_piece(&piece);
        self.pieces.push(piece);
        if self.pieces.len() >= PIECES_MAX {
            self.merge_small()?;
        }
        Ok(())
    }

    /// All values as one array, and nothing where there are none.
    ///
    /// # Errors
    /// If they are too many for one array.
    pub(super) fn all(&mut self) -> Result<Option<ArrayRef>, ArrowError> {
        if self.pieces.len() > 1 {
            self.merge_from(0)?;
        }
        Ok(self.pieces.first().cloned())
    }

    /// All values in memory that they share with the pieces, which are left without any; `None` if
    /// there are none.
    ///
    /// # Errors
    /// If they are too many for one array.
    pub(super) fn take(&mut self) -> Result<Option<ArrayRef>, ArrowError> {
        let pieces = std::mem::take(self).pieces;
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        if pieces.is_empty() { Ok(None) } else { concat(&pieces).map(Some) }
    }

    /// Adds values that are in memory of their own, which few others share. They are copied if they
    /// hold on to much more.
    ///
    /// # Errors
    /// As those of [`Self::push`].
    pub(super) fn push_own(&mut self, values: ArrayRef) -> Result<(), ArrowError> {
        if holds_more(&values) {
            return self.push(&values);
        }
        self.bytes += size_of_piece(&values);
        self.pieces.push(values);
        Ok(())
    }

    /// Bytes of all values, without looking at them.
    pub(super) fn size(&self) -> usize {
        self.pieces.capacity() * size_of::<ArrayRef>() + self.bytes
    }

    /// Merges as many of the last pieces as are no longer than those behind them together: so each
    /// value is copied a few times, however many there are.
    fn merge_small(&mut self) -> Result<(), ArrowError> {
        let mut rows = 0;
        let mut from = self.pieces.len();
        while from > 0 && (self.pieces.len() - from < 2 || self.pieces[from - 1].len() <= 2 * rows)
        {
            from -= 1;
            rows += self.pieces[from].len();
        }
        self.merge_from(from)
    }

    fn merge_from(&mut self, from: usize) -> Result<(), ArrowError> {
        let small: Vec<&dyn Array> = self.pieces[from..].iter().map(AsRef::as_ref).collect();
        let merged = compact(&concat(&small)?);
        let freed: usize = self.pieces[from..].iter().map(size_of_piece).sum();
        self.bytes = self.bytes - freed + size_of_piece(&merged);
        self.pieces.truncate(from);
        self.pieces.push(merged);
        Ok(())
    }
}

fn size_of_piece(piece: &ArrayRef) -> usize {
    ARRAY_BYTES + piece.get_buffer_memory_size()
}

/// True if less than three quarters of the bytes of an array's buffers belong to its values.
fn holds_more(values: &ArrayRef) -> bool {
    let (used, buffers) = match values.data_type() {
        ArrowType::Utf8View => {
            let texts = values.as_string_view();
            (texts.total_buffer_bytes_used(), texts.data_buffers())
        }
        ArrowType::BinaryView => {
            let bytes = values.as_binary_view();
            (bytes.total_buffer_bytes_used(), bytes.data_buffers())
        }
        // Others do not share what they hold.
        _ => return false,
    };
    let held: usize = buffers.iter().map(|buffer| buffer.capacity()).sum();
    used < held / 4 * 3
}

/// A copy of the values in memory of its own, with one buffer for texts.
fn compact(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        ArrowType::Utf8View => {
            // The views of short texts and the bitmap of NULLs are still those of the batch.
            let own: ArrayRef = Arc::new(values.as_string_view().gc());
            copied(&own)
        }
        ArrowType::BinaryView => {
            let own: ArrayRef = Arc::new(values.as_binary_view().gc());
            copied(&own)
        }
        ArrowType::List(item) => {
            let lists = values.as_list::<i32>();
            let copied = copied(values);
            let copied = copied.as_list_opt::<i32>().unwrap_or(lists);
            let (offsets, nulls) = (copied.offsets().clone(), copied.nulls().cloned());
            Arc::new(ListArray::new(Arc::clone(item), offsets, compact(copied.values()), nulls))
        }
        ArrowType::Struct(fields) => {
            let parts = values.as_struct();
            let columns = parts.columns().iter().map(compact).collect();
            Arc::new(StructArray::new(fields.clone(), columns, parts.nulls().cloned()))
        }
        _ => copied(values),
    }
}

fn copied(values: &ArrayRef) -> ArrayRef {
    let data = values.to_data();
    let mut copied = MutableArrayData::new(vec![&data], false, values.len());
    match copied.try_extend(0, 0, values.len()) {
        Ok(()) => make_array(copied.freeze()),
        Err(_) => Arc::clone(values),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};

    use super::*;

    fn texts(from: usize, count: usize) -> ArrayRef {
        let text =
            |at: usize| (!at.is_multiple_of(7)).then(|| format!("a text that is no view: {at}"));
        Arc::new((from..from + count).map(text).collect::<StringViewArray>())
    }

    #[test]
    fn slices_of_large_batches_take_the_memory_of_their_values() {
        let batch = texts(0, 100_000);
        let mut groups: Vec<GroupValues> = (0..10_000).map(|_| GroupValues::default()).collect();
        for (at, group) in groups.iter_mut().enumerate() {
            group.push(&batch.slice(at * 10, 10)).unwrap();
        }
        let all: usize = groups.iter().map(GroupValues::size).sum();
        assert!(all < 4 * batch.get_buffer_memory_size() + 10_000 * 512, "{all}");
        for (at, group) in groups.iter_mut().enumerate() {
            assert_eq!(group.all().unwrap().unwrap().as_string_view().data_buffers().len(), 1);
            assert_eq!(&group.all().unwrap().unwrap(), &batch.slice(at * 10, 10));
        }
    }

    #[test]
    fn values_keep_their_order_in_few_pieces() {
        let mut pieces = GroupValues::default();
        let mut numbers = GroupValues::default();
        for at in 0..1_000 {
            pieces.push(&texts(at * 3, 3)).unwrap();
            let number: ArrayRef = Arc::new(Int64Array::from(vec![at as i64]));
            numbers.push(&number).unwrap();
            assert!(pieces.pieces.len() < PIECES_MAX + 8);
        }
        assert_eq!(&pieces.all().unwrap().unwrap(), &texts(0, 3_000));
        let expected: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000));
        assert_eq!(&numbers.all().unwrap().unwrap(), &expected);
        assert!(numbers.size() < 64 << 10, "{}", numbers.size());
    }

    #[test]
    fn values_that_are_put_back_are_copied_only_if_they_hold_much_more() {
        let mut pieces = GroupValues::default();
        for at in 0..4 {
            pieces.push(&texts(at * 1_000, 1_000)).unwrap();
        }
        let before = pieces.size();
        let all = pieces.take().unwrap().unwrap();
        assert!(pieces.take().unwrap().is_none() && pieces.size() < 1_000);
        pieces.push_own(all.slice(0, 3_500)).unwrap();
        let shared = |own: &ArrayRef, other: &ArrayRef| {
            let of = |texts: &ArrayRef| texts.as_string_view().data_buffers()[0].as_ptr();
            of(own) == of(other)
        };
        assert!(shared(&pieces.pieces[0], &all));
        assert!(pieces.size() <= before);
        let some = pieces.take().unwrap().unwrap().slice(0, 1_000);
        pieces.push_own(some).unwrap();
        assert!(!shared(&pieces.pieces[0], &all));
        assert!(pieces.size() < before / 3);
        assert_eq!(&pieces.all().unwrap().unwrap(), &texts(0, 1_000));
    }
}
