//! Time zones: the offset from UTC that a clock has at a place and a moment.
//!
//! The rules come from the zone database that Arrow carries, or from a description in POSIX form.
//! A local time that the clock skips or shows twice is read as PostgreSQL reads it: by the offset
//! before a gap, and by the later of two offsets.

mod posix;

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::IntervalMonthDayNano;
use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeZone};
use chrono_tz::{OffsetComponents, OffsetName, TZ_VARIANTS, Tz};
use thalweg_types::{Error, SqlState};

use self::posix::Posix;
use super::datetime::{civil_from_days, days_from_civil, is_leap_year};

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
const MICROS_PER_DAY: i64 = SECONDS_PER_DAY * MICROS_PER_SECOND;

/// The zone database has no clock changes from this year on. Its rules for later years are those of
/// the years before.
const RULES_END_YEAR: i64 = 2_100;

/// The calendar repeats after this number of years, unless a leap year is left out.
const CALENDAR_CYCLE_YEARS: i64 = 28;

/// The earliest moment, in seconds since 1970, for which the zone database is asked. Clocks showed
/// the local mean time long before.
const EARLIEST_SECONDS: i64 = -100_000 * 365 * SECONDS_PER_DAY;

/// PostgreSQL accepts offsets in texts of less than sixteen hours.
const OFFSET_HOURS_MAX: i64 = 15;

/// PostgreSQL accepts offsets of zones of less than a week.
const ZONE_HOURS_MAX: i64 = 167;

/// Abbreviations of PostgreSQL's default set with their offsets in seconds east of Greenwich.
const ABBREVIATIONS: &str = include_str!("zone/abbreviations.txt");

/// A time zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Zone {
    /// Seconds east of Greenwich.
    Fixed(i64),
    Place(Tz),
    Posix(Arc<Posix>),
}

/// The reason why a text is not an offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidOffset {
    Syntax,
    Range,
}

impl Zone {
    /// Coordinated Universal Time.
    pub const UTC: Zone = Zone::Place(Tz::UTC);

    /// The names of all places of the zone database, with their zones.
    pub fn places() -> impl Iterator<Item = (&'static str, Zone)> {
        TZ_VARIANTS.iter().map(|place| (place.name(), Zone::Place(*place)))
    }

    /// True if the zone's clocks show summer time at a moment, in microseconds since 1970.
    #[must_use]
    pub fn is_summer(&self, micros: i64) -> bool {
        match self {
            Zone::Place(place) => {
                let offset = place.offset_from_utc_datetime(&moment_with_rules(micros));
                !offset.dst_offset().is_zero()
            }
            _ => false,
        }
    }

    /// A zone by its name or abbreviation, whatever the case.
    #[must_use]
    pub fn named(name: &str) -> Option<Zone> {
        static OFFSETS: OnceLock<HashMap<&'static str, i64>> = OnceLock::new();
        let offsets = OFFSETS.get_or_init(|| {
            let lines = ABBREVIATIONS.lines().filter_map(|line| line.split_once(' '));
            lines.filter_map(|(name, seconds)| Some((name, seconds.parse().ok()?))).collect()
        });
        if let Some(seconds) = offsets.get(name.to_ascii_uppercase().as_str()) {
            return Some(Zone::Fixed(*seconds));
        }
        place(name).map(Zone::Place)
    }

    /// The zone of a session by its name or its description in POSIX form, with the spelling that
    /// `SHOW` returns.
    #[must_use]
    pub fn of_session(name: &str) -> Option<(Zone, String)> {
        if let Some(place) = place(name) {
            return Some((Zone::Place(place), place.name().to_owned()));
        }
        let spelling = name.to_ascii_uppercase();
        let posix = Posix::parse(&spelling)?;
        Some((Zone::Posix(Arc::new(posix)), spelling))
    }

