//! The canonical text of a `jsonb` value: sorted members, unique keys, PostgreSQL's white space.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::json_depth::Nesting;
use super::parse;
use thalweg_types::{Error, Result, SqlState};

/// Numbers whose exponents would need more digits than this stay as they are.
const EXPONENT_MAX: i32 = 1_000;

/// The canonical text of a JSON text.
///
/// # Errors
/// If the text is not JSON.
pub fn jsonb(text: &str) -> Result<String> {
    jsonb_within(text, |_| Ok(()))
}

/// The canonical text of a JSON text, whose size is checked: `allow` gets the number of bytes of
/// memory that the text and its order take, before they are allocated, and again while numbers
/// with exponents make the text longer.
///
/// # Errors
/// If the text is not JSON; errors of `allow`.
pub fn jsonb_within(text: &str, allow: impl Fn(usize) -> Result<()>) -> Result<String> {
    parse::json(text)?;
    check_escapes(text)?;
    let layout = Layout::of(text, &allow)?;
    allow(layout.bytes)?;
    let out = String::with_capacity(layout.bytes);
    let allowed = layout.bytes;
    let writer = Writer { text, layout, frames: Vec::new(), out, allowed };
    writer.written(&allow)
}

/// Refuses escapes of characters that no text has: U+0000, and halves of surrogate pairs.
fn check_escapes(text: &str) -> Result<()> {
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        rest = &rest[at + 1..];
        let Some(unit) = escaped_unit(rest) else {
            rest = rest.get(1..).unwrap_or_default();
            continue;
        };
        rest = &rest[5..];
        match unit {
            0 => {
                let error_text = "unsupported Unicode escape sequence";
                return Err(Error::new(SqlState::UNTRANSLATABLE_CHARACTER, error_text)
                    .with_detail("\\u0000 cannot be converted to text."));
            }
            0xD800..=0xDBFF => {
                let low = rest.strip_prefix('\\').and_then(escaped_unit);
                if !low.is_some_and(|low| (0xDC00..=0xDFFF).contains(&low)) {
                    return Err(half_pair("Unicode low surrogate must follow a high surrogate."));
                }
                rest = &rest[6..];
            }
            0xDC00..=0xDFFF => {
                return Err(half_pair("Unicode low surrogate must follow a high surrogate."));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The code unit of `uXXXX` at the beginning of a text.
fn escaped_unit(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix('u')?.get(..4)?, 16).ok()
}

fn half_pair(detail: &str) -> Error {
    let error_text = "invalid input syntax for type json";
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, error_text).with_detail(detail)
}

/// Places of members are checked against the memory whenever so many more are known.
const MEMBERS_CHECKED: usize = 16 << 10;

/// The order in which a document is written.
#[derive(Default)]
struct Layout {
    /// About how many bytes the canonical text has.
    bytes: usize,
    /// Objects whose members are in another order than in the canonical text, or of which some
    /// have the same key, by their places.
    objects: Vec<Reordered>,
    /// The places of the keys of these objects, in their canonical order.
    members: Vec<u32>,
}

/// An object. Places are offsets in the document, which is shorter than 4 GiB.
struct Reordered {
    start: u32,
    /// The place of the closing mark.
    end: u32,
    /// The range of the object's members.
    first: u32,
    last: u32,
}

/// An array or object whose end was not seen yet.
struct Open {
    start: u32,
    is_object: bool,
    in_order: bool,
    /// Where the object's keys begin among those of all open objects.
    first: usize,
}

impl Layout {
    fn of(text: &str, allow: &impl Fn(usize) -> Result<()>) -> Result<Layout> {
        let mut layout = Layout::default();
        let (mut open, mut keys): (Vec<Open>, Vec<u32>) = (Vec::new(), Vec::new());
        let (mut at, mut blanks, mut separators, mut expects_key) = (0, 0, 0_usize, false);
        while let Some(byte) = text.as_bytes().get(at) {
            let start = at as u32;
            at += 1;
            match byte {
                b'{' | b'[' => {
                    expects_key = *byte == b'{';
                    let first = keys.len();
                    open.push(Open { start, is_object: expects_key, in_order: true, first });
                }
                b'}' | b']' => {
                    if let Some(ended) = open.pop().filter(|ended| ended.is_object) {
                        if !ended.in_order {
                            layout.reorder(text, &ended, start, &mut keys[ended.first..]);
                        }
                        keys.truncate(ended.first);
                    }
                }
                b'"' => {
                    at = string_end(text, at - 1);
                    if let Some(object) = open.last_mut().filter(|_| expects_key) {
                        let before = keys[object.first..].last();
                        let follows = before.is_none_or(|last| order(text, *last, start).is_lt());
                        object.in_order &= follows;
                        keys.push(start);
                        if keys.len().is_multiple_of(MEMBERS_CHECKED) {
                            allow(keys.len() * size_of::<u32>())?;
                        }
                    }
                    expects_key = false;
                }
                b',' => {
                    expects_key = open.last().is_some_and(|open| open.is_object);
                    separators += 1;
                }
                b':' => separators += 1,
                byte if byte.is_ascii_whitespace() => blanks += 1,
                _ => {}
            }
        }
        layout.bytes = text.len() - blanks + separators;
        layout.objects.sort_unstable_by_key(|object| object.start);
        Ok(layout)
    }

    /// Puts the members of an object into `jsonb`'s order: shorter keys first. The last value of a
    /// repeated key wins.
    fn reorder(&mut self, text: &str, object: &Open, end: u32, keys: &mut [u32]) {
        keys.sort_by(|left, right| order(text, *left, *right));
        let first = self.members.len() as u32;
        // The sort is stable.
        let is_last = |place: usize| {
            keys.get(place + 1).is_none_or(|next| order(text, keys[place], *next).is_ne())
        };
        let kept = keys.iter().enumerate().filter(|(place, _)| is_last(*place));
        self.members.extend(kept.map(|(_, key)| *key));
        let last = self.members.len() as u32;
        self.objects.push(Reordered { start: object.start, end, first, last });
    }

    fn reordered(&self, start: usize) -> Option<&Reordered> {
        let start = start as u32;
        let found = self.objects.binary_search_by_key(&start, |object| object.start);
        found.ok().map(|place| &self.objects[place])
    }
}

/// The order of two keys, by their places.
fn order(text: &str, left: u32, right: u32) -> Ordering {
    let (left, right) = (key_at(text, left as usize), key_at(text, right as usize));
    (left.len(), left).cmp(&(right.len(), right))
}

fn key_at(text: &str, start: usize) -> Cow<'_, str> {
    unescaped(&text[start..string_end(text, start)])
}

