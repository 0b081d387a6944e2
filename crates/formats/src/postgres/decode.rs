//! Values that clients send, in either form.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Float32Array, Float64Array, Int16Array,
    Int32Array, Int64Array, IntervalMonthDayNanoArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, new_null_array,
};
use arrow::datatypes::{DataType, FieldRef, IntervalMonthDayNano};
use thalweg_types::{Error, Result, SqlState};

use super::binary::{EPOCH_DAYS, EPOCH_MICROSECONDS};
use super::numeric;
use super::row::ValueFormat;
use crate::columns::{JSON, UUID, type_tag};
use crate::text::ColumnBuilder;

/// PostgreSQL's limit of an array's dimensions.
const DIMENSIONS_MAX: usize = 6;

/// One value of a field's type, as an array of one row.
///
/// # Errors
/// Where the bytes are no such value.
pub fn decode(field: &FieldRef, format: ValueFormat, bytes: Option<&[u8]>) -> Result<ArrayRef> {
    let Some(bytes) = bytes else { return Ok(new_null_array(field.data_type(), 1)) };
    match format {
        ValueFormat::Text => decode_text(field, bytes),
        ValueFormat::Binary => decode_binary(field, bytes),
    }
}

fn decode_text(field: &FieldRef, bytes: &[u8]) -> Result<ArrayRef> {
    let mut column = ColumnBuilder::new(field)?;
    column.append(Some(utf8(bytes)?))?;
    Ok(column.finish())
}

fn decode_binary(field: &FieldRef, bytes: &[u8]) -> Result<ArrayRef> {
    Ok(match field.data_type() {
        DataType::Boolean => Arc::new(BooleanArray::from(vec![fixed::<1>(bytes)? != [0]])),
        DataType::Int16 => Arc::new(Int16Array::from(vec![i16::from_be_bytes(fixed(bytes)?)])),
        DataType::Int32 => Arc::new(Int32Array::from(vec![i32::from_be_bytes(fixed(bytes)?)])),
        DataType::Int64 => Arc::new(Int64Array::from(vec![integer(bytes)?])),
        DataType::Float32 => Arc::new(Float32Array::from(vec![f32::from_be_bytes(fixed(bytes)?)])),
        DataType::Float64 => Arc::new(Float64Array::from(vec![f64::from_be_bytes(fixed(bytes)?)])),
        DataType::BinaryView => Arc::new(BinaryViewArray::from(vec![bytes])),
        DataType::Date32 => {
            let days = i32::from_be_bytes(fixed(bytes)?).checked_add(EPOCH_DAYS);
            Arc::new(Date32Array::from(vec![days.ok_or_else(out_of_range)?]))
        }
        DataType::Time64(_) => {
            let time = i64::from_be_bytes(fixed(bytes)?);
            if !(0..=86_400_000_000).contains(&time) {
                return Err(out_of_range());
            }
            Arc::new(Time64MicrosecondArray::from(vec![time]))
        }
        DataType::Timestamp(_, zone) => {
            let time = i64::from_be_bytes(fixed(bytes)?).checked_add(EPOCH_MICROSECONDS);
            let time = TimestampMicrosecondArray::from(vec![time.ok_or_else(out_of_range)?]);
            Arc::new(time.with_timezone_opt(zone.clone()))
        }
        DataType::Interval(_) => {
            let bytes = fixed::<16>(bytes)?;
            let (time, rest) = bytes.split_at(8);
            let (days, months) = rest.split_at(4);
            let nanoseconds = i64::from_be_bytes(fixed(time)?).checked_mul(1_000);
            let interval = IntervalMonthDayNano::new(
                i32::from_be_bytes(fixed(months)?),
                i32::from_be_bytes(fixed(days)?),
                nanoseconds.ok_or_else(out_of_range)?,
            );
            Arc::new(IntervalMonthDayNanoArray::from(vec![interval]))
        }
        DataType::List(item) => return decode_list(field, item, bytes),
        _ => return decode_text(field, text_of(field, bytes)?.as_bytes()),
    })
}

