//! Intervals in words and in SQL's forms: `3 days 04:05:06`, `1-2`, `@ 1 hour ago`.
//!
//! A text is split from left to right and interpreted from right to left, as in PostgreSQL: the
//! part after a number determines its unit.

use super::{Count, Fault, IntervalFields, IntervalPart, Sum, Unit};
use crate::text::scanner::{Fraction, Scanner, number};

/// Maximum number of parts; no valid interval has more.
const PARTS_MAX: usize = 25;

enum Part<'a> {
    Number(Count),
    /// `1-2`
    YearsMonths(Count, Count),
    /// `04:05:06`
    Clock([Count; 3]),
    Word(&'a [u8]),
}

pub(super) fn read(text: &str, fields: IntervalFields, sum: &mut Sum) -> Result<(), Fault> {
    let parts = parts(text, fields)?;
    let mut counted = Counted::Last;
    let mut seen = 0;
    let mut is_before = false;
    for (place, part) in parts.iter().enumerate().rev() {
        let units = match part {
            Part::Word(word) if word.eq_ignore_ascii_case(b"ago") => {
                if place + 1 < parts.len() {
                    return Err(Fault::Syntax);
                }
                (is_before, counted) = (true, Counted::Nothing);
                0
            }
            Part::Word(word) => {
                counted = Counted::Unit(unit_named(word).ok_or(Fault::Syntax)?);
                0
            }
            Part::Clock([hours, minutes, seconds]) => {
                sum.add(*hours, Unit::Hour);
                sum.add(*minutes, Unit::Minute);
                sum.add(*seconds, Unit::Second);
                counted = Counted::Unit(Unit::Day);
                bit(Unit::Hour) | bit(Unit::Minute) | seconds_and_below()
            }
            Part::YearsMonths(years, months) => {
                sum.add(*years, Unit::Year);
                sum.add(*months, Unit::Month);
                counted = Counted::Unit(Unit::Month);
                bit(Unit::Month)
            }
            Part::Number(count) => {
                let unit = counted.unit(fields).ok_or(Fault::Syntax)?;
                sum.add(*count, unit);
                // `1 2 hours` is a day and two hours.
                counted = Counted::Unit(if unit == Unit::Hour { Unit::Day } else { unit });
                match unit {
                    Unit::Second if count.billionths != 0 => seconds_and_below(),
                    unit => bit(unit),
                }
            }
        };
        if seen & units != 0 {
            return Err(Fault::Syntax);
        }
        seen |= units;
    }
    if is_before {
        sum.negate();
    }
    if seen == 0 { Err(Fault::Syntax) } else { Ok(()) }
}

/// The meaning of a number, which the part after it determines.
#[derive(Clone, Copy)]
enum Counted {
    /// No part follows.
    Last,
    Unit(Unit),
    /// A word that is no unit.
    Nothing,
}

impl Counted {
    fn unit(self, fields: IntervalFields) -> Option<Unit> {
        match self {
            Counted::Unit(unit) => Some(unit),
            Counted::Nothing => None,
            Counted::Last => Some(match fields.parts.map(|(_, smallest)| smallest) {
                Some(IntervalPart::Year) => Unit::Year,
                Some(IntervalPart::Month) => Unit::Month,
                Some(IntervalPart::Day) => Unit::Day,
                Some(IntervalPart::Hour) => Unit::Hour,
                Some(IntervalPart::Minute) => Unit::Minute,
                Some(IntervalPart::Second) | None => Unit::Second,
            }),
        }
    }
}

/// A bit for each unit, because each may occur once.
fn bit(unit: Unit) -> u32 {
    1 << unit as u32
}

fn seconds_and_below() -> u32 {
    bit(Unit::Second) | bit(Unit::Millisecond) | bit(Unit::Microsecond) | bit(Unit::Nanosecond)
}

