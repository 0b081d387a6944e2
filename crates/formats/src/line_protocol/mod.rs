//! InfluxDB's line protocol: one point a line, such as
//! `weather,city=Oslo temperature=3.5,clouds=7i 1465839830100400200`.
//!
//! The grammar is the one of InfluxDB's documentation
//! (<https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/>). A point is read
//! from a line without reference to any table. A malformed line does not affect the others.

mod lines;
mod number;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use thalweg_types::{Error, Result, SqlState};

pub use lines::{Line, LineSplitter};
use number::number;

/// A field's value.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue<'a> {
    Float(f64),
    /// Written with `i`, or with `u` if it fits.
    Integer(i64),
    Boolean(bool),
    Text(Cow<'a, str>),
}

/// The parts of a line. Escapes are resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Point<'a> {
    pub measurement: Cow<'a, str>,
    /// In the order of the line; no key occurs twice.
    pub tags: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// At least one, in the order of the line. If a key occurs twice, only its last value is here.
    pub fields: Vec<(Cow<'a, str>, FieldValue<'a>)>,
    /// The number as it was sent, in the request's unit.
    pub timestamp: Option<i64>,
}

impl Point<'_> {
    /// Reads a line, without its end. `None` for a line that is empty or a comment.
    ///
    /// # Errors
    /// 22P02 if it breaks the grammar, 22003 if a number is out of range, 22021 if it is not UTF-8,
    /// 54011 if it has more than [`PARTS_MAX`] tags and fields.
    pub fn read(line: &[u8]) -> Result<Option<Point<'_>>> {
        let text = str::from_utf8(line).map_err(|_| {
            let message = "invalid byte sequence for encoding \"UTF8\"";
            Error::new(SqlState::INVALID_BYTE_SEQUENCE, message)
        })?;
        if text.contains('\0') {
            let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
            return Err(Error::new(SqlState::INVALID_BYTE_SEQUENCE, message));
        }
        let text = text.trim_ascii();
        if text.is_empty() || text.starts_with('#') {
            return Ok(None);
        }
        Parser { text, at: 0 }.point().map(Some)
    }
}

/// Maximum number of tags and fields of a point: no table has more columns.
pub const PARTS_MAX: usize = 1_600;

/// The characters before which a backslash is an escape, and at which a part of a line ends.
const MEASUREMENT: &[u8] = b", ";
const KEY: &[u8] = b",= ";

struct Parser<'a> {
    text: &'a str,
    /// Offset of the next byte; always at the boundary of a character.
    at: usize,
}