/// The text of a quoted string.
fn unescaped(raw: &str) -> Cow<'_, str> {
    match raw.contains('\\') {
        false => Cow::Borrowed(raw.trim_matches('"')),
        true => match serde_json::from_str(raw) {
            Ok(text) => Cow::Owned(text),
            Err(_) => Cow::Borrowed(raw.trim_matches('"')),
        },
    }
}

/// The end of the string that begins at a place.
fn string_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

/// An array or object that is being written.
enum Frame {
    Array,
    Object,
    /// An object whose members are written in another order; `next` is its next member.
    Reordered {
        first: u32,
        next: u32,
        last: u32,
        end: u32,
    },
}

/// Writes a document. Neither writing nor dropping a deep document recurses.
struct Writer<'t> {
    text: &'t str,
    layout: Layout,
    frames: Vec<Frame>,
    out: String,
    /// The size up to which the text was allowed.
    allowed: usize,
}

impl Writer<'_> {
    fn written(mut self, allow: &impl Fn(usize) -> Result<()>) -> Result<String> {
        let mut next = Some(self.behind_blanks(0));
        while let Some(at) = next {
            next = match self.value(at) {
                Ok(member) => Some(member),
                Err(end) => self.behind_value(end),
            };
            if self.out.len() > self.allowed {
                self.allowed = self.out.len() * 2;
                allow(self.allowed)?;
            }
        }
        Ok(self.out)
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(b' ')
    }

    fn behind_blanks(&self, at: usize) -> usize {
        let rest = self.text.as_bytes()[at.min(self.text.len())..].iter();
        at + rest.take_while(|byte| byte.is_ascii_whitespace()).count()
    }

    /// Writes a value, or the opening mark of a container that has members. Returns the place of
    /// the first member's value, or as an error the end of the value.
    fn value(&mut self, at: usize) -> std::result::Result<usize, usize> {
        match self.byte(at) {
            b'[' => {
                self.out.push('[');
                self.frames.push(Frame::Array);
                let inner = self.behind_blanks(at + 1);
                if self.byte(inner) == b']' { Err(inner) } else { Ok(inner) }
            }
            b'{' => {
                self.out.push('{');
                if let Some(object) = self.layout.reordered(at) {
                    let Reordered { first, last, end, .. } = *object;
                    self.frames.push(Frame::Reordered { first, next: first, last, end });
                    return Err(at);
                }
                self.frames.push(Frame::Object);
                let inner = self.behind_blanks(at + 1);
                if self.byte(inner) == b'}' { Err(inner) } else { Ok(self.key(inner)) }
            }
            b'"' => {
                let end = string_end(self.text, at);
                string(&self.text[at..end], &mut self.out);
                Err(end)
            }
            _ => {
                let rest = &self.text[at..];
                let is_end = |c: char| matches!(c, ',' | ']' | '}') || c.is_ascii_whitespace();
                let length = rest.find(is_end).unwrap_or(rest.len());
                scalar(&rest[..length], &mut self.out);
                Err(at + length)
            }
        }
    }

    /// Writes the marks behind a value that ends at a place. Returns the place of the next value;
    /// `None` at the end of the document.
    fn behind_value(&mut self, end: usize) -> Option<usize> {
        let mut at = end;
        loop {
            let members = &self.layout.members;
            match self.frames.last_mut()? {
                Frame::Reordered { first, next, last, end } => {
                    if next == last {
                        at = *end as usize + 1;
                        self.out.push('}');
                    } else {
                        self.out.push_str(if next > first { ", " } else { "" });
                        let key = members[*next as usize] as usize;
                        *next += 1;
                        return Some(self.key(key));
                    }
                }
                Frame::Array | Frame::Object => {
                    at = self.behind_blanks(at);
                    let mark = self.byte(at);
                    at += 1;
                    if mark == b',' {
                        self.out.push_str(", ");
                        at = self.behind_blanks(at);
                        let is_object = matches!(self.frames.last(), Some(Frame::Object));
                        return Some(if is_object { self.key(at) } else { at });
                    }
                    self.out.push(mark as char);
                }
            }
            self.frames.pop();
        }
    }

    /// Writes the key at a place. Returns the place of its value.
    fn key(&mut self, at: usize) -> usize {
        let end = string_end(self.text, at);
        string(&self.text[at..end], &mut self.out);
        self.out.push_str(": ");
        let colon = self.behind_blanks(end);
        self.behind_blanks(colon + 1)
    }
}

