//! Days, times of day and moments: reading them from text and taking them apart.
//!
//! The calendar is the proleptic Gregorian one. Days count from 1970-01-01, times in microseconds.

use thalweg_formats::text::zone::{InvalidOffset, parse_offset};
use thalweg_types::{Error, SqlState};

use crate::zone::{Zone, current_zone, session_zone};

/// Microseconds of a second.
pub const MICROS_PER_SECOND: i64 = 1_000_000;
/// Microseconds of a day on which no clock is changed.
pub const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// True for `infinity` and `-infinity` as a day: the largest and the smallest integer.
pub fn is_infinite_day(days: i32) -> bool {
    matches!(days, i32::MIN | i32::MAX)
}

/// True for `infinity` and `-infinity` as a timestamp.
pub fn is_infinite(micros: i64) -> bool {
    matches!(micros, i64::MIN | i64::MAX)
}

/// `Some(true)` if the text is `infinity`, `Some(false)` if it is `-infinity`.
pub(crate) fn infinity(text: &str) -> Option<bool> {
    let text = text.trim();
    match text.strip_prefix('-') {
        Some(rest) => rest.eq_ignore_ascii_case("infinity").then_some(false),
        None => text.eq_ignore_ascii_case("infinity").then_some(true),
    }
}

/// A day by year, month and day of the month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    pub year: i64,
    pub month: u32,
    pub day: u32,
}

impl Civil {
    /// After Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
    pub fn from_days(days: i64) -> Civil {
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 } as u32;
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Civil { year, month, day }
    }

    /// Days since 1970-01-01; negative before it.
    pub fn to_days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let shifted_month = i64::from(if self.month > 2 { self.month - 3 } else { self.month + 9 });
        let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(self.day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - 719_468
    }

    /// `None` when the month has no such day.
    pub fn checked(year: i64, month: u32, day: u32) -> Option<Civil> {
        let valid = (-4712..=294_276).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day);
        valid.then_some(Civil { year, month, day })
    }
}

/// The length of a month, which counts from 1, in the Gregorian calendar.
pub fn days_in_month(year: i64, month: u32) -> u32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The reason why a text is not a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Syntax,
    /// A part is out of range: a month 13, a minute 61.
    Field,
}

impl Refusal {
    /// PostgreSQL's error for a text that is no value of the type.
    pub fn into_error(self, type_name: &str, text: &str) -> Error {
        match self {
            Refusal::Syntax => crate::errors::invalid_text(type_name, text),
            Refusal::Field => Error::new(
                SqlState::DATETIME_OVERFLOW,
                format!("date/time field value out of range: \"{text}\""),
            ),
        }
    }
}

/// The parts of a moment that a text contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    pub days: Option<i64>,
    pub micros: i64,
    /// East of Greenwich, in seconds.
    pub offset: Option<i64>,
}

impl Moment {
    /// Microseconds since 1970, as the clock on the wall shows them.
    pub fn local_micros(self) -> Option<i64> {
        self.days?.checked_mul(MICROS_PER_DAY)?.checked_add(self.micros)
    }

    /// Microseconds since 1970 in UTC. A text without an offset is a time of the session's zone.
    pub fn utc_micros(self) -> Option<i64> {
        let local = self.local_micros()?;
        let offset = match self.offset {
            Some(offset) => offset,
            None => current_zone().map_or(0, |zone| zone.offset_at_local(local)),
        };
        local.checked_sub(offset * MICROS_PER_SECOND)
    }
}

/// Reads a date, a time, or both with an optional offset from UTC.
pub(crate) fn parse_moment(text: &str) -> Result<Moment, Refusal> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("epoch") {
        return Ok(Moment { days: Some(0), micros: 0, offset: Some(0) });
    }
    let worded = numbered_month(text);
    let text = worded.as_deref().unwrap_or(text);
    let date_length = text.find([' ', 'T', 't', '+', 'Z', 'z']).unwrap_or(text.len());
    let (first, rest) = text.split_at(date_length);
    if first.contains(':') || is_midnight(text) {
        let (micros, zone) = parse_time(text)?;
        let offset = zone.map(|zone| zone.offset_at_local(micros));
        return Ok(Moment { days: None, micros, offset });
    }
    let days = parse_date(first)?.to_days();
    on_day(days, rest.trim_start_matches(['T', 't']))
}