impl<'a> Parser<'a> {
    fn point(mut self) -> Result<Point<'a>> {
        let measurement = self.name(MEASUREMENT)?;
        if measurement.is_empty() {
            return Err(malformed("the measurement is missing"));
        }
        let mut tags = Vec::new();
        while self.take(b',') {
            let (key, value) = self.tag()?;
            if tags.iter().any(|(known, _)| *known == key) {
                return Err(malformed(format!("tag \"{key}\" occurs twice")));
            }
            tags.push((key, value));
            check_count(tags.len())?;
        }
        self.spaces();
        let fields = self.fields(tags.len())?;
        if let Some((key, _)) = fields.iter().find(|(key, _)| tags.iter().any(|tag| tag.0 == *key))
        {
            return Err(malformed(format!("\"{key}\" is a tag and a field of one line")));
        }
        let timestamp = self.timestamp()?;
        Ok(Point { measurement, tags, fields, timestamp })
    }

    fn tag(&mut self) -> Result<(Cow<'a, str>, Cow<'a, str>)> {
        let key = self.name(KEY)?;
        if key.is_empty() {
            return Err(malformed("a tag has no key"));
        }
        if !self.take(b'=') {
            return Err(malformed(format!("tag \"{key}\" has no value")));
        }
        let value = self.part(KEY);
        if value.is_empty() {
            return Err(malformed(format!("tag \"{key}\" has no value")));
        }
        if self.peek() == Some(b'=') {
            return Err(malformed(format!(
                "the value of tag \"{key}\" has a = without a backslash"
            )));
        }
        Ok((key, value))
    }

    fn fields(&mut self, tags: usize) -> Result<Vec<(Cow<'a, str>, FieldValue<'a>)>> {
        let mut fields: Vec<(Cow<'a, str>, FieldValue<'a>)> = Vec::new();
        loop {
            let key = self.name(KEY)?;
            if key.is_empty() && fields.is_empty() && self.peek().is_none() {
                return Err(malformed("the fields are missing"));
            }
            if key.is_empty() {
                return Err(malformed("a field has no key"));
            }
            if !self.take(b'=') {
                return Err(malformed(format!("field \"{key}\" has no value")));
            }
            let value = self.value(&key)?;
            match fields.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => *known = value,
                None => fields.push((key, value)),
            }
            check_count(tags + fields.len())?;
            if !self.take(b',') {
                break;
            }
        }
        match self.peek() {
            None | Some(b' ') => Ok(fields),
            Some(_) => Err(malformed("text follows a field's value")),
        }
    }

    fn value(&mut self, key: &str) -> Result<FieldValue<'a>> {
        if self.take(b'"') {
            return self.string(key).map(FieldValue::Text);
        }
        let rest = &self.text[self.at..];
        let end = rest.find([',', ' ']).unwrap_or(rest.len());
        self.at += end;
        match &rest[..end] {
            "" => Err(malformed(format!("field \"{key}\" has no value"))),
            "t" | "T" | "true" | "True" | "TRUE" => Ok(FieldValue::Boolean(true)),
            "f" | "F" | "false" | "False" | "FALSE" => Ok(FieldValue::Boolean(false)),
            text => number(key, text),
        }
    }

    /// The rest of a string, behind its opening quote.
    fn string(&mut self, key: &str) -> Result<Cow<'a, str>> {
        let (start, mut unescaped) = (self.at, None::<String>);
        let bytes = self.text.as_bytes();
        let mut from = start;
        while let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[self.at..]) {
            let at = self.at + found;
            if bytes[at] == b'"' {
                self.at = at + 1;
                let last = &self.text[from..at];
                return Ok(match unescaped {
                    None => Cow::Borrowed(last),
                    Some(text) => Cow::Owned(text + last),
                });
            }
            // A backslash before any other character stands for itself.
            if matches!(bytes.get(at + 1), Some(b'"' | b'\\')) {
                unescaped.get_or_insert_default().push_str(&self.text[from..at]);
                from = at + 1;
                self.at = at + 2;
            } else {
                self.at = at + 1;
            }
        }
        Err(malformed(format!("the string of field \"{key}\" has no closing quote")))
    }

    fn timestamp(&mut self) -> Result<Option<i64>> {
        self.spaces();
        let rest = self.text[self.at..].trim_ascii();
        if rest.is_empty() {
            return Ok(None);
        }
        let number = rest.parse().map_err(|_| malformed(format!("invalid timestamp: \"{rest}\"")));
        number.map(Some)
    }

    /// Like [`part`](Parser::part), for a name.
    fn name(&mut self, ends: &[u8]) -> Result<Cow<'a, str>> {
        let name = self.part(ends);
        match name.contains('\n') {
            true => Err(malformed("a name has a newline")),
            false => Ok(name),
        }
    }

    /// The text up to one of the characters of `ends` that no backslash precedes.
    fn part(&mut self, ends: &[u8]) -> Cow<'a, str> {
        let (bytes, mut from) = (self.text.as_bytes(), self.at);
        let mut unescaped = None::<String>;
        let is_end = |at: usize| bytes.get(at).is_some_and(|byte| ends.contains(byte));
        while self.at < bytes.len() && !is_end(self.at) {
            if bytes[self.at] == b'\\' && is_end(self.at + 1) {
                unescaped.get_or_insert_default().push_str(&self.text[from..self.at]);
                from = self.at + 1;
                self.at += 1;
            }
            self.at += 1;
        }
        let last = &self.text[from..self.at];
        match unescaped {
            None => Cow::Borrowed(last),
            Some(text) => Cow::Owned(text + last),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn spaces(&mut self) {
        while self.take(b' ') {}
    }
}

fn check_count(parts: usize) -> Result<()> {
    if parts <= PARTS_MAX {
        return Ok(());
    }
    let message = format!("a point can have at most {PARTS_MAX} tags and fields");
    Err(Error::new(SqlState::TOO_MANY_COLUMNS, message))
}

fn malformed(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message.into())
}
