//! The patterns of `to_char`, `to_date` and `to_timestamp`: `YYYY-MM-DD HH24:MI:SS` and its like.

use std::fmt::Write as _;

use arrow::datatypes::IntervalMonthDayNano;

use thalweg_types::{Error, Result, SqlState};

use crate::calendar::{Civil, MICROS_PER_DAY, MICROS_PER_SECOND, Refusal};
use crate::zone::Zone;

/// Bytes that reading a pattern, and writing a value in its form, take for each byte of it. A
/// pattern is a list of parts while it is read, and one letter may stand for several.
pub const PATTERN_BYTES: usize = 24;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A field of a pattern. The longest name that matches at a place wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Year(usize),
    IsoYear,
    Century,
    Month,
    MonthName {
        short: bool,
    },
    DayOfMonth,
    DayOfYear,
    DayOfWeek,
    IsoDayOfWeek,
    DayName {
        short: bool,
    },
    Hour24,
    Hour12,
    Minute,
    Second,
    SecondOfDay,
    Fraction(usize),
    Meridiem {
        dotted: bool,
    },
    Quarter,
    WeekOfYear,
    WeekOfMonth,
    IsoWeek,
    JulianDay,
    /// `RM`: the month in Roman digits.
    RomanMonth,
    /// `IDDD`: the day of the year of weeks.
    IsoDayOfYear,
    /// `Y,YYY`
    GroupedYear,
    Era {
        dotted: bool,
    },
    Zone,
    ZoneHours,
    ZoneMinutes,
    Offset,
}

const FIELDS: [(&str, Field); 51] = [
    ("RM", Field::RomanMonth),
    ("IDDD", Field::IsoDayOfYear),
    ("Y,YYY", Field::GroupedYear),
    ("B.C.", Field::Era { dotted: true }),
    ("A.D.", Field::Era { dotted: true }),
    ("BC", Field::Era { dotted: false }),
    ("AD", Field::Era { dotted: false }),
    ("YYYY", Field::Year(4)),
    ("YYY", Field::Year(3)),
    ("YY", Field::Year(2)),
    ("Y", Field::Year(1)),
    ("IYYY", Field::IsoYear),
    ("CC", Field::Century),
    ("MONTH", Field::MonthName { short: false }),
    ("MON", Field::MonthName { short: true }),
    ("MM", Field::Month),
    ("MI", Field::Minute),
    ("MS", Field::Fraction(3)),
    ("DDD", Field::DayOfYear),
    ("DD", Field::DayOfMonth),
    ("DAY", Field::DayName { short: false }),
    ("DY", Field::DayName { short: true }),
    ("D", Field::DayOfWeek),
    ("ID", Field::IsoDayOfWeek),
    ("HH24", Field::Hour24),
    ("HH12", Field::Hour12),
    ("HH", Field::Hour12),
    ("SSSSS", Field::SecondOfDay),
    ("SSSS", Field::SecondOfDay),
    ("SS", Field::Second),
    ("US", Field::Fraction(6)),
    ("FF1", Field::Fraction(1)),
    ("FF2", Field::Fraction(2)),
    ("FF3", Field::Fraction(3)),
    ("FF4", Field::Fraction(4)),
    ("FF5", Field::Fraction(5)),
    ("FF6", Field::Fraction(6)),
    ("A.M.", Field::Meridiem { dotted: true }),
    ("P.M.", Field::Meridiem { dotted: true }),
    ("AM", Field::Meridiem { dotted: false }),
    ("PM", Field::Meridiem { dotted: false }),
    ("Q", Field::Quarter),
    ("WW", Field::WeekOfYear),
    ("IW", Field::IsoWeek),
    ("J", Field::JulianDay),
    ("TZH", Field::ZoneHours),
    ("TZM", Field::ZoneMinutes),
    ("TZ", Field::Zone),
    ("OF", Field::Offset),
    ("I", Field::IsoYear),
    ("W", Field::WeekOfMonth),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Upper,
    Title,
    Lower,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Field {
        field: Field,
        case: Case,
        /// `FM`: without padding.
        bare: bool,
        /// `TH` or `th` behind it: `1st`, `2nd`.
        ordinal: Option<Case>,
    },
}