/// Writes a quoted string with the escapes that it needs and no others.
fn string(raw: &str, out: &mut String) {
    if !raw.contains('\\') {
        return out.push_str(raw);
    }
    let start = out.len();
    if transcribe(&raw[1..raw.len() - 1], out).is_none() {
        out.truncate(start);
        out.push_str(&serde_json::Value::from(unescaped(raw)).to_string());
    }
}

/// Writes the inside of a quoted string; `None` if one of its escapes is half of a character.
fn transcribe(inside: &str, out: &mut String) -> Option<()> {
    let mut rest = inside;
    out.push('"');
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let mut length = 2;
        match rest.as_bytes().get(at + 1)? {
            b'/' => out.push('/'),
            b'u' => {
                let (character, escape) = unicode_escape(&rest[at..])?;
                length = escape;
                push_escaped(character, out);
            }
            _ => out.push_str(rest.get(at..at + 2)?),
        }
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out.push('"');
    Some(())
}

/// The character of the escape, or of the two escapes, at the beginning of a text, and their
/// length.
fn unicode_escape(text: &str) -> Option<(char, usize)> {
    let unit = |at: usize| u16::from_str_radix(text.get(at + 2..at + 6)?, 16).ok();
    let first = unit(0)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        return Some((character, 6));
    }
    let second = text.get(6..8).filter(|begin| *begin == "\\u").and_then(|_| unit(6))?;
    let both = char::decode_utf16([first, second]).next()?.ok()?;
    Some((both, 12))
}

fn push_escaped(character: char, out: &mut String) {
    let short = match character {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\0'..'\u{20}' => {
            out.push_str(&format!("\\u{:04x}", u32::from(character)));
            return;
        }
        _ => return out.push(character),
    };
    out.push_str(short);
}