/// A day, and the time and zone in the rest of the text, if there are any.
fn on_day(days: i64, rest: &str) -> Result<Moment, Refusal> {
    let rest = rest.trim();
    if rest.is_empty() {
        return Ok(Moment { days: Some(days), micros: 0, offset: None });
    }
    let is_numbered = rest.starts_with(|first: char| first.is_ascii_digit());
    let (micros, zone) = match parse_time(rest) {
        // A zone may stand right behind the date.
        Err(_) if !is_numbered => parse_time(&format!("00:00{rest}"))?,
        read => read?,
    };
    let offset = zone.map(|zone| zone.offset_at_local(days * MICROS_PER_DAY + micros));
    Ok(Moment { days: Some(days), micros, offset })
}

/// A word that means a day or a moment relative to the clock, and the text behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockWord<'a> {
    /// `now`, with nothing behind it.
    Now,
    /// A number of days from today, with an optional time: `tomorrow 10:00`.
    Day(i64, &'a str),
}

impl ClockWord<'_> {
    /// `None` for a text whose meaning does not depend on the clock.
    pub fn of(text: &str) -> Option<ClockWord<'_>> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        match word.to_ascii_lowercase().as_str() {
            "now" if rest.is_empty() => Some(ClockWord::Now),
            "yesterday" => Some(ClockWord::Day(-1, rest)),
            "today" => Some(ClockWord::Day(0, rest)),
            "tomorrow" => Some(ClockWord::Day(1, rest)),
            _ => None,
        }
    }

    /// The day and time that the word means by the clocks of the session's zone. `now` is the
    /// present moment in microseconds since 1970 in UTC.
    pub fn at(self, now: i64) -> Result<Moment, Refusal> {
        let offset = session_zone().offset_at_utc(now);
        let local = now + offset * MICROS_PER_SECOND;
        let today = local.div_euclid(MICROS_PER_DAY);
        match self {
            ClockWord::Now => Ok(Moment {
                days: Some(today),
                micros: local.rem_euclid(MICROS_PER_DAY),
                offset: Some(offset),
            }),
            ClockWord::Day(shift, rest) => on_day(today + shift, rest),
        }
    }
}

/// The word for midnight in UTC.
fn is_midnight(text: &str) -> bool {
    text.eq_ignore_ascii_case("allballs")
}

/// `Jan 15, 2024`, `15 January 2024` and `15-Jan-2024` with numbers in place of the month's name.
fn numbered_month(text: &str) -> Option<String> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let mut parts = text.splitn(4, [' ', '-']).map(str::trim).filter(|part| !part.is_empty());
    let (first, second, third) = (parts.next()?, parts.next()?, parts.next()?);
    let month_of = |word: &str| {
        let word = word.to_ascii_lowercase();
        let is_word = word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_lowercase());
        MONTHS.iter().position(|month| is_word && word.starts_with(month)).map(|at| at + 1)
    };
    let (month, day) = match (month_of(first), month_of(second)) {
        (Some(month), None) => (month, second),
        (None, Some(month)) => (month, first),
        _ => return None,
    };
    let behind = &text[third.as_ptr() as usize - text.as_ptr() as usize + third.len()..];
    Some(format!("{third}-{month}-{}{behind}", day.trim_end_matches(',')))
}