/// A pattern taken apart.
pub struct Pattern {
    parts: Vec<Part>,
}

impl Pattern {
    /// Takes a pattern apart. Text that is no field stands for itself.
    pub fn new(pattern: &str) -> Pattern {
        let mut parts: Vec<Part> = Vec::new();
        let mut rest = pattern;
        let mut bare = false;
        while let Some(first) = rest.chars().next() {
            if let Some(behind) = strip_ignoring_case(rest, "FM") {
                (bare, rest) = (true, behind);
                continue;
            }
            // Names are English, and what is written is exact, with and without these.
            let prefix = strip_ignoring_case(rest, "TM").or(strip_ignoring_case(rest, "FX"));
            if let Some(behind) = prefix {
                rest = behind;
                continue;
            }
            if let Some(quoted) = rest.strip_prefix('"') {
                let end = quoted.find('"').unwrap_or(quoted.len());
                push_literal(&mut parts, &quoted[..end]);
                rest = quoted.get(end + 1..).unwrap_or_default();
                continue;
            }
            let found = FIELDS
                .iter()
                .filter(|(name, _)| strip_ignoring_case(rest, name).is_some())
                .max_by_key(|(name, _)| name.len());
            let Some((name, field)) = found else {
                push_literal(&mut parts, &rest[..first.len_utf8()]);
                rest = &rest[first.len_utf8()..];
                continue;
            };
            let case = case_of(&rest[..name.len()]);
            rest = &rest[name.len()..];
            let ordinal = strip_ignoring_case(rest, "TH").map(|behind| {
                let case = case_of(&rest[..2]);
                rest = behind;
                case
            });
            parts.push(Part::Field { field: *field, case, bare, ordinal });
            bare = false;
        }
        Pattern { parts }
    }

