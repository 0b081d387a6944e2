//! Documents as trees. Numbers stay as they are written, so no digit of them is lost.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter::Peekable;

use thalweg_formats::text::parse as text;
use thalweg_types::{Error, Result, SqlState};

use super::at_path::value_end;
use super::jsonb;

pub(super) type Members<'t> = BTreeMap<Cow<'t, str>, Tree<'t>>;

#[derive(Clone, Debug)]
pub(super) enum Tree<'t> {
    /// A number, `true`, `false` or `null`, as it is written.
    Plain(&'t str),
    /// A string without its quotes and escapes.
    Text(Cow<'t, str>),
    Array(Vec<Tree<'t>>),
    /// The last value of a repeated key wins.
    Object(Members<'t>),
}

impl<'t> Tree<'t> {
    /// Reads a document whose nesting depth is limited: reading it recurses.
    ///
    /// # Errors
    /// If the text is not JSON.
    pub(super) fn read(document: &'t str) -> Result<Tree<'t>> {
        text::json(document)?;
        read(&mut tokens(document).peekable())
    }

    /// Appends the JSON text of the document. It is not in the canonical form of `jsonb`.
    pub(super) fn write(&self, out: &mut String) {
        let separate = |out: &mut String, place: usize| {
            if place > 0 {
                out.push(',');
            }
        };
        match self {
            Tree::Plain(text) => out.push_str(text),
            Tree::Text(text) => write_text(text, out),
            Tree::Array(items) => {
                out.push('[');
                for (place, item) in items.iter().enumerate() {
                    separate(out, place);
                    item.write(out);
                }
                out.push(']');
            }
            Tree::Object(members) => {
                out.push('{');
                for (place, (key, member)) in members.iter().enumerate() {
                    separate(out, place);
                    write_text(key, out);
                    out.push(':');
                    member.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// True for values that are equal as `jsonb`: numbers count by their value.
impl PartialEq for Tree<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Tree::Plain(one), Tree::Plain(other)) => {
                let are_numbers = is_number(one) && is_number(other);
                one == other || (are_numbers && compared(one, other) == Some(Ordering::Equal))
            }
            (Tree::Text(one), Tree::Text(other)) => one == other,
            (Tree::Array(one), Tree::Array(other)) => one == other,
            (Tree::Object(one), Tree::Object(other)) => one == other,
            _ => false,
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

fn is_number(plain: &str) -> bool {
    plain.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

fn read<'t>(tokens: &mut Peekable<impl Iterator<Item = &'t str>>) -> Result<Tree<'t>> {
    let token = tokens.next().unwrap_or_default();
    Ok(match token.as_bytes().first() {
        Some(b'"') => Tree::Text(unescaped(token)?),
        Some(b'[') => {
            let mut items = Vec::new();
            while tokens.next_if_eq(&"]").is_none() && tokens.peek().is_some() {
                if tokens.next_if_eq(&",").is_none() {
                    items.push(read(tokens)?);
                }
            }
            Tree::Array(items)
        }
        Some(b'{') => {
            let mut members = BTreeMap::new();
            // The key and the colon come before the value.
            while let Some(key) = tokens.next().filter(|key| *key != "}") {
                if key != "," {
                    tokens.next();
                    members.insert(unescaped(key)?, read(tokens)?);
                }
            }
            Tree::Object(members)
        }
        _ => Tree::Plain(token),
    })
}

/// The text of a quoted string.
fn unescaped(quoted: &str) -> Result<Cow<'_, str>> {
    if !quoted.contains('\\') {
        return Ok(Cow::Borrowed(quoted.trim_matches('"')));
    }
    serde_json::from_str(quoted).map(Cow::Owned).map_err(|error| {
        let error_text = "invalid input syntax for type json";
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, error_text).with_detail(error.to_string())
    })
}

/// The marks and scalar values of well-formed JSON, keys among them, as they are written.
pub(super) fn tokens(document: &str) -> impl Iterator<Item = &str> {
    let mut rest = document;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let length = match rest.as_bytes().first()? {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            _ => value_end(rest, 0).unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(length);
        rest = behind;
        Some(token)
    })
}

/// A document without the members that are null. Its keys stay in their order, and repeated ones
/// stay too; scalar values are as they are written, and there is no white space.
///
/// # Errors
/// If the text is not JSON, or has an escape of a character that no text has.
pub(super) fn without_nulls(document: &str) -> Result<String> {
    text::json(document)?;
    let (mut out, mut in_objects, mut key) = (String::with_capacity(document.len()), vec![], None);
    let mut expects_key = false;
    for token in tokens(document) {
        match token {
            "}" | "]" => {
                out.push_str(token);
                in_objects.pop();
                expects_key = false;
                continue;
            }
            "," => expects_key = in_objects.last() == Some(&true),
            ":" => {}
            _ if expects_key => {
                key = Some(token);
                expects_key = false;
            }
            "null" if key.is_some() => key = None,
            _ => {
                if !in_objects.is_empty() && !out.ends_with(['[', '{']) {
                    out.push(',');
                }
                if let Some(key) = key.take() {
                    push_scalar(key, &mut out)?;
                    out.push(':');
                }
                push_scalar(token, &mut out)?;
                if let "{" | "[" = token {
                    expects_key = token == "{";
                    in_objects.push(expects_key);
                }
            }
        }
    }
    Ok(out)
}

/// Strings are written with the escapes that they need and no others.
fn push_scalar(token: &str, out: &mut String) -> Result<()> {
    match token.starts_with('"') && token.contains('\\') {
        true => out.push_str(&jsonb(token)?),
        false => out.push_str(token),
    }
    Ok(())
}

/// The order of two JSON numbers by their values.
pub(super) fn compared(left: &str, right: &str) -> Option<Ordering> {
    let (left, right) = (plain(left)?, plain(right)?);
    let (Some(first), Some(second)) = (Decimal::of(&left), Decimal::of(&right)) else {
        return left.parse::<f64>().ok()?.partial_cmp(&right.parse::<f64>().ok()?);
    };
    Some(match (first.is_negative, second.is_negative) {
        (false, false) => first.magnitude().cmp(&second.magnitude()),
        (true, true) => second.magnitude().cmp(&first.magnitude()),
        (is_negative, _) if is_negative => Ordering::Less,
        _ => Ordering::Greater,
    })
}

/// A number without an exponent, unless the exponent is very large.
fn plain(number: &str) -> Option<Cow<'_, str>> {
    match number.contains(['e', 'E']) {
        true => jsonb(number).ok().map(Cow::Owned),
        false => Some(Cow::Borrowed(number)),
    }
}

/// The significant digits before and behind the point.
struct Decimal<'t> {
    is_negative: bool,
    whole: &'t str,
    fraction: &'t str,
}

impl<'t> Decimal<'t> {
    /// `None` for a number with an exponent.
    fn of(number: &'t str) -> Option<Decimal<'t>> {
        let digits = number.strip_prefix('-').unwrap_or(number);
        if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return None;
        }
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let is_zero = whole.is_empty() && fraction.is_empty();
        Some(Decimal { is_negative: digits.len() < number.len() && !is_zero, whole, fraction })
    }

    fn magnitude(&self) -> (usize, &str, &str) {
        (self.whole.len(), self.whole, self.fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_the_numbers_of_its_text() {
        for (document, expected) in [
            (r#" {"b" : [ 1.50, {} , [ ] ], "a":"x\u0041", "b2": 1e400}"#, {
                r#"{"a":"xA","b":[1.50,{},[]],"b2":1e400}"#
            }),
            ("0.1234567890123456789", "0.1234567890123456789"),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#""]}\",""#, r#""]}\",""#),
        ] {
            let mut out = String::new();
            Tree::read(document).unwrap().write(&mut out);
            assert_eq!(out, expected, "{document}");
        }
    }

    #[test]
    fn numbers_are_ordered_by_their_values() {
        let ordered = [
            "-1e300",
            "-12345678901234567890.2",
            "-12345678901234567890.1",
            "-10",
            "-9.5",
            "-9",
            "-0.01",
            "0",
            "1e-5",
            "0.1",
            "0.12",
            "0.2",
            "9",
            "9.99",
            "10",
            "123456789.1234567891",
            "123456789.1234567892",
            "1e20",
            "100000000000000000001",
            "1e400",
            "1e401",
        ];
        for (place, left) in ordered.iter().enumerate() {
            for (other, right) in ordered.iter().enumerate() {
                assert_eq!(compared(left, right), Some(place.cmp(&other)), "{left} {right}");
            }
        }
        for (left, right) in [("1", "1.00"), ("-0", "0.0"), ("1.5e1", "15"), ("100", "1E2")] {
            assert_eq!(compared(left, right), Some(Ordering::Equal), "{left} {right}");
        }
    }
}
