//! The patterns of `to_char` for numbers: `FM999,990.00` and its like.

mod reading;
mod written;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewArray};
use thalweg_types::Result;

use crate::bounded_output::allow_reading;
use crate::cast::to_text;
use crate::date_pattern::PATTERN_BYTES;
pub use reading::read;

/// Each number in the form of its pattern; NULL where either is NULL.
pub fn to_char(values: &ArrayRef, patterns: &StringViewArray) -> Result<ArrayRef> {
    allow_reading(patterns, PATTERN_BYTES)?;
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
    /// `th`: what makes an ordinal of a whole number.
    Ordinal {
        upper: bool,
    },
    Literal(char),
    /// `SG` and `PL`: the number's sign at a place of its own, a plus where it has none or a blank
    /// in place of a minus.
    Sign {
        plus_only: bool,
    },
    /// `V`: the number is multiplied by 10 for each digit that follows.
    Shift,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// A minus before the first digit, a blank when there is none.
    Leading,
    /// `S` in front.
    Anchored,
    /// `S` behind.
    Trailing,
    /// `MI` in front.
    MinusAhead,
    /// `MI` behind.
    MinusBehind,
    /// `PR`.
    Brackets,
    /// `SG`, which stands among the digits.
    Placed,
}

/// The numerals of a number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Digits {
    Plain,
    /// `EEEE`
    Scientific,
    /// `RN`
    Roman {
        upper: bool,
    },
}

struct NumberPattern {
    /// Text in front of all digits and their sign.
    ahead: String,
    parts: Vec<Part>,
    sign: Sign,
    digits: Digits,
    bare: bool,
}

/// The rest of a text behind a word, whose case does not matter.
fn behind<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let (first, rest) = text.split_at_checked(word.len())?;
    first.eq_ignore_ascii_case(word).then_some(rest)
}

impl NumberPattern {
    fn new(pattern: &str) -> NumberPattern {
        let (parts, ahead) = (Vec::new(), String::new());
        let (sign, digits) = (Sign::Leading, Digits::Plain);
        let mut made = NumberPattern { ahead, parts, sign, digits, bare: false };
        let mut rest = pattern;
        while let Some(first) = rest.chars().next() {
            rest = match made.word(rest) {
                Some(behind) => behind,
                None if first == '"' => made.quoted(&rest[1..]),
                None => {
                    made.character(first);
                    &rest[first.len_utf8()..]
                }
            };
        }
        made
    }

