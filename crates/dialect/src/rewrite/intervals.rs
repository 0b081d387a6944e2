//! Casts to intervals with fields: `CAST(x AS interval day to second(3))`.
//!
//! Literals with fields are spelled out when they are parsed. In a cast of a literal, the fields
//! decide how its text is read, as in PostgreSQL; other values lose the part below the smallest
//! field.

use datafusion::sql::sqlparser::ast::{DataType, Expr, Interval, IntervalFields as Named, Value};
use thalweg_formats::text::{IntervalFields, IntervalPart, parse};
use thalweg_functions::part_name;
use thalweg_types::{Error, Result, SqlState};

use super::build::{call, cast, text};
use super::operators::literal_text;
use crate::parse::interval_parts;

/// Values have microseconds.
const SECOND_DIGITS_MAX: u64 = 6;

/// # Errors
/// If a literal has fields that no type has, such as `YEAR TO DAY`: others are gone by now.
pub(super) fn check_fields(interval: &Interval) -> Result<()> {
    let Some(last) = &interval.last_field else { return Ok(()) };
    let near = last.to_string().to_lowercase();
    let error_text = format!("syntax error at or near \"{near}\"");
    Err(Error::new(SqlState::SYNTAX_ERROR, error_text))
}

/// The value of a cast to a type with fields; `None` if the type has none.
pub(super) fn in_fields(
    expr: &Expr,
    fields: Option<&Named>,
    precision: Option<u64>,
) -> Result<Option<Expr>> {
    if fields.is_none() && precision.is_none() {
        return Ok(None);
    }
    let digits = precision.unwrap_or(SECOND_DIGITS_MAX).min(SECOND_DIGITS_MAX) as u8;
    let parts = fields.map(parts_of);
    if let Some(literal) = literal_text(expr) {
        let fields = IntervalFields { parts, second_digits: Some(digits) };
        let value = parse::interval_in(literal, fields)?;
        return Ok(Some(Expr::Interval(Interval {
            value: Box::new(text(interval_parts(value))),
            leading_field: None,
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        })));
    }
    let (_, smallest) = parts.unwrap_or((IntervalPart::Year, IntervalPart::Second));
    let value = cast(expr.clone(), DataType::Interval { fields: None, precision: None });
    let digits = Expr::value(Value::Number(digits.to_string(), false));
    Ok(Some(call("interval_in_fields", vec![value, text(part_name(smallest)), digits])))
}

fn parts_of(fields: &Named) -> (IntervalPart, IntervalPart) {
    use IntervalPart::{Day, Hour, Minute, Month, Second, Year};
    match fields {
        Named::Year => (Year, Year),
        Named::Month => (Month, Month),
        Named::Day => (Day, Day),
        Named::Hour => (Hour, Hour),
        Named::Minute => (Minute, Minute),
        Named::Second => (Second, Second),
        Named::YearToMonth => (Year, Month),
        Named::DayToHour => (Day, Hour),
        Named::DayToMinute => (Day, Minute),
        Named::DayToSecond => (Day, Second),
        Named::HourToMinute => (Hour, Minute),
        Named::HourToSecond => (Hour, Second),
        Named::MinuteToSecond => (Minute, Second),
    }
}
