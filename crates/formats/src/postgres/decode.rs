//! Decodes values that clients send, in text or binary form.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Float32Array, Float64Array, Int16Array,
    Int32Array, Int64Array, IntervalMonthDayNanoArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, new_null_array,
};
use arrow::datatypes::{DataType, FieldRef, IntervalMonthDayNano};
use thalweg_types::{Error, Result, SqlState};

use super::array::array_text;
use super::binary::{EPOCH_DAYS, EPOCH_MICROSECONDS};
use super::numeric;
use super::row::ValueFormat;
use super::types::{Type, built};
use crate::columns::{JSONB, UUID, type_tag};
use crate::text::{ColumnBuilder, holds_numerics, with_own_digits};

/// PostgreSQL's range of dates in days since 2000-01-01: from 4714-11-24 BC to the end of its last
/// year.
const DAYS: Range<i32> = -2_451_545..2_145_031_949;
/// PostgreSQL's first timestamp, in microseconds since 2000-01-01.
const MICROSECONDS_MIN: i64 = -211_813_488_000_000_000;

/// Decodes one value of a field's type as an array of one row.
///
/// # Errors
/// If the bytes are not such a value.
pub fn decode(field: &FieldRef, format: ValueFormat, bytes: Option<&[u8]>) -> Result<ArrayRef> {
    let Some(bytes) = bytes else { return Ok(new_null_array(field.data_type(), 1)) };
    match format {
        ValueFormat::Text => decode_text(field, bytes),
        ValueFormat::Binary => decode_binary(field, bytes),
    }
}

/// Decodes the value of a parameter as an array of one row. A numeric, or an array of numerics, has
/// a type with the digits that were sent; other values have the field's type.
///
/// # Errors
/// As [`decode`]; 22003 if a numeric has more than 38 digits.
pub fn decode_parameter(
    field: &FieldRef,
    format: ValueFormat,
    bytes: Option<&[u8]>,
) -> Result<ArrayRef> {
    let Some(bytes) = bytes.filter(|_| holds_numerics(field.data_type())) else {
        return decode(field, format, bytes);
    };
    let sent;
    let text = match (format, field.data_type()) {
        (ValueFormat::Text, _) => utf8(bytes)?,
        (ValueFormat::Binary, DataType::List(_)) => {
            sent = array_text(field, bytes)?;
            &sent
        }
        (ValueFormat::Binary, _) => {
            sent = numeric::decode(bytes)?;
            &sent
        }
    };
    decode_text(&with_own_digits(field, text)?, text.as_bytes())
}

pub(super) fn decode_text(field: &FieldRef, bytes: &[u8]) -> Result<ArrayRef> {
    let mut column = ColumnBuilder::new(&built(field))?;
    column.append(Some(utf8(bytes)?))?;
    Ok(column.finish())
}

pub(super) fn decode_binary(field: &FieldRef, bytes: &[u8]) -> Result<ArrayRef> {
    Ok(match field.data_type() {
        DataType::Boolean => Arc::new(BooleanArray::from(vec![fixed::<1>(bytes)? != [0]])),
        DataType::Int16 => Arc::new(Int16Array::from(vec![i16::from_be_bytes(fixed(bytes)?)])),
        DataType::Int32 => Arc::new(Int32Array::from(vec![i32::from_be_bytes(fixed(bytes)?)])),
        // PostgreSQL's object identifiers are unsigned 32-bit integers.
        DataType::Int64 if Type::of(field).size == 4 => {
            Arc::new(Int64Array::from(vec![i64::from(u32::from_be_bytes(fixed(bytes)?))]))
        }
        DataType::Int64 => Arc::new(Int64Array::from(vec![i64::from_be_bytes(fixed(bytes)?)])),
        DataType::Float32 => Arc::new(Float32Array::from(vec![f32::from_be_bytes(fixed(bytes)?)])),
        DataType::Float64 => Arc::new(Float64Array::from(vec![f64::from_be_bytes(fixed(bytes)?)])),
        DataType::BinaryView => Arc::new(BinaryViewArray::from(vec![bytes])),
        DataType::Date32 => {
            Arc::new(Date32Array::from(vec![date(i32::from_be_bytes(fixed(bytes)?))?]))
        }
        DataType::Time64(_) => {
            let time = i64::from_be_bytes(fixed(bytes)?);
            if !(0..=86_400_000_000).contains(&time) {
                return Err(out_of_range("time"));
            }
            Arc::new(Time64MicrosecondArray::from(vec![time]))
        }
        DataType::Timestamp(_, zone) => {
            let time = timestamp(i64::from_be_bytes(fixed(bytes)?))?;
            let time = TimestampMicrosecondArray::from(vec![time]);
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
                nanoseconds.ok_or_else(|| out_of_range("interval"))?,
            );
            Arc::new(IntervalMonthDayNanoArray::from(vec![interval]))
        }
        DataType::List(_) => return decode_text(field, array_text(field, bytes)?.as_bytes()),
        _ => return decode_text(field, text_of(field, bytes)?.as_bytes()),
    })
}

/// Days since 1970. The maximum and the minimum represent the infinities in both systems.
fn date(days: i32) -> Result<i32> {
    match days {
        i32::MIN | i32::MAX => Ok(days),
        days if DAYS.contains(&days) => Ok(days + EPOCH_DAYS),
        _ => Err(out_of_range("date")),
    }
}

/// Microseconds since 1970, like [`date`].
fn timestamp(microseconds: i64) -> Result<i64> {
    if matches!(microseconds, i64::MIN | i64::MAX) {
        return Ok(microseconds);
    }
    let since_1970 = microseconds.checked_add(EPOCH_MICROSECONDS);
    since_1970
        .filter(|time| *time != i64::MAX && microseconds >= MICROSECONDS_MIN)
        .ok_or_else(|| out_of_range("timestamp"))
}