    /// Writes a timestamp, given in microseconds since 1970. `zone` is the zone whose clocks show
    /// it, and the moment in UTC.
    pub fn write(&self, micros: i64, zone: Option<(&Zone, i64)>, text: &mut String) {
        let moment = Clock::at(micros);
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Field { field, case, bare, ordinal } => {
                    let start = text.len();
                    match zone {
                        Some((zone, utc)) if is_about_zone(*field) => {
                            write_zone(*field, *case, zone, utc, text);
                        }
                        _ => moment.write(*field, *case, *bare, text),
                    }
                    if let Some(case) = ordinal {
                        let suffix = ordinal_suffix(&text[start..], *case);
                        text.push_str(suffix);
                    }
                }
            }
        }
    }

    /// Writes an interval. It may have more than 24 hours.
    ///
    /// # Errors
    /// 22007 if the pattern contains names, which intervals do not have.
    pub fn write_interval(&self, interval: IntervalMonthDayNano, text: &mut String) -> Result<()> {
        let micros = interval.nanoseconds / 1_000;
        let seconds = micros / MICROS_PER_SECOND;
        for part in &self.parts {
            let (field, bare, case) = match part {
                Part::Literal(literal) => {
                    text.push_str(literal);
                    continue;
                }
                Part::Field { field, bare, case, .. } => (*field, *bare, *case),
            };
            let (value, width) = match field {
                Field::Year(digits) => (i64::from(interval.months / 12), digits),
                Field::Month => (i64::from(interval.months % 12), 2),
                Field::DayOfMonth => (i64::from(interval.days), 2),
                Field::Hour24 => (seconds / 3_600, 2),
                Field::Hour12 => ((seconds / 3_600 + 11).rem_euclid(12) + 1, 2),
                Field::Minute => (seconds / 60 % 60, 2),
                Field::Second => (seconds % 60, 2),
                Field::SecondOfDay => (seconds, 5),
                Field::Fraction(digits) => {
                    let unit = 10_i64.pow(6 - digits as u32);
                    (micros % MICROS_PER_SECOND / unit, digits)
                }
                Field::RomanMonth => {
                    let months = interval.months % 12;
                    match months {
                        0 => {}
                        // Negative months are counted back from December.
                        1.. => write_roman(months as usize, case, bare, text),
                        _ => write_roman((months + 13) as usize, case, bare, text),
                    }
                    continue;
                }
                Field::Meridiem { .. } => {
                    let is_early = (seconds / 3_600).rem_euclid(24) < 12;
                    let at = if is_early { 0 } else { 12 * 3_600 * MICROS_PER_SECOND };
                    Clock::at(at).write(field, case, bare, text);
                    continue;
                }
                // Intervals have no names and no place in the calendar.
                _ => {
                    let message = "invalid format specification for an interval value";
                    return Err(Error::new(SqlState::INVALID_DATETIME_FORMAT, message)
                        .with_hint("Intervals are not tied to specific calendar dates."));
                }
            };
            let width = if bare { 0 } else { width };
            let sign = if value < 0 { "-" } else { "" };
            // The sign takes one of the places.
            let width = width.saturating_sub(sign.len()).max(usize::from(width > 0));
            let _ = write!(text, "{sign}{:0width$}", value.abs());
        }
        Ok(())
    }

    /// Reads a timestamp in microseconds since 1970, and the offset of its zone in minutes east of
    /// Greenwich. `None` if the text has no offset.
    pub fn read(&self, text: &str) -> std::result::Result<(i64, Option<i64>), Refusal> {
        let mut reading = Reading::default();
        let mut rest = text.trim_start();
        for (index, part) in self.parts.iter().enumerate() {
            match part {
                // Blanks and separators match each other, as many as there are.
                Part::Literal(literal) => {
                    for c in literal.chars() {
                        match rest.strip_prefix(c) {
                            Some(behind) => rest = behind,
                            None if !c.is_alphanumeric() => {
                                let separator =
                                    |c: char| !c.is_alphanumeric() && c != '-' && c != '+';
                                rest = rest.strip_prefix(separator).unwrap_or(rest);
                            }
                            None => {
                                let skipped = rest.chars().next().map_or(0, char::len_utf8);
                                rest = &rest[skipped..];
                            }
                        }
                    }
                }
                Part::Field { field, .. } => {
                    rest = rest.trim_start();
                    if rest.is_empty() {
                        break;
                    }
                    let adjoined = matches!(self.parts.get(index + 1), Some(Part::Field { .. }));
                    rest = reading.take(*field, rest, adjoined)?;
                }
            }
        }
        reading.finish()
    }
}

fn push_literal(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        Some(Part::Literal(literal)) => literal.push_str(text),
        _ => parts.push(Part::Literal(text.to_string())),
    }
}

fn strip_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn case_of(name: &str) -> Case {
    let mut letters = name.chars();
    match (letters.next(), letters.next()) {
        (Some(first), _) if first.is_lowercase() => Case::Lower,
        (_, Some(second)) if second.is_lowercase() => Case::Title,
        _ => Case::Upper,
    }
}

fn in_case(name: &str, case: Case) -> String {
    match case {
        Case::Upper => name.to_uppercase(),
        Case::Title => name.to_string(),
        Case::Lower => name.to_lowercase(),
    }
}

fn ordinal_suffix(number: &str, case: Case) -> &'static str {
    let tens = number.trim_end().as_bytes();
    let (ten, one) = match tens {
        [.., ten, one] => (*ten, *one),
        [one] => (b'0', *one),
        [] => return "",
    };
    let suffixes = match (ten, one) {
        (b'1', _) => ["TH", "th"],
        (_, b'1') => ["ST", "st"],
        (_, b'2') => ["ND", "nd"],
        (_, b'3') => ["RD", "rd"],
        _ => ["TH", "th"],
    };
    suffixes[usize::from(case == Case::Lower)]
}

