//! Values as text, in the forms that PostgreSQL writes.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, StringViewArray, StringViewBuilder,
};
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Float32Type, Float64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use thalweg_formats::text::style::{self, ByteaOutput, SessionStyle};
use thalweg_formats::text::{
    format_double_in, format_escaped_bytea, format_interval_in, format_real_in,
};
use thalweg_types::Result;

use super::{is_text, plain_cast};
use crate::bounded_output::{allow_together, append_taking, own_bytes};
use crate::calendar::{Civil, MICROS_PER_DAY, MICROS_PER_SECOND, is_infinite, is_infinite_day};

/// Every value as PostgreSQL writes it, in an array of `Utf8View`.
///
/// Booleans are `true` and `false`, as in a cast to text; the wire protocol shortens them.
pub fn to_text(array: &ArrayRef) -> Result<ArrayRef> {
    if let Some(style) = style::current()
        && let Some(text) = to_styled_text(array, &style)?
    {
        return Ok(Arc::new(text));
    }
    let text = match array.data_type() {
        text if is_text(text) => return plain_cast(array, &ArrowType::Utf8View),
        ArrowType::Boolean => {
            let values = array.as_boolean();
            write_each(array, |index, text| {
                text.push_str(if values.value(index) { "true" } else { "false" });
            })
        }
        ArrowType::Float32 => write_each_native::<Float32Type>(array, write_float4),
        ArrowType::Float64 => write_each_native::<Float64Type>(array, write_float8),
        ArrowType::Date32 => write_each_native::<Date32Type>(array, |days, text| {
            write_date(i64::from(days), text);
        }),
        ArrowType::Time32(_) | ArrowType::Time64(_) => {
            let micros = plain_cast(array, &ArrowType::Time64(TimeUnit::Microsecond))?;
            write_each_native::<Time64MicrosecondType>(&micros, write_time)
        }
        ArrowType::Timestamp(_, zone) => {
            let target = ArrowType::Timestamp(TimeUnit::Microsecond, zone.clone());
            let micros = plain_cast(array, &target)?;
            let suffix = if zone.is_some() { "+00" } else { "" };
            write_each_native::<TimestampMicrosecondType>(&micros, |micros, text| {
                write_timestamp(micros, text);
                text.push_str(if is_infinite(micros) { "" } else { suffix });
            })
        }
        ArrowType::Interval(_) | ArrowType::Duration(_) => {
            let interval = plain_cast(array, &ArrowType::Interval(IntervalUnit::MonthDayNano))?;
            write_each_native::<IntervalMonthDayNanoType>(&interval, |value, text| {
                write_interval(value, text);
            })
        }
        ArrowType::Binary
        | ArrowType::LargeBinary
        | ArrowType::BinaryView
        | ArrowType::FixedSizeBinary(_) => write_bytea(array)?,
        ArrowType::List(_) | ArrowType::LargeList(_) | ArrowType::FixedSizeList(_, _) => {
            write_lists(array)?
        }
        ArrowType::Struct(_) => write_rows(array)?,
        _ => return plain_cast(array, &ArrowType::Utf8View),
    };
    Ok(Arc::new(text))
}

/// The text of values of a type whose form depends on the session; `None` for other types.
fn to_styled_text(array: &ArrayRef, style: &SessionStyle) -> Result<Option<StringViewArray>> {
    let extra = style.extra_float_digits;
    Ok(Some(match array.data_type() {
        ArrowType::Float32 => write_each_native::<Float32Type>(array, |value, text| {
            format_real_in(value, extra, text);
        }),
        ArrowType::Float64 => write_each_native::<Float64Type>(array, |value, text| {
            format_double_in(value, extra, text);
        }),
        ArrowType::Date32 => write_each_native::<Date32Type>(array, |days, text| {
            style::push_date(style, days, text);
        }),
        ArrowType::Timestamp(_, zone) => {
            let target = ArrowType::Timestamp(TimeUnit::Microsecond, zone.clone());
            let push = match zone {
                Some(_) => style::push_timestamptz,
                None => style::push_timestamp,
            };
            let micros = plain_cast(array, &target)?;
            write_each_native::<TimestampMicrosecondType>(&micros, |micros, text| {
                push(style, micros, text);
            })
        }
        ArrowType::Interval(_) | ArrowType::Duration(_) => {
            let interval = plain_cast(array, &ArrowType::Interval(IntervalUnit::MonthDayNano))?;
            write_each_native::<IntervalMonthDayNanoType>(&interval, |value, text| {
                format_interval_in(style.intervals, value, text);
            })
        }
        ArrowType::Binary
        | ArrowType::LargeBinary
        | ArrowType::BinaryView
        | ArrowType::FixedSizeBinary(_)
            if style.bytea == ByteaOutput::Escape =>
        {
            let bytes = views_of(array)?;
            let bytes = bytes.as_binary_view();
            write_each(array, |index, text| format_escaped_bytea(bytes.value(index), text))
        }
        _ => return Ok(None),
    }))
}

