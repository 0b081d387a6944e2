//! Byte strings: written as `\x` and hexadecimal digits, read in that form and in the escape form.

use thalweg_types::{Error, Result, SqlState};

use super::parse::invalid_syntax;

const HEX: &[u8; 16] = b"0123456789abcdef";

pub(super) fn format(value: &[u8], out: &mut String) {
    out.reserve(2 + value.len() * 2);
    out.push_str("\\x");
    for byte in value {
        out.push(char::from(HEX[usize::from(byte >> 4)]));
        out.push(char::from(HEX[usize::from(byte & 15)]));
    }
}

/// Writes printable ASCII characters as they are, and other bytes in three octal digits.
pub fn format_escaped(value: &[u8], out: &mut String) {
    out.reserve(value.len());
    for byte in value {
        match byte {
            b'\\' => out.push_str("\\\\"),
            0x20..=0x7e => out.push(char::from(*byte)),
            _ => {
                out.push('\\');
                out.extend([6, 3, 0].map(|shift| char::from(b'0' + (byte >> shift & 7))));
            }
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(digits) => parse_hex(digits),
        None => parse_escapes(text),
    }
}

fn parse_hex(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for character in text.chars().filter(|character| !character.is_ascii_whitespace()) {
        let digit = character.to_digit(16).ok_or_else(|| {
            Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid hexadecimal digit: \"{character}\""),
            )
        })? as u8;
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push(high << 4 | digit),
        }
    }
    if high.is_some() {
        return Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "invalid hexadecimal data: odd number of digits",
        ));
    }
    Ok(bytes)
}

/// `\\` is a backslash, `\ooo` a byte in octal digits; other characters represent themselves.
fn parse_escapes(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = match (first, behind) {
            (b'\\', [b'\\', behind @ ..]) => {
                bytes.push(b'\\');
                behind
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                behind
            }
            (b'\\', _) => return Err(invalid_syntax("bytea", text)),
            _ => {
                bytes.push(first);
                behind
            }
        };
    }
    Ok(bytes)
}