/// The text of values that are sent in binary and kept as text or decimals.
fn text_of(field: &FieldRef, bytes: &[u8]) -> Result<String> {
    if matches!(field.data_type(), DataType::Decimal128(..) | DataType::Decimal256(..)) {
        return numeric::decode(bytes);
    }
    Ok(match type_tag(field) {
        Some(UUID) => {
            let value = u128::from_be_bytes(fixed(bytes)?);
            format!("{value:032x}")
        }
        // `jsonb` has the number of its version before the text.
        Some(JSON) if bytes.first() == Some(&1) => utf8(&bytes[1..])?.to_owned(),
        _ => utf8(bytes)?.to_owned(),
    })
}

/// Integers of 64 bits, and object identifiers, which have 32.
fn integer(bytes: &[u8]) -> Result<i64> {
    match bytes.len() {
        4 => Ok(i64::from(u32::from_be_bytes(fixed(bytes)?))),
        _ => Ok(i64::from_be_bytes(fixed(bytes)?)),
    }
}

/// An array, by way of its text: nesting, NULLs and checks are those of the text form.
fn decode_list(field: &FieldRef, item: &FieldRef, bytes: &[u8]) -> Result<ArrayRef> {
    let mut rest = bytes;
    let dimensions = usize::try_from(word(&mut rest)?).map_err(|_| malformed())?;
    let _has_nulls = word(&mut rest)?;
    let _item_oid = word(&mut rest)?;
    if dimensions > DIMENSIONS_MAX {
        return Err(malformed());
    }
    let mut sizes = Vec::with_capacity(dimensions);
    for _ in 0..dimensions {
        sizes.push(usize::try_from(word(&mut rest)?).map_err(|_| malformed())?);
        let _first = word(&mut rest)?;
    }
    let mut innermost = item;
    while let DataType::List(inner) = innermost.data_type() {
        innermost = inner;
    }
    let mut text = String::new();
    // Without items nothing bounds the other sizes.
    if sizes.is_empty() || sizes.contains(&0) {
        text.push_str("{}");
    } else {
        list_text(innermost, &sizes, &mut rest, &mut text)?;
    }
    if !rest.is_empty() {
        return Err(malformed());
    }
    decode_text(field, text.as_bytes())
}

fn list_text(item: &FieldRef, sizes: &[usize], rest: &mut &[u8], out: &mut String) -> Result<()> {
    let Some((size, inner)) = sizes.split_first() else { return item_text(item, rest, out) };
    out.push('{');
    for place in 0..*size {
        if place > 0 {
            out.push(',');
        }
        list_text(item, inner, rest, out)?;
    }
    out.push('}');
    Ok(())
}

fn item_text(item: &FieldRef, rest: &mut &[u8], out: &mut String) -> Result<()> {
    let length = word(rest)?;
    if length == -1 {
        out.push_str("NULL");
        return Ok(());
    }
    let length = usize::try_from(length).map_err(|_| malformed())?;
    if length > rest.len() {
        return Err(malformed());
    }
    let (bytes, after) = rest.split_at(length);
    *rest = after;
    let value = decode_binary(item, bytes)?;
    let mut text = String::new();
    crate::text::format_value(&value, 0, &mut text)?;
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
    Ok(())
}

fn word(rest: &mut &[u8]) -> Result<i32> {
    if rest.len() < 4 {
        return Err(malformed());
    }
    let (bytes, after) = rest.split_at(4);
    *rest = after;
    Ok(i32::from_be_bytes(fixed(bytes)?))
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| malformed())
}

fn utf8(bytes: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(bytes).map_err(|_| invalid_text("invalid UTF-8"))?;
    match text.contains('\0') {
        true => Err(invalid_text("a byte 0")),
        false => Ok(text),
    }
}

fn invalid_text(what: &str) -> Error {
    let message = "invalid byte sequence for encoding \"UTF8\"";
    Error::new(SqlState::INVALID_BYTE_SEQUENCE, message).with_detail(format!("It has {what}."))
}

fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "date or time out of range")
}

fn malformed() -> Error {
    let message = "incorrect binary data format";
    Error::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}
