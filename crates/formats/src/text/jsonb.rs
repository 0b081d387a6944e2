//! The one text that a `jsonb` value has: members sorted, each key once, blanks as PostgreSQL's.

use super::parse;
use thalweg_types::Result;

/// Numbers whose exponents would need more digits than this keep them.
const EXPONENT_MAX: i32 = 1_000;

/// The value's own text for any text of it.
///
/// # Errors
/// Where the text is no JSON.
pub fn jsonb(text: &str) -> Result<String> {
    parse::json(text)?;
    let mut out = String::with_capacity(text.len());
    Reader { rest: text }.value(&mut out);
    Ok(out)
}

/// What a JSON value is made of, in texts as they were written.
pub enum JsonParts<'t> {
    Object(Vec<(String, &'t str)>),
    Array(Vec<&'t str>),
    /// Neither an object nor an array.
    Scalar,
}

/// Takes a JSON value apart, one level deep.
///
/// # Errors
/// Where the text is no JSON.
pub fn json_parts(text: &str) -> Result<JsonParts<'_>> {
    parse::json(text)?;
    let mut reader = Reader { rest: text };
    let mut unused = String::new();
    Ok(match reader.next() {
        b'{' => {
            reader.take(1);
            let mut members = Vec::new();
            while reader.next() != b'}' {
                if reader.next() == b',' {
                    reader.take(1);
                    reader.next();
                }
                let key = reader.string();
                reader.next();
                reader.take(1);
                members.push((key, reader.raw(&mut unused)));
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
                items.push(reader.raw(&mut unused));
            }
            JsonParts::Array(items)
        }
        _ => JsonParts::Scalar,
    })
}

/// Walks a text that is known to be JSON, and not too deep for recursion.
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

    /// The next value as it was written.
    fn raw(&mut self, unused: &mut String) -> &'t str {
        self.next();
        let from = self.rest;
        self.value(unused);
        unused.clear();
        &from[..from.len() - self.rest.len()]
    }

    fn value(&mut self, out: &mut String) {
        match self.next() {
            b'{' => self.object(out),
            b'[' => self.array(out),
            b'"' => out.push_str(&written(&self.string())),
            _ => {
                let is_end = |c: char| matches!(c, ',' | ']' | '}') || c.is_ascii_whitespace();
                let end = self.rest.find(is_end).unwrap_or(self.rest.len());
                scalar(self.take(end), out);
            }
        }
    }

    fn array(&mut self, out: &mut String) {
        out.push_str(self.take(1));
        while self.next() != b']' {
            if self.next() == b',' {
                self.take(1);
                out.push_str(", ");
            }
            self.value(out);
        }
        out.push_str(self.take(1));
    }

    /// Of a key that is there several times the last value counts; shorter keys come first.
    fn object(&mut self, out: &mut String) {
        self.take(1);
        let mut members: Vec<(String, String)> = Vec::new();
        while self.next() != b'}' {
            if self.next() == b',' {
                self.take(1);
                self.next();
            }
            let key = self.string();
            self.next();
            self.take(1);
            let mut value = String::new();
            self.value(&mut value);
            members.push((key, value));
        }
        self.take(1);
        // Members of one key stay in the order in which they came.
        members.sort_by(|(left, _), (right, _)| (left.len(), left).cmp(&(right.len(), right)));
        out.push('{');
        let mut first = true;
        for (place, (key, value)) in members.iter().enumerate() {
            if members.get(place + 1).is_some_and(|(next, _)| next == key) {
                continue;
            }
            if !std::mem::take(&mut first) {
                out.push_str(", ");
            }
            out.push_str(&written(key));
            out.push_str(": ");
            out.push_str(value);
        }
        out.push('}');
    }

    /// A text in quotes, without them and what they escape.
    fn string(&mut self) -> String {
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, c)| {
            let is_end = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            is_end
        });
        let raw = self.take(end.map_or(self.rest.len(), |(end, _)| end + 1));
        serde_json::from_str(raw).unwrap_or_else(|_| raw.trim_matches('"').to_owned())
    }
}

fn written(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Numbers are kept as `numeric`: without an exponent, with every digit that was given.
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
    use super::{JsonParts, json_parts, jsonb};

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
    fn what_is_no_json_is_refused() {
        for text in ["", "{", "[1,]", "{\"a\"}", "nul"] {
            assert_eq!(jsonb(text).unwrap_err().state().0, "22P02", "{text}");
        }
    }
}
