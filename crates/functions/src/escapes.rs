//! `unistr`: characters that are given by their numbers.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::DataType as ArrowType;
use datafusion::logical_expr::ScalarUDF;
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::scalar_function::Function;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let text = ArrowType::Utf8View;
    vec![Function::new("unistr", &[std::slice::from_ref(&text)], text.clone(), unistr).into_udf()]
}

fn unistr(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = columns[0].as_string_view().iter().map(|text| text.map(unescaped).transpose());
    Ok(Arc::new(texts.collect::<Result<StringViewArray>>()?))
}

/// Text with its escapes replaced by their characters.
fn unescaped(text: &str) -> Result<String> {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    // The first half of a character in UTF-16, whose second half has to follow.
    let mut half = None;
    while let Some((before, behind)) = rest.split_once('\\') {
        let is_plain = behind.starts_with('\\');
        if half.is_some() && (is_plain || !before.is_empty()) {
            return Err(half_alone());
        }
        written.push_str(before);
        if is_plain {
            written.push('\\');
            rest = &behind[1..];
            continue;
        }
        let (number, behind) = escape(behind)?;
        rest = behind;
        match (half.take(), number) {
            (None, 0xd800..=0xdbff) => half = Some(number),
            (None, 0xdc00..=0xdfff) => return Err(half_alone()),
            (None, number) => written.push(character(number)?),
            (Some(high), 0xdc00..=0xdfff) => {
                written.push(character(0x10000 + ((high & 0x3ff) << 10) + (number & 0x3ff))?);
            }
            (Some(_), _) => return Err(half_alone()),
        }
    }
    if half.is_some() {
        return Err(half_alone());
    }
    written.push_str(rest);
    Ok(written)
}

/// The number behind a backslash, and the rest of the text.
fn escape(text: &str) -> Result<(u32, &str)> {
    let (start, length) = match text.as_bytes().first() {
        Some(b'+') => (1, 6),
        Some(b'u') => (1, 4),
        Some(b'U') => (1, 8),
        _ => (0, 4),
    };
    let end = start + length;
    let digits = text.get(start..end).filter(|digits| digits.bytes().all(is_digit));
    let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let number = number.ok_or_else(|| {
        Error::new(SqlState::SYNTAX_ERROR, "invalid Unicode escape")
            .with_hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
    })?;
    Ok((number, &text[end..]))
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

/// Text cannot hold the character zero.
fn character(number: u32) -> Result<char> {
    char::from_u32(number).filter(|c| *c != '\0').ok_or_else(|| {
        let error_text = format!("invalid Unicode code point: {number:04X}");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text)
    })
}

fn half_alone() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "invalid Unicode surrogate pair")
}
