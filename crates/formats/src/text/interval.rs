//! Intervals: months, days and a time, each with a sign of its own.
//!
//! Written in PostgreSQL's style (`1 year 2 mons 3 days 04:05:06`); read in that style, with units
//! spelled out or shortened, in ISO 8601 (`P1Y2M3DT4H5M6S`) and as SQL's `1-2` and `3 04:05`.

use arrow::datatypes::IntervalMonthDayNano;
use thalweg_types::{Error, Result, SqlState};

use super::datetime::{push_clock, push_fraction};
use super::parse::{invalid_datetime, quoted};
use super::scanner::{Fraction, Scanner, number};

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

pub(super) fn parse(text: &str) -> Result<IntervalMonthDayNano> {
    let mut sum = Sum::default();
    let trimmed = text.trim_ascii();
    let understood = match trimmed.as_bytes() {
        [b'P' | b'p', ..] => parse_iso(trimmed, &mut sum),
        _ => parse_words(trimmed, &mut sum),
    };
    understood.ok_or_else(|| invalid_datetime("interval", text))?;
    sum.finish().ok_or_else(|| {
        Error::new(
            SqlState::DATETIME_OVERFLOW,
            format!("interval field value out of range: {}", quoted(text)),
        )
    })
}

/// What has been read so far. Wide enough that adding the parts of one text can't overflow.
#[derive(Default)]
struct Sum {
    months: i128,
    days: i128,
    nanos: i128,
}

impl Sum {
    /// Adds a count of units; what is behind the point goes to the smaller units.
    fn add(&mut self, count: Count, unit: Unit) {
        let (whole, billionths) = (i128::from(count.whole), i128::from(count.billionths));
        match unit {
            Unit::Months(months) => {
                self.months += whole * months;
                let billionths = billionths * months;
                // A fraction of a year is rounded to months; one of a month becomes days.
                if months > 1 {
                    self.months += round_div(billionths, BILLION);
                } else {
                    self.add_days_fraction(billionths * DAYS_PER_MONTH);
                }
            }
            Unit::Days(days) => {
                self.days += whole * days;
                self.add_days_fraction(billionths * days);
            }
            Unit::Nanos(nanos) => {
                self.nanos += whole * nanos + round_div(billionths * nanos, BILLION);
            }
        }
    }

    fn add_days_fraction(&mut self, billionths: i128) {
        self.days += billionths / BILLION;
        self.nanos += round_div(billionths % BILLION * NANOS_PER_DAY, BILLION);
    }

