//! Zones: minimum, maximum and null count of a column of a chunk.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewArray, BooleanArray, PrimitiveArray,
    StringViewArray,
};
use arrow::compute::{
    max, max_binary_view, max_boolean, max_string_view, min, min_binary_view, min_boolean,
    min_string_view,
};
use arrow::datatypes::{
    ArrowNumericType, DataType as ArrowType, Date32Type, Decimal128Type, Decimal256Type,
    Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType,
};

/// Longest text, in bytes, that a zone stores. Longer ones cost more memory than skipped chunks
/// save.
const TEXT_BYTES_MAX: usize = 256;

/// Minimum, maximum and null count of one column in one chunk.
///
/// Floats are in Arrow's total order: -0 before 0, NaN after all numbers.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Minimum and maximum, each an array of one row. `None` if all values are NULL, or for nested
    /// types, intervals and very long texts.
    pub range: Option<(ArrayRef, ArrayRef)>,
    pub null_count: usize,
}

impl Zone {
    /// Computes the zone of an array.
    #[must_use]
    pub fn of(array: &dyn Array) -> Zone {
        Zone { range: range(array), null_count: array.null_count() }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.range.as_ref().map_or(0, |(least, greatest)| {
            least.get_array_memory_size() + greatest.get_array_memory_size()
        })
    }
}

fn range(array: &dyn Array) -> Option<(ArrayRef, ArrayRef)> {
    match array.data_type() {
        ArrowType::Boolean => {
            let values = array.as_boolean();
            let one = |value| Arc::new(BooleanArray::from(vec![value])) as ArrayRef;
            Some((one(min_boolean(values)?), one(max_boolean(values)?)))
        }
        ArrowType::Int16 => numbers::<Int16Type>(array),
        ArrowType::Int32 => numbers::<Int32Type>(array),
        ArrowType::Int64 => numbers::<Int64Type>(array),
        ArrowType::Float32 => numbers::<Float32Type>(array),
        ArrowType::Float64 => numbers::<Float64Type>(array),
        ArrowType::Decimal128(..) => numbers::<Decimal128Type>(array),
        ArrowType::Decimal256(..) => numbers::<Decimal256Type>(array),
        ArrowType::Date32 => numbers::<Date32Type>(array),
        ArrowType::Time64(_) => numbers::<Time64MicrosecondType>(array),
        ArrowType::Timestamp(..) => numbers::<TimestampMicrosecondType>(array),
        ArrowType::Utf8View => {
            let values = array.as_string_view();
            let ends = (min_string_view(values)?, max_string_view(values)?);
            let one = |text: &str| Arc::new(StringViewArray::from(vec![text]).gc()) as ArrayRef;
            (ends.0.len().max(ends.1.len()) <= TEXT_BYTES_MAX).then(|| (one(ends.0), one(ends.1)))
        }
        ArrowType::BinaryView => {
            let values = array.as_binary_view();
            let ends = (min_binary_view(values)?, max_binary_view(values)?);
            let one = |bytes: &[u8]| Arc::new(BinaryViewArray::from(vec![bytes]).gc()) as ArrayRef;
            (ends.0.len().max(ends.1.len()) <= TEXT_BYTES_MAX).then(|| (one(ends.0), one(ends.1)))
        }
        _ => None,
    }
}

fn numbers<T: ArrowNumericType + ArrowPrimitiveType>(
    array: &dyn Array,
) -> Option<(ArrayRef, ArrayRef)> {
    let values = array.as_primitive::<T>();
    let one = |value| -> ArrayRef {
        let one = PrimitiveArray::<T>::from_value(value, 1);
        Arc::new(one.with_data_type(array.data_type().clone()))
    };
    Some((one(min(values)?), one(max(values)?)))
}