/// `2024-01-15`, `2024/1/15`, `20240115` and `1/15/2024`.
fn parse_date(text: &str) -> Result<Civil, Refusal> {
    let number = |part: &str| -> Result<i64, Refusal> {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if digits { part.parse().map_err(|_| Refusal::Field) } else { Err(Refusal::Syntax) }
    };
    let parts: Vec<&str> = match text.contains('/') {
        true => text.split('/').collect(),
        false => text.split('-').collect(),
    };
    let (year, month, day) = match parts.as_slice() {
        [month, day, year] if text.contains('/') && month.len() <= 2 => (*year, *month, *day),
        [year, month, day] => (*year, *month, *day),
        [whole] if whole.len() == 8 && whole.is_ascii() => (&whole[..4], &whole[4..6], &whole[6..]),
        _ => return Err(Refusal::Syntax),
    };
    if year.len() < 3 {
        return Err(Refusal::Syntax);
    }
    let (year, month, day) = (number(year)?, number(month)?, number(day)?);
    let (Ok(month), Ok(day)) = (u32::try_from(month), u32::try_from(day)) else {
        return Err(Refusal::Field);
    };
    if year == 0 {
        return Err(Refusal::Field);
    }
    Civil::checked(year, month, day).ok_or(Refusal::Field)
}

/// `13:30`, `13:30:15.25`, `1:30 PM`, each with an optional offset or zone.
fn parse_time(text: &str) -> Result<(i64, Option<Zone>), Refusal> {
    if is_midnight(text) {
        return Ok((0, Some(Zone::Fixed(0))));
    }
    let clock_length =
        text.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(text.len());
    let (clock, rest) = text.split_at(clock_length);
    let mut rest = rest.trim();
    let mut micros = parse_clock(clock)?;
    let half = rest.get(..2).map(str::to_ascii_lowercase);
    // The word has to end behind it: `America/New_York` is a zone.
    let ends = rest.get(2..).is_none_or(|rest| !rest.starts_with(char::is_alphabetic));
    if let Some(half @ ("am" | "pm")) = half.as_deref().filter(|_| ends) {
        let hour = micros / (3_600 * MICROS_PER_SECOND);
        let to_add = match (half, hour) {
            (_, 13..) | (_, 0) => return Err(Refusal::Field),
            ("am", 12) => -12,
            ("pm", 1..=11) => 12,
            _ => 0,
        };
        micros += to_add * 3_600 * MICROS_PER_SECOND;
        rest = rest[2..].trim();
    }
    let zone = match rest.chars().next() {
        None => None,
        Some('+' | '-') => {
            Some(Zone::Fixed(parse_offset(rest).map_err(|invalid| match invalid {
                InvalidOffset::Syntax => Refusal::Syntax,
                InvalidOffset::Range => Refusal::Field,
            })?))
        }
        Some(_) => Some(Zone::named(rest).ok_or(Refusal::Syntax)?),
    };
    Ok((micros, zone))
}

fn parse_clock(clock: &str) -> Result<i64, Refusal> {
    let mut parts = clock.split(':');
    let mut field = |most: i64, required: bool| -> Result<i64, Refusal> {
        match parts.next() {
            None if !required => Ok(0),
            None | Some("") => Err(Refusal::Syntax),
            Some(part) => {
                let value: i64 = part.parse().map_err(|_| Refusal::Syntax)?;
                if value <= most { Ok(value) } else { Err(Refusal::Field) }
            }
        }
    };
    let (hour, minute) = (field(24, true)?, field(59, true)?);
    let seconds = parts.next().unwrap_or("0");
    if parts.next().is_some() {
        return Err(Refusal::Syntax);
    }
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let second: i64 = whole.parse().map_err(|_| Refusal::Syntax)?;
    if second > 60 {
        return Err(Refusal::Field);
    }
    let micros =
        ((hour * 60 + minute) * 60 + second) * MICROS_PER_SECOND + fraction_micros(fraction)?;
    if micros > MICROS_PER_DAY { Err(Refusal::Field) } else { Ok(micros) }
}