fn unit_named(word: &[u8]) -> Option<Unit> {
    let lower = word.to_ascii_lowercase();
    Some(match lower.as_slice() {
        b"nanosecond" | b"nanoseconds" | b"ns" => Unit::Nanosecond,
        b"microsecond" | b"microseconds" | b"us" | b"usec" | b"usecs" | b"usecond"
        | b"useconds" => Unit::Microsecond,
        b"millisecond" | b"milliseconds" | b"ms" | b"msec" | b"msecs" | b"msecond"
        | b"mseconds" => Unit::Millisecond,
        b"second" | b"seconds" | b"sec" | b"secs" | b"s" => Unit::Second,
        b"minute" | b"minutes" | b"min" | b"mins" | b"m" => Unit::Minute,
        b"hour" | b"hours" | b"hr" | b"hrs" | b"h" => Unit::Hour,
        b"day" | b"days" | b"d" => Unit::Day,
        b"week" | b"weeks" | b"w" => Unit::Week,
        b"month" | b"months" | b"mon" | b"mons" => Unit::Month,
        b"year" | b"years" | b"yr" | b"yrs" | b"y" => Unit::Year,
        b"decade" | b"decades" | b"dec" | b"decs" => Unit::Decade,
        b"century" | b"centuries" | b"cent" | b"c" => Unit::Century,
        b"millennium" | b"millennia" | b"mil" | b"mils" => Unit::Millennium,
        _ => return None,
    })
}

fn parts(text: &str, fields: IntervalFields) -> Result<Vec<Part<'_>>, Fault> {
    let mut scanner = Scanner::new(text);
    let mut parts = Vec::new();
    loop {
        scanner.take_separators();
        if scanner.is_at_end() {
            return Ok(parts);
        }
        if parts.len() == PARTS_MAX {
            return Err(Fault::Syntax);
        }
        parts.push(match scanner.word() {
            [] => numbers(&mut scanner, fields)?,
            word => Part::Word(word),
        });
    }
}

/// Reads a part that begins with a sign or a digit.
fn numbers<'a>(scanner: &mut Scanner, fields: IntervalFields) -> Result<Part<'a>, Fault> {
    let sign = scanner.take_any(b"+-");
    let negative = sign == Some(b'-');
    if sign.is_some() {
        scanner.take_spaces();
    }
    let digits = scanner.digits();
    if digits.is_empty() && scanner.peek() != Some(b'.') {
        return Err(Fault::Syntax);
    }
    let whole = value(digits)?;
    if scanner.take(b':') {
        return clock(scanner, negative, whole, fields).map(Part::Clock);
    }
    if !digits.is_empty() && scanner.take(b'-') {
        let months = digits_of(scanner)?;
        if scanner.take_any(b"-.:/").is_some() {
            return Err(Fault::Syntax);
        }
        if months > 11 {
            return Err(Fault::Range);
        }
        let months = Count::whole(negative, months);
        return Ok(Part::YearsMonths(Count::whole(negative, whole), months));
    }
    if scanner.peek() == Some(b'/') {
        return Err(Fault::Syntax);
    }
    let fraction = scanner.fraction().ok_or(Fault::Syntax)?;
    Ok(Part::Number(Count::new(negative, whole, fraction)))
}

/// `MM[:SS[.fraction]]` after the hours; without hours, the rest after the minutes.
fn clock(
    scanner: &mut Scanner,
    negative: bool,
    first: i64,
    fields: IntervalFields,
) -> Result<[Count; 3], Fault> {
    const NO_HOURS: Option<(IntervalPart, IntervalPart)> =
        Some((IntervalPart::Minute, IntervalPart::Second));
    let second = digits_of(scanner)?;
    let (hours, minutes, seconds, fraction) = if scanner.take(b':') {
        let seconds = digits_of(scanner)?;
        (first, second, seconds, scanner.fraction().ok_or(Fault::Syntax)?)
    } else if scanner.peek() == Some(b'.') || fields.parts == NO_HOURS {
        (0, first, second, scanner.fraction().ok_or(Fault::Syntax)?)
    } else {
        (first, second, 0, Fraction::default())
    };
    if scanner.take_any(b":.").is_some() {
        return Err(Fault::Syntax);
    }
    if minutes > 59 || seconds > 60 {
        return Err(Fault::Range);
    }
    let seconds = Count::new(negative, seconds, fraction);
    Ok([Count::whole(negative, hours), Count::whole(negative, minutes), seconds])
}

fn digits_of(scanner: &mut Scanner) -> Result<i64, Fault> {
    match scanner.digits() {
        [] => Err(Fault::Syntax),
        digits => value(digits),
    }
}

fn value(digits: &[u8]) -> Result<i64, Fault> {
    if digits.len() > 18 { Err(Fault::Range) } else { Ok(number(digits)) }
}
