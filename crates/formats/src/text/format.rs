//! Formats values as text.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array,
    Decimal256Array, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    IntervalMonthDayNanoArray, ListArray, StringArray, StringViewArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use thalweg_types::{Error, Result};

use super::style::{self, ByteaOutput, SessionStyle};
use super::{array, bytea, datetime, decimal, float, interval};
use crate::columns::storable_type;

/// Format of timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateStyle {
    /// `2013-01-01 05:00:00+00`
    #[default]
    Postgres,
    /// `2013-01-01T05:00:00Z`
    Iso,
}

/// Formats the values of one array as text. Supports arrays of every type.
pub struct ValueFormatter {
    array: ArrayRef,
    nulls: Option<NullBuffer>,
    values: Values,
    style: DateStyle,
    /// `None` for the default style.
    session: Option<Arc<SessionStyle>>,
}

/// Buffer for the text of one value.
#[derive(Default)]
pub struct Scratch {
    text: String,
    digits: itoa::Buffer,
}

enum Values {
    Boolean(BooleanArray),
    Int2(Int16Array),
    Int4(Int32Array),
    Int8(Int64Array),
    UInt8(UInt64Array),
    Float4(Float32Array),
    Float8(Float64Array),
    Decimal128(Decimal128Array, i8),
    Decimal256(Decimal256Array, i8),
    Text(StringViewArray),
    ShortText(StringArray),
    Bytea(BinaryViewArray),
    Date(Date32Array),
    Time(Time64MicrosecondArray),
    Timestamp(TimestampMicrosecondArray),
    Timestamptz(TimestampMicrosecondArray),
    Interval(IntervalMonthDayNanoArray),
    List(ListArray, Box<ValueFormatter>),
    /// The columns of rows within a row: PostgreSQL's records.
    Record(Vec<ValueFormatter>),
    /// Other types, which tables do not have: Arrow's own format.
    Other,
}

impl ValueFormatter {
    /// Formats the values of an array in the [current](style::current) style. Fails like
    /// [`with_style`](Self::with_style).
    pub fn new(array: &ArrayRef) -> Result<ValueFormatter> {
        ValueFormatter::of_session(array, style::current())
    }

    /// Formats the values of an array in a session's style; `None` is the default one. Fails like
    /// [`with_style`](Self::with_style).
    pub fn of_session(
        array: &ArrayRef,
        session: Option<Arc<SessionStyle>>,
    ) -> Result<ValueFormatter> {
        ValueFormatter::with(array, DateStyle::Postgres, session)
    }

    /// Formats the values of an array, regardless of the session. Types that tables cannot have are
    /// converted first if possible.
    pub fn with_style(array: &ArrayRef, style: DateStyle) -> Result<ValueFormatter> {
        ValueFormatter::with(array, style, None)
    }

    fn with(
        array: &ArrayRef,
        style: DateStyle,
        session: Option<Arc<SessionStyle>>,
    ) -> Result<ValueFormatter> {
        let of = |values| ValueFormatter {
            array: ArrayRef::clone(array),
            nulls: array.nulls().cloned(),
            values,
            style,
            session: session.clone(),
        };
        if let Some(values) = Values::of(array, style, session.as_ref())? {
            return Ok(of(values));
        }
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let converted = storable_type(array.data_type())
            .filter(|target| target != array.data_type())
            .and_then(|target| cast_with_options(array, &target, &options).ok());
        match converted {
            Some(converted) => ValueFormatter::with(&converted, style, session),
            None => Ok(of(Values::Other)),
        }
    }

