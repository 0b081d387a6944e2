//! Dates, times of day and timestamps in ISO form, over the full range of their integers.
//!
//! The calendar is the proleptic Gregorian one; years before 1 are written as `BC`. The maximum and
//! the minimum integer represent `infinity` and `-infinity`.

use thalweg_types::{Error, Result, SqlState};

use super::format::DateStyle;
use super::parse::{invalid_datetime, quoted};
use super::scanner::Scanner;
use super::style::current_zone;

pub(super) const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
pub(super) const MICROS_PER_DAY: i64 = SECONDS_PER_DAY * MICROS_PER_SECOND;
/// PostgreSQL accepts zone offsets of less than sixteen hours.
const OFFSET_HOURS_MAX: i64 = 15;

/// Days since 1970-01-01 of a day in the proleptic Gregorian calendar.
///
/// After Howard Hinnant, "chrono-compatible low-level date algorithms": years begin in March, so
/// that the leap day is the last one.
pub(super) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day, the inverse of [`days_from_civil`], for all days that fit 32 bits.
///
/// After Cassio Neri and Lorenz Schneider, "Euclidean affine functions and their application to
/// calendar algorithms" (2023): all divisions have constant divisors and nonnegative dividends.
pub(super) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    /// Adds this many periods of 400 years, so that no day is negative.
    const ERAS: i64 = 14_700;
    let days = (days + 719_468 + ERAS * 146_097) as u64;
    let (century, day_of_century) = ((4 * days + 3) / 146_097, (4 * days + 3) % 146_097 / 4);
    let product = 2_939_745 * (4 * day_of_century + 3);
    let (year_of_century, day_of_year) = (product >> 32, product % (1 << 32) / 2_939_745 / 4);
    let product = 2_141 * day_of_year + 197_913;
    let (month, day) = ((product >> 16) as i64, (product % (1 << 16) / 2_141) as i64 + 1);
    // Years begin in March.
    let of_next = day_of_year >= 306;
    let year = (100 * century + year_of_century) as i64 - 400 * ERAS + i64::from(of_next);
    (year, if of_next { month - 12 } else { month }, day)
}