/// The parts of a JSON value, in their original text.
pub enum JsonParts<'t> {
    Object(Vec<(String, &'t str)>),
    Array(Vec<&'t str>),
    /// Neither an object nor an array.
    Scalar,
}

/// Splits a JSON value into its parts, one level deep.
///
/// # Errors
/// If the text is not JSON.
pub fn json_parts(text: &str) -> Result<JsonParts<'_>> {
    parse::json(text)?;
    let mut reader = Reader { rest: text };
    Ok(match reader.next() {
        b'{' => {
            reader.take(1);
            let mut members = Vec::new();
            while reader.next() != b'}' {
                if reader.next() == b',' {
                    reader.take(1);
                    reader.next();
                }
                let key = reader.key();
                members.push((key, reader.raw()));
            }
            JsonParts::Object(members)
        }
        b'[' => {
            reader.take(1);
            let mut items = Vec::new();
            while reader.next() != b']' {
                if reader.next() == b',' {
                    reader.take(1);
                }
                items.push(reader.raw());
            }
            JsonParts::Array(items)
        }
        _ => JsonParts::Scalar,
    })
}

/// Reads a text that is known to be JSON.
struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> u8 {
        self.rest = self.rest.trim_start();
        self.rest.as_bytes().first().copied().unwrap_or(b' ')
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    /// Reads a key and the colon after it.
    fn key(&mut self) -> String {
        let key = self.string();
        self.next();
        self.take(1);
        key
    }

    fn plain(&mut self) -> &'t str {
        let is_end = |c: char| matches!(c, ',' | ']' | '}') || c.is_ascii_whitespace();
        let end = self.rest.find(is_end).unwrap_or(self.rest.len());
        self.take(end)
    }

    /// The next value in its original text.
    fn raw(&mut self) -> &'t str {
        if !matches!(self.next(), b'{' | b'[' | b'"') {
            return self.plain();
        }
        let end = Nesting::default().end_of_value(self.rest);
        self.take(end)
    }

    /// Reads a quoted text and unescapes it.
    fn string(&mut self) -> String {
        let raw = self.take(string_end(self.rest, 0));
        unescaped(raw).into_owned()
    }
}

/// Numbers are written like `numeric`: without an exponent, with all given digits.
fn scalar(text: &str, out: &mut String) {
    let plain = text.split_once(['e', 'E']).and_then(|(digits, exponent)| {
        let exponent = exponent.parse::<i32>().ok()?;
        (exponent.abs() <= EXPONENT_MAX).then(|| shifted(digits, exponent))
    });
    let plain = plain.as_deref().unwrap_or(text);
    let is_zero = plain.starts_with('-') && !plain.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    out.push_str(if is_zero { &plain[1..] } else { plain });
}

