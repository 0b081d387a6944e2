//! Conversions of text into values, and of values into types that are stored as text.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewBuilder, BooleanArray, PrimitiveArray,
    StringViewArray, StringViewBuilder,
};
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use thalweg_formats::text::{check_json_depth, parse};
use thalweg_types::{DataType, Error, Result, SqlState};

use super::{Manner, is_text, list, number, output};
use crate::calendar::{self, Moment, Refusal};
use crate::canonical_json::jsonb_column;
use crate::errors::invalid_text;
use crate::types;

/// Text of any Arrow kind, or values that are written as text, into `text`, `uuid` or `json`.
pub(super) fn to_textual(
    array: &ArrayRef,
    to: &DataType,
    manner: Manner,
) -> Result<Option<ArrayRef>> {
    if let DataType::Uuid = to
        && array.data_type() == &ArrowType::FixedSizeBinary(16)
    {
        return Ok(Some(uuids_of_bytes(array)));
    }
    if !is_text(array.data_type()) && !matches!(to, DataType::Text { .. }) {
        return Ok(None);
    }
    let text = output::to_text(array)?;
    let values = text.as_string_view();
    match to {
        DataType::Uuid => canonical_uuids(values).map(Some),
        DataType::Json => {
            values.iter().flatten().try_for_each(check_json)?;
            Ok(Some(text))
        }
        DataType::Jsonb => jsonb_column(values).map(Some),
        DataType::Text { max_chars: Some(most) } => {
            limited(values, *most as usize, manner).map(Some)
        }
        _ => Ok(Some(text)),
    }
}

fn uuids_of_bytes(array: &ArrayRef) -> ArrayRef {
    let bytes = array.as_fixed_size_binary();
    let texts = bytes.iter().map(|bytes| {
        let bytes = <[u8; 16]>::try_from(bytes?).ok()?;
        Some(uuid::Uuid::from_bytes(bytes).hyphenated().to_string())
    });
    Arc::new(texts.collect::<StringViewArray>())
}