pub(super) fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap_year(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The reason why a text is not a date or a time.
enum Fault {
    Syntax,
    /// The syntax is right, but there is no such day or moment.
    Range,
}

impl Fault {
    fn error(self, type_name: &str, text: &str) -> Error {
        match self {
            Fault::Syntax => invalid_datetime(type_name, text),
            Fault::Range => Error::new(
                SqlState::DATETIME_OVERFLOW,
                format!("date/time field value out of range: {}", quoted(text)),
            ),
        }
    }
}

/// The fields of a timestamp's text; missing parts are zero.
struct Parts {
    /// Days since 1970.
    days: i64,
    /// Microseconds since midnight.
    micros: i64,
    /// The zone's offset, to be subtracted for UTC; `None` if the text has none.
    offset_seconds: Option<i64>,
}

pub(super) fn parse_date(text: &str) -> Result<i32> {
    if let Some(days) = short_date(text.as_bytes()) {
        return Ok(days as i32);
    }
    match special(text) {
        Some(Special::Infinity) => return Ok(i32::MAX),
        Some(Special::NegativeInfinity) => return Ok(i32::MIN),
        Some(Special::Epoch) => return Ok(0),
        None => {}
    }
    let days = parts(text).map(|parts| parts.days);
    days.and_then(|days| i32::try_from(days).map_err(|_| Fault::Range))
        .and_then(|days| match days {
            i32::MIN | i32::MAX => Err(Fault::Range),
            _ => Ok(days),
        })
        .map_err(|fault| fault.error("date", text))
}

/// Without `with_zone`, an offset from UTC is parsed and ignored.
pub(super) fn parse_timestamp(text: &str, with_zone: bool) -> Result<i64> {
    match special(text) {
        Some(Special::Infinity) => return Ok(i64::MAX),
        Some(Special::NegativeInfinity) => return Ok(i64::MIN),
        Some(Special::Epoch) => return Ok(0),
        None => {}
    }
    let type_name =
        if with_zone { "timestamp with time zone" } else { "timestamp without time zone" };
    timestamp_micros(text, with_zone).map_err(|fault| fault.error(type_name, text))
}

fn timestamp_micros(text: &str, with_zone: bool) -> Result<i64, Fault> {
    let parts = parts(text)?;
    let offset = match (with_zone, parts.offset_seconds) {
        (false, _) => 0,
        (true, Some(seconds)) => seconds * MICROS_PER_SECOND,
        (true, None) => match current_zone() {
            None => 0,
            Some(zone) => {
                let local = parts.days.checked_mul(MICROS_PER_DAY).ok_or(Fault::Range)?;
                let local = local.checked_add(parts.micros).ok_or(Fault::Range)?;
                zone.offset_at_local(local) * MICROS_PER_SECOND
            }
        },
    };
    // Needs 128 bits: the days alone may overflow where the sum does not.
    let micros =
        i128::from(parts.days) * i128::from(MICROS_PER_DAY) + i128::from(parts.micros - offset);
    match i64::try_from(micros) {
        Ok(i64::MIN | i64::MAX) | Err(_) => Err(Fault::Range),
        Ok(micros) => Ok(micros),
    }
}

pub(super) fn parse_time(text: &str) -> Result<i64> {
    let mut scanner = Scanner::new(text);
    let time = time_of_day(&mut scanner).and_then(|micros| {
        zone_offset(&mut scanner)?;
        if scanner.is_at_end() { Ok(micros) } else { Err(Fault::Syntax) }
    });
    time.map_err(|fault| fault.error("time without time zone", text))
}

enum Special {
    Infinity,
    NegativeInfinity,
    Epoch,
}

fn special(text: &str) -> Option<Special> {
    let text = text.trim_ascii();
    let (negative, name) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        b'0'..=b'9' => return None,
        _ => (false, text),
    };
    let is = |names: [&str; 2]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    if is(["infinity", "inf"]) {
        return Some(if negative { Special::NegativeInfinity } else { Special::Infinity });
    }
    (text.eq_ignore_ascii_case("epoch")).then_some(Special::Epoch)
}

/// Parses exactly `YYYY-MM-DD`, the form of nearly every date in files.
fn short_date(text: &[u8]) -> Option<i64> {
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else { return None };
    let digits = [y1, y2, y3, y4, m1, m2, d1, d2];
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = |digits: &[u8]| super::scanner::number(digits);
    civil(value(&digits[..4]), value(&digits[4..6]), value(&digits[6..])).ok()
}

fn civil(year: i64, month: i64, day: i64) -> Result<i64, Fault> {
    let exists =
        year != 0 && (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month);
    if exists { Ok(days_from_civil(year, month, day)) } else { Err(Fault::Range) }
}

/// Parses a date, followed by an optional time, zone and `BC`.
fn parts(text: &str) -> Result<Parts, Fault> {
    let mut scanner = Scanner::new(text);
    let (year, month, day) = date_fields(&mut scanner)?;
    let mut micros = 0;
    let mut offset_seconds = None;
    let spaces = scanner.take_spaces();
    let has_time = scanner.take(b'T')
        || scanner.take(b't')
        || (spaces && scanner.peek().is_some_and(|byte| byte.is_ascii_digit()));
    if has_time {
        scanner.take_spaces();
        micros = time_of_day(&mut scanner)?;
    }
    // A `-` right behind a date separates no zone.
    if has_time || spaces || scanner.peek() != Some(b'-') {
        offset_seconds = zone_offset(&mut scanner)?;
    }
    scanner.take_spaces();
    let before_christ = match scanner.word() {
        [] => false,
        word if word.eq_ignore_ascii_case(b"AD") => false,
        word if word.eq_ignore_ascii_case(b"BC") => true,
        _ => return Err(Fault::Syntax),
    };
    if !scanner.is_at_end() {
        return Err(Fault::Syntax);
    }
    Ok(Parts { days: days_of(year, month, day, before_christ)?, micros, offset_seconds })
}

