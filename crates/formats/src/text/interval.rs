//! Intervals: months, days and a time, each with a sign of its own.
//!
//! The output has PostgreSQL's style (`1 year 2 mons 3 days 04:05:06`). The input may have this
//! style, with units in full or abbreviated, SQL's forms `1-2` and `3 04:05` ([`words`]), or ISO
//! 8601 (`P1Y2M3DT4H5M6S`, [`iso`]). [`fields`] handles the restrictions of types
//! such as `interval day to second(3)`.

mod fields;
mod iso;
mod styles;
mod words;

use arrow::datatypes::IntervalMonthDayNano;
use thalweg_types::{Error, Result, SqlState};

use super::datetime::{push_clock, push_fraction};
use super::parse::{invalid_datetime, quoted};
use super::scanner::Fraction;
use super::style::{self, IntervalStyle};
pub use fields::{IntervalFields, IntervalPart};
pub use styles::format_in;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_DAY: i128 = 86_400 * NANOS_PER_SECOND as i128;
const BILLION: i128 = 1_000_000_000;
/// Fractions of a month become days of a month of this length.
const DAYS_PER_MONTH: i128 = 30;

pub(super) fn format(value: IntervalMonthDayNano, out: &mut String) {
    let start = out.len();
    let mut after_negative = false;
    let parts = [(value.months / 12, "year"), (value.months % 12, "mon"), (value.days, "day")];
    for (count, unit) in parts {
        if count == 0 {
            continue;
        }
        separate(start, out);
        if after_negative && count > 0 {
            out.push('+');
        }
        out.push_str(itoa::Buffer::new().format(count));
        out.push(' ');
        out.push_str(unit);
        if count != 1 {
            out.push('s');
        }
        after_negative = count < 0;
    }
    if value.nanoseconds != 0 || out.len() == start {
        separate(start, out);
        push_time(value.nanoseconds, after_negative, out);
    }
}

fn separate(start: usize, out: &mut String) {
    if out.len() > start {
        out.push(' ');
    }
}

fn push_time(nanos: i64, after_negative: bool, out: &mut String) {
    if nanos < 0 {
        out.push('-');
    } else if after_negative {
        out.push('+');
    }
    let nanos = nanos.unsigned_abs();
    push_clock(nanos / NANOS_PER_SECOND as u64, out);
    push_fraction(nanos % NANOS_PER_SECOND as u64, 9, out);
}

/// Parses a text as a value of a type with these fields.
pub(super) fn parse(text: &str, fields: IntervalFields) -> Result<IntervalMonthDayNano> {
    let mut sum = Sum::default();
    let trimmed = text.trim_ascii();
    let read = match trimmed.as_bytes() {
        [b'P', ..] => iso::read(trimmed, &mut sum),
        _ => words::read(trimmed, fields, &mut sum),
    };
    if has_one_sign(trimmed) && is_sql_standard() {
        sum.make_negative();
    }
    let value = read.and_then(|()| sum.finish().ok_or(Fault::Range));
    value.map(|value| fields.kept(value)).map_err(|fault| fault.into_error(text))
}

/// True for a text that begins with a minus and has no other sign before a number.
fn has_one_sign(text: &str) -> bool {
    let signed = |word: &str| word.starts_with(['+', '-']);
    text.starts_with('-') && !text.split_ascii_whitespace().skip(1).any(signed)
}

/// True if a leading minus holds for all parts of an interval.
fn is_sql_standard() -> bool {
    style::current().is_some_and(|style| style.intervals == IntervalStyle::SqlStandard)
}

/// The reason why a text is not an interval.
enum Fault {
    Syntax,
    /// A minute above 59, or a value that does not fit.
    Range,
}

impl Fault {
    fn into_error(self, text: &str) -> Error {
        match self {
            Fault::Syntax => invalid_datetime("interval", text),
            Fault::Range => Error::new(
                SqlState::INTERVAL_OVERFLOW,
                format!("interval field value out of range: {}", quoted(text)),
            ),
        }
    }
}

/// The sum of the parts so far. Sums beyond all intervals saturate.
#[derive(Default)]
struct Sum {
    months: i128,
    days: i128,
    nanos: i128,
}

impl Sum {
    /// Adds a count of units; its fraction goes to the smaller units.
    fn add(&mut self, count: Count, unit: Unit) {
        let (whole, billionths) = (i128::from(count.whole), i128::from(count.billionths));
        match unit.length() {
            Length::Months(months) => {
                self.months = self.months.saturating_add(whole * months);
                let billionths = billionths * months;
                // A fraction of a year is rounded to months; that of a month becomes days.
                if months > 1 {
                    self.months = self.months.saturating_add(round_div(billionths, BILLION));
                } else {
                    self.add_days_fraction(billionths * DAYS_PER_MONTH);
                }
            }
            Length::Days(days) => {
                self.days = self.days.saturating_add(whole * days);
                self.add_days_fraction(billionths * days);
            }
            Length::Nanos(nanos) => {
                let nanos = whole * nanos + round_div(billionths * nanos, BILLION);
                self.nanos = self.nanos.saturating_add(nanos);
            }
        }
    }

    fn add_days_fraction(&mut self, billionths: i128) {
        let nanos = round_div(billionths % BILLION * NANOS_PER_DAY, BILLION);
        self.days = self.days.saturating_add(billionths / BILLION);
        self.nanos = self.nanos.saturating_add(nanos);
    }

    fn negate(&mut self) {
        for part in [&mut self.months, &mut self.days, &mut self.nanos] {
            *part = part.saturating_neg();
        }
    }

    fn make_negative(&mut self) {
        for part in [&mut self.months, &mut self.days, &mut self.nanos] {
            *part = part.saturating_abs().saturating_neg();
        }
    }

    fn finish(&self) -> Option<IntervalMonthDayNano> {
        Some(IntervalMonthDayNano {
            months: self.months.try_into().ok()?,
            days: self.days.try_into().ok()?,
            nanoseconds: self.nanos.try_into().ok()?,
        })
    }
}

fn round_div(dividend: i128, divisor: i128) -> i128 {
    let half = if dividend < 0 { -divisor / 2 } else { divisor / 2 };
    (dividend + half) / divisor
}

/// A number with its sign applied to both parts.
#[derive(Clone, Copy)]
struct Count {
    whole: i64,
    billionths: i64,
}

impl Count {
    fn new(negative: bool, whole: i64, fraction: Fraction) -> Count {
        let sign = if negative { -1 } else { 1 };
        Count { whole: sign * whole, billionths: sign * fraction.billionths }
    }

    fn whole(negative: bool, whole: i64) -> Count {
        Count::new(negative, whole, Fraction::default())
    }
}

/// The unit of a count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Nanosecond,
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

enum Length {
    Months(i128),
    Days(i128),
    Nanos(i128),
}

impl Unit {
    fn length(self) -> Length {
        match self {
            Unit::Nanosecond => Length::Nanos(1),
            Unit::Microsecond => Length::Nanos(1_000),
            Unit::Millisecond => Length::Nanos(1_000_000),
            Unit::Second => Length::Nanos(BILLION),
            Unit::Minute => Length::Nanos(60 * BILLION),
            Unit::Hour => Length::Nanos(3_600 * BILLION),
            Unit::Day => Length::Days(1),
            Unit::Week => Length::Days(7),
            Unit::Month => Length::Months(1),
            Unit::Year => Length::Months(12),
            Unit::Decade => Length::Months(120),
            Unit::Century => Length::Months(1_200),
            Unit::Millennium => Length::Months(12_000),
        }
    }
}
