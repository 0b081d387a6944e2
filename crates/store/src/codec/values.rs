//! Encodes columns of few values in few bytes.
//!
//! A column starts with a byte that is 1 if some values are NULL, followed by one bit for each row
//! if so. Then come the other values: integers as varints, floats as they are, texts with their
//! length in front. Lists have the number of their items there and all items as a column of their
//! own at the end.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewArray, BinaryViewBuilder, BooleanArray,
    BooleanBufferBuilder, ListArray, PrimitiveArray, StringViewBuilder, new_empty_array,
    new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::concat;
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Decimal256Type, FieldRef, Float32Type,
    Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimestampMicrosecondType, i256,
};
use thalweg_types::Result;

use super::damaged;
use super::input::{Input, put_varint, put_wide_varint, unzigzag, zigzag};

/// Encoding of a fixed-width value.
trait Value: Copy + Default {
    fn put(self, out: &mut Vec<u8>);
    fn get(input: &mut Input<'_>) -> Result<Self>;
}

macro_rules! integers {
    ($($native:ty),*) => {$(
        impl Value for $native {
            fn put(self, out: &mut Vec<u8>) {
                put_wide_varint(out, zigzag(i128::from(self)));
            }

            fn get(input: &mut Input<'_>) -> Result<Self> {
                let value = unzigzag(input.wide_varint()?);
                value.try_into().map_err(|_| damaged("a number does not fit its type"))
            }
        }
    )*};
}

macro_rules! raw {
    ($($native:ty),*) => {$(
        impl Value for $native {
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn get(input: &mut Input<'_>) -> Result<Self> {
                Ok(Self::from_le_bytes(input.array()?))
            }
        }
    )*};
}

integers!(i16, i32, i64, i128);
raw!(f32, f64, i256);

impl Value for IntervalMonthDayNano {
    fn put(self, out: &mut Vec<u8>) {
        self.months.put(out);
        self.days.put(out);
        self.nanoseconds.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self> {
        Ok(IntervalMonthDayNano {
            months: i32::get(input)?,
            days: i32::get(input)?,
            nanoseconds: i64::get(input)?,
        })
    }
}

/// Calls `$numbers::<T>($arguments)` for the array type of a fixed-width type.
macro_rules! by_type {
    ($data_type:expr, $numbers:ident($($argument:expr),*), $($other:tt)*) => {
        match $data_type {
            ArrowType::Int16 => $numbers::<Int16Type>($($argument),*),
            ArrowType::Int32 => $numbers::<Int32Type>($($argument),*),
            ArrowType::Int64 => $numbers::<Int64Type>($($argument),*),
            ArrowType::Float32 => $numbers::<Float32Type>($($argument),*),
            ArrowType::Float64 => $numbers::<Float64Type>($($argument),*),
            ArrowType::Decimal128(..) => $numbers::<Decimal128Type>($($argument),*),
            ArrowType::Decimal256(..) => $numbers::<Decimal256Type>($($argument),*),
            ArrowType::Date32 => $numbers::<Date32Type>($($argument),*),
            ArrowType::Time64(_) => $numbers::<Time64MicrosecondType>($($argument),*),
            ArrowType::Timestamp(..) => $numbers::<TimestampMicrosecondType>($($argument),*),
            ArrowType::Interval(_) => $numbers::<IntervalMonthDayNanoType>($($argument),*),
            $($other)*
        }
    };
}

/// Appends a column.
pub(super) fn encode(array: &dyn Array, out: &mut Vec<u8>) {
    put_nulls(array.nulls(), out);
    by_type!(array.data_type(), put_numbers(array, out),
        ArrowType::Boolean => put_bits(array.as_boolean().values(), out),
        ArrowType::Utf8View => {
            for text in array.as_string_view().iter().flatten() {
                put_bytes(text.as_bytes(), out);
            }
        }
        ArrowType::BinaryView => {
            for bytes in array.as_binary_view().iter().flatten() {
                put_bytes(bytes, out);
            }
        }
        ArrowType::List(_) => put_lists(array.as_list(), out),
        other => unreachable!("no column has the type {other}"),
    );
}

/// Reads a column of `rows` rows.
pub(super) fn decode(
    data_type: &ArrowType,
    rows: usize,
    input: &mut Input<'_>,
) -> Result<ArrayRef> {
    let nulls = get_nulls(rows, input)?;
    // Each value takes at least one bit; this bounds what damaged counts can make the decoder
    // allocate.
    let values = rows - nulls.as_ref().map_or(0, NullBuffer::null_count);
    if values.div_ceil(8) > input.remaining() {
        return Err(damaged("there are fewer values than rows"));
    }
    by_type!(data_type, get_numbers(data_type, rows, nulls, input),
        ArrowType::Boolean => {
            let bits = get_bits(rows, input)?;
            Ok(Arc::new(BooleanArray::new(bits, nulls)))
        }
        ArrowType::Utf8View => get_texts(rows, nulls, input),
        ArrowType::BinaryView => get_binaries(rows, nulls, input),
        ArrowType::List(item) => get_lists(item, rows, nulls, input),
        other => unreachable!("no column has the type {other}"),
    )
}

/// Encodes one value on its own.
pub(crate) fn encode_value(array: &dyn Array, row: usize) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&array.slice(row, 1), &mut out);
    out
}

