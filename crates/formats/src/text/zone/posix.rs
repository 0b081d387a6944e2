//! Zones by a description in POSIX form: `EST5EDT,M3.2.0,M11.1.0`.
//!
//! Offsets count to the west. Without rules, clocks change as they do in the United States since
//! 2007.

use super::{SECONDS_PER_DAY, ZONE_HOURS_MAX};
use crate::text::datetime::{civil_from_days, days_from_civil, days_in_month, is_leap_year};

const DEFAULT_RULES: &str = ",M3.2.0,M11.1.0";
const DEFAULT_TIME_SECONDS: i64 = 2 * 3_600;

/// A zone with one or two offsets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Posix {
    standard: Named,
    summer: Option<Summer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Named {
    name: String,
    /// Seconds east of Greenwich.
    east: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Summer {
    named: Named,
    start: Rule,
    end: Rule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Rule {
    day: RuleDate,
    /// Seconds after midnight.
    time: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RuleDate {
    /// From 1 to 365; leap days do not count.
    LeapDayExcluded(i64),
    /// From 0 to 365.
    LeapDayIncluded(i64),
    /// The last week of a month is the fifth one.
    OfWeek { month: i64, week: i64, day: i64 },
}

impl Posix {
    /// `None` if the text does not describe a zone.
    pub(super) fn parse(text: &str) -> Option<Posix> {
        let (name, rest) = name(text)?;
        if rest.is_empty() {
            return None;
        }
        let (west, rest) = offset(rest)?;
        let standard = Named { name: name.to_owned(), east: -west };
        if rest.is_empty() {
            return Some(Posix { standard, summer: None });
        }
        let (name, rest) = self::name(rest)?;
        if name.is_empty() {
            return None;
        }
        let (west, rest) = match rest.chars().next() {
            None | Some(',' | ';') => (west - 3_600, rest),
            Some(_) => offset(rest)?,
        };
        let named = Named { name: name.to_owned(), east: -west };
        let rules = if rest.is_empty() { DEFAULT_RULES } else { rest };
        let (start, rest) = rule(rules.strip_prefix([',', ';'])?)?;
        let (end, rest) = rule(rest.strip_prefix(',')?)?;
        rest.is_empty().then_some(Posix { standard, summer: Some(Summer { named, start, end }) })
    }

    pub(super) fn is_utc(&self) -> bool {
        self.standard.east == 0 && self.summer.is_none()
    }

    /// The offset and the name at a moment in seconds since 1970.
    pub(super) fn at(&self, seconds: i64) -> (i64, &str) {
        let named = match &self.summer {
            Some(summer) if summer.holds(seconds, self.standard.east) => &summer.named,
            _ => &self.standard,
        };
        (named.east, &named.name)
    }

    /// The offsets that the zone has.
    pub(super) fn offsets(&self) -> impl Iterator<Item = i64> + use<> {
        let summer = self.summer.as_ref().map(|summer| summer.named.east);
        [Some(self.standard.east), summer].into_iter().flatten()
    }
}

impl Summer {
    fn holds(&self, seconds: i64, standard_east: i64) -> bool {
        let local = seconds.saturating_add(standard_east);
        let (year, _, _) = civil_from_days(local.div_euclid(SECONDS_PER_DAY));
        let start = self.start.of_year(year) - standard_east;
        let end = self.end.of_year(year) - self.named.east;
        match start < end {
            true => (start..end).contains(&seconds),
            false => !(end..start).contains(&seconds),
        }
    }
}

impl Rule {
    /// The local time in seconds since 1970 at which the clocks change in a year.
    fn of_year(self, year: i64) -> i64 {
        let first = days_from_civil(year, 1, 1);
        let day = match self.day {
            RuleDate::LeapDayExcluded(day) => {
                first + day - 1 + i64::from(day >= 60 && is_leap_year(year))
            }
            RuleDate::LeapDayIncluded(day) => first + day,
            RuleDate::OfWeek { month, week, day } => {
                let first = days_from_civil(year, month, 1);
                // 1970-01-01 was a Thursday.
                let ahead = (day - (first + 4)).rem_euclid(7);
                let mut of_month = ahead + (week - 1) * 7;
                while of_month >= days_in_month(year, month) {
                    of_month -= 7;
                }
                first + of_month
            }
        };
        day * SECONDS_PER_DAY + self.time
    }
}

/// A name, in angle brackets or without digits, commas and signs.
fn name(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>'),
        None => {
            let ends = |c: char| c.is_ascii_digit() || matches!(c, ',' | '-' | '+');
            Some(text.split_at(text.find(ends).unwrap_or(text.len())))
        }
    }
}

fn number(text: &str, least: i64, most: i64) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse().ok().filter(|number| (least..=most).contains(number))?;
    Some((number, &text[end..]))
}

/// Hours, minutes and seconds with an optional sign, in seconds.
fn offset(text: &str) -> Option<(i64, &str)> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (hours, mut rest) = number(text, 0, ZONE_HOURS_MAX)?;
    let (mut minutes, mut seconds) = (0, 0);
    if let Some(behind) = rest.strip_prefix(':') {
        (minutes, rest) = number(behind, 0, 59)?;
        if let Some(behind) = rest.strip_prefix(':') {
            (seconds, rest) = number(behind, 0, 60)?;
        }
    }
    Some((sign * ((hours * 60 + minutes) * 60 + seconds), rest))
}

fn rule(text: &str) -> Option<(Rule, &str)> {
    let (day, rest) = if let Some(text) = text.strip_prefix('J') {
        let (day, rest) = number(text, 1, 365)?;
        (RuleDate::LeapDayExcluded(day), rest)
    } else if let Some(text) = text.strip_prefix('M') {
        let (month, rest) = number(text, 1, 12)?;
        let (week, rest) = number(rest.strip_prefix('.')?, 1, 5)?;
        let (day, rest) = number(rest.strip_prefix('.')?, 0, 6)?;
        (RuleDate::OfWeek { month, week, day }, rest)
    } else {
        let (day, rest) = number(text, 0, 365)?;
        (RuleDate::LeapDayIncluded(day), rest)
    };
    match rest.strip_prefix('/') {
        Some(rest) => offset(rest).map(|(time, rest)| (Rule { day, time }, rest)),
        None => Some((Rule { day, time: DEFAULT_TIME_SECONDS }, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets in hours of PostgreSQL 15, at days of 2024.
    #[test]
    fn clocks_change_by_the_rules() {
        for (text, winter, summer) in [
            ("EST5EDT", -5, -4),
            ("EST5EDT4,M3.2.0,M11.1.0", -5, -4),
            ("CET-1CEST,M3.5.0,M10.5.0/3", 1, 2),
            ("AEST-10AEDT,M10.1.0,M4.1.0/3", 11, 10),
            ("X-1Y,J60/0,J300/0", 1, 2),
            ("X-1Y,59/0,299/0", 1, 2),
            ("<+03>-3", 3, 3),
        ] {
            let zone = Posix::parse(text).unwrap();
            let hours =
                |month| zone.at(days_from_civil(2024, month, 1) * SECONDS_PER_DAY).0 / 3_600;
            assert_eq!((hours(1), hours(7)), (winter, summer), "{text}");
        }
        for text in ["EST", "", "EST5EDT,", "EST5EDT,M3.2.0", "EST5EDT,M13.2.0,M1.1.0", "X200"] {
            assert_eq!(Posix::parse(text), None, "{text}");
        }
    }
}
