//! Copies texts out of shared buffers.
//!
//! A view of a text keeps its whole buffer alive, which wastes memory if a few of many rows are
//! kept, and files and messages would contain the whole buffer.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray};
use arrow::datatypes::DataType;

/// Copies a column, with its texts in buffers of their own.
pub(crate) fn with_own_texts(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        DataType::List(field) => {
            let lists = column.as_list::<i32>();
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            let values = with_own_texts(lists.values());
            Arc::new(ListArray::new(Arc::clone(field), offsets, values, nulls))
        }
        DataType::Struct(fields) => {
            let parts = column.as_struct();
            let columns = parts.columns().iter().map(with_own_texts).collect();
            Arc::new(StructArray::new(fields.clone(), columns, parts.nulls().cloned()))
        }
        _ => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn texts_of_others_are_left_behind_at_every_depth() {
        let texts: StringViewArray = (0..1_000)
            .map(|n| Some(format!("a text that does not lie in its view: {n}")))
            .collect();
        let few: ArrayRef = Arc::new(texts.slice(500, 2));
        let item = Arc::new(Field::new("item", DataType::Utf8View, true));
        let offsets = OffsetBuffer::from_lengths([2]);
        let lists: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::clone(&few), None));
        let structs: ArrayRef = Arc::new(StructArray::from(vec![(
            Arc::new(Field::new("text", DataType::Utf8View, true)),
            Arc::clone(&few),
        )]));
        for column in [few, lists, structs] {
            let own = with_own_texts(&column);
            assert_eq!(own.to_data(), column.to_data());
            assert!(own.get_array_memory_size() < column.get_array_memory_size() / 10);
        }
    }
}