    /// True if the value is NULL; it must not be formatted then.
    #[must_use]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// The text of a value, borrowed from the array or written to `scratch`; `None` for NULL.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn text<'a>(&'a self, row: usize, scratch: &'a mut Scratch) -> Option<&'a str> {
        if self.is_null(row) {
            return None;
        }
        let digits = &mut scratch.digits;
        Some(match &self.values {
            Values::Text(column) => column.value(row),
            Values::ShortText(column) => column.value(row),
            Values::Int2(column) => digits.format(column.value(row)),
            Values::Int4(column) => digits.format(column.value(row)),
            Values::Int8(column) => digits.format(column.value(row)),
            _ => {
                scratch.text.clear();
                self.format(row, &mut scratch.text);
                &scratch.text
            }
        })
    }

    /// Appends the text of a value; nothing for NULL.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn format(&self, row: usize, out: &mut String) {
        if self.is_null(row) {
            return;
        }
        if let Some(session) = &self.session
            && self.format_styled(session, row, out)
        {
            return;
        }
        let mut digits = itoa::Buffer::new();
        match &self.values {
            Values::Boolean(column) => out.push(if column.value(row) { 't' } else { 'f' }),
            Values::Int2(column) => out.push_str(digits.format(column.value(row))),
            Values::Int4(column) => out.push_str(digits.format(column.value(row))),
            Values::Int8(column) => out.push_str(digits.format(column.value(row))),
            Values::UInt8(column) => out.push_str(digits.format(column.value(row))),
            Values::Float4(column) => float::format_real(column.value(row), out),
            Values::Float8(column) => float::format_double(column.value(row), out),
            Values::Decimal128(column, scale) => {
                decimal::format_128(column.value(row), *scale, out)
            }
            Values::Decimal256(column, scale) => {
                decimal::format_256(column.value(row), *scale, out)
            }
            Values::Text(column) => out.push_str(column.value(row)),
            Values::ShortText(column) => out.push_str(column.value(row)),
            Values::Bytea(column) => bytea::format(column.value(row), out),
            Values::Date(column) => datetime::format_date(column.value(row), out),
            Values::Time(column) => datetime::format_time(column.value(row), out),
            Values::Timestamp(column) => {
                datetime::format_timestamp(column.value(row), self.style, "", out);
            }
            Values::Timestamptz(column) => {
                let zone = if self.style == DateStyle::Iso { "Z" } else { "+00" };
                datetime::format_timestamp(column.value(row), self.style, zone, out);
            }
            Values::Interval(column) => interval::format(column.value(row), out),
            Values::List(column, items) => format_list(column, items, row, out),
            Values::Record(columns) => format_record(columns, row, out),
            Values::Other => self.format_other(row, out),
        }
    }

    /// Appends a value of a type whose form depends on the session; returns false for other types.
    fn format_styled(&self, session: &SessionStyle, row: usize, out: &mut String) -> bool {
        let extra = session.extra_float_digits;
        match &self.values {
            Values::Float4(column) => float::format_real_in(column.value(row), extra, out),
            Values::Float8(column) => float::format_double_in(column.value(row), extra, out),
            Values::Bytea(column) if session.bytea == ByteaOutput::Escape => {
                bytea::format_escaped(column.value(row), out);
            }
            Values::Date(column) => style::push_date(session, column.value(row), out),
            Values::Timestamp(column) => style::push_timestamp(session, column.value(row), out),
            Values::Timestamptz(column) => {
                style::push_timestamptz(session, column.value(row), out);
            }
            Values::Interval(column) => {
                interval::format_in(session.intervals, column.value(row), out);
            }
            _ => return false,
        }
        true
    }

    fn format_other(&self, row: usize, out: &mut String) {
        // Arrow displays values with unknown names, such as those of time zones, as errors.
        let options = FormatOptions::new().with_display_error(true);
        if let Ok(formatter) = ArrayFormatter::try_new(&self.array, &options) {
            write!(out, "{}", formatter.value(row)).expect("writing to a string does not fail");
        }
    }

    /// The items of a column of lists, and the range of a row's items among them.
    pub(crate) fn items(&self, row: usize) -> Option<(&ValueFormatter, std::ops::Range<usize>)> {
        let Values::List(column, items) = &self.values else { return None };
        let offsets = column.value_offsets();
        Some((items, offsets[row] as usize..offsets[row + 1] as usize))
    }
}