    /// Reads a pattern of several letters, and returns the rest behind it.
    fn word<'p>(&mut self, rest: &'p str) -> Option<&'p str> {
        let upper = rest.starts_with(|c: char| c.is_ascii_uppercase());
        if let Some(behind) = behind(rest, "FM") {
            self.bare = true;
            Some(behind)
        } else if let Some(behind) = behind(rest, "MI") {
            let is_ahead = self.parts.is_empty();
            self.sign = if is_ahead { Sign::MinusAhead } else { Sign::MinusBehind };
            Some(behind)
        } else if let Some(behind) = behind(rest, "SG") {
            self.placed_sign(false);
            Some(behind)
        } else if let Some(behind) = behind(rest, "PL") {
            self.placed_sign(true);
            Some(behind)
        } else if let Some(behind) = behind(rest, "PR") {
            self.sign = Sign::Brackets;
            Some(behind)
        } else if let Some(behind) = behind(rest, "TH") {
            self.parts.push(Part::Ordinal { upper });
            Some(behind)
        } else if let Some(behind) = behind(rest, "RN") {
            self.digits = Digits::Roman { upper };
            Some(behind)
        } else {
            let behind = behind(rest, "EEEE")?;
            self.digits = Digits::Scientific;
            Some(behind)
        }
    }

    fn placed_sign(&mut self, plus_only: bool) {
        self.parts.push(Part::Sign { plus_only });
        if !plus_only {
            self.sign = Sign::Placed;
        }
    }

    /// Reads text up to its closing quote, and returns the rest behind it.
    fn quoted<'p>(&mut self, text: &'p str) -> &'p str {
        let mut characters = text.char_indices();
        while let Some((place, c)) = characters.next() {
            match c {
                '"' => return &text[place + 1..],
                '\\' => characters.next().into_iter().for_each(|(_, c)| self.literal(c)),
                c => self.literal(c),
            }
        }
        ""
    }

    fn character(&mut self, character: char) {
        match character.to_ascii_uppercase() {
            '9' => self.parts.push(Part::Digit { zero: false }),
            '0' => self.parts.push(Part::Digit { zero: true }),
            ',' | 'G' => self.parts.push(Part::Group),
            '.' | 'D' => self.parts.push(Part::Point),
            'V' => self.parts.push(Part::Shift),
            'S' if self.parts.is_empty() => self.sign = Sign::Anchored,
            'S' => self.sign = Sign::Trailing,
            // There is no currency.
            'L' => self.literal(' '),
            _ => self.literal(character),
        }
    }

    fn literal(&mut self, character: char) {
        match self.parts.is_empty() {
            true => self.ahead.push(character),
            false => self.parts.push(Part::Literal(character)),
        }
    }

    fn write(&self, number: &str) -> String {
        let written = match self.digits {
            Digits::Plain => self.write_plain(number),
            Digits::Scientific => self.write_scientific(number),
            Digits::Roman { upper } => return written::roman(number, upper, self.bare),
        };
        format!("{}{written}", self.ahead)
    }

    fn write_scientific(&self, number: &str) -> String {
        let point = self.parts.iter().position(|part| *part == Part::Point);
        let behind = &self.parts[point.unwrap_or(self.parts.len())..];
        let places = behind.iter().filter(|part| matches!(part, Part::Digit { .. })).count();
        let (negative, text) = written::scientific(number, places);
        self.with_sign(text, negative)
    }

    fn write_plain(&self, number: &str) -> String {
        let point = self.parts.iter().position(|part| *part == Part::Point);
        let (before, behind) = self.parts.split_at(point.unwrap_or(self.parts.len()));
        let count =
            |parts: &[Part]| parts.iter().filter(|part| matches!(part, Part::Digit { .. })).count();
        let shift = before.iter().position(|part| *part == Part::Shift);
        let shifted = shift.map_or(0, |shift| count(&before[shift..]));
        let moved = written::times_ten(number, shifted);
        let (negative, whole, fraction) = round_to(&moved, count(behind));
        let places = count(before);
        if whole.len() > places {
            return self.overflow();
        }
        let ordinal = if negative || self.has_point() { "" } else { written::ordinal(&whole) };
        let mut text = self.write_whole(before, (negative, &whole), places, ordinal);
        let mut digits = fraction.chars();
        for part in behind {
            match part {
                Part::Digit { .. } => text.extend(digits.next()),
                Part::Point => text.push('.'),
                Part::Group => text.push(','),
                Part::Ordinal { .. } | Part::Shift => {}
                Part::Sign { plus_only } => text.push_str(placed(*plus_only, negative, self.bare)),
                Part::Literal(c) => text.push(*c),
            }
        }
        if self.bare && point.is_some() {
            self.trim_fraction(behind, &mut text);
        }
        let zero = whole.is_empty() && fraction.bytes().all(|digit| digit == b'0');
        self.with_sign(text, negative && !zero)
    }

    /// `FM` drops trailing zeros that come from `9`.
    fn trim_fraction(&self, behind: &[Part], text: &mut String) {
        for part in behind.iter().rev() {
            if *part != (Part::Digit { zero: false }) || !text.ends_with('0') {
                break;
            }
            text.pop();
        }
    }

    fn write_whole(
        &self,
        parts: &[Part],
        (negative, digits): (bool, &str),
        places: usize,
        ordinal: &str,
    ) -> String {
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
                Part::Ordinal { upper: true } => text.push_str(&ordinal.to_ascii_uppercase()),
                Part::Ordinal { upper: false } => text.push_str(ordinal),
                Part::Shift => {}
                Part::Sign { plus_only } => text.push_str(placed(*plus_only, negative, self.bare)),
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
            (Sign::MinusAhead, true) => format!("-{padding}{digits}"),
            (Sign::MinusAhead, false) if self.bare => digits.to_string(),
            (Sign::MinusAhead, false) => format!(" {padding}{digits}"),
            (Sign::Trailing, true) | (Sign::MinusBehind, true) => format!("{padding}{digits}-"),
            (Sign::Trailing, false) => format!("{padding}{digits}+"),
            (Sign::MinusBehind, false) if self.bare => digits.to_string(),
            (Sign::MinusBehind, false) => format!("{padding}{digits} "),
            (Sign::Placed, _) => text,
            (Sign::Brackets, true) => format!("{padding}<{digits}>"),
            (Sign::Brackets, false) if self.bare => digits.to_string(),
            (Sign::Brackets, false) => format!(" {padding}{digits} "),
        }
    }

    /// A number that has more digits than places.
    fn overflow(&self) -> String {
        let marks = self.parts.iter().filter_map(|part| match part {
            Part::Digit { .. } => Some('#'),
            Part::Group => Some(','),
            Part::Point => Some('.'),
            Part::Ordinal { .. } | Part::Shift => None,
            Part::Sign { .. } => Some(' '),
            Part::Literal(c) => Some(*c),
        });
        let marks: String = marks.collect();
        if self.bare { marks } else { format!(" {marks}") }
    }
}

/// The sign at a place of its own.
fn placed(plus_only: bool, negative: bool, bare: bool) -> &'static str {
    match (plus_only, negative) {
        (_, false) => "+",
        (false, true) => "-",
        (true, true) if bare => "",
        (true, true) => " ",
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