    fn negate(&mut self) {
        (self.months, self.days, self.nanos) = (-self.months, -self.days, -self.nanos);
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
}

#[derive(Clone, Copy)]
enum Unit {
    Months(i128),
    Days(i128),
    Nanos(i128),
}

const SECOND: Unit = Unit::Nanos(NANOS_PER_SECOND as i128);
const MINUTE: Unit = Unit::Nanos(60 * NANOS_PER_SECOND as i128);
const HOUR: Unit = Unit::Nanos(3_600 * NANOS_PER_SECOND as i128);
const DAY: Unit = Unit::Days(1);
const MONTH: Unit = Unit::Months(1);
const YEAR: Unit = Unit::Months(12);

fn unit_named(word: &[u8]) -> Option<Unit> {
    let lower = word.to_ascii_lowercase();
    Some(match lower.as_slice() {
        b"nanosecond" | b"nanoseconds" | b"ns" => Unit::Nanos(1),
        b"microsecond" | b"microseconds" | b"us" | b"usec" | b"usecs" => Unit::Nanos(1_000),
        b"millisecond" | b"milliseconds" | b"ms" | b"msec" | b"msecs" => Unit::Nanos(1_000_000),
        b"second" | b"seconds" | b"sec" | b"secs" | b"s" => SECOND,
        b"minute" | b"minutes" | b"min" | b"mins" | b"m" => MINUTE,
        b"hour" | b"hours" | b"hr" | b"hrs" | b"h" => HOUR,
        b"day" | b"days" | b"d" => DAY,
        b"week" | b"weeks" | b"w" => Unit::Days(7),
        b"month" | b"months" | b"mon" | b"mons" => MONTH,
        b"year" | b"years" | b"yr" | b"yrs" | b"y" => YEAR,
        b"decade" | b"decades" | b"dec" | b"decs" => Unit::Months(120),
        b"century" | b"centuries" | b"cent" | b"c" => Unit::Months(1_200),
        b"millennium" | b"millennia" | b"mil" | b"mils" => Unit::Months(12_000),
        _ => return None,
    })
}

/// The sign and the digits before a point, at most 18.
fn signed(scanner: &mut Scanner) -> Option<(bool, i64)> {
    let sign = scanner.take_any(b"+-");
    let negative = sign == Some(b'-');
    if sign.is_some() {
        scanner.take_spaces();
    }
    let digits = scanner.digits();
    if digits.len() > 18 || (digits.is_empty() && scanner.peek() != Some(b'.')) {
        return None;
    }
    Some((negative, number(digits)))
}

/// `3 days 04:05:06`, `1-2`, `@ 1 hour ago`.
fn parse_words(text: &str, sum: &mut Sum) -> Option<()> {
    let mut scanner = Scanner::new(text);
    scanner.take(b'@');
    scanner.take_spaces();
    if scanner.is_at_end() {
        return None;
    }
    let mut ago = false;
    let mut parts = 0;
    while !scanner.is_at_end() {
        if scanner.peek().is_some_and(|byte| byte.is_ascii_alphabetic()) {
            ago = scanner.word().eq_ignore_ascii_case(b"ago");
            if !ago || !scanner.is_at_end() || parts == 0 {
                return None;
            }
            break;
        }
        let (negative, whole) = signed(&mut scanner)?;
        if scanner.take(b':') {
            parse_clock(&mut scanner, negative, whole, sum)?;
        } else if scanner.take(b'-') {
            let months = scanner.number(1, 2).filter(|months| *months < 12)?;
            sum.add(Count::new(negative, whole, Fraction::default()), YEAR);
            sum.add(Count::new(negative, months, Fraction::default()), MONTH);
        } else {
            let count = Count::new(negative, whole, scanner.fraction()?);
            sum.add(count, unit_behind(&mut scanner)?);
        }
        scanner.take_spaces();
        parts += 1;
    }
    if ago {
        sum.negate();
    }
    Some(())
}

/// The unit behind a number. Without one, it counts days before a time, and seconds at the end.
fn unit_behind(scanner: &mut Scanner) -> Option<Unit> {
    scanner.take_spaces();
    match scanner.word() {
        [] if scanner.is_at_end() => Some(SECOND),
        [] => Some(DAY),
        word => unit_named(word),
    }
}

/// `MM[:SS[.fraction]]` behind the hours.
fn parse_clock(scanner: &mut Scanner, negative: bool, hours: i64, sum: &mut Sum) -> Option<()> {
    let minutes = scanner.number(1, 2).filter(|minutes| *minutes < 60)?;
    let mut seconds = Count { whole: 0, billionths: 0 };
    if scanner.take(b':') {
        let whole = scanner.number(1, 2).filter(|seconds| *seconds < 60)?;
        seconds = Count::new(negative, whole, scanner.fraction()?);
    }
    sum.add(Count::new(negative, hours, Fraction::default()), HOUR);
    sum.add(Count::new(negative, minutes, Fraction::default()), MINUTE);
    sum.add(seconds, SECOND);
    Some(())
}

/// `P1Y2M3W4DT5H6M7.8S`.
fn parse_iso(text: &str, sum: &mut Sum) -> Option<()> {
    let mut scanner = Scanner::new(text);
    scanner.take_any(b"Pp")?;
    let mut in_time = false;
    let mut parts = 0;
    while !scanner.is_at_end() {
        if !in_time && scanner.take_any(b"Tt").is_some() {
            in_time = true;
            continue;
        }
        let (negative, whole) = signed(&mut scanner)?;
        let count = Count::new(negative, whole, scanner.fraction()?);
        let unit = match (in_time, scanner.take_any(b"YyMmWwDdHhSs")?.to_ascii_uppercase()) {
            (false, b'Y') => YEAR,
            (false, b'M') => MONTH,
            (false, b'W') => Unit::Days(7),
            (false, b'D') => DAY,
            (true, b'H') => HOUR,
            (true, b'M') => MINUTE,
            (true, b'S') => SECOND,
            _ => return None,
        };
        sum.add(count, unit);
        parts += 1;
    }
    (parts > 0).then_some(())
}
