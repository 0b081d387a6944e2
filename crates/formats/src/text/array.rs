//! Array literals such as `{1,"b c",NULL}`.

use std::borrow::Cow;

use thalweg_types::{Error, Result, SqlState};

use super::parse::quoted;

/// The items of an array literal, in order; `None` is an unquoted `NULL`.
///
/// A nested array is returned as its literal.
pub(super) fn parse(text: &str) -> Result<Vec<Option<Cow<'_, str>>>> {
    let trimmed = text.trim_ascii();
    let malformed = |detail: &str| malformed(text, detail);
    let Some(inner) = trimmed.strip_prefix('{') else {
        return Err(malformed("An array value starts with \"{\"."));
    };
    let Some(inner) = inner.strip_suffix('}') else {
        return Err(malformed("The closing \"}\" is missing."));
    };
    let mut rest = inner.trim_ascii();
    let mut items = Vec::new();
    if rest.is_empty() {
        return Ok(items);
    }
    loop {
        let (item, behind) = match rest.as_bytes().first() {
            Some(b'"') => quoted_item(rest).ok_or_else(|| malformed("A quote is not closed."))?,
            Some(b'{') => nested(rest).ok_or_else(|| malformed("A brace is not closed."))?,
            _ => plain_item(rest).ok_or_else(|| malformed("An item is empty or not quoted."))?,
        };
        items.push(item);
        let behind = behind.trim_ascii_start();
        if behind.is_empty() {
            return Ok(items);
        }
        let Some(next) = behind.strip_prefix(',') else {
            return Err(malformed("Items are separated by commas."));
        };
        rest = next.trim_ascii_start();
    }
}

fn malformed(text: &str, detail: &str) -> Error {
    let message = format!("malformed array literal: {}", quoted(text));
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
}

type Item<'a> = (Option<Cow<'a, str>>, &'a str);

fn quoted_item(text: &str) -> Option<Item<'_>> {
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((Some(Cow::Owned(value)), &text[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            _ => value.push(character),
        }
    }
    None
}

/// The literal of an inner array, up to its closing brace.
fn nested(text: &str) -> Option<Item<'_>> {
    let mut depth = 0_usize;
    let mut in_quotes = false;
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => _ = bytes.next(),
            b'"' => in_quotes = !in_quotes,
            b'{' if !in_quotes => depth += 1,
            b'}' if !in_quotes => {
                depth -= 1;
                if depth == 0 {
                    let (item, behind) = text.split_at(at + 1);
                    return Some((Some(Cow::Borrowed(item)), behind));
                }
            }
            _ => {}
        }
    }
    None
}

fn plain_item(text: &str) -> Option<Item<'_>> {
    let mut bytes = text.bytes().enumerate();
    let mut escaped = false;
    let mut end = text.len();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b',' => {
                end = at;
                break;
            }
            b'"' | b'{' | b'}' => return None,
            b'\\' => {
                escaped = true;
                bytes.next()?;
            }
            _ => {}
        }
    }
    let (item, behind) = text.split_at(end);
    if escaped {
        return Some((Some(Cow::Owned(without_escapes(item))), behind));
    }
    match item.trim_ascii() {
        "" => None,
        item if item.eq_ignore_ascii_case("null") => Some((None, behind)),
        item => Some((Some(Cow::Borrowed(item)), behind)),
    }
}

fn without_escapes(item: &str) -> String {
    let mut value = String::with_capacity(item.len());
    let mut characters = item.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => value.extend(characters.next()),
            _ => value.push(character),
        }
    }
    value
}

/// Writes an item, in quotes if it would not read back as itself.
pub(super) fn push_item(item: &str, out: &mut String) {
    let needs_quotes = item.is_empty()
        || item.eq_ignore_ascii_case("null")
        || item.bytes().any(|byte| {
            matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',') || byte.is_ascii_whitespace()
                // The vertical tab is white space in PostgreSQL, but not in Rust.
                || byte == 0x0b
        });
    if !needs_quotes {
        return out.push_str(item);
    }
    out.push('"');
    for character in item.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}