fn days_of(year: i64, month: i64, day: i64, before_christ: bool) -> Result<i64, Fault> {
    if !before_christ {
        return civil(year, month, day);
    }
    // 1 BC is the calendar's year 0, so the check for a year 0 in the text comes before.
    let astronomical = 1 - year;
    if year == 0 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return Err(Fault::Range);
    }
    if day > days_in_month(astronomical, month) {
        return Err(Fault::Range);
    }
    Ok(days_from_civil(astronomical, month, day))
}

/// `YYYY-MM-DD`, `YYYY/MM/DD` or `YYYYMMDD`.
fn date_fields(scanner: &mut Scanner) -> Result<(i64, i64, i64), Fault> {
    let year = scanner.digits();
    let Some(separator) = scanner.take_any(b"-/") else {
        let [head @ .., m1, m2, d1, d2] = year else { return Err(Fault::Syntax) };
        if head.len() != 4 {
            return Err(Fault::Syntax);
        }
        let number = super::scanner::number;
        return Ok((number(head), number(&[*m1, *m2]), number(&[*d1, *d2])));
    };
    // A shorter first number would be a month or a day in another date style.
    if !(3..=7).contains(&year.len()) {
        return Err(Fault::Syntax);
    }
    let month = scanner.number(1, 2).ok_or(Fault::Syntax)?;
    if !scanner.take(separator) {
        return Err(Fault::Syntax);
    }
    let day = scanner.number(1, 2).ok_or(Fault::Syntax)?;
    Ok((super::scanner::number(year), month, day))
}

/// `HH:MM[:SS[.ffffff]]`, in microseconds.
fn time_of_day(scanner: &mut Scanner) -> Result<i64, Fault> {
    let hour = scanner.number(1, 2).ok_or(Fault::Syntax)?;
    if !scanner.take(b':') {
        return Err(Fault::Syntax);
    }
    let minute = scanner.number(1, 2).ok_or(Fault::Syntax)?;
    let (mut second, mut micros) = (0, 0);
    if scanner.take(b':') {
        second = scanner.number(1, 2).ok_or(Fault::Syntax)?;
        let fraction = scanner.fraction().ok_or(Fault::Syntax)?;
        micros = (fraction.billionths + 500) / 1_000;
    }
    let total = ((hour * 60 + minute) * 60 + second) * MICROS_PER_SECOND + micros;
    let exists = hour <= 24 && minute <= 59 && second <= 60 && total <= MICROS_PER_DAY;
    if exists { Ok(total) } else { Err(Fault::Range) }
}

/// `Z`, `UTC`, `GMT`, `±HH`, `±HHMM`, `±HH:MM[:SS]`, or nothing: seconds east of Greenwich.
fn zone_offset(scanner: &mut Scanner) -> Result<Option<i64>, Fault> {
    let mut ahead = scanner.clone();
    ahead.take_spaces();
    let word = ahead.word();
    if [&b"Z"[..], b"UTC", b"GMT"].iter().any(|zone| word.eq_ignore_ascii_case(zone)) {
        *scanner = ahead;
        return Ok(Some(0));
    }
    if !word.is_empty() {
        return Ok(None);
    }
    let Some(sign) = ahead.take_any(b"+-") else { return Ok(None) };
    let digits = ahead.digits();
    let number = super::scanner::number;
    let (hours, mut minutes, mut seconds) = match digits.len() {
        1 | 2 => (number(digits), 0, 0),
        4 => (number(&digits[..2]), number(&digits[2..]), 0),
        _ => return Err(Fault::Syntax),
    };
    if digits.len() <= 2 && ahead.take(b':') {
        minutes = ahead.number(2, 2).ok_or(Fault::Syntax)?;
        if ahead.take(b':') {
            seconds = ahead.number(2, 2).ok_or(Fault::Syntax)?;
        }
    }
    if hours > OFFSET_HOURS_MAX || minutes > 59 || seconds > 59 {
        return Err(Fault::Range);
    }
    *scanner = ahead;
    let offset = (hours * 60 + minutes) * 60 + seconds;
    Ok(Some(if sign == b'-' { -offset } else { offset }))
}

