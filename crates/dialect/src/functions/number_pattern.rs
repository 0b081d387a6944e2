//! The patterns of `to_char` for numbers: `FM999,990.00` and its like.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewArray};
use thalweg_types::Result;

use crate::cast::to_text;

pub(super) fn to_char(values: &ArrayRef, patterns: &StringViewArray) -> Result<ArrayRef> {
    let values = to_text(values)?;
    let written = values
        .as_string_view()
        .iter()
        .zip(patterns)
        .map(|(value, pattern)| Some(NumberPattern::new(pattern?).write(value?)));
    Ok(Arc::new(written.collect::<StringViewArray>()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// `9` or `0`: a digit, written as a blank or a zero where the number has none.
    Digit {
        zero: bool,
    },
    Group,
    Point,
    Literal(char),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// A minus before the first digit, a blank when there is none.
    Leading,
    /// `S` in front.
    Anchored,
    /// `S` behind.
    Trailing,
    /// `MI` behind.
    MinusBehind,
    /// `PR`.
    Brackets,
}

struct NumberPattern {
    parts: Vec<Part>,
    sign: Sign,
    bare: bool,
}

impl NumberPattern {
    fn new(pattern: &str) -> NumberPattern {
        let upper = pattern.to_ascii_uppercase();
        let mut rest = upper.as_str();
        let mut made = NumberPattern { parts: Vec::new(), sign: Sign::Leading, bare: false };
        while let Some(first) = rest.chars().next() {
            if let Some(behind) = rest.strip_prefix("FM") {
                (made.bare, rest) = (true, behind);
                continue;
            }
            if let Some(behind) = rest.strip_prefix("MI") {
                (made.sign, rest) = (Sign::MinusBehind, behind);
                continue;
            }
            if let Some(behind) = rest.strip_prefix("PR") {
                (made.sign, rest) = (Sign::Brackets, behind);
                continue;
            }
            match first {
                '9' => made.parts.push(Part::Digit { zero: false }),
                '0' => made.parts.push(Part::Digit { zero: true }),
                ',' | 'G' => made.parts.push(Part::Group),
                '.' | 'D' => made.parts.push(Part::Point),
                'S' if made.parts.is_empty() => made.sign = Sign::Anchored,
                'S' => made.sign = Sign::Trailing,
                other => made.parts.push(Part::Literal(other)),
            }
            rest = &rest[first.len_utf8()..];
        }
        made
    }

    fn write(&self, number: &str) -> String {
        let point = self.parts.iter().position(|part| *part == Part::Point);
        let (before, behind) = self.parts.split_at(point.unwrap_or(self.parts.len()));
        let count =
            |parts: &[Part]| parts.iter().filter(|part| matches!(part, Part::Digit { .. })).count();
        let (negative, whole, fraction) = round_to(number, count(behind));
        let places = count(before);
        if whole.len() > places {
            return self.overflow();
        }
        let mut text = self.write_whole(before, &whole, places);
        let mut digits = fraction.chars();
        for part in behind {
            match part {
                Part::Digit { .. } => text.extend(digits.next()),
                Part::Point => text.push('.'),
                Part::Group => text.push(','),
                Part::Literal(c) => text.push(*c),
            }
        }
        if self.bare && point.is_some() {
            self.trim_fraction(behind, &mut text);
        }
        let zero = whole.is_empty() && fraction.bytes().all(|digit| digit == b'0');
        self.with_sign(text, negative && !zero)
    }

    /// `FM` drops the zeros at the end that stand for `9`.
    fn trim_fraction(&self, behind: &[Part], text: &mut String) {
        for part in behind.iter().rev() {
            if *part != (Part::Digit { zero: false }) || !text.ends_with('0') {
                break;
            }
            text.pop();
        }
    }

    fn write_whole(&self, parts: &[Part], digits: &str, places: usize) -> String {
        let mut text = String::new();
        let mut missing = places - digits.len();
        let mut digits = digits.chars();
        let mut begun = false;
        for part in parts {
            match part {
                Part::Digit { zero } if missing > 0 => {
                    missing -= 1;
                    begun |= zero;
                    // The last place before the point shows a zero by itself, if there is no point.
                    let only = missing == 0 && digits.as_str().is_empty() && !self.has_point();
                    text.push(if begun || only { '0' } else { ' ' });
                }
                Part::Digit { .. } => {
                    begun = true;
                    text.extend(digits.next());
                }
                Part::Group => text.push(if begun { ',' } else { ' ' }),
                Part::Point => text.push('.'),
                Part::Literal(c) => text.push(*c),
            }
        }
        text
    }

    fn has_point(&self) -> bool {
        self.parts.contains(&Part::Point)
    }

    fn with_sign(&self, text: String, negative: bool) -> String {
        let digits = text.trim_start_matches(' ');
        let blanks = if self.bare { 0 } else { text.len() - digits.len() };
        let padding = " ".repeat(blanks);
        match (self.sign, negative) {
            (Sign::Leading, true) => format!("{padding}-{digits}"),
            (Sign::Leading, false) if self.bare => digits.to_string(),
            (Sign::Leading, false) => format!(" {padding}{digits}"),
            (Sign::Anchored, true) => format!("{padding}-{digits}"),
            (Sign::Anchored, false) => format!("{padding}+{digits}"),
            (Sign::Trailing, true) | (Sign::MinusBehind, true) => format!("{padding}{digits}-"),
            (Sign::Trailing, false) => format!("{padding}{digits}+"),
            (Sign::MinusBehind, false) if self.bare => digits.to_string(),
            (Sign::MinusBehind, false) => format!("{padding}{digits} "),
            (Sign::Brackets, true) => format!("{padding}<{digits}>"),
            (Sign::Brackets, false) if self.bare => digits.to_string(),
            (Sign::Brackets, false) => format!(" {padding}{digits} "),
        }
    }

    /// A number that has more digits than places.
    fn overflow(&self) -> String {
        let marks = self.parts.iter().map(|part| match part {
            Part::Digit { .. } => '#',
            Part::Group => ',',
            Part::Point => '.',
            Part::Literal(c) => *c,
        });
        let marks: String = marks.collect();
        if self.bare { marks } else { format!(" {marks}") }
    }
}

/// Sign, digits before the point without leading zeros, and so many digits behind it.
fn round_to(number: &str, places: usize) -> (bool, String, String) {
    let negative = number.starts_with('-');
    let plain = expand(number.trim_start_matches('-'));
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut digits: Vec<u8> = whole.bytes().collect();
    digits.extend(fraction.bytes().chain(std::iter::repeat(b'0')).take(places));
    let round_up = fraction.as_bytes().get(places).is_some_and(|digit| *digit >= b'5');
    if round_up {
        let mut carry = true;
        for digit in digits.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                carry = false;
                break;
            }
            *digit = b'0';
        }
        if carry {
            digits.insert(0, b'1');
        }
    }
    let fraction = digits.split_off(digits.len() - places);
    let text = |digits: Vec<u8>| digits.into_iter().map(char::from).collect::<String>();
    (negative, text(digits).trim_start_matches('0').to_string(), text(fraction))
}

/// `1.5e+20` without its exponent.
fn expand(number: &str) -> String {
    let Some((mantissa, exponent)) = number.split_once('e') else { return number.to_string() };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let point = whole.len() as i32 + exponent;
    if point <= 0 {
        return format!("0.{}{digits}", "0".repeat(point.unsigned_abs() as usize));
    }
    let point = point as usize;
    if digits.len() <= point {
        return format!("{digits}{}", "0".repeat(point - digits.len()));
    }
    format!("{}.{}", &digits[..point], &digits[point..])
}
