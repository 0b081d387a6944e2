//! Encodes whole columns of many values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowNativeType, DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType,
};
use thalweg_types::Result;

use super::input::Input;
use super::values::{get_bits, get_nulls, put_bits, put_nulls};
use super::{damaged, integers, text, values};

/// The first byte of a column: the form of its values.
mod form {
    /// Fixed-width values as in memory.
    pub const RAW: u8 = 0;
    /// Differences from the minimum, as [`super::integers`] encodes them.
    pub const INTEGERS: u8 = 1;
    /// One bit for each row.
    pub const BITS: u8 = 2;
    /// Lengths and bytes, as [`super::text`] encodes them.
    pub const TEXT: u8 = 3;
    /// One value after the other, as [`super::values`] encodes them, which includes the NULLs.
    pub const VALUES: u8 = 4;
}

pub(super) fn encode(array: &dyn Array, out: &mut Vec<u8>) {
    macro_rules! integers {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>().values();
            let values: Vec<i64> = values.iter().map(|value| i64::from(*value)).collect();
            put_integers(array, values, out);
        }};
    }
    match array.data_type() {
        ArrowType::Int16 => integers!(Int16Type),
        ArrowType::Int32 => integers!(Int32Type),
        ArrowType::Int64 => integers!(Int64Type),
        ArrowType::Date32 => integers!(Date32Type),
        ArrowType::Time64(_) => integers!(Time64MicrosecondType),
        ArrowType::Timestamp(..) => integers!(TimestampMicrosecondType),
        ArrowType::Decimal128(..) => put_decimals(array, out),
        ArrowType::Float32 => put_raw::<Float32Type>(array, out),
        ArrowType::Float64 => put_raw::<Float64Type>(array, out),
        ArrowType::Boolean => {
            out.push(form::BITS);
            put_nulls(array.nulls(), out);
            put_bits(array.as_boolean().values(), out);
        }
        ArrowType::Utf8View | ArrowType::BinaryView => {
            out.push(form::TEXT);
            put_nulls(array.nulls(), out);
            text::encode(array, out);
        }
        _ => {
            out.push(form::VALUES);
            values::encode(array, out);
        }
    }
}

fn put_integers(array: &dyn Array, mut values: Vec<i64>, out: &mut Vec<u8>) {
    // Values under NULLs are arbitrary and would widen the range, so a valid value replaces them.
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        let some = nulls.valid_indices().next().map_or(0, |row| values[row]);
        for (row, value) in values.iter_mut().enumerate() {
            if nulls.is_null(row) {
                *value = some;
            }
        }
    }
    out.push(form::INTEGERS);
    put_nulls(array.nulls(), out);
    integers::encode(&values, out);
}

/// Most decimals fit 64 bits; a column with larger ones is stored as in memory.
fn put_decimals(array: &dyn Array, out: &mut Vec<u8>) {
    let decimals = array.as_primitive::<Decimal128Type>();
    let fits = |value: &i128| i128::from(*value as i64) == *value;
    if decimals.values().iter().all(fits) {
        let values = decimals.values().iter().map(|value| *value as i64).collect();
        put_integers(array, values, out);
    } else {
        put_raw::<Decimal128Type>(array, out);
    }
}

fn put_raw<T: ArrowPrimitiveType>(array: &dyn Array, out: &mut Vec<u8>) {
    out.push(form::RAW);
    put_nulls(array.nulls(), out);
    out.extend_from_slice(array.as_primitive::<T>().values().inner().as_slice());
}

pub(super) fn decode(
    data_type: &ArrowType,
    rows: usize,
    input: &mut Input<'_>,
) -> Result<ArrayRef> {
    let form = input.byte()?;
    if form == form::VALUES {
        return values::decode(data_type, rows, input);
    }
    let nulls = get_nulls(rows, input)?;
    match (form, data_type) {
        (form::BITS, ArrowType::Boolean) => {
            Ok(Arc::new(BooleanArray::new(get_bits(rows, input)?, nulls)))
        }
        (form::TEXT, ArrowType::Utf8View | ArrowType::BinaryView) => {
            text::decode(data_type, rows, nulls, input)
        }
        (form::INTEGERS, _) => get_integers(data_type, rows, nulls, input),
        (form::RAW, ArrowType::Float32) => get_raw::<Float32Type>(data_type, rows, nulls, input),
        (form::RAW, ArrowType::Float64) => get_raw::<Float64Type>(data_type, rows, nulls, input),
        (form::RAW, ArrowType::Decimal128(..)) => {
            get_raw::<Decimal128Type>(data_type, rows, nulls, input)
        }
        _ => Err(damaged("a column has a form that its type can't have")),
    }
}

fn get_integers(
    data_type: &ArrowType,
    rows: usize,
    nulls: Option<NullBuffer>,
    input: &mut Input<'_>,
) -> Result<ArrayRef> {
    macro_rules! integers {
        ($type:ty) => {{
            let native = |value| value as <$type as ArrowPrimitiveType>::Native;
            let values = integers::decode(rows, input, native)?;
            let array = PrimitiveArray::<$type>::new(values.into(), nulls);
            Ok(Arc::new(array.with_data_type(data_type.clone())))
        }};
    }
    match data_type {
        ArrowType::Int16 => integers!(Int16Type),
        ArrowType::Int32 => integers!(Int32Type),
        ArrowType::Int64 => integers!(Int64Type),
        ArrowType::Date32 => integers!(Date32Type),
        ArrowType::Time64(_) => integers!(Time64MicrosecondType),
        ArrowType::Timestamp(..) => integers!(TimestampMicrosecondType),
        ArrowType::Decimal128(..) => integers!(Decimal128Type),
        _ => Err(damaged("a column has a form that its type can't have")),
    }
}

fn get_raw<T: ArrowPrimitiveType>(
    data_type: &ArrowType,
    rows: usize,
    nulls: Option<NullBuffer>,
    input: &mut Input<'_>,
) -> Result<ArrayRef> {
    let bytes = input.bytes(rows * T::Native::get_byte_width())?;
    let values = ScalarBuffer::<T::Native>::new(Buffer::from(bytes), 0, rows);
    let array = PrimitiveArray::<T>::new(values, nulls);
    Ok(Arc::new(array.with_data_type(data_type.clone())))
}
