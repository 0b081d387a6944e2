//! Intervals in the forms of `IntervalStyle`.

use std::fmt::Write;

use arrow::datatypes::IntervalMonthDayNano;

use super::super::datetime::push_fraction;
use crate::text::style::IntervalStyle;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Appends an interval in a style.
pub fn format_in(style: IntervalStyle, value: IntervalMonthDayNano, out: &mut String) {
    match style {
        IntervalStyle::Postgres => super::format(value, out),
        IntervalStyle::Verbose => verbose(Parts::of(value), out),
        IntervalStyle::SqlStandard => sql_standard(Parts::of(value), out),
        IntervalStyle::Iso8601 => iso_8601(Parts::of(value), out),
    }
}

/// The parts of an interval; those of the time have one sign.
struct Parts {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    /// Microseconds below a minute.
    micros: i64,
}

impl Parts {
    fn of(value: IntervalMonthDayNano) -> Parts {
        let micros = value.nanoseconds / 1_000;
        let minutes = micros / (60 * MICROS_PER_SECOND);
        Parts {
            years: i64::from(value.months / 12),
            months: i64::from(value.months % 12),
            days: i64::from(value.days),
            hours: minutes / 60,
            minutes: minutes % 60,
            micros: micros % (60 * MICROS_PER_SECOND),
        }
    }

    fn all(&self) -> [i64; 6] {
        [self.years, self.months, self.days, self.hours, self.minutes, self.micros]
    }
}

/// Seconds and their fraction without a sign; `width` is the least number of digits of the seconds.
fn push_seconds(micros: i64, width: usize, out: &mut String) {
    let micros = micros.unsigned_abs();
    let second = MICROS_PER_SECOND as u64;
    write!(out, "{:0width$}", micros / second).expect("writing to a string does not fail");
    push_fraction(micros % second, 6, out);
}

fn sql_standard(parts: Parts, out: &mut String) {
    let has_negative = parts.all().iter().any(|part| *part < 0);
    let has_positive = parts.all().iter().any(|part| *part > 0);
    let has_months = parts.years != 0 || parts.months != 0;
    let has_time = parts.hours != 0 || parts.minutes != 0 || parts.micros != 0;
    if !has_negative && !has_positive {
        return out.push('0');
    }
    let Parts { years, months, days, hours, minutes, micros } = parts;
    let sign = |is_negative: bool| if is_negative { '-' } else { '+' };
    let (years_abs, months_abs) = (years.abs(), months.abs());
    let (days_abs, hours_abs, minutes_abs) = (days.abs(), hours.abs(), minutes.abs());
    let written = if has_negative && has_positive || has_months && (days != 0 || has_time) {
        write!(
            out,
            "{}{years_abs}-{months_abs} {}{days_abs} {}{hours_abs}:{minutes_abs:02}:",
            sign(years < 0 || months < 0),
            sign(days < 0),
            sign(hours < 0 || minutes < 0 || micros < 0),
        )
    } else {
        if has_negative {
            out.push('-');
        }
        if has_months {
            write!(out, "{years_abs}-{months_abs}").expect("writing to a string does not fail");
            return;
        }
        match days {
            0 => write!(out, "{hours_abs}:{minutes_abs:02}:"),
            _ => write!(out, "{days_abs} {hours_abs}:{minutes_abs:02}:"),
        }
    };
    written.expect("writing to a string does not fail");
    push_seconds(micros, 2, out);
}

fn iso_8601(parts: Parts, out: &mut String) {
    if parts.all() == [0; 6] {
        return out.push_str("PT0S");
    }
    let part = |value: i64, unit: char, out: &mut String| {
        if value != 0 {
            write!(out, "{value}{unit}").expect("writing to a string does not fail");
        }
    };
    out.push('P');
    part(parts.years, 'Y', out);
    part(parts.months, 'M', out);
    part(parts.days, 'D', out);
    if parts.hours != 0 || parts.minutes != 0 || parts.micros != 0 {
        out.push('T');
    }
    part(parts.hours, 'H', out);
    part(parts.minutes, 'M', out);
    if parts.micros != 0 {
        if parts.micros < 0 {
            out.push('-');
        }
        push_seconds(parts.micros, 1, out);
        out.push('S');
    }
}

/// The first part decides whether the interval is in the past; later parts are relative to that.
fn verbose(parts: Parts, out: &mut String) {
    out.push('@');
    let mut is_ago: Option<bool> = None;
    let units = [
        (parts.years, "year"),
        (parts.months, "mon"),
        (parts.days, "day"),
        (parts.hours, "hour"),
        (parts.minutes, "min"),
    ];
    for (value, unit) in units {
        if value == 0 {
            continue;
        }
        let value = if *is_ago.get_or_insert(value < 0) { -value } else { value };
        let plural = if value == 1 { "" } else { "s" };
        write!(out, " {value} {unit}{plural}").expect("writing to a string does not fail");
    }
    if parts.micros != 0 {
        let is_negative = parts.micros < 0;
        out.push(' ');
        if *is_ago.get_or_insert(is_negative) != is_negative {
            out.push('-');
        }
        push_seconds(parts.micros, 1, out);
        out.push_str(if parts.micros.abs() == MICROS_PER_SECOND { " sec" } else { " secs" });
    }
    match is_ago {
        None => out.push_str(" 0"),
        Some(true) => out.push_str(" ago"),
        Some(false) => {}
    }
}