    /// The zone of a session by its offset in seconds east of Greenwich, with its description in
    /// POSIX form. `None` if the offset is too large.
    #[must_use]
    pub fn of_session_offset(east: i64) -> Option<(Zone, String)> {
        if east.unsigned_abs() / 3_600 > ZONE_HOURS_MAX.unsigned_abs() {
            return None;
        }
        let (hours, minutes, seconds) = (east.abs() / 3_600, east.abs() / 60 % 60, east.abs() % 60);
        let mut offset = format!("{hours:02}");
        if minutes != 0 || seconds != 0 {
            offset.push_str(&format!(":{minutes:02}"));
        }
        if seconds != 0 {
            offset.push_str(&format!(":{seconds:02}"));
        }
        let spelling = match east < 0 {
            true => format!("<-{offset}>+{offset}"),
            false => format!("<+{offset}>-{offset}"),
        };
        Zone::of_session(&spelling)
    }

    /// The argument of `AT TIME ZONE`: a name, or an offset that counts to the west, as in POSIX.
    ///
    /// # Errors
    /// 22023 if there is no such zone.
    pub fn of_zone_argument(text: &str) -> Result<Zone, Error> {
        Zone::named(text).or_else(|| posix_zone(text)).ok_or_else(|| {
            let error_text = format!("time zone \"{text}\" not recognized");
            Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text)
        })
    }

    /// The zone that a function takes as an argument: a name, or an offset that counts to the east
    /// and has a sign.
    ///
    /// # Errors
    /// 22023 if there is no such zone.
    pub fn of_argument(text: &str) -> Result<Zone, Error> {
        let invalid = || {
            let error_text = format!("invalid input syntax for type numeric time zone: \"{text}\"");
            Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text)
        };
        match text.chars().next() {
            Some('+' | '-') => parse_offset(text).map(Zone::Fixed).map_err(|_| invalid()),
            Some('0'..='9') => Err(invalid()
                .with_hint("Numeric time zones must have \"-\" or \"+\" as first character.")),
            _ => Zone::of_zone_argument(text),
        }
    }

    /// An offset as an interval, which counts to the east.
    ///
    /// # Errors
    /// 22023 if the interval has months or days.
    pub fn of_interval(interval: IntervalMonthDayNano) -> Result<Zone, Error> {
        if interval.months != 0 || interval.days != 0 {
            let error_text = "interval time zone must not include months or days";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text));
        }
        Ok(Zone::Fixed(interval.nanoseconds / (MICROS_PER_SECOND * 1_000)))
    }

    /// True if the zone's clocks have always shown UTC.
    #[must_use]
    pub fn is_utc(&self) -> bool {
        match self {
            Zone::Fixed(seconds) => *seconds == 0,
            Zone::Place(place) => {
                use Tz::{
                    Etc__GMT, Etc__UCT, Etc__UTC, Etc__Universal, Etc__Zulu, GMT, UCT, UTC,
                    Universal, Zulu,
                };
                matches!(
                    place,
                    Etc__GMT
                        | Etc__UCT
                        | Etc__UTC
                        | Etc__Universal
                        | Etc__Zulu
                        | GMT
                        | UCT
                        | UTC
                        | Universal
                        | Zulu
                )
            }
            Zone::Posix(posix) => posix.is_utc(),
        }
    }

    /// Seconds east of Greenwich when it is `micros` in UTC.
    #[must_use]
    pub fn offset_at_utc(&self, micros: i64) -> i64 {
        match self {
            Zone::Fixed(seconds) => *seconds,
            Zone::Place(place) => east(&place.offset_from_utc_datetime(&moment_with_rules(micros))),
            Zone::Posix(posix) => posix.at(micros.div_euclid(MICROS_PER_SECOND)).0,
        }
    }

    /// Seconds east of Greenwich when the clocks of the zone show `micros`.
    #[must_use]
    pub fn offset_at_local(&self, micros: i64) -> i64 {
        let before = || self.offset_at_utc(micros.saturating_sub(MICROS_PER_DAY));
        match self {
            Zone::Fixed(seconds) => *seconds,
            Zone::Place(place) => {
                match place.offset_from_local_datetime(&moment_with_rules(micros)) {
                    MappedLocalTime::Single(offset) => east(&offset),
                    MappedLocalTime::Ambiguous(first, second) => east(&first).min(east(&second)),
                    MappedLocalTime::None => before(),
                }
            }
            Zone::Posix(posix) => {
                let local = micros.div_euclid(MICROS_PER_SECOND);
                let fitting = posix.offsets().filter(|east| posix.at(local - east).0 == *east);
                fitting.min().unwrap_or_else(before)
            }
        }
    }

    /// Appends the zone's name in a moment, such as `CEST`; a zone without names has offsets such
    /// as `+0530`.
    pub fn push_abbreviation(&self, micros: i64, out: &mut String) {
        match self {
            Zone::Fixed(seconds) => push_numeric(*seconds, out),
            Zone::Place(place) => {
                let offset = place.offset_from_utc_datetime(&moment_with_rules(micros));
                match offset.abbreviation() {
                    Some(name) => out.push_str(name),
                    None => push_numeric(east(&offset), out),
                }
            }
            Zone::Posix(posix) => out.push_str(posix.at(micros.div_euclid(MICROS_PER_SECOND)).1),
        }
    }

    /// Microseconds that the zone's clocks show when it is `micros` in UTC; `None` if that is out
    /// of range. An infinite moment is infinite everywhere.
    #[must_use]
    pub fn local(&self, micros: i64) -> Option<i64> {
        match micros {
            i64::MIN | i64::MAX => Some(micros),
            _ => micros.checked_add(self.offset_at_utc(micros) * MICROS_PER_SECOND),
        }
    }

    /// The moment in UTC when the zone's clocks show `micros`; `None` if that is out of range.
    #[must_use]
    pub fn utc(&self, micros: i64) -> Option<i64> {
        match micros {
            i64::MIN | i64::MAX => Some(micros),
            _ => micros.checked_sub(self.offset_at_local(micros) * MICROS_PER_SECOND),
        }
    }
}