impl Values {
    /// `None` for types that tables do not have.
    fn of(
        array: &ArrayRef,
        style: DateStyle,
        session: Option<&Arc<SessionStyle>>,
    ) -> Result<Option<Values>> {
        let nested = |column| ValueFormatter::with(column, style, session.cloned());
        Ok(Some(match array.data_type() {
            DataType::Boolean => Values::Boolean(array.as_boolean().clone()),
            DataType::Int16 => Values::Int2(array.as_primitive().clone()),
            DataType::Int32 => Values::Int4(array.as_primitive().clone()),
            DataType::Int64 => Values::Int8(array.as_primitive().clone()),
            DataType::UInt64 => Values::UInt8(array.as_primitive().clone()),
            DataType::Float32 => Values::Float4(array.as_primitive().clone()),
            DataType::Float64 => Values::Float8(array.as_primitive().clone()),
            DataType::Decimal128(_, scale) => {
                Values::Decimal128(array.as_primitive().clone(), *scale)
            }
            DataType::Decimal256(_, scale) => {
                Values::Decimal256(array.as_primitive().clone(), *scale)
            }
            DataType::Utf8View => Values::Text(array.as_string_view().clone()),
            DataType::Utf8 => Values::ShortText(array.as_string().clone()),
            DataType::BinaryView => Values::Bytea(array.as_binary_view().clone()),
            DataType::Date32 => Values::Date(array.as_primitive().clone()),
            DataType::Time64(TimeUnit::Microsecond) => Values::Time(array.as_primitive().clone()),
            DataType::Timestamp(TimeUnit::Microsecond, None) => {
                Values::Timestamp(array.as_primitive().clone())
            }
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
                Values::Timestamptz(array.as_primitive().clone())
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                Values::Interval(array.as_primitive().clone())
            }
            DataType::List(_) => {
                let lists = array.as_list::<i32>().clone();
                let items = nested(lists.values())?;
                Values::List(lists, Box::new(items))
            }
            DataType::Struct(_) => {
                let columns = array.as_struct().columns().iter();
                Values::Record(columns.map(nested).collect::<Result<_>>()?)
            }
            _ => return Ok(None),
        }))
    }
}

/// `(1,"a b",)`: a NULL is empty, an empty text is quoted.
fn format_record(columns: &[ValueFormatter], row: usize, out: &mut String) {
    let is_special = |c: char| matches!(c, '"' | '\\' | '(' | ')' | ',') || c.is_ascii_whitespace();
    let mut text = String::new();
    out.push('(');
    for (place, column) in columns.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        if column.is_null(row) {
            continue;
        }
        text.clear();
        column.format(row, &mut text);
        if !text.is_empty() && !text.contains(is_special) {
            out.push_str(&text);
            continue;
        }
        out.push('"');
        for c in text.chars() {
            if matches!(c, '"' | '\\') {
                out.push(c);
            }
            out.push(c);
        }
        out.push('"');
    }
    out.push(')');
}

fn format_list(column: &ListArray, items: &ValueFormatter, row: usize, out: &mut String) {
    let offsets = column.value_offsets();
    let is_nested = matches!(items.values, Values::List(..));
    let mut item_text = String::new();
    out.push('{');
    for item in offsets[row] as usize..offsets[row + 1] as usize {
        if item > offsets[row] as usize {
            out.push(',');
        }
        if items.is_null(item) {
            out.push_str("NULL");
        } else if is_nested {
            items.format(item, out);
        } else {
            item_text.clear();
            items.format(item, &mut item_text);
            array::push_item(&item_text, out);
        }
    }
    out.push('}');
}

/// Appends the text of one value; nothing for NULL. For many values of one array, use a
/// [`ValueFormatter`].
pub fn format_value(array: &ArrayRef, row: usize, out: &mut String) -> Result<()> {
    if row >= array.len() {
        return Err(Error::internal(format!("row {row} of an array of {} rows", array.len())));
    }
    ValueFormatter::new(array)?.format(row, out);
    Ok(())
}
