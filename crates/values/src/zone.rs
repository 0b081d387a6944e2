//! Time zones: the offset from UTC that a clock has at a place and a moment.
//!
//! The rules come from the zone database that Arrow carries. A local time that the clock skips or
//! shows twice is read as PostgreSQL reads it: by the offset before a gap, and by the later of two
//! offsets.

use arrow::array::timezone::Tz;
use arrow::datatypes::IntervalMonthDayNano;
use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeZone};
use thalweg_types::{Error, SqlState};

use crate::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND, parse_offset};

/// Names that stand for an offset and not for a place, in hours east of Greenwich.
const ABBREVIATIONS: [(&str, i64); 24] = [
    ("ast", -4),
    ("bst", 1),
    ("cdt", -5),
    ("cest", 2),
    ("cet", 1),
    ("cst", -6),
    ("edt", -4),
    ("eest", 3),
    ("eet", 2),
    ("est", -5),
    ("gmt", 0),
    ("hst", -10),
    ("jst", 9),
    ("kst", 9),
    ("mdt", -6),
    ("msk", 3),
    ("mst", -7),
    ("pdt", -7),
    ("pst", -8),
    ("ut", 0),
    ("utc", 0),
    ("west", 1),
    ("wet", 0),
    ("z", 0),
];

/// A time zone.
#[derive(Clone, Copy, Debug)]
pub enum Zone {
    /// Seconds east of Greenwich.
    Fixed(i64),
    Place(Tz),
}

impl Zone {
    /// A zone by its name or abbreviation, whatever the case.
    pub fn named(name: &str) -> Option<Zone> {
        let lower = name.to_ascii_lowercase();
        if let Some((_, hours)) = ABBREVIATIONS.iter().find(|(known, _)| *known == lower) {
            return Some(Zone::Fixed(hours * 3_600));
        }
        if lower == "zulu" {
            return Some(Zone::Fixed(0));
        }
        let is_place = name.starts_with(|c: char| c.is_ascii_alphabetic());
        let place = is_place.then(|| name.parse().or_else(|_| capitalized(&lower).parse()));
        place?.ok().map(Zone::Place)
    }

    /// The argument of `AT TIME ZONE`: a name, or an offset that counts to the west, as in POSIX.
    pub fn of_zone_argument(text: &str) -> Result<Zone, Error> {
        let text = text.trim();
        let digits = text.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let offset = match digits.chars().next() {
            Some('+' | '-') => parse_offset(digits).ok().map(|east| Zone::Fixed(-east)),
            Some('0'..='9') if digits.len() == text.len() => {
                parse_offset(&format!("+{digits}")).ok().map(|east| Zone::Fixed(-east))
            }
            _ => None,
        };
        Zone::named(text).or(offset).ok_or_else(|| {
            let error_text = format!("time zone \"{text}\" not recognized");
            Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text)
        })
    }

    /// The zone that a function takes as an argument: a name, or an offset that counts to the east
    /// and has a sign.
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
    pub fn of_interval(interval: IntervalMonthDayNano) -> Result<Zone, Error> {
        if interval.months != 0 || interval.days != 0 {
            let error_text = "interval time zone must not include months or days";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text));
        }
        Ok(Zone::Fixed(interval.nanoseconds / (MICROS_PER_SECOND * 1_000)))
    }

    /// Seconds east of Greenwich when it is `micros` in UTC.
    pub fn offset_at_utc(&self, micros: i64) -> i64 {
        match (self, naive(micros)) {
            (Zone::Fixed(seconds), _) => *seconds,
            (Zone::Place(place), Some(moment)) => seconds(&place.offset_from_utc_datetime(&moment)),
            // The zone database has no data for this moment.
            (Zone::Place(_), None) => 0,
        }
    }

    /// Seconds east of Greenwich when the clocks of the zone show `micros`.
    pub fn offset_at_local(&self, micros: i64) -> i64 {
        let (Zone::Place(place), Some(moment)) = (self, naive(micros)) else {
            return self.offset_at_utc(micros);
        };
        match place.offset_from_local_datetime(&moment) {
            MappedLocalTime::Single(offset) => seconds(&offset),
            MappedLocalTime::Ambiguous(first, second) => seconds(&first).min(seconds(&second)),
            MappedLocalTime::None => self.offset_at_utc(micros - MICROS_PER_DAY),
        }
    }
}

fn naive(micros: i64) -> Option<NaiveDateTime> {
    DateTime::from_timestamp_micros(micros).map(|moment| moment.naive_utc())
}

fn seconds(offset: &impl Offset) -> i64 {
    i64::from(offset.fix().local_minus_utc())
}

/// `europe/berlin` as `Europe/Berlin`.
fn capitalized(name: &str) -> String {
    let mut capital = true;
    let letters = name.chars().map(|c| {
        let written = if capital { c.to_ascii_uppercase() } else { c };
        capital = !c.is_ascii_alphabetic();
        written
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::parse_moment;

    fn local(text: &str) -> i64 {
        let micros = parse_moment(text).unwrap().local_micros().unwrap();
        Zone::named("Europe/Berlin").unwrap().offset_at_local(micros) / 3_600
    }

    #[test]
    fn gaps_and_doubled_hours_are_read_as_postgres_reads_them() {
        assert_eq!(local("2024-01-15 12:00"), 1);
        assert_eq!(local("2024-07-15 12:00"), 2);
        assert_eq!(local("2024-03-31 02:30"), 1);
        assert_eq!(local("2024-10-27 02:30"), 1);
        assert_eq!(local("2024-10-27 01:59"), 2);
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
}