/// A moment taken apart.
pub struct Clock {
    pub days: i64,
    pub civil: Civil,
    /// Since midnight.
    pub micros: i64,
}

impl Clock {
    /// The moment so many microseconds after 1970-01-01.
    pub fn at(micros: i64) -> Clock {
        let days = micros.div_euclid(MICROS_PER_DAY);
        Clock { days, civil: Civil::from_days(days), micros: micros.rem_euclid(MICROS_PER_DAY) }
    }

    /// The day of the year; 1 is the first of January.
    pub fn day_of_year(&self) -> i64 {
        self.days - Civil { month: 1, day: 1, ..self.civil }.to_days() + 1
    }

    /// 1 is Monday.
    pub fn iso_day_of_week(&self) -> i64 {
        (self.days + 3).rem_euclid(7) + 1
    }

    /// The year and week to which the week's Thursday belongs.
    pub fn iso_week(&self) -> (i64, i64) {
        let thursday = self.days + 4 - self.iso_day_of_week();
        let year = Civil::from_days(thursday).year;
        let first = Civil { year, month: 1, day: 1 }.to_days();
        (year, (thursday - first) / 7 + 1)
    }

    fn write(&self, field: Field, case: Case, bare: bool, text: &mut String) {
        let Civil { year, month, day } = self.civil;
        let (year, is_before) = if year > 0 { (year, false) } else { (1 - year, true) };
        let seconds = self.micros / MICROS_PER_SECOND;
        let hour = seconds / 3_600;
        let mut number = |value: i64, width: usize| {
            let _ = match bare {
                true => write!(text, "{value}"),
                false => write!(text, "{value:0width$}"),
            };
        };
        match field {
            Field::Year(4) => number(year, 4),
            Field::Year(digits) => number(year.rem_euclid(10_i64.pow(digits as u32)), digits),
            Field::IsoYear => number(self.iso_week().0, 4),
            Field::Century => number((year - 1).div_euclid(100) + 1, 2),
            Field::Month => number(i64::from(month), 2),
            Field::DayOfMonth => number(i64::from(day), 2),
            Field::DayOfYear => number(self.day_of_year(), 3),
            Field::DayOfWeek => number(self.iso_day_of_week() % 7 + 1, 1),
            Field::IsoDayOfWeek => number(self.iso_day_of_week(), 1),
            Field::Hour24 => number(hour, 2),
            Field::Hour12 => number((hour + 11) % 12 + 1, 2),
            Field::Minute => number(seconds / 60 % 60, 2),
            Field::Second => number(seconds % 60, 2),
            Field::SecondOfDay => number(seconds, 5),
            Field::Fraction(digits) => {
                let unit = 10_i64.pow(6 - digits as u32);
                let _ = write!(text, "{:0digits$}", self.micros % MICROS_PER_SECOND / unit);
            }
            Field::Quarter => number(i64::from(month - 1) / 3 + 1, 1),
            Field::WeekOfYear => number((self.day_of_year() - 1) / 7 + 1, 2),
            Field::WeekOfMonth => number(i64::from(day - 1) / 7 + 1, 1),
            Field::IsoWeek => number(self.iso_week().1, 2),
            Field::JulianDay => number(self.days + 2_440_588, 1),
            Field::IsoDayOfYear => {
                number((self.iso_week().1 - 1) * 7 + self.iso_day_of_week(), 3);
            }
            Field::GroupedYear => {
                let _ = write!(text, "{},{:03}", year / 1_000, year % 1_000);
            }
            Field::RomanMonth => write_roman(month as usize, case, bare, text),
            Field::Era { dotted } => {
                write_mark(["ad", "bc", "a.d.", "b.c."], dotted, is_before, case, text);
            }
            Field::MonthName { short } => {
                write_name(MONTHS[month as usize - 1], short, 9, case, bare, text);
            }
            Field::DayName { short } => {
                let name = DAYS[(self.iso_day_of_week() % 7) as usize];
                write_name(name, short, 9, case, bare, text);
            }
            Field::Meridiem { dotted } => {
                write_mark(["am", "pm", "a.m.", "p.m."], dotted, hour >= 12, case, text);
            }
            // Only moments with a zone have one.
            Field::Zone => {}
            Field::ZoneHours | Field::Offset => text.push_str("+00"),
            Field::ZoneMinutes => text.push_str("00"),
        }
    }
}