/// The digits behind the point, rounded to microseconds.
fn fraction_micros(digits: &str) -> Result<i64, Refusal> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Refusal::Syntax);
    }
    let kept = &digits[..digits.len().min(6)];
    let mut micros: i64 = if kept.is_empty() { 0 } else { kept.parse().unwrap_or(0) };
    micros *= 10_i64.pow(6 - kept.len() as u32);
    let round_up = digits.as_bytes().get(6).is_some_and(|digit| *digit >= b'5');
    Ok(micros + i64::from(round_up))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_agree_over_the_whole_range() {
        for days in (-2_400_000..4_000_000).step_by(97) {
            assert_eq!(Civil::from_days(days).to_days(), days);
        }
        assert_eq!(Civil::from_days(0), Civil { year: 1970, month: 1, day: 1 });
        assert_eq!(Civil { year: 2000, month: 3, day: 1 }.to_days(), 11_017);
    }

    #[test]
    fn moments_are_read_as_postgres_reads_them() {
        let utc = |text| parse_moment(text).map(|moment| moment.utc_micros());
        assert_eq!(utc("1970-01-02"), Ok(Some(MICROS_PER_DAY)));
        assert_eq!(utc("1970-01-01 00:00:01.5"), Ok(Some(1_500_000)));
        assert_eq!(utc("1970-01-01T01:00+01"), Ok(Some(0)));
        assert_eq!(utc("1970-01-01 01:00:00 +01:00"), Ok(Some(0)));
        assert_eq!(utc("19700101 00:00:00Z"), Ok(Some(0)));
        assert_eq!(utc("1/2/1970 12:00 am"), Ok(Some(MICROS_PER_DAY)));
        assert_eq!(utc("1970-01-01 00:00:00.1234567"), Ok(Some(123_457)));
        assert_eq!(utc("2024-02-30"), Err(Refusal::Field));
        assert_eq!(utc("2024-01-01 25:00"), Err(Refusal::Field));
        assert_eq!(utc("Jan 2, 1970"), Ok(Some(MICROS_PER_DAY)));
        assert_eq!(utc("2 January 1970 00:00:01"), Ok(Some(MICROS_PER_DAY + MICROS_PER_SECOND)));
        assert_eq!(utc("02-Jan-1970"), Ok(Some(MICROS_PER_DAY)));
        assert_eq!(utc("1970-07-01 02:00 Europe/Berlin"), utc("1970-07-01 01:00"));
        assert_eq!(utc("1970-01-01 02:00 CEST"), Ok(Some(0)));
        assert_eq!(utc("1970-01-02 allballs"), Ok(Some(MICROS_PER_DAY)));
        assert_eq!(utc("allballs"), Ok(None));
        assert_eq!(utc("today"), Err(Refusal::Syntax));
        assert_eq!(utc(""), Err(Refusal::Syntax));
        assert_eq!(parse_moment("13:30").unwrap().micros, 48_600 * MICROS_PER_SECOND);
    }

    #[test]
    fn words_are_told_by_the_clock() {
        let at = |text: &'static str| {
            let word = ClockWord::of(text)?;
            Some(word.at(5 * MICROS_PER_DAY + 7).map(|moment| moment.utc_micros()))
        };
        let days = |days: i64| Some(Ok::<_, Refusal>(Some(days * MICROS_PER_DAY)));
        assert_eq!(at("now"), Some(Ok(Some(5 * MICROS_PER_DAY + 7))));
        assert_eq!(at(" TODAY "), days(5));
        assert_eq!(at("yesterday"), days(4));
        assert_eq!(at("tomorrow 24:00"), days(7));
        assert_eq!(at("today allballs"), days(5));
        assert_eq!(at("today 25:00"), Some(Err(Refusal::Field)));
        assert_eq!(at("today 5"), Some(Err(Refusal::Syntax)));
        assert_eq!(at("now 05:00"), None);
        assert_eq!(at("todays"), None);
        assert_eq!(at("epoch"), None);
    }
}
