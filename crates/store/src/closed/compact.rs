//! Copies arrays whose buffers are larger than their values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, MutableArrayData, make_array};
use arrow::datatypes::DataType as ArrowType;

/// Returns the array itself, or a copy if its buffers are more than an eighth larger than its
/// values.
pub(super) fn compact(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        ArrowType::Utf8View if !array.as_string_view().data_buffers().is_empty() => {
            tight(&(Arc::new(array.as_string_view().gc()) as ArrayRef))
        }
        ArrowType::BinaryView if !array.as_binary_view().data_buffers().is_empty() => {
            tight(&(Arc::new(array.as_binary_view().gc()) as ArrayRef))
        }
        _ => tight(array),
    }
}

fn tight(array: &ArrayRef) -> ArrayRef {
    let data = array.to_data();
    let needed = match data.get_slice_memory_size() {
        Ok(needed) => needed,
        Err(_) => return Arc::clone(array),
    };
    if array.get_buffer_memory_size() <= needed + needed / 8 + 1_024 {
        return Arc::clone(array);
    }
    copy(array)
}

/// Copies the array into buffers of its own.
pub(crate) fn copy(array: &ArrayRef) -> ArrayRef {
    let data = array.to_data();
    let mut copy = MutableArrayData::new(vec![&data], false, array.len());
    copy.try_extend(0, 0, array.len()).expect("no longer than the array itself");
    make_array(copy.freeze())
}