/// The texts of a column. `write` appends each value to an empty text.
fn write_each(array: &dyn Array, write: impl Fn(usize, &mut String)) -> StringViewArray {
    let mut builder = StringViewBuilder::with_capacity(array.len());
    let mut text = String::new();
    for index in 0..array.len() {
        if array.is_null(index) {
            builder.append_null();
        } else {
            text.clear();
            write(index, &mut text);
            append_taking(&mut builder, &mut text);
        }
    }
    builder.finish()
}

/// Like [`write_each`], for values that may be long. The statement must have memory for about
/// `bytes` of text, twice: a growing text has up to twice its size.
fn write_long(
    array: &dyn Array,
    bytes: usize,
    write: impl Fn(usize, &mut String),
) -> Result<StringViewArray> {
    allow_together(bytes.saturating_mul(2))?;
    Ok(write_each(array, write))
}

fn write_each_native<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    write: impl Fn(T::Native, &mut String),
) -> StringViewArray {
    let values = array.as_primitive::<T>();
    write_each(array, |index, text| write(values.value(index), text))
}

fn write_float8(value: f64, text: &mut String) {
    write_float(format!("{value:e}"), value.is_nan(), value.is_infinite(), 15, text);
}

fn write_float4(value: f32, text: &mut String) {
    write_float(format!("{value:e}"), value.is_nan(), value.is_infinite(), 6, text);
}

/// Lays out the shortest digits that stand for a float, given as `-1.25e-7`.
fn write_float(scientific: String, nan: bool, infinite: bool, digits_max: i32, text: &mut String) {
    if nan {
        return text.push_str("NaN");
    }
    let (sign, rest) = match scientific.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", scientific.as_str()),
    };
    text.push_str(sign);
    if infinite {
        return text.push_str("Infinity");
    }
    let (mantissa, exponent) = rest.split_once('e').unwrap_or((rest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..digits_max).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(text, "{mantissa}e{sign}{:02}", exponent.abs());
        return;
    }
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if exponent < 0 {
        text.push_str("0.");
        text.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        return text.push_str(&digits);
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        text.push_str(&digits);
        text.extend(std::iter::repeat_n('0', whole - digits.len()));
    } else {
        text.push_str(&digits[..whole]);
        text.push('.');
        text.push_str(&digits[whole..]);
    }
}

pub(crate) fn write_date(days: i64, text: &mut String) {
    if let Ok(days) = i32::try_from(days)
        && is_infinite_day(days)
    {
        return text.push_str(if days > 0 { "infinity" } else { "-infinity" });
    }
    let Civil { year, month, day } = Civil::from_days(days);
    // There is no year 0: the one before 1 is 1 BC.
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    let _ = write!(text, "{year:04}-{month:02}-{day:02}{era}");
}

