//! `to_number`: the pattern says which characters of a text belong to the number.

use thalweg_types::{Error, Result, SqlState};

use super::{Digits, NumberPattern, Part, Sign};

/// The number that a pattern finds in a text, as plain digits. The pattern's digits take one digit
/// each, so that a text may have more than the pattern reads.
pub fn read(text: &str, pattern: &str) -> Result<String> {
    let pattern = NumberPattern::new(pattern);
    match pattern.digits {
        Digits::Plain => {}
        Digits::Scientific => return Err(not_for_input("EEEE")),
        Digits::Roman { .. } => return Err(not_for_input("RN")),
    }
    if pattern.parts.contains(&Part::Shift) {
        return Err(not_for_input("V"));
    }
    let mut reading = Reading { rest: text, negative: false, signed: false, digits: String::new() };
    pattern.ahead.chars().for_each(|_| reading.skip());
    if matches!(pattern.sign, Sign::Anchored | Sign::MinusAhead | Sign::Brackets) {
        reading.sign();
    }
    let has_point = pattern.parts.contains(&Part::Point);
    for part in &pattern.parts {
        match part {
            Part::Digit { .. } => reading.digit(has_point),
            Part::Group => reading.rest = reading.rest.strip_prefix(',').unwrap_or(reading.rest),
            Part::Point => reading.point(),
            Part::Sign { .. } => reading.sign(),
            Part::Ordinal { .. } => {
                reading.skip();
                reading.skip();
            }
            Part::Literal(_) => reading.skip(),
            Part::Shift => {}
        }
    }
    reading.sign();
    let sign = if reading.negative { "-" } else { "" };
    Ok(format!("{sign}{}", reading.digits))
}

fn not_for_input(what: &str) -> Error {
    let message = format!("\"{what}\" not supported for input");
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

struct Reading<'t> {
    rest: &'t str,
    negative: bool,
    signed: bool,
    digits: String,
}

impl Reading<'_> {
    fn sign(&mut self) {
        if self.signed {
            return;
        }
        let trimmed = self.rest.trim_start();
        let Some(first @ ('-' | '+' | '<')) = trimmed.chars().next() else { return };
        self.signed = true;
        self.negative = first != '+';
        self.rest = &trimmed[1..];
    }

    fn digit(&mut self, has_point: bool) {
        if self.digits.is_empty() {
            self.sign();
        }
        let trimmed = self.rest.trim_start();
        match trimmed.chars().next() {
            Some(digit @ '0'..='9') => {
                self.digits.push(digit);
                self.rest = &trimmed[1..];
            }
            Some('.') if has_point => self.point(),
            _ => {}
        }
    }

    fn point(&mut self) {
        if let Some(rest) = self.rest.strip_prefix('.') {
            self.rest = rest;
            if !self.digits.contains('.') {
                self.digits.push('.');
            }
        }
    }

    /// Skips one character that no number has.
    fn skip(&mut self) {
        let is_data = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '+' | '-');
        if let Some(first) = self.rest.chars().next().filter(|first| !is_data(*first)) {
            self.rest = &self.rest[first.len_utf8()..];
        }
    }
}