/// `+05`, `+0530` or `+053015`.
fn push_numeric(east: i64, out: &mut String) {
    let (hours, minutes, seconds) = (east.abs() / 3_600, east.abs() / 60 % 60, east.abs() % 60);
    let sign = if east < 0 { '-' } else { '+' };
    let written = match (minutes, seconds) {
        (0, 0) => write!(out, "{sign}{hours:02}"),
        (_, 0) => write!(out, "{sign}{hours:02}{minutes:02}"),
        _ => write!(out, "{sign}{hours:02}{minutes:02}{seconds:02}"),
    };
    written.expect("writing to a string does not fail");
}

fn posix_zone(text: &str) -> Option<Zone> {
    let posix = Posix::parse(&text.to_ascii_uppercase())?;
    Some(Zone::Posix(Arc::new(posix)))
}

/// The place of a name, whatever the case.
fn place(name: &str) -> Option<Tz> {
    static PLACES: OnceLock<HashMap<String, Tz>> = OnceLock::new();
    let places = PLACES.get_or_init(|| {
        TZ_VARIANTS.iter().map(|place| (place.name().to_ascii_lowercase(), *place)).collect()
    });
    places.get(&name.to_ascii_lowercase()).copied()
}

/// A moment for which the zone database has rules: the given one, or else one under the same rules.
fn moment_with_rules(micros: i64) -> NaiveDateTime {
    let seconds = micros.div_euclid(MICROS_PER_SECOND).max(EARLIEST_SECONDS);
    let (year, _, _) = civil_from_days(seconds.div_euclid(SECONDS_PER_DAY));
    let seconds = match year >= RULES_END_YEAR {
        true => seconds - later_by(year) * SECONDS_PER_DAY,
        false => seconds,
    };
    DateTime::from_timestamp(seconds, 0).unwrap_or_default().naive_utc()
}

/// Days to the beginning of a year from the beginning of an equal one for which there are rules.
/// Equal years have the same weekdays and leap days.
fn later_by(year: i64) -> i64 {
    let first_day = |year| days_from_civil(year, 1, 1);
    let equal = |other: &i64| {
        is_leap_year(*other) == is_leap_year(year) && (first_day(year) - first_day(*other)) % 7 == 0
    };
    let mut others = RULES_END_YEAR - 1 - CALENDAR_CYCLE_YEARS..RULES_END_YEAR - 1;
    let other = others.find(equal).unwrap_or(RULES_END_YEAR - CALENDAR_CYCLE_YEARS);
    first_day(year) - first_day(other)
}