/// Tables have no negative times, but files may: they get a minus sign.
pub(crate) fn write_time(micros: i64, text: &mut String) {
    if micros < 0 {
        text.push('-');
    }
    let (micros, second) = (micros.unsigned_abs(), MICROS_PER_SECOND as u64);
    let seconds = micros / second;
    let _ = write!(text, "{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if micros % second != 0 {
        let digits = format!("{:06}", micros % second);
        let _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
}

pub(crate) fn write_timestamp(micros: i64, text: &mut String) {
    if is_infinite(micros) {
        return text.push_str(if micros > 0 { "infinity" } else { "-infinity" });
    }
    let days = micros.div_euclid(MICROS_PER_DAY);
    let mut date = String::new();
    write_date(days, &mut date);
    let (date, era) = date.split_once(' ').unwrap_or((&date, ""));
    text.push_str(date);
    text.push(' ');
    write_time(micros.rem_euclid(MICROS_PER_DAY), text);
    if !era.is_empty() {
        let _ = write!(text, " {era}");
    }
}

/// `1 year 2 mons -3 days +04:05:06.5`
pub(crate) fn write_interval(value: IntervalMonthDayNano, text: &mut String) {
    let start = text.len();
    // A positive part behind a negative one gets a plus sign.
    let mut negative_before = false;
    let mut part = |amount: i64, unit: &str, text: &mut String| {
        if amount == 0 {
            return;
        }
        let blank = if text.len() > start { " " } else { "" };
        let sign = if negative_before && amount > 0 { "+" } else { "" };
        let plural = if amount == 1 { "" } else { "s" };
        let _ = write!(text, "{blank}{sign}{amount} {unit}{plural}");
        negative_before = amount < 0;
    };
    part(i64::from(value.months) / 12, "year", text);
    part(i64::from(value.months) % 12, "mon", text);
    part(i64::from(value.days), "day", text);
    let micros = value.nanoseconds / 1_000;
    if micros != 0 || text.len() == start {
        if text.len() > start {
            text.push(' ');
        }
        let sign = match micros {
            ..0 => "-",
            _ if negative_before => "+",
            _ => "",
        };
        text.push_str(sign);
        write_time(micros.abs(), text);
    }
}

fn views_of(array: &ArrayRef) -> Result<ArrayRef> {
    let through = match array.data_type() {
        ArrowType::FixedSizeBinary(_) => plain_cast(array, &ArrowType::Binary)?,
        _ => array.clone(),
    };
    plain_cast(&through, &ArrowType::BinaryView)
}

fn write_bytea(array: &ArrayRef) -> Result<StringViewArray> {
    let bytes = views_of(array)?;
    let bytes = bytes.as_binary_view();
    allow_together(own_bytes(bytes).saturating_mul(2))?;
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
    Ok(write_each(array, |index, text| {
        let bytes = bytes.value(index);
        text.reserve_exact(2 + 2 * bytes.len());
        text.push_str("\\x");
        for byte in bytes {
            text.push(digit(byte >> 4));
            text.push(digit(byte & 15));
        }
    }))
}

/// Lists as `int2vector` and `oidvector` are written: `1 2`.
pub(super) fn vector_to_text(array: &ArrayRef) -> Result<ArrayRef> {
    let lists = array.as_list::<i32>();
    let items = to_text(lists.values())?;
    let items = items.as_string_view();
    let offsets = lists.value_offsets();
    let bytes = own_bytes(items).saturating_add(items.len());
    Ok(Arc::new(write_long(array, bytes, |index, text| {
        for at in offsets[index] as usize..offsets[index + 1] as usize {
            if at > offsets[index] as usize {
                text.push(' ');
            }
            text.push_str(items.value(at));
        }
    })?))
}

fn write_lists(array: &ArrayRef) -> Result<StringViewArray> {
    let (ArrowType::List(item) | ArrowType::LargeList(item) | ArrowType::FixedSizeList(item, _)) =
        array.data_type()
    else {
        unreachable!("only lists are written as lists");
    };
    let lists = plain_cast(array, &ArrowType::List(item.clone()))?;
    let lists = lists.as_list::<i32>();
    let items = to_text(lists.values())?;
    let items = items.as_string_view();
    let nested = matches!(item.data_type(), ArrowType::List(_));
    let bytes = own_bytes(items).saturating_add(items.len());
    write_long(array, bytes, |index, text| {
        let offsets = lists.value_offsets();
        text.push('{');
        for at in offsets[index] as usize..offsets[index + 1] as usize {
            if at > offsets[index] as usize {
                text.push(',');
            }
            match items.is_null(at) {
                true => text.push_str("NULL"),
                false if nested => text.push_str(items.value(at)),
                false => write_item(items.value(at), text),
            }
        }
        text.push('}');
    })
}

/// `(1,"a b",)`: a NULL is nothing, an empty text is quoted.
fn write_rows(array: &ArrayRef) -> Result<StringViewArray> {
    let columns = array.as_struct().columns().iter().map(|column| match column.data_type() {
        ArrowType::Boolean => {
            let values = column.as_boolean();
            let letters = write_each(column, |index, text| {
                text.push(if values.value(index) { 't' } else { 'f' });
            });
            Ok(Arc::new(letters) as ArrayRef)
        }
        _ => to_text(column),
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let bytes = columns.iter().map(|column| own_bytes(column)).sum();
    write_long(array, bytes, |index, text| {
        text.push('(');
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                text.push(',');
            }
            if column.is_valid(index) {
                write_member(column.as_string_view().value(index), text);
            }
        }
        text.push(')');
    })
}

fn write_member(member: &str, text: &mut String) {
    let special = |c: char| matches!(c, '"' | '\\' | '(' | ')' | ',') || c.is_ascii_whitespace();
    if !member.is_empty() && !member.contains(special) {
        return text.push_str(member);
    }
    text.push('"');
    for c in member.chars() {
        if matches!(c, '"' | '\\') {
            text.push(c);
        }
        text.push(c);
    }
    text.push('"');
}

/// An item is quoted where it would be misread without.
fn write_item(item: &str, text: &mut String) {
    let special = |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_whitespace();
    if !item.is_empty() && !item.contains(special) && !item.eq_ignore_ascii_case("null") {
        return text.push_str(item);
    }
    text.push('"');
    for c in item.chars() {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
}