/// The text of values that are sent in binary and stored as text or decimals.
fn text_of(field: &FieldRef, bytes: &[u8]) -> Result<String> {
    if matches!(field.data_type(), DataType::Decimal128(..) | DataType::Decimal256(..)) {
        return numeric::decode(bytes);
    }
    Ok(match type_tag(field) {
        Some(UUID) => {
            let value = u128::from_be_bytes(fixed(bytes)?);
            format!("{value:032x}")
        }
        // A version number precedes the text.
        Some(JSONB) => match bytes.split_first() {
            Some((1, text)) => utf8(text)?.to_owned(),
            Some((version, _)) => {
                return Err(malformed(&format!("unsupported jsonb version number {version}")));
            }
            None => return Err(cut_off()),
        },
        _ => utf8(bytes)?.to_owned(),
    })
}

/// Exactly `N` bytes.
pub(super) fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    match bytes.len() < N {
        true => Err(cut_off()),
        false => bytes.try_into().map_err(|_| malformed("incorrect binary data format")),
    }
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

fn out_of_range(what: &str) -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, format!("{what} out of range"))
}

pub(super) fn malformed(message: &str) -> Error {
    Error::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

/// The error for truncated values.
pub(super) fn cut_off() -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, "insufficient data left in message")
}

#[cfg(test)]
mod tests {
    use arrow::record_batch::RecordBatch;

    use super::*;
    use crate::postgres::{RowEncoder, field_of_oid};

    fn read(oid: u32, bytes: &[u8]) -> Result<String, &'static str> {
        let field = field_of_oid(oid).unwrap();
        let value = decode(&field, ValueFormat::Binary, Some(bytes));
        let value = value.map_err(|error| error.state().0)?;
        let mut text = String::new();
        crate::text::format_value(&value, 0, &mut text).unwrap();
        Ok(text)
    }

    /// PostgreSQL 15's results.
    #[test]
    fn a_value_has_the_length_of_its_type() {
        for (oid, length) in [
            (16, 1),
            (20, 8),
            (21, 2),
            (23, 4),
            (700, 4),
            (701, 8),
            (1082, 4),
            (1083, 8),
            (1114, 8),
            (1184, 8),
            (1186, 16),
            (2950, 16),
        ] {
            for given in 0..20 {
                let expected = match given {
                    given if given < length => Err("08P01"),
                    given if given > length => Err("22P03"),
                    _ => Ok(()),
                };
                assert_eq!(read(oid, &vec![0; given]).map(drop), expected, "{oid}: {given}");
            }
        }
    }

    #[test]
    fn dates_and_times_are_those_of_postgres() {
        for (days, expected) in [
            (i32::MAX, Ok("infinity")),
            (i32::MIN, Ok("-infinity")),
            (-2_451_545, Ok("4714-11-24 BC")),
            (-2_451_546, Err("22008")),
            (2_145_031_948, Ok("5874897-12-31")),
            (2_145_031_949, Err("22008")),
        ] {
            let found = read(1082, &days.to_be_bytes());
            assert_eq!(found.as_deref().map_err(|state| *state), expected, "{days}");
        }
        for (time, expected) in [
            (i64::MAX, Ok("infinity")),
            (i64::MIN, Ok("-infinity")),
            (MICROSECONDS_MIN, Ok("4714-11-24 00:00:00 BC")),
            (MICROSECONDS_MIN - 1, Err("22008")),
            (9_223_371_331_200_000_000, Err("22008")),
        ] {
            let found = read(1114, &time.to_be_bytes());
            assert_eq!(found.as_deref().map_err(|state| *state), expected, "{time}");
        }
    }

    /// Round trip at the limits and for years before Christ.
    #[test]
    fn dates_and_times_come_back() {
        for (oid, texts) in [
            (1082, ["infinity", "-infinity", "0044-03-15 BC", "5874897-12-31"]),
            (1114, ["infinity", "-infinity", "0044-03-15 12:00:00 BC", "1999-12-31 23:59:59"]),
        ] {
            for text in texts {
                let field = field_of_oid(oid).unwrap();
                let value = decode(&field, ValueFormat::Text, Some(text.as_bytes())).unwrap();
                let schema = Arc::new(arrow::datatypes::Schema::new(vec![field]));
                let encoder = RowEncoder::new(Arc::clone(&schema), vec![ValueFormat::Binary]);
                let batch = RecordBatch::try_new(schema, vec![value]).unwrap();
                let mut row = Vec::new();
                encoder.batch(&batch).unwrap().data_row(0, &mut row).unwrap();
                // Skips the message's kind, its length, the number of columns, and the length of
                // the value.
                assert_eq!(read(oid, &row[11..]).unwrap(), text);
            }
        }
    }

    #[test]
    fn only_jsonb_has_a_version() {
        assert_eq!(read(114, b"{}").unwrap(), "{}");
        assert_eq!(read(114, b"\x01{}"), Err("22P02"));
        let jsonb = |bytes: &[u8]| {
            let field = field_of_oid(3802).unwrap();
            decode(&field, ValueFormat::Binary, Some(bytes)).map_err(|error| error.state().0)
        };
        assert!(jsonb(b"\x01{}").is_ok());
        assert_eq!(jsonb(b"{}").err(), Some("22P03"));
        assert_eq!(jsonb(b"\x01{").err(), Some("22P02"));
        assert_eq!(jsonb(b"").err(), Some("08P01"));
    }
}
