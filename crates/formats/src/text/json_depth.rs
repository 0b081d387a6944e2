//! Limits the nesting depth of JSON values, without recursion.
//!
//! All input (literals, parameters, `COPY`, HTTP, records, casts and functions) goes through
//! [`super::parse::json`], which applies the limit. Later code may therefore recurse, with room for
//! at most [`JSON_DEPTH_MAX`] levels.

use thalweg_types::{Error, Result, SqlState};

/// Maximum nesting depth of arrays and objects. PostgreSQL's limit depends on `max_stack_depth`;
/// its default allows somewhat more.
pub const JSON_DEPTH_MAX: usize = 6_000;

/// Minimum size of a level: its opening and its closing mark.
const LEVEL_BYTES_MIN: usize = 2;

/// The maximum nesting depth of arrays and objects in well-formed JSON.
#[must_use]
pub fn json_depth(text: &str) -> usize {
    let mut nesting = Nesting::default();
    text.bytes().for_each(|byte| nesting.take(byte));
    nesting.deepest
}

/// Checks the nesting depth of well-formed JSON.
///
/// # Errors
/// `54001` if it nests more than [`JSON_DEPTH_MAX`] levels.
pub fn check(text: &str) -> Result<()> {
    // A short text cannot be too deep and needs no scan.
    if text.len() <= JSON_DEPTH_MAX * LEVEL_BYTES_MIN || json_depth(text) <= JSON_DEPTH_MAX {
        return Ok(());
    }
    let message = "a JSON value nests too deeply";
    Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, message)
        .with_detail(format!("Arrays and objects may nest {JSON_DEPTH_MAX} levels deep.")))
}

/// The number of items or members of an array or object in well-formed JSON; 0 for other values.
#[must_use]
pub fn json_items(text: &str) -> usize {
    let mut nesting = Nesting::default();
    let (mut commas, mut is_empty) = (0, true);
    for byte in text.bytes() {
        let depth = nesting.depth;
        nesting.take(byte);
        if depth == 1 && !nesting.in_quotes {
            commas += usize::from(byte == b',');
        }
        let is_end = nesting.depth == 0;
        is_empty &= depth == 0 || is_end || byte.is_ascii_whitespace();
    }
    if is_empty { 0 } else { commas + 1 }
}

/// The sizes of a JSON text as a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonSize {
    /// Number of arrays, objects and other values, keys not included.
    pub values: usize,
    pub objects: usize,
}

/// Counts the values of well-formed JSON.
#[must_use]
pub fn json_size(text: &str) -> JsonSize {
    let mut nesting = Nesting::default();
    let mut size = JsonSize { values: 1, objects: 0 };
    for byte in text.bytes() {
        nesting.take(byte);
        if !nesting.in_quotes {
            size.values += usize::from(matches!(byte, b',' | b'[' | b'{'));
            size.objects += usize::from(byte == b'{');
        }
    }
    size
}

/// Tracks the arrays and objects of a text, byte by byte.
#[derive(Default)]
pub(super) struct Nesting {
    depth: usize,
    deepest: usize,
    in_quotes: bool,
    escaped: bool,
}

impl Nesting {
    fn take(&mut self, byte: u8) {
        if self.in_quotes {
            self.in_quotes = byte != b'"' || self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
            return;
        }
        match byte {
            b'"' => self.in_quotes = true,
            b'[' | b'{' => {
                self.depth += 1;
                self.deepest = self.deepest.max(self.depth);
            }
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    /// The end of the array, object or string at the beginning of a text.
    pub(super) fn end_of_value(mut self, text: &str) -> usize {
        for (at, byte) in text.bytes().enumerate() {
            self.take(byte);
            if self.depth == 0 && !self.in_quotes {
                return at + 1;
            }
        }
        text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_values_are_counted() {
        for (text, items, values, objects) in [
            ("[]", 0, 2, 0),
            (" [ ] ", 0, 2, 0),
            ("[1]", 1, 2, 0),
            ("[[], [1,2], \"a,]\"]", 3, 7, 0),
            ("{\"a,\": {\"b\": 1, \"c\": [3,4]}, \"d\": 1}", 2, 7, 2),
            ("1", 0, 1, 0),
            ("\"[,]\"", 0, 1, 0),
        ] {
            assert_eq!(json_items(text), items, "{text}");
            let size = json_size(text);
            assert!(size.values >= values && size.values <= values + 1, "{text}: {size:?}");
            assert_eq!(size.objects, objects, "{text}");
        }
    }

    #[test]
    fn marks_in_strings_are_no_levels() {
        for (text, depth) in [
            ("1", 0),
            ("[]", 1),
            ("[[], {\"a\": [1]}]", 3),
            (r#""[[[""#, 0),
            (r#"["\"[[", "\\", []]"#, 2),
        ] {
            assert_eq!(json_depth(text), depth, "{text}");
        }
    }

    #[test]
    fn a_value_ends_where_it_is_closed() {
        for (text, value) in [
            (r#"[1, "]"], 2"#, r#"[1, "]"]"#),
            (r#"{"a": {}} ]"#, r#"{"a": {}}"#),
            (r#""a\"b", 1"#, r#""a\"b""#),
        ] {
            assert_eq!(&text[..Nesting::default().end_of_value(text)], value);
        }
    }
}
