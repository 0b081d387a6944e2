//! `encode` and `decode`: bytes as text, and the bytes of such a text.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryViewBuilder};
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine as _, alphabet};
use thalweg_types::{DataType, Error, Result, SqlState};

use super::converted;
use thalweg_values::bounded_output::{BoundedTexts, allow_all};

pub(super) fn encode(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let values = converted(&columns[0], &DataType::Bytea)?;
    let names = converted(&columns[1], &DataType::Text { max_chars: None })?;
    let mut made = BoundedTexts::default();
    for pair in values.as_binary_view().iter().zip(names.as_string_view()) {
        let (Some(bytes), Some(name)) = pair else {
            made.null();
            continue;
        };
        let format = Format::named(name)?;
        made.allow(bytes.len().saturating_mul(format.growth()))?;
        made.owned(format.encode(bytes));
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
            let error_text = format!("unrecognized encoding: \"{name}\"");
            Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text)
        })
    }

    /// Maximum number of characters that a byte becomes.
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

fn refused(error_text: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text)
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

/// Number of bytes in a line of 76 characters.
const BASE64_LINE_BYTES: usize = 57;
/// Left-over bits are ignored.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// In lines, as MIME has them.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for line in bytes.chunks(BASE64_LINE_BYTES) {
        BASE64.encode_string(line, &mut text);
        if line.len() == BASE64_LINE_BYTES {
            text.push('\n');
        }
    }
    text
}

fn of_base64(text: &str) -> Result<Vec<u8>> {
    const BLANKS: [char; 4] = [' ', '\n', '\t', '\r'];
    let digits: String = text.split(BLANKS).collect();
    BASE64.decode(&digits).map_err(|error| match error {
        DecodeError::InvalidByte(_, b'=') => {
            refused("unexpected \"=\" while decoding base64 sequence")
        }
        DecodeError::InvalidByte(place, _) => {
            let symbol = digits.get(place..).and_then(|behind| behind.chars().next());
            let symbol = symbol.unwrap_or_default();
            refused(format!("invalid symbol \"{symbol}\" found while decoding base64 sequence"))
        }
        _ => {
            let error_text =
                "Input data is missing padding, is truncated, or is otherwise corrupted.";
            refused("invalid base64 end sequence").with_hint(error_text)
        }
    })
}

/// Bytes that are not ASCII, and zeros, as octal digits.
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
        let error_text = "invalid input syntax for type bytea";
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, error_text)
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