fn is_about_zone(field: Field) -> bool {
    matches!(field, Field::Zone | Field::ZoneHours | Field::Offset | Field::ZoneMinutes)
}

/// The name of a zone at a moment, or a part of its offset.
fn write_zone(field: Field, case: Case, zone: &Zone, utc: i64, text: &mut String) {
    if let Field::Zone = field {
        let mut name = String::new();
        zone.push_abbreviation(utc, &mut name);
        return text.push_str(&if case == Case::Lower { name.to_lowercase() } else { name });
    }
    let offset = zone.offset_at_utc(utc);
    let sign = if offset < 0 { '-' } else { '+' };
    let (hours, minutes) = (offset.abs() / 3_600, offset.abs() / 60 % 60);
    let _ = match field {
        Field::ZoneMinutes => write!(text, "{minutes:02}"),
        Field::Offset if minutes != 0 => write!(text, "{sign}{hours:02}:{minutes:02}"),
        _ => write!(text, "{sign}{hours:02}"),
    };
}

/// One of two marks, with or without dots.
fn write_mark(marks: [&str; 4], dotted: bool, second: bool, case: Case, text: &mut String) {
    let mark = marks[usize::from(dotted) * 2 + usize::from(second)];
    text.push_str(&if case == Case::Lower { mark.to_string() } else { mark.to_uppercase() });
}

/// A month from 1 to 12.
fn write_roman(month: usize, case: Case, bare: bool, text: &mut String) {
    const DIGITS: [&str; 12] =
        ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];
    let name = DIGITS[month - 1];
    let name = if case == Case::Lower { name.to_lowercase() } else { name.to_owned() };
    let _ = match bare {
        true => write!(text, "{name}"),
        false => write!(text, "{name:<4}"),
    };
}

fn write_name(name: &str, short: bool, width: usize, case: Case, bare: bool, text: &mut String) {
    let name = in_case(if short { &name[..3] } else { name }, case);
    let _ = match bare || short {
        true => write!(text, "{name}"),
        false => write!(text, "{name:<width$}"),
    };
}

/// The parts of a moment that have been read.
#[derive(Default)]
struct Reading {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: i64,
    afternoon: Option<bool>,
    minute: i64,
    second: i64,
    micros: i64,
    /// The offset of the zone, east of Greenwich.
    offset_minutes: Option<i64>,
}

