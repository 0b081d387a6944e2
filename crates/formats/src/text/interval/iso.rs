//! Intervals in the forms of ISO 8601: `P1Y2M3W4DT5H6M7.8S`, `P0001-02-03T04:05:06` and
//! `P00010203T040506`.

use super::{Count, Fault, Sum, Unit};
use crate::text::scanner::{Scanner, number};

/// Each number may have a sign and a fraction, and a unit may occur more than once.
pub(super) fn read(text: &str, sum: &mut Sum) -> Result<(), Fault> {
    let mut scanner = Scanner::new(text);
    if text.len() < 2 || !scanner.take(b'P') {
        return Err(Fault::Syntax);
    }
    let mut in_time = false;
    // True if a number had a unit: the forms without units allow none at all.
    let mut had_unit = false;
    while !scanner.is_at_end() {
        if scanner.take(b'T') {
            (in_time, had_unit) = (true, false);
            continue;
        }
        let (count, digits) = signed(&mut scanner)?;
        if let Some(unit) = designated(&mut scanner, in_time) {
            sum.add(count, unit);
            had_unit = true;
        } else if had_unit {
            return Err(Fault::Syntax);
        } else if in_time {
            clock(&mut scanner, count, digits, sum)?;
        } else {
            date(&mut scanner, count, digits, sum)?;
        }
    }
    Ok(())
}

/// A number, and the number of digits before its point.
fn signed(scanner: &mut Scanner) -> Result<(Count, usize), Fault> {
    let negative = scanner.take_any(b"+-") == Some(b'-');
    let digits = scanner.digits();
    if digits.is_empty() && scanner.peek() != Some(b'.') {
        return Err(Fault::Syntax);
    }
    if digits.len() > 18 {
        return Err(Fault::Range);
    }
    let fraction = scanner.fraction().ok_or(Fault::Syntax)?;
    Ok((Count::new(negative, number(digits), fraction), digits.len()))
}

/// The unit of the next letter, if it designates one.
fn designated(scanner: &mut Scanner, in_time: bool) -> Option<Unit> {
    let unit = match (in_time, scanner.peek()?) {
        (false, b'Y') => Unit::Year,
        (false, b'M') => Unit::Month,
        (false, b'W') => Unit::Week,
        (false, b'D') => Unit::Day,
        (true, b'H') => Unit::Hour,
        (true, b'M') => Unit::Minute,
        (true, b'S') => Unit::Second,
        _ => return None,
    };
    scanner.take_any(b"YMWDHS");
    Some(unit)
}

/// `0001-02-03`, optionally cut short, or `00010203`.
fn date(scanner: &mut Scanner, first: Count, digits: usize, sum: &mut Sum) -> Result<(), Fault> {
    let is_compact = digits == 8 && scanner.peek() != Some(b'-');
    let units = [Unit::Year, Unit::Month, Unit::Day];
    match is_compact {
        true => compact(first, units, sum),
        false => separated(scanner, b'-', first, units, sum)?,
    }
    match scanner.peek() {
        None | Some(b'T') => Ok(()),
        Some(_) => Err(Fault::Syntax),
    }
}

/// `04:05:06`, optionally cut short, or `040506`.
fn clock(scanner: &mut Scanner, first: Count, digits: usize, sum: &mut Sum) -> Result<(), Fault> {
    let is_compact = digits == 6 && scanner.peek() != Some(b':');
    let units = [Unit::Hour, Unit::Minute, Unit::Second];
    match is_compact {
        true => compact(first, units, sum),
        false => separated(scanner, b':', first, units, sum)?,
    }
    if scanner.is_at_end() { Ok(()) } else { Err(Fault::Syntax) }
}

/// Splits a number with two digits for each unit except the greatest.
fn compact(count: Count, [great, middle, small]: [Unit; 3], sum: &mut Sum) {
    let whole = |whole: i64| Count { whole, billionths: 0 };
    sum.add(whole(count.whole / 10_000), great);
    sum.add(whole(count.whole / 100 % 100), middle);
    sum.add(Count { whole: count.whole % 100, ..count }, small);
}

fn separated(
    scanner: &mut Scanner,
    separator: u8,
    first: Count,
    [great, middle, small]: [Unit; 3],
    sum: &mut Sum,
) -> Result<(), Fault> {
    sum.add(first, great);
    for unit in [middle, small] {
        if !scanner.take(separator) {
            break;
        }
        sum.add(signed(scanner)?.0, unit);
    }
    Ok(())
}