fn east(offset: &impl Offset) -> i64 {
    i64::from(offset.fix().local_minus_utc())
}

/// `+02`, `-0330`, `+05:30`, `+02:30:15`, in seconds.
///
/// # Errors
/// If the text is no offset, or it is too large.
pub fn parse_offset(text: &str) -> Result<i64, InvalidOffset> {
    let (sign, digits) = match text.split_at_checked(1) {
        Some(("+", digits)) => (1, digits),
        Some(("-", digits)) => (-1, digits),
        _ => return Err(InvalidOffset::Syntax),
    };
    let number = |digits: &str| -> Result<i64, InvalidOffset> {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse().ok()).flatten().ok_or(InvalidOffset::Syntax)
    };
    let (hours, minutes, seconds) = match digits.split(':').collect::<Vec<_>>().as_slice() {
        [whole] => match whole.len() {
            1 | 2 => (number(whole)?, 0, 0),
            3 | 4 if whole.is_ascii() => {
                let (hours, minutes) = whole.split_at(whole.len() - 2);
                (number(hours)?, number(minutes)?, 0)
            }
            _ => return Err(InvalidOffset::Syntax),
        },
        [hours, minutes] => (number(hours)?, number(minutes)?, 0),
        [hours, minutes, seconds] => (number(hours)?, number(minutes)?, number(seconds)?),
        _ => return Err(InvalidOffset::Syntax),
    };
    if hours > OFFSET_HOURS_MAX || minutes > 59 || seconds > 59 {
        return Err(InvalidOffset::Range);
    }
    Ok(sign * ((hours * 60 + minutes) * 60 + seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(text: &str) -> i64 {
        let micros = crate::text::parse::timestamp(text).unwrap();
        Zone::named("Europe/Berlin").unwrap().offset_at_local(micros) / 3_600
    }

    #[test]
    fn gaps_and_doubled_hours_are_read_as_postgres_reads_them() {
        assert_eq!(local("2024-01-15 12:00"), 1);
        assert_eq!(local("2024-07-15 12:00"), 2);
        assert_eq!(local("2024-03-31 02:30"), 1);
        assert_eq!(local("2024-10-27 02:30"), 1);
        assert_eq!(local("2024-10-27 01:59"), 2);
        assert_eq!(local("2500-07-15 12:00"), 2);
        assert_eq!(local("294000-01-15 12:00"), 1);
    }

    #[test]
    fn names_are_found_in_any_case() {
        for name in ["Europe/Berlin", "europe/berlin", "america/new_york", "UTC", "cest", "Z"] {
            assert!(Zone::named(name).is_some(), "{name}");
        }
        assert!(Zone::named("Nowhere/Land").is_none());
        assert!(Zone::of_zone_argument("+02").is_ok_and(|zone| zone.offset_at_utc(0) == -7_200));
        assert!(Zone::of_zone_argument("nonsense").is_err());
    }

    /// The names that PostgreSQL 15 shows.
    #[test]
    fn zones_of_sessions_have_postgres_names() {
        for (name, shown) in [
            ("europe/BERLIN", Some("Europe/Berlin")),
            ("utc", Some("UTC")),
            ("zulu", Some("Zulu")),
            ("foo+3", Some("FOO+3")),
            ("EST5EDT4", Some("EST5EDT4")),
            ("<abc>+3<def>2", Some("<ABC>+3<DEF>2")),
            ("CEST", None),
            ("z", None),
            ("", None),
        ] {
            let found = Zone::of_session(name).map(|(_, shown)| shown);
            assert_eq!(found.as_deref(), shown, "{name}");
        }
        for (east, shown) in [
            (-28_800, Some("<-08>+08")),
            (19_800, Some("<+05:30>-05:30")),
            (-9_015, Some("<-02:30:15>+02:30:15")),
            (0, Some("<+00>-00")),
            (720_000, None),
        ] {
            let found = Zone::of_session_offset(east);
            assert_eq!(found.as_ref().map(|(_, shown)| shown.as_str()), shown);
            assert!(found.is_none_or(|(zone, _)| zone.offset_at_utc(0) == east));
        }
    }
}
