//! `encode` and `decode`: bytes as text, and the bytes of such a text.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryViewBuilder};
use thalweg_types::{DataType, Error, Result, SqlState};

use super::super::made::{Made, allow_all};
use super::converted;

pub(super) fn encode(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let values = converted(&columns[0], &DataType::Bytea)?;
    let names = converted(&columns[1], &DataType::Text { max_chars: None })?;
    let mut made = Made::default();
    for pair in values.as_binary_view().iter().zip(names.as_string_view()) {
        let (Some(bytes), Some(name)) = pair else {
            made.null();
            continue;
        };
        let format = Format::named(name)?;
        made.allow(bytes.len().saturating_mul(format.growth()))?;
        made.value(&format.encode(bytes));
    }
    Ok(made.finish())
}

pub(super) fn decode(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let text = DataType::Text { max_chars: None };
    let (values, names) = (converted(&columns[0], &text)?, converted(&columns[1], &text)?);
    allow_all(&values, 1)?;
    let mut made = BinaryViewBuilder::new();
    for pair in values.as_string_view().iter().zip(names.as_string_view()) {
        match pair {
            (Some(text), Some(name)) => made.append_value(Format::named(name)?.decode(text)?),
            _ => made.append_null(),
        }
    }
    Ok(Arc::new(made.finish()))
}

#[derive(Clone, Copy)]
enum Format {
    Hex,
    Base64,
    Escape,
}

impl Format {
    fn named(name: &str) -> Result<Format> {
        let known = [("hex", Format::Hex), ("base64", Format::Base64), ("escape", Format::Escape)];
        let format = known.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        format.map(|(_, format)| format).ok_or_else(|| {
            let told = format!("unrecognized encoding: \"{name}\"");
            Error::new(SqlState::INVALID_PARAMETER_VALUE, told)
        })
    }

    /// How many characters a byte becomes at most.
    fn growth(self) -> usize {
        match self {
            Format::Hex | Format::Base64 => 2,
            Format::Escape => 4,
        }
    }

    fn encode(self, bytes: &[u8]) -> String {
        match self {
            Format::Hex => bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(hex).collect(),
            Format::Base64 => base64(bytes),
            Format::Escape => escaped(bytes),
        }
    }

    fn decode(self, text: &str) -> Result<Vec<u8>> {
        match self {
            Format::Hex => of_hex(text),
            Format::Base64 => of_base64(text),
            Format::Escape => of_escaped(text),
        }
    }
}

fn refused(told: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, told)
}

fn hex(digit: u8) -> char {
    char::from(b"0123456789abcdef"[usize::from(digit)])
}

fn of_hex(text: &str) -> Result<Vec<u8>> {
    let digit = |c: char| {
        let digit = c.to_digit(16).map(|digit| digit as u8);
        digit.ok_or_else(|| refused(format!("invalid hexadecimal digit: \"{c}\"")))
    };
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut digits = text.chars();
    while let Some(first) = digits.next() {
        // Between two bytes there may be blanks, within one there may not.
        if matches!(first, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let high = digit(first)?;
        let second = digits.next();
        let low = digit(
            second.ok_or_else(|| refused("invalid hexadecimal data: odd number of digits"))?,
        )?;
        bytes.push((high << 4) | low);
    }
    Ok(bytes)
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_LINE_MAX: usize = 76;

/// In lines, as MIME has them.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    let mut in_line = 0;
    for group in bytes.chunks(3) {
        let missing = 3 - group.len();
        let bits =
            group.iter().fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte)) << (8 * missing);
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place)) as usize & 63;
            let is_given = place <= group.len();
            text.push(if is_given { char::from(BASE64[digit]) } else { '=' });
        }
        in_line += 4;
        if in_line == BASE64_LINE_MAX && missing == 0 {
            text.push('\n');
            in_line = 0;
        }
    }
    text
}

fn of_base64(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut digits) = (0_u32, 0_usize);
    // How many bytes the last group has, once its end has been seen.
    let mut last = None;
    for c in text.chars() {
        let digit = match c {
            ' ' | '\n' | '\t' | '\r' => continue,
            '=' if last.is_none() && !matches!(digits, 2 | 3) => {
                return Err(refused("unexpected \"=\" while decoding base64 sequence"));
            }
            '=' => {
                last = last.or(Some(digits - 1));
                0
            }
            c => BASE64.iter().position(|known| char::from(*known) == c).ok_or_else(|| {
                refused(format!("invalid symbol \"{c}\" found while decoding base64 sequence"))
            })?,
        };
        bits = (bits << 6) | digit as u32;
        digits += 1;
        if digits == 4 {
            let group = bits.to_be_bytes();
            bytes.extend(&group[1..=last.unwrap_or(3)]);
            (bits, digits) = (0, 0);
        }
    }
    if digits != 0 {
        let told = "Input data is missing padding, is truncated, or is otherwise corrupted.";
        return Err(refused("invalid base64 end sequence").with_hint(told));
    }
    Ok(bytes)
}

/// Bytes that are no ASCII in octal digits, and zeros.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            0 | 128.. => text.push_str(&format!("\\{byte:03o}")),
            b'\\' => text.push_str("\\\\"),
            byte => text.push(char::from(byte)),
        }
    }
    text
}

fn of_escaped(text: &str) -> Result<Vec<u8>> {
    let invalid = || {
        let told = "invalid input syntax for type bytea";
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, told)
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = match (first, behind) {
            (b'\\', [b'\\', behind @ ..]) => {
                bytes.push(b'\\');
                behind
            }
            (b'\\', [high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', behind @ ..]) => {
                bytes.push(((high - b'0') << 6) | ((middle - b'0') << 3) | (low - b'0'));
                behind
            }
            (b'\\', _) => return Err(invalid()),
            (byte, behind) => {
                bytes.push(*byte);
                behind
            }
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_decoded() {
        let all: Vec<u8> = (0..=255).collect();
        for format in [Format::Hex, Format::Base64, Format::Escape] {
            for length in 0..all.len() {
                let bytes = &all[..length];
                let text = format.encode(bytes);
                assert!(text.len() <= length * format.growth() + 4, "{text}");
                assert_eq!(format.decode(&text).unwrap(), bytes, "{text}");
            }
        }
    }

    #[test]
    fn lines_end_where_they_are_full() {
        for (length, wanted) in [(56, 76), (57, 77), (58, 81), (114, 154)] {
            assert_eq!(base64(&vec![0; length]).len(), wanted);
        }
    }
}
