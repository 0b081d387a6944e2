//! UUIDs, stored as their canonical text.

use thalweg_types::Result;

use super::parse::invalid_syntax;

/// Positions of the canonical form's hyphens among its 32 digits.
const HYPHENS_BEFORE: [usize; 4] = [8, 12, 16, 20];

/// The canonical form of a UUID: 36 lower-case characters.
///
/// Accepts upper case, surrounding braces, and hyphens that are absent or after any group of four
/// digits.
pub(super) fn parse(text: &str) -> Result<String> {
    canonical(text.trim_ascii()).ok_or_else(|| invalid_syntax("uuid", text))
}

fn canonical(text: &str) -> Option<String> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut canonical = String::with_capacity(36);
    let mut digits = 0;
    let mut may_be_hyphen = false;
    for character in inner.chars() {
        if character == '-' && may_be_hyphen {
            may_be_hyphen = false;
            continue;
        }
        if !character.is_ascii_hexdigit() || digits == 32 {
            return None;
        }
        if HYPHENS_BEFORE.contains(&digits) {
            canonical.push('-');
        }
        canonical.push(character.to_ascii_lowercase());
        digits += 1;
        may_be_hyphen = digits % 4 == 0 && digits < 32;
    }
    (digits == 32).then_some(canonical)
}

/// The canonical form of a UUID's 16 bytes.
pub(crate) fn format_bytes(bytes: &[u8; 16]) -> String {
    let mut digits = String::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        if HYPHENS_BEFORE.contains(&(place * 2)) {
            digits.push('-');
        }
        digits.extend(char::from_digit(u32::from(byte >> 4), 16));
        digits.extend(char::from_digit(u32::from(byte & 15), 16));
    }
    digits
}