pub(super) fn format_date(days: i32, out: &mut String) {
    match days {
        i32::MAX => out.push_str("infinity"),
        i32::MIN => out.push_str("-infinity"),
        _ => {
            if push_date(i64::from(days), out) {
                out.push_str(" BC");
            }
        }
    }
}

/// `zone` is appended to the time, such as `+00`.
pub(super) fn format_timestamp(micros: i64, style: DateStyle, zone: &str, out: &mut String) {
    match micros {
        i64::MAX => return out.push_str("infinity"),
        i64::MIN => return out.push_str("-infinity"),
        _ => {}
    }
    let before_christ = push_date(micros.div_euclid(MICROS_PER_DAY), out);
    out.push(if style == DateStyle::Iso { 'T' } else { ' ' });
    format_time(micros.rem_euclid(MICROS_PER_DAY), out);
    out.push_str(zone);
    if before_christ {
        out.push_str(" BC");
    }
}

/// Writes the date; returns true if its year is before Christ.
fn push_date(days: i64, out: &mut String) -> bool {
    let (year, month, day) = civil_from_days(days);
    let before_christ = year <= 0;
    let year = if before_christ { 1 - year } else { year } as u64;
    let ([a, b], [c, d]) = (two_digits(month as u64), two_digits(day as u64));
    if year < 10_000 {
        let ([e, f], [g, h]) = (two_digits(year / 100), two_digits(year % 100));
        out.push_str(ascii(&[e, f, g, h, b'-', a, b, b'-', c, d]));
    } else {
        out.push_str(itoa::Buffer::new().format(year));
        out.push_str(ascii(&[b'-', a, b, b'-', c, d]));
    }
    before_christ
}

/// `HH:MM:SS` and the necessary digits after the point. Times in tables are never negative, but
/// those in files may be: they get a sign.
pub(super) fn format_time(micros: i64, out: &mut String) {
    if micros < 0 {
        out.push('-');
    }
    let micros = micros.unsigned_abs();
    push_clock(micros / MICROS_PER_SECOND as u64, out);
    push_fraction(micros % MICROS_PER_SECOND as u64, 6, out);
}

/// Hours, minutes and seconds.
pub(super) fn push_clock(seconds: u64, out: &mut String) {
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let ([a, b], [c, d]) = (two_digits(minutes), two_digits(seconds % 60));
    if hours < 100 {
        let [e, f] = two_digits(hours);
        out.push_str(ascii(&[e, f, b':', a, b, b':', c, d]));
    } else {
        out.push_str(itoa::Buffer::new().format(hours));
        out.push_str(ascii(&[b':', a, b, b':', c, d]));
    }
}

/// `.` and the fraction's digits without trailing zeros; nothing for zero.
pub(super) fn push_fraction(value: u64, digits: usize, out: &mut String) {
    if value == 0 {
        return;
    }
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(value);
    out.push('.');
    out.extend(std::iter::repeat_n('0', digits - text.len()));
    out.push_str(text.trim_end_matches('0'));
}

fn two_digits(value: u64) -> [u8; 2] {
    debug_assert!(value < 100);
    [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]
}

fn ascii(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("digits and marks are ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_is_the_one_behind_the_day_before() {
        let around = |day: i64| day - 150_000..day + 150_000;
        for days in [around(0), around(i64::from(i32::MIN) + 150_000), around(2_147_330_000)] {
            let mut before = civil_from_days(days.start - 1);
            for day in days {
                let (year, month, in_month) = before;
                let next = match (in_month == days_in_month(year, month), month) {
                    (true, 12) => (year + 1, 1, 1),
                    (true, _) => (year, month + 1, 1),
                    (false, _) => (year, month, in_month + 1),
                };
                let found = civil_from_days(day);
                assert_eq!(found, next, "{day}");
                assert_eq!(days_from_civil(found.0, found.1, found.2), day);
                before = found;
            }
        }
    }
}