/// Digits with their point moved.
fn shifted(digits: &str, exponent: i32) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let point = whole.len() as i32 + exponent;
    let mut all = format!("{whole}{fraction}");
    if point <= 0 {
        all.insert_str(0, &"0".repeat((1 - point) as usize));
    }
    let point = point.max(1) as usize;
    if all.len() < point {
        all.push_str(&"0".repeat(point - all.len()));
    }
    let (whole, fraction) = all.split_at(point);
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    match fraction {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use thalweg_types::Error;

    use super::super::json_depth::JSON_DEPTH_MAX;
    use super::{JsonParts, json_parts, jsonb, jsonb_within};

    #[test]
    fn values_have_one_text() {
        for (given, kept) in [
            ("{\"bb\":1,\"a\" : [ 1,2 , {} ], \"a\":null}", "{\"a\": null, \"bb\": 1}"),
            ("[]", "[]"),
            (" [ ] ", "[]"),
            ("{ }", "{}"),
            ("\"x\"", "\"x\""),
            ("\"\\u0041\\\"\\\\\"", "\"A\\\"\\\\\""),
            ("{\"a\\\"}\":\"],\"}", "{\"a\\\"}\": \"],\"}"),
            ("true", "true"),
            ("1.50", "1.50"),
            ("1e2", "100"),
            ("1.25e-3", "0.00125"),
            ("-12.5E+3", "-12500"),
            ("12.5e1", "125"),
            ("1.2345e2", "123.45"),
            ("-0", "0"),
            ("-0.0", "0.0"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("[1,[2,[\"ü\"]]]", "[1, [2, [\"ü\"]]]"),
            ("\"\\/\\u00e9\\ud83d\\ude00\\n\\u000a\\u0001\\u0022\\u005c\"", {
                "\"/é😀\\n\\n\\u0001\\\"\\\\\""
            }),
            ("{\"b\":{\"d\":1,\"c\":[{}]} ,\"a\":2}", "{\"a\": 2, \"b\": {\"c\": [{}], \"d\": 1}}"),
            ("[{\"b\":1,\"a\":2},{\"a\":1,\"a\":2}]", "[{\"a\": 2, \"b\": 1}, {\"a\": 2}]"),
            ("{\"\\u0062\":1,\"a\":2,\"b\":3}", "{\"a\": 2, \"b\": 3}"),
            ("{\"a\":{\"b\":1,\"a\":2},\"a\":3}", "{\"a\": 3}"),
            (" { \"a\" : [ ] , \"b\" : { } } ", "{\"a\": [], \"b\": {}}"),
        ] {
            let found = jsonb(given).unwrap();
            assert_eq!(found, kept, "{given}");
            assert_eq!(jsonb(&found).unwrap(), kept, "{given}");
        }
    }

    #[test]
    fn parts_are_as_they_were_written() {
        let JsonParts::Object(members) =
            json_parts(" {\"b\" : 1.50, \"a\":[1,  2],\"b\":{}} ").unwrap()
        else {
            panic!("an object was taken for something else")
        };
        let expected = [("b", "1.50"), ("a", "[1,  2]"), ("b", "{}")];
        assert_eq!(members, expected.map(|(key, value)| (key.to_owned(), value)));
        let JsonParts::Array(items) = json_parts("[ \"x, y\" ,null, [] ]").unwrap() else {
            panic!("an array was taken for something else")
        };
        assert_eq!(items, ["\"x, y\"", "null", "[]"]);
        assert!(matches!(json_parts("\"[]\"").unwrap(), JsonParts::Scalar));
        assert!(matches!(json_parts("[]").unwrap(), JsonParts::Array(items) if items.is_empty()));
    }

    #[test]
    fn deep_documents_take_no_stack() {
        let walked = || {
            for (open, close) in [("[", "]"), ("{\"a\": ", "}"), ("[1, ", ", \"]\"]")] {
                let deep = |depth: usize| format!("{}0{}", open.repeat(depth), close.repeat(depth));
                let accepted = deep(JSON_DEPTH_MAX);
                assert_eq!(jsonb(&accepted).unwrap(), accepted);
                let inner = deep(JSON_DEPTH_MAX - 1);
                let holds = match json_parts(&accepted).unwrap() {
                    JsonParts::Object(members) => members[0].1 == inner,
                    JsonParts::Array(items) => items.contains(&inner.as_str()),
                    JsonParts::Scalar => false,
                };
                assert!(holds, "{open}");
                for depth in [JSON_DEPTH_MAX + 1, 60_000, 200_000] {
                    let refused = deep(depth);
                    assert_eq!(jsonb(&refused).unwrap_err().state().0, "54001", "{open} {depth}");
                    assert_eq!(json_parts(&refused).err().unwrap().state().0, "54001");
                }
            }
        };
        let small = std::thread::Builder::new().stack_size(256 << 10).spawn(walked).unwrap();
        small.join().unwrap();
    }

    #[test]
    fn sizes_are_checked_before_they_are_reached() {
        let numbers = format!("[{}1]", "1e900,".repeat(1_000));
        let refuse = |most: usize| {
            move |bytes: usize| match bytes <= most {
                true => Ok(()),
                false => Err(Error::internal("too long")),
            }
        };
        let whole = jsonb(&numbers).unwrap().len();
        assert!(whole > 900_000);
        assert!(jsonb_within(&numbers, refuse(100_000)).is_err());
        assert_eq!(jsonb_within(&numbers, refuse(2 * whole)).unwrap().len(), whole);
        let plain = format!("[{}1]", "1,".repeat(1_000));
        assert_eq!(jsonb_within(&plain, refuse(3_003)).unwrap().len(), 3_003);
        assert!(jsonb_within(&plain, refuse(3_002)).is_err());
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "{", "[1,]", "{\"a\"}", "nul"] {
            assert_eq!(jsonb(text).unwrap_err().state().0, "22P02", "{text}");
        }
    }
}