impl Reading {
    /// Reads a field's value from the front of the text, and returns the rest behind it.
    fn take<'a>(
        &mut self,
        field: Field,
        text: &'a str,
        adjoined: bool,
    ) -> std::result::Result<&'a str, Refusal> {
        match field {
            Field::MonthName { short } => {
                let (index, rest) = take_name(&MONTHS, short, text)?;
                self.month = Some(index as i64 + 1);
                return Ok(rest);
            }
            Field::DayName { short } => return take_name(&DAYS, short, text).map(|(_, rest)| rest),
            Field::Meridiem { .. } => {
                let letter = text.chars().next().map(|c| c.to_ascii_lowercase());
                self.afternoon = Some(letter == Some('p'));
                return Ok(text.trim_start_matches(['a', 'A', 'p', 'P', 'm', 'M', '.']));
            }
            Field::Zone => return Ok(text.trim_start_matches(|c: char| c.is_alphabetic())),
            Field::ZoneHours | Field::Offset => {
                let negative = text.starts_with('-');
                let (value, rest) = take_number(text.trim_start_matches(['+', '-']), 2)?;
                self.offset_minutes = Some(if negative { -60 * value } else { 60 * value });
                return Ok(rest);
            }
            _ => {}
        }
        let width = if adjoined { width_of(field) } else { width_of(field).max(6) };
        let (value, rest) = take_number(text, width)?;
        let length = text.len() - rest.len();
        match field {
            Field::Year(4) | Field::IsoYear => self.year = Some(value),
            // The nearest year to 2020 with these digits.
            Field::Year(_) if length <= 2 => {
                self.year = Some(if value < 70 { 2000 + value } else { 1900 + value });
            }
            Field::Year(_) => self.year = Some(value),
            Field::Month => self.month = Some(value),
            Field::DayOfMonth => self.day = Some(value),
            Field::DayOfYear => self.day_of_year = Some(value),
            Field::Hour24 | Field::Hour12 => self.hour = value,
            Field::Minute => self.minute = value,
            Field::Second => self.second = value,
            Field::SecondOfDay => {
                (self.hour, self.minute, self.second) =
                    (value / 3_600, value / 60 % 60, value % 60);
            }
            Field::Fraction(_) if length <= 6 => {
                self.micros = value * 10_i64.pow(6 - length as u32);
            }
            Field::ZoneMinutes => {
                let hours = self.offset_minutes.unwrap_or(0);
                let sign = if hours < 0 { -1 } else { 1 };
                self.offset_minutes = Some(hours + value * sign);
            }
            _ => {}
        }
        Ok(rest)
    }

    fn finish(self) -> std::result::Result<(i64, Option<i64>), Refusal> {
        let hour = match self.afternoon {
            Some(_) if !(1..=12).contains(&self.hour) => return Err(Refusal::Field),
            Some(afternoon) => self.hour % 12 + if afternoon { 12 } else { 0 },
            None => self.hour,
        };
        if hour > 24 || self.minute > 59 || self.second > 59 {
            return Err(Refusal::Field);
        }
        let part =
            |value: Option<i64>| u32::try_from(value.unwrap_or(1)).map_err(|_| Refusal::Field);
        // Year 0 stands for 1 BC; a pattern without a year means that too.
        let year = self.year.unwrap_or(0);
        let civil =
            Civil::checked(year, part(self.month)?, part(self.day)?).ok_or(Refusal::Field)?;
        let days = match self.day_of_year {
            Some(day) => Civil { year, month: 1, day: 1 }.to_days() + day - 1,
            None => civil.to_days(),
        };
        let seconds = (hour * 60 + self.minute) * 60 + self.second;
        let micros = days * MICROS_PER_DAY + seconds * MICROS_PER_SECOND + self.micros;
        Ok((micros, self.offset_minutes))
    }
}

fn width_of(field: Field) -> usize {
    match field {
        Field::Year(digits) | Field::Fraction(digits) => digits,
        Field::IsoYear => 4,
        Field::DayOfYear => 3,
        Field::SecondOfDay => 5,
        Field::JulianDay => 7,
        Field::DayOfWeek | Field::IsoDayOfWeek | Field::Quarter => 1,
        _ => 2,
    }
}

fn take_number(text: &str, width: usize) -> std::result::Result<(i64, &str), Refusal> {
    let end = text.bytes().take(width).take_while(u8::is_ascii_digit).count();
    let value = text[..end].parse().map_err(|_| Refusal::Syntax)?;
    Ok((value, &text[end..]))
}

fn take_name<'a>(
    names: &[&str],
    short: bool,
    text: &'a str,
) -> std::result::Result<(usize, &'a str), Refusal> {
    names
        .iter()
        .enumerate()
        .find_map(|(index, name)| {
            let name = if short { &name[..3] } else { name };
            strip_ignoring_case(text, name).map(|rest| (index, rest))
        })
        .ok_or(Refusal::Syntax)
}
