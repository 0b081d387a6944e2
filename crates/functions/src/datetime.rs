//! Functions of dates, times and intervals.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Date32Type, Field, Float64Type, Int64Type,
    IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::bounded_output::allow_reading;
use thalweg_values::calendar::{
    Civil, MICROS_PER_DAY, MICROS_PER_SECOND, days_in_month, is_infinite,
};
use thalweg_values::cast::{Manner, convert, is_text, rounded, stored_micros};
use thalweg_values::date_pattern::{PATTERN_BYTES, Pattern};
use thalweg_values::number_pattern;
use thalweg_values::scalar_function::Function;
use thalweg_values::zone::{Zone, session_zone};

use super::statement_time;

/// Bytes that reading a text by a pattern takes for each byte of it.
const VALUE_BYTES: usize = 4;

fn timestamptz() -> ArrowType {
    ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

fn interval() -> ArrowType {
    ArrowType::Interval(IntervalUnit::MonthDayNano)
}

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let text = || ArrowType::Utf8View;
    let justify = |name, compute| Function::new(name, &[&[interval()]], interval(), compute);
    let mut functions = vec![
        Function::signed("to_char", TypeSignature::Any(2), text(), to_char).into_udf(),
        Function::new("to_date", &[&[text(), text()]], ArrowType::Date32, to_date).into_udf(),
        Function::signed(
            "to_timestamp",
            TypeSignature::OneOf(vec![TypeSignature::Any(1), TypeSignature::Any(2)]),
            timestamptz(),
            to_timestamp,
        )
        .into_udf(),
        Function::signed(
            "age",
            TypeSignature::OneOf(vec![TypeSignature::Any(1), TypeSignature::Any(2)]),
            interval(),
            age,
        )
        .into_udf(),
        Function::signed("round_moment", TypeSignature::Any(2), timestamptz(), round_moment)
            .returning_argument(0)
            .into_udf(),
        justify("justify_days", justify_days).into_udf(),
        justify("justify_hours", justify_hours).into_udf(),
        justify("justify_interval", justify_interval).into_udf(),
    ];
    functions.extend(statement_time::functions());
    functions
}

/// Any kind of moment, in microseconds since 1970: one with a zone as the clocks of the session's
/// zone show it.
fn local_times(column: &ArrayRef) -> Result<PrimitiveArray<TimestampMicrosecondType>> {
    let field = Field::new("", column.data_type().clone(), true);
    let converted = convert(column, &field, &DataType::Timestamp, Manner::Explicit)?
        .ok_or_else(|| wrong_type(column.data_type()))?;
    Ok(converted.as_primitive::<TimestampMicrosecondType>().clone())
}

/// Any kind of moment, in microseconds since 1970 in UTC: one without a zone is a time of the
/// session's zone.
fn utc_moments(column: &ArrayRef) -> Result<PrimitiveArray<TimestampMicrosecondType>> {
    let field = Field::new("", column.data_type().clone(), true);
    let converted = convert(column, &field, &DataType::Timestamptz, Manner::Explicit)?;
    let micros = converted.as_ref().and_then(stored_micros);
    micros.ok_or_else(|| wrong_type(column.data_type()))?
}

fn texts(column: &ArrayRef) -> Result<ArrayRef> {
    if !is_text(column.data_type()) && column.data_type() != &ArrowType::Null {
        return Err(wrong_type(column.data_type()));
    }
    thalweg_values::cast::to_text(column)
}

fn wrong_type(data_type: &ArrowType) -> Error {
    let name = thalweg_values::types::display_name(&Field::new("", data_type.clone(), true));
    Error::new(SqlState::UNDEFINED_FUNCTION, format!("the function does not take {name}"))
}

/// Rows of two columns, where neither is NULL.
fn pairs<'a, T: ArrowPrimitiveType>(
    values: &'a PrimitiveArray<T>,
    texts: &'a StringViewArray,
) -> impl Iterator<Item = Option<(T::Native, &'a str)>> {
    values.iter().zip(texts).map(|(value, text)| Some((value?, text?)))
}