fn canonical_uuids(values: &StringViewArray) -> Result<ArrayRef> {
    let mut builder = StringViewBuilder::with_capacity(values.len());
    let mut buffer = uuid::Uuid::encode_buffer();
    for value in values {
        match value {
            None => builder.append_null(),
            Some(text) => {
                let bare = text.trim();
                let braced = bare.strip_prefix('{').and_then(|bare| bare.strip_suffix('}'));
                let uuid = uuid::Uuid::try_parse(braced.unwrap_or(bare))
                    .map_err(|_| invalid_text("uuid", text))?;
                builder.append_value(uuid.hyphenated().encode_lower(&mut buffer));
            }
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn check_json(text: &str) -> Result<()> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| {
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
            .with_detail(error.to_string())
    })?;
    check_json_depth(text)
}

/// Text of at most so many characters.
fn limited(values: &StringViewArray, most: usize, manner: Manner) -> Result<ArrayRef> {
    // No text has more characters than bytes.
    let fits = |text: &str| text.len() <= most || text.chars().count() <= most;
    if values.iter().flatten().all(fits) {
        return Ok(Arc::new(values.clone()));
    }
    let cut = |text: &str| -> Result<String> {
        let end = text.char_indices().nth(most).map_or(text.len(), |(end, _)| end);
        let (kept, excess) = text.split_at(end);
        // Blanks may be cut in any case.
        if manner == Manner::Assignment && excess.contains(|c| c != ' ') {
            return Err(Error::new(
                SqlState::STRING_TOO_LONG,
                format!("value too long for type character varying({most})"),
            ));
        }
        Ok(kept.to_string())
    };
    let texts = values.iter().map(|text| text.map(cut).transpose());
    Ok(Arc::new(texts.collect::<Result<StringViewArray>>()?))
}

/// True for types that `jsonb` is cast to by its scalar value.
pub(super) fn takes_json_scalar(to: &DataType) -> bool {
    matches!(
        to,
        DataType::Boolean
            | DataType::Int2
            | DataType::Int4
            | DataType::Int8
            | DataType::Float4
            | DataType::Float8
            | DataType::Decimal { .. }
    )
}

/// Scalars of `jsonb` as booleans or numbers. Numbers are rounded as numerics are.
pub(super) fn of_json_scalars(
    array: &ArrayRef,
    to: &DataType,
    target: &ArrowType,
) -> Result<ArrayRef> {
    let wanted = if *to == DataType::Boolean { "boolean" } else { "numeric" };
    for text in array.as_string_view().iter().flatten() {
        let given = match text.trim_start().as_bytes().first() {
            Some(b'{') => "object",
            Some(b'[') => "array",
            Some(b'"') => "string",
            Some(b't' | b'f') => "boolean",
            Some(b'n') => "null",
            _ => "numeric",
        };
        if given != wanted {
            let message = format!("cannot cast jsonb {given} to type {to}");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    }
    if !matches!(to, DataType::Int2 | DataType::Int4 | DataType::Int8) {
        return parse_into(array, to, target, Manner::Explicit);
    }
    let numeric = ArrowType::Decimal128(38, 10);
    let numbers = parse_into(array, &types::from_arrow(&numeric)?, &numeric, Manner::Explicit)?;
    let integers = number::to_integer(&numbers, to, Manner::Explicit)?;
    integers.ok_or_else(|| Error::internal("numerics have integers"))
}

/// Reads values of a type that is not stored as text.
pub(super) fn parse_into(
    array: &ArrayRef,
    to: &DataType,
    target: &ArrowType,
    manner: Manner,
) -> Result<ArrayRef> {
    let values = array.as_string_view();
    let name = to.to_string();
    Ok(match to {
        DataType::Boolean => {
            let parsed = values.iter().map(|text| text.map(parse_boolean).transpose());
            Arc::new(parsed.collect::<Result<BooleanArray>>()?)
        }
        DataType::Int2 => parse_integers::<Int16Type>(values, &name)?,
        DataType::Int4 => parse_integers::<Int32Type>(values, &name)?,
        DataType::Int8 => parse_integers::<Int64Type>(values, &name)?,
        DataType::Float4 => {
            each::<Float32Type>(values, |text| parse_float(text, &name, f32::is_infinite))?
        }
        DataType::Float8 => {
            each::<Float64Type>(values, |text| parse_float(text, &name, f64::is_infinite))?
        }
        DataType::Decimal { precision, scale } => {
            parse_decimals(values, target, *precision, *scale)?
        }
        DataType::Bytea => parse_bytea(values)?,
        DataType::Date => each::<Date32Type>(values, |text| match calendar::infinity(text) {
            Some(is_late) => Ok(if is_late { i32::MAX } else { i32::MIN }),
            None => moment(text, "date", |moment| i32::try_from(moment.days?).ok()),
        })?,
        DataType::Time => each::<Time64MicrosecondType>(values, |text| {
            moment(text, "time", |moment| Some(moment.micros))
        })?,
        DataType::Timestamp => each::<TimestampMicrosecondType>(values, |text| {
            moment_or_infinity(text, "timestamp", Moment::local_micros)
        })?,
        DataType::Timestamptz => {
            let utc = each::<TimestampMicrosecondType>(values, |text| {
                moment_or_infinity(text, "timestamp with time zone", Moment::utc_micros)
            })?;
            let utc = utc.as_primitive::<TimestampMicrosecondType>().clone();
            Arc::new(utc.with_data_type(target.clone()))
        }
        DataType::Interval => each::<IntervalMonthDayNanoType>(values, |text| {
            parse::interval(text).map(whole_micros)
        })?,
        DataType::Array(item) => list::parse(values, item, manner)?,
        DataType::Text { .. } | DataType::Uuid | DataType::Json | DataType::Jsonb => {
            unreachable!("kept as text, and converted before")
        }
    })
}

/// Drops nanoseconds, which PostgreSQL does not have.
fn whole_micros(interval: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let below = interval.nanoseconds % 1_000;
    let up = if below.abs() < 500 { 0 } else { 1_000 * below.signum() };
    let nanoseconds = (interval.nanoseconds - below).saturating_add(up);
    IntervalMonthDayNano { nanoseconds, ..interval }
}

fn each<T: ArrowPrimitiveType>(
    values: &StringViewArray,
    parse: impl Fn(&str) -> Result<T::Native>,
) -> Result<ArrayRef> {
    let parsed = values.iter().map(|text| text.map(&parse).transpose());
    Ok(Arc::new(parsed.collect::<Result<PrimitiveArray<T>>>()?))
}

fn parse_boolean(text: &str) -> Result<bool> {
    let word = text.trim().to_ascii_lowercase();
    let starts = |whole: &str| !word.is_empty() && whole.starts_with(&word);
    match word.as_str() {
        "1" | "on" => Ok(true),
        "0" | "of" | "off" => Ok(false),
        _ if starts("true") || starts("yes") => Ok(true),
        _ if starts("false") || starts("no") => Ok(false),
        _ => Err(invalid_text("boolean", text)),
    }
}

fn parse_integers<T>(values: &StringViewArray, name: &str) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: FromStr,
{
    each::<T>(values, |text| {
        let digits = text.trim();
        digits.parse().map_err(|_| match number::is_whole_number(digits) {
            true => out_of_range(text, name),
            false => invalid_text(name, text),
        })
    })
}

fn out_of_range(text: &str, name: &str) -> Error {
    Error::new(
        SqlState::NUMERIC_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {name}"),
    )
}

fn parse_float<F: FromStr + Copy>(text: &str, name: &str, infinite: fn(F) -> bool) -> Result<F> {
    let digits = text.trim();
    // A NaN has no sign here: a negative NaN would sort before all numbers.
    let unsigned = digits.strip_prefix('-').filter(|rest| rest.eq_ignore_ascii_case("nan"));
    let digits = unsigned.unwrap_or(digits);
    let value: F = digits.parse().map_err(|_| invalid_text(name, text))?;
    let overflowed = infinite(value) && digits.bytes().any(|byte| byte.is_ascii_digit());
    if overflowed { Err(out_of_range(text, name)) } else { Ok(value) }
}

fn parse_decimals(
    values: &StringViewArray,
    target: &ArrowType,
    precision: u8,
    scale: i8,
) -> Result<ArrayRef> {
    let parse = |text: &str| {
        number::parse_decimal(text.trim(), precision, scale)
            .ok_or_else(|| invalid_text("numeric", text))?
            .ok_or_else(|| number::field_overflow(precision, scale))
    };
    if let ArrowType::Decimal128(_, _) = target {
        let narrow = values.iter().map(|text| {
            let value = text.map(parse).transpose()?;
            value
                .map(|value| {
                    value.to_i128().ok_or_else(|| number::field_overflow(precision, scale))
                })
                .transpose()
        });
        let narrow = narrow.collect::<Result<PrimitiveArray<Decimal128Type>>>()?;
        return Ok(Arc::new(narrow.with_data_type(target.clone())));
    }
    let wide = values.iter().map(|text| text.map(parse).transpose());
    let wide = wide.collect::<Result<PrimitiveArray<Decimal256Type>>>()?;
    Ok(Arc::new(wide.with_data_type(target.clone())))
}

/// `\xDEADBEEF`, or bytes with `\\` and `\ooo` as escapes.
fn parse_bytea(values: &StringViewArray) -> Result<ArrayRef> {
    let mut builder = BinaryViewBuilder::with_capacity(values.len());
    for text in values {
        let Some(text) = text else {
            builder.append_null();
            continue;
        };
        let bytes = match text.strip_prefix("\\x") {
            Some(digits) => decode_hex(digits),
            None => unescape(text.as_bytes()),
        };
        builder.append_value(bytes.ok_or_else(|| invalid_text("bytea", text))?);
    }
    Ok(Arc::new(builder.finish()))
}

/// Pairs of hexadecimal digits, which blanks may separate.
fn decode_hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = digits
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(high * 16 + low),
        _ => None,
    });
    pairs.collect()
}

fn unescape(mut text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    while let [first, behind @ ..] = text {
        text = behind;
        let byte = match (first, behind) {
            (b'\\', [b'\\', behind @ ..]) => {
                text = behind;
                b'\\'
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..]) => {
                text = behind;
                (a - b'0') * 64 + (b - b'0') * 8 + (c - b'0')
            }
            (b'\\', _) => return None,
            (byte, _) => *byte,
        };
        bytes.push(byte);
    }
    Some(bytes)
}

fn moment_or_infinity(text: &str, name: &str, take: impl Fn(Moment) -> Option<i64>) -> Result<i64> {
    match calendar::infinity(text) {
        Some(is_late) => Ok(if is_late { i64::MAX } else { i64::MIN }),
        None => moment(text, name, take),
    }
}

fn moment<N>(text: &str, name: &str, take: impl Fn(Moment) -> Option<N>) -> Result<N> {
    let moment = calendar::parse_moment(text).map_err(|refusal| refusal.into_error(name, text))?;
    take(moment).ok_or_else(|| Refusal::Syntax.into_error(name, text))
}
