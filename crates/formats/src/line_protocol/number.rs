//! Numbers of the line protocol.

use thalweg_types::{Error, Result, SqlState};

use super::{FieldValue, malformed};

/// Reads a number: `1i` and `1u` are integers, all others are floating-point numbers.
pub(super) fn number(key: &str, text: &str) -> Result<FieldValue<'static>> {
    let (digits, suffix) = match text.as_bytes() {
        [.., suffix @ (b'i' | b'u')] => (&text[..text.len() - 1], Some(*suffix)),
        _ => (text, None),
    };
    // The standard library would read "inf", "nan" and "+1" as numbers, too.
    let is_number = digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
        && !digits.starts_with('+');
    let invalid = || malformed(format!("invalid value for field \"{key}\": {text}"));
    if !is_number {
        return Err(invalid());
    }
    match suffix {
        None => {
            let value: f64 = digits.parse().map_err(|_| invalid())?;
            if value.is_finite() { Ok(FieldValue::Float(value)) } else { Err(too_large(key, text)) }
        }
        Some(suffix) => {
            let value: i128 = digits.parse().map_err(|_| match is_integer(digits) {
                true => too_large(key, text),
                false => invalid(),
            })?;
            if suffix == b'u' && digits.starts_with('-') {
                return Err(invalid());
            }
            i64::try_from(value).map(FieldValue::Integer).map_err(|_| too_large(key, text))
        }
    }
}

fn is_integer(digits: &str) -> bool {
    let digits = digits.strip_prefix('-').unwrap_or(digits);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn too_large(key: &str, text: &str) -> Error {
    let message = format!("the value of field \"{key}\" is out of range: {text}");
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, message)
}