fn to_char(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let patterns = texts(&columns[1])?;
    let patterns = patterns.as_string_view();
    let given = columns[0].data_type();
    allow_reading(patterns, PATTERN_BYTES)?;
    if given.is_numeric() {
        return number_pattern::to_char(&columns[0], patterns);
    }
    if matches!(given, ArrowType::Interval(_)) {
        return interval_to_char(&columns[0], patterns);
    }
    // A date is a moment here, as it is to PostgreSQL.
    let is_zoned = !matches!(given, ArrowType::Timestamp(_, None));
    let values = match is_zoned {
        true => utc_moments(&columns[0])?,
        false => local_times(&columns[0])?,
    };
    let zone = is_zoned.then(session_zone);
    let mut last: Option<(String, Pattern)> = None;
    let mut text = String::new();
    let written = pairs(&values, patterns).map(|pair| {
        let (micros, pattern) = pair?;
        if is_infinite(micros) {
            return None;
        }
        if last.as_ref().is_none_or(|(known, _)| known != pattern) {
            last = Some((pattern.to_string(), Pattern::new(pattern)));
        }
        text.clear();
        if let Some((_, pattern)) = &last {
            match &zone {
                None => pattern.write(micros, None, &mut text),
                Some(zone) => {
                    let local = zone.local(micros).unwrap_or(micros);
                    pattern.write(local, Some((zone, micros)), &mut text);
                }
            }
        }
        Some(text.clone())
    });
    Ok(Arc::new(written.collect::<StringViewArray>()))
}

fn interval_to_char(column: &ArrayRef, patterns: &StringViewArray) -> Result<ArrayRef> {
    let intervals = column.as_primitive::<IntervalMonthDayNanoType>();
    let written = pairs(intervals, patterns).map(|pair| {
        let Some((interval, pattern)) = pair else { return Ok(None) };
        let mut text = String::new();
        Pattern::new(pattern).write_interval(interval, &mut text)?;
        Ok(Some(text))
    });
    Ok(Arc::new(written.collect::<Result<StringViewArray>>()?))
}

/// The timestamps that texts contain by patterns, with `convert` applied to each timestamp and the
/// offset of its zone.
fn read_patterns(
    columns: &[ArrayRef],
    convert: impl Fn(i64, Option<i64>) -> Option<i64>,
) -> Result<PrimitiveArray<TimestampMicrosecondType>> {
    let (values, patterns) = (texts(&columns[0])?, texts(&columns[1])?);
    allow_reading(patterns.as_string_view(), PATTERN_BYTES)?;
    allow_reading(values.as_string_view(), VALUE_BYTES)?;
    let values = values.as_string_view().iter();
    let read = values.zip(patterns.as_string_view()).map(|(text, pattern)| {
        let (Some(text), Some(pattern)) = (text, pattern) else { return Ok(None) };
        let read = Pattern::new(pattern).read(text);
        let (local, offset) = read.map_err(|refusal| refusal.into_error("timestamp", text))?;
        convert(local, offset).map(Some).ok_or_else(out_of_range)
    });
    read.collect()
}

fn to_date(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let micros = read_patterns(columns, |local, _| Some(local))?;
    Ok(Arc::new(micros.unary::<_, Date32Type>(|at| at.div_euclid(MICROS_PER_DAY) as i32)))
}

/// From a pattern, or from the seconds since 1970.
fn to_timestamp(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let micros = match columns {
        [_, _] => {
            let zone = session_zone();
            read_patterns(columns, |local, offset| match offset {
                Some(minutes) => local.checked_sub(minutes * 60 * MICROS_PER_SECOND),
                None => zone.utc(local),
            })?
        }
        [seconds] if seconds.data_type().is_numeric() => {
            let field = Field::new("", seconds.data_type().clone(), true);
            let seconds = convert(seconds, &field, &DataType::Float8, Manner::Explicit)?
                .ok_or_else(|| wrong_type(seconds.data_type()))?;
            seconds.as_primitive::<Float64Type>().try_unary(|seconds| {
                let micros = (seconds * MICROS_PER_SECOND as f64).round();
                // The range of timestamps: up to the year 294276.
                if micros.abs() < 9.2e18 { Ok(micros as i64) } else { Err(out_of_range()) }
            })?
        }
        [moment] => utc_moments(moment)?,
        _ => return Err(Error::internal("to_timestamp takes one or two arguments")),
    };
    Ok(Arc::new(micros.with_data_type(timestamptz())))
}

fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range")
}

/// Times and moments with so many digits of their seconds. The digits are part of a type's name,
/// and so the same for all rows.
fn round_moment(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let given = columns[0].data_type();
    if !matches!(
        given,
        ArrowType::Timestamp(TimeUnit::Microsecond, _) | ArrowType::Time64(TimeUnit::Microsecond)
    ) {
        return Err(wrong_type(given));
    }
    let digits = cast(&columns[1], &ArrowType::Int64)
        .map_err(|error| thalweg_values::errors::from_arrow_error(&error))?;
    let digits = digits.as_primitive::<Int64Type>().iter().flatten().next();
    let digits = digits.and_then(|digits| u8::try_from(digits).ok()).unwrap_or(u8::MAX);
    Ok(rounded(&columns[0], digits))
}

