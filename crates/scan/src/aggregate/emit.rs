//! Converts computed values to Arrow arrays.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Int16Array, Int32Array, Int64Array,
    Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, TimeUnit};

/// An array of integers, dates, times or booleans from their 64-bit representation.
pub(crate) fn int_array(
    values: Vec<i64>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> ArrayRef {
    match data_type {
        DataType::Int16 => {
            let values: Vec<i16> = values.into_iter().map(|value| value as i16).collect();
            Arc::new(Int16Array::new(values.into(), nulls))
        }
        DataType::Int32 => {
            let values: Vec<i32> = values.into_iter().map(|value| value as i32).collect();
            Arc::new(Int32Array::new(values.into(), nulls))
        }
        DataType::Date32 => {
            let values: Vec<i32> = values.into_iter().map(|value| value as i32).collect();
            Arc::new(Date32Array::new(values.into(), nulls))
        }
        DataType::Boolean => {
            let values = values.into_iter().map(|value| value != 0).collect();
            Arc::new(BooleanArray::new(values, nulls))
        }
        DataType::Time64(_) => Arc::new(Time64MicrosecondArray::new(values.into(), nulls)),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            let times = TimestampNanosecondArray::new(values.into(), nulls);
            Arc::new(times.with_timezone_opt(zone.clone()))
        }
        DataType::Timestamp(_, zone) => {
            let times = TimestampMicrosecondArray::new(values.into(), nulls);
            Arc::new(times.with_timezone_opt(zone.clone()))
        }
        _ => Arc::new(Int64Array::new(values.into(), nulls)),
    }
}

/// An array of decimals from their unscaled values, which must have the type's scale.
pub(crate) fn decimal_array(
    values: Vec<i128>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> ArrayRef {
    Arc::new(Decimal128Array::new(values.into(), nulls).with_data_type(data_type.clone()))
}
