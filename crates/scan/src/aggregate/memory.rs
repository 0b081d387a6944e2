//! Memory accounting for groups in record batches.
//!
//! Partitions of one result share the bytes of their long texts: each partition has its own views,
//! and each keeps all text blocks alive. So the blocks count once for all partitions.

use std::collections::HashSet;

use arrow::array::{Array, ArrayData, RecordBatch};
use arrow::datatypes::DataType;

/// Bytes of a batch without its long texts.
#[must_use]
pub fn own_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}

/// Bytes of the long texts of some batches; a shared block counts once.
#[must_use]
pub fn text_bytes<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>) -> usize {
    let mut met = HashSet::new();
    let columns = batches.into_iter().flat_map(RecordBatch::columns);
    columns.map(|column| new_text_bytes(&column.to_data(), &mut met)).sum()
}

/// Bytes of a column's text blocks that were not counted yet; blocks are identified by address.
fn new_text_bytes(data: &ArrayData, met: &mut HashSet<(usize, usize)>) -> usize {
    let mut bytes = 0;
    if *data.data_type() == DataType::Utf8View {
        // The first buffer holds the views.
        for texts in data.buffers().iter().skip(1) {
            if met.insert((texts.as_ptr().addr(), texts.len())) {
                bytes += texts.len();
            }
        }
    }
    bytes + data.child_data().iter().map(|child| new_text_bytes(child, met)).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, ListArray, StringViewArray, StructArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Field, FieldRef};

    use super::*;

    const TEXT: &str = "a text that does not lie within its view";

    fn texts(rows: usize) -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(vec![TEXT; rows]))
    }

    fn batch(column: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([("column", column)]).unwrap()
    }

    #[test]
    fn texts_count_once_however_many_batches_share_them() {
        let all = batch(texts(10));
        let parts = [all.slice(0, 4), all.slice(4, 6)];
        let bytes = 10 * TEXT.len();
        assert_eq!(text_bytes([&all]), bytes);
        assert_eq!(text_bytes(&parts), bytes);
        assert_eq!(text_bytes(parts.iter().chain([&batch(texts(2))])), 12 * TEXT.len());
        let own: usize = parts.iter().map(own_bytes).sum();
        assert_eq!(own, own_bytes(&all));
        assert!(own < bytes, "views alone: {own}");
    }

    #[test]
    fn texts_in_lists_and_beside_ranks_count() {
        let item: FieldRef = Arc::new(Field::new_list_field(DataType::Utf8View, false));
        let lists = ListArray::new(item, OffsetBuffer::from_lengths([1, 2]), texts(3), None);
        assert_eq!(text_bytes([&batch(Arc::new(lists))]), 3 * TEXT.len());
        let ranks: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let value: FieldRef = Arc::new(Field::new("value", DataType::Utf8View, true));
        let rank: FieldRef = Arc::new(Field::new("rank", DataType::Int64, true));
        let firsts = StructArray::from(vec![(value, texts(2)), (rank, Arc::clone(&ranks))]);
        assert_eq!(text_bytes([&batch(Arc::new(firsts))]), 2 * TEXT.len());
        assert_eq!(text_bytes([&batch(ranks)]), 0);
    }
}