/// The time between two moments in years, months and days of the calendar.
fn age(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let [later, earlier] = columns else {
        return Err(Error::unsupported("age of one moment, as counted from today"));
    };
    let is_zoned =
        columns.iter().any(|column| matches!(column.data_type(), ArrowType::Timestamp(_, Some(_))));
    let zone = if is_zoned { session_zone() } else { Zone::UTC };
    let (later, earlier) = match is_zoned {
        true => (utc_moments(later)?, utc_moments(earlier)?),
        false => (local_times(later)?, local_times(earlier)?),
    };
    let ages = later.iter().zip(&earlier).map(|(later, earlier)| {
        let (later, earlier) = (later?, earlier?);
        let local = |at: i64| zone.local(at).unwrap_or(at);
        Some(match later >= earlier {
            true => span(local(later), local(earlier)),
            false => {
                let backwards = span(local(earlier), local(later));
                let IntervalMonthDayNano { months, days, nanoseconds } = backwards;
                IntervalMonthDayNano::new(-months, -days, -nanoseconds)
            }
        })
    });
    Ok(Arc::new(ages.collect::<PrimitiveArray<IntervalMonthDayNanoType>>()))
}

fn span(later: i64, earlier: i64) -> IntervalMonthDayNano {
    let split =
        |at: i64| (Civil::from_days(at.div_euclid(MICROS_PER_DAY)), at.rem_euclid(MICROS_PER_DAY));
    let ((to, to_clock), (from, from_clock)) = (split(later), split(earlier));
    let mut months = (to.year - from.year) * 12 + i64::from(to.month) - i64::from(from.month);
    let mut days = i64::from(to.day) - i64::from(from.day);
    let mut clock = to_clock - from_clock;
    if clock < 0 {
        clock += MICROS_PER_DAY;
        days -= 1;
    }
    if days < 0 {
        // The days that the earlier moment's month still had.
        days += i64::from(days_in_month(from.year, from.month));
        months -= 1;
    }
    IntervalMonthDayNano::new(months as i32, days as i32, clock * 1_000)
}

fn justified(
    columns: &[ArrayRef],
    justify: impl Fn(IntervalMonthDayNano) -> IntervalMonthDayNano,
) -> Result<ArrayRef> {
    let intervals = columns[0].as_primitive::<IntervalMonthDayNanoType>();
    Ok(Arc::new(intervals.unary::<_, IntervalMonthDayNanoType>(justify)))
}

const NANOS_PER_DAY: i64 = MICROS_PER_DAY * 1_000;

/// 30 days are a month.
fn days_to_months(
    IntervalMonthDayNano { months, days, nanoseconds }: IntervalMonthDayNano,
) -> IntervalMonthDayNano {
    let (mut months, mut days) = (months + days / 30, days % 30);
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + 30);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - 30);
    }
    IntervalMonthDayNano::new(months, days, nanoseconds)
}

/// 24 hours are a day.
fn hours_to_days(
    IntervalMonthDayNano { months, days, nanoseconds }: IntervalMonthDayNano,
) -> IntervalMonthDayNano {
    let mut days = days + (nanoseconds / NANOS_PER_DAY) as i32;
    let mut nanoseconds = nanoseconds % NANOS_PER_DAY;
    if days > 0 && nanoseconds < 0 {
        (days, nanoseconds) = (days - 1, nanoseconds + NANOS_PER_DAY);
    } else if days < 0 && nanoseconds > 0 {
        (days, nanoseconds) = (days + 1, nanoseconds - NANOS_PER_DAY);
    }
    IntervalMonthDayNano::new(months, days, nanoseconds)
}

fn justify_days(columns: &[ArrayRef]) -> Result<ArrayRef> {
    justified(columns, days_to_months)
}

fn justify_hours(columns: &[ArrayRef]) -> Result<ArrayRef> {
    justified(columns, hours_to_days)
}

fn justify_interval(columns: &[ArrayRef]) -> Result<ArrayRef> {
    justified(columns, |interval| {
        let IntervalMonthDayNano { mut months, mut days, nanoseconds } =
            days_to_months(hours_to_days(interval));
        // All parts get one sign.
        if months > 0 && (days < 0 || (days == 0 && nanoseconds < 0)) {
            (months, days) = (months - 1, days + 30);
        } else if months < 0 && (days > 0 || (days == 0 && nanoseconds > 0)) {
            (months, days) = (months + 1, days - 30);
        }
        hours_to_days(IntervalMonthDayNano::new(months, days, nanoseconds))
    })
}
