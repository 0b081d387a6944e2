//! Dates and moments in the forms of `DateStyle`.

use std::fmt::Write;

use super::{DateOrder, DateOutput, SessionStyle};
use crate::text::datetime::{MICROS_PER_DAY, civil_from_days, format_time};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// The first day of 1970 was a Thursday.
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// The name of an infinite value.
fn infinity(is_late: bool) -> &'static str {
    if is_late { "infinity" } else { "-infinity" }
}

/// Appends a date by its days since 1970.
pub fn push_date(style: &SessionStyle, days: i32, out: &mut String) {
    if matches!(days, i32::MIN | i32::MAX) {
        return out.push_str(infinity(days > 0));
    }
    let parts = Parts::of(i64::from(days));
    parts.push_numbers(style, out);
    parts.push_era(out);
}

/// Appends a timestamp without a zone, by its microseconds since 1970.
pub fn push_timestamp(style: &SessionStyle, micros: i64, out: &mut String) {
    push_moment(style, micros, None, out);
}

/// Appends a moment as the clocks of the style's zone show it. Takes microseconds since 1970 in
/// UTC.
pub fn push_timestamptz(style: &SessionStyle, micros: i64, out: &mut String) {
    let offset = match micros {
        i64::MIN | i64::MAX => 0,
        _ => style.zone.offset_at_utc(micros),
    };
    let local = i128::from(micros) + i128::from(offset) * 1_000_000;
    // The zone of a moment at the end of all moments is not applied.
    let local = i64::try_from(local).unwrap_or(micros);
    push_moment(style, local, Some((micros, offset)), out);
}

/// Appends a moment in the form of JSON, `2013-01-31T05:00:00+00:00`: with a zone, as the clocks of
/// the style's zone show it.
pub fn push_xsd(style: &SessionStyle, micros: i64, has_zone: bool, out: &mut String) {
    if matches!(micros, i64::MIN | i64::MAX) {
        return out.push_str(infinity(micros > 0));
    }
    let offset = if has_zone { style.zone.offset_at_utc(micros) } else { 0 };
    let local = micros.saturating_add(offset * 1_000_000);
    let parts = Parts::of(local.div_euclid(MICROS_PER_DAY));
    parts.push_numbers(&SessionStyle::default(), out);
    out.push('T');
    format_time(local.rem_euclid(MICROS_PER_DAY), out);
    if has_zone {
        push_offset(offset, true, out);
    }
    parts.push_era(out);
}

/// `zone` is the moment in UTC and the zone's offset then.
fn push_moment(style: &SessionStyle, local: i64, zone: Option<(i64, i64)>, out: &mut String) {
    if matches!(local, i64::MIN | i64::MAX) {
        return out.push_str(infinity(local > 0));
    }
    let (days, time) = (local.div_euclid(MICROS_PER_DAY), local.rem_euclid(MICROS_PER_DAY));
    let parts = Parts::of(days);
    if style.dates == DateOutput::Postgres {
        let month = MONTHS[parts.month as usize - 1];
        out.push_str(DAYS[days.rem_euclid(7) as usize]);
        let written = match style.order {
            DateOrder::Dmy => write!(out, " {:02} {month} ", parts.day),
            DateOrder::Mdy | DateOrder::Ymd => write!(out, " {month} {:02} ", parts.day),
        };
        written.expect("writing to a string does not fail");
        format_time(time, out);
        write!(out, " {:04}", parts.year).expect("writing to a string does not fail");
    } else {
        parts.push_numbers(style, out);
        out.push(' ');
        format_time(time, out);
    }
    if let Some((utc, offset)) = zone {
        if style.dates == DateOutput::Iso {
            push_offset(offset, false, out);
        } else {
            out.push(' ');
            style.zone.push_abbreviation(utc, out);
        }
    }
    parts.push_era(out);
}

/// `+05`, `+05:30` or `+05:30:15`.
fn push_offset(east: i64, has_minutes: bool, out: &mut String) {
    let (hours, minutes, seconds) = (east.abs() / 3_600, east.abs() / 60 % 60, east.abs() % 60);
    let sign = if east < 0 { '-' } else { '+' };
    let written = match (minutes, seconds) {
        (_, 1..) => write!(out, "{sign}{hours:02}:{minutes:02}:{seconds:02}"),
        (0, 0) if !has_minutes => write!(out, "{sign}{hours:02}"),
        _ => write!(out, "{sign}{hours:02}:{minutes:02}"),
    };
    written.expect("writing to a string does not fail");
}

struct Parts {
    /// From 1 on, before Christ as well.
    year: i64,
    month: i64,
    day: i64,
    before_christ: bool,
}

impl Parts {
    fn of(days: i64) -> Parts {
        let (year, month, day) = civil_from_days(days);
        let before_christ = year <= 0;
        Parts { year: if before_christ { 1 - year } else { year }, month, day, before_christ }
    }

    fn push_numbers(&self, style: &SessionStyle, out: &mut String) {
        let Parts { year, month, day, .. } = self;
        let is_dmy = style.order == DateOrder::Dmy;
        let written = match style.dates {
            DateOutput::Iso => write!(out, "{year:04}-{month:02}-{day:02}"),
            DateOutput::Sql if is_dmy => write!(out, "{day:02}/{month:02}/{year:04}"),
            DateOutput::Sql => write!(out, "{month:02}/{day:02}/{year:04}"),
            DateOutput::Postgres if is_dmy => write!(out, "{day:02}-{month:02}-{year:04}"),
            DateOutput::Postgres => write!(out, "{month:02}-{day:02}-{year:04}"),
            DateOutput::German => write!(out, "{day:02}.{month:02}.{year:04}"),
        };
        written.expect("writing to a string does not fail");
    }

    fn push_era(&self, out: &mut String) {
        if self.before_christ {
            out.push_str(" BC");
        }
    }
}