/// Decodes a value from [`encode_value`] as an array of one row.
fn decode_value(data_type: &ArrowType, bytes: &[u8]) -> Result<ArrayRef> {
    decode(data_type, 1, &mut Input::new(bytes))
}

/// Decodes an array of values that were each encoded on its own; NULL bytes stand for NULL.
pub(crate) fn decode_values(data_type: &ArrowType, encoded: &BinaryViewArray) -> Result<ArrayRef> {
    if encoded.is_empty() {
        return Ok(new_empty_array(data_type));
    }
    let null = new_null_array(data_type, 1);
    let values: Vec<ArrayRef> = encoded
        .iter()
        .map(|bytes| bytes.map_or(Ok(Arc::clone(&null)), |bytes| decode_value(data_type, bytes)))
        .collect::<Result<_>>()?;
    let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    concat(&values).map_err(|error| damaged("values of a list").with_source(error))
}

pub(super) fn put_nulls(nulls: Option<&NullBuffer>, out: &mut Vec<u8>) {
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => {
            out.push(1);
            put_bits(nulls.inner(), out);
        }
        None => out.push(0),
    }
}

pub(super) fn get_nulls(rows: usize, input: &mut Input<'_>) -> Result<Option<NullBuffer>> {
    match input.byte()? {
        0 => Ok(None),
        1 => Ok(Some(NullBuffer::new(get_bits(rows, input)?))),
        _ => Err(damaged("a column begins with an unknown byte")),
    }
}

pub(super) fn put_bits(bits: &BooleanBuffer, out: &mut Vec<u8>) {
    let mut copy = BooleanBufferBuilder::new(bits.len());
    copy.append_buffer(bits);
    out.extend_from_slice(&copy.as_slice()[..bits.len().div_ceil(8)]);
}

pub(super) fn get_bits(rows: usize, input: &mut Input<'_>) -> Result<BooleanBuffer> {
    Ok(BooleanBuffer::new(Buffer::from(input.bits(rows)?), 0, rows))
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_numbers<T: ArrowPrimitiveType<Native: Value>>(array: &dyn Array, out: &mut Vec<u8>) {
    let array = array.as_primitive::<T>();
    for (row, value) in array.values().iter().enumerate() {
        if array.is_valid(row) {
            value.put(out);
        }
    }
}

fn get_numbers<T: ArrowPrimitiveType<Native: Value>>(
    data_type: &ArrowType,
    rows: usize,
    nulls: Option<NullBuffer>,
    input: &mut Input<'_>,
) -> Result<ArrayRef> {
    let mut values = Vec::with_capacity(rows);
    for row in 0..rows {
        let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        values.push(if valid { Value::get(input)? } else { T::Native::default() });
    }
    let array = PrimitiveArray::<T>::new(values.into(), nulls);
    Ok(Arc::new(array.with_data_type(data_type.clone())))
}

fn get_texts(rows: usize, nulls: Option<NullBuffer>, input: &mut Input<'_>) -> Result<ArrayRef> {
    let mut builder = StringViewBuilder::with_capacity(rows);
    for row in 0..rows {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            builder.append_null();
            continue;
        }
        let length = input.length()?;
        let text = std::str::from_utf8(input.bytes(length)?);
        builder.append_value(text.map_err(|_| damaged("a text is not UTF-8"))?);
    }
    Ok(Arc::new(builder.finish()))
}

fn get_binaries(rows: usize, nulls: Option<NullBuffer>, input: &mut Input<'_>) -> Result<ArrayRef> {
    let mut builder = BinaryViewBuilder::with_capacity(rows);
    for row in 0..rows {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            builder.append_null();
            continue;
        }
        let length = input.length()?;
        builder.append_value(input.bytes(length)?);
    }
    Ok(Arc::new(builder.finish()))
}

fn put_lists(lists: &ListArray, out: &mut Vec<u8>) {
    let mut items: Vec<ArrayRef> = Vec::new();
    for list in lists.iter().flatten() {
        put_varint(out, list.len() as u64);
        items.push(list);
    }
    let items: Vec<&dyn Array> = items.iter().map(AsRef::as_ref).collect();
    let items = match items.as_slice() {
        [] => new_empty_array(&lists.value_type()),
        items => concat(items).expect("items of one column have one type"),
    };
    encode(&items, out);
}

fn get_lists(
    item: &FieldRef,
    rows: usize,
    nulls: Option<NullBuffer>,
    input: &mut Input<'_>,
) -> Result<ArrayRef> {
    let mut offsets = vec![0_i32];
    let mut end = 0_i32;
    for row in 0..rows {
        if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
            let length = i32::try_from(input.length()?).ok();
            let sum = length.and_then(|length| end.checked_add(length));
            end = sum.ok_or_else(|| damaged("a list is too long"))?;
        }
        offsets.push(end);
    }
    let items = end as usize;
    if items.div_ceil(8) > input.remaining() {
        return Err(damaged("there are fewer items than lists have"));
    }
    let values = decode(item.data_type(), items, input)?;
    let offsets = OffsetBuffer::new(offsets.into());
    let lists = ListArray::try_new(Arc::clone(item), offsets, values, nulls)
        .map_err(|error| damaged("a list").with_source(error))?;
    Ok(Arc::new(lists))
}
