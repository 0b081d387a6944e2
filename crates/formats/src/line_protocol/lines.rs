//! Splits a text that arrives in pieces into lines.

/// A line, and its number counted from 1. A line whose strings contain newlines counts as many as
/// it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub number: u64,
    /// Without the newline, and without a carriage return before it.
    pub bytes: &'a [u8],
}

/// Splits texts into lines. A newline within a string of a field does not end a line.
pub struct LineSplitter {
    /// Number of the next line.
    number: u64,
}

impl Default for LineSplitter {
    fn default() -> LineSplitter {
        LineSplitter { number: 1 }
    }
}

impl LineSplitter {
    /// The next line of `rest`, which is advanced behind it. `None` if `rest` has no complete line.
    ///
    /// If `is_last`, no text follows `rest`, and its last line needs no newline. A string without a
    /// closing quote then ends its line at the next newline, so that only this line is malformed.
    pub fn next<'a>(&mut self, rest: &mut &'a [u8], is_last: bool) -> Option<Line<'a>> {
        let (end, next) = match line_end(rest) {
            Some(end) => (end, end + 1),
            None if !is_last || rest.is_empty() => return None,
            None => match memchr::memchr(b'\n', rest) {
                Some(end) => (end, end + 1),
                None => (rest.len(), rest.len()),
            },
        };
        let bytes = &rest[..end];
        let line = Line { number: self.number, bytes: bytes.strip_suffix(b"\r").unwrap_or(bytes) };
        self.number += 1 + memchr::memchr_iter(b'\n', bytes).count() as u64;
        *rest = &rest[next..];
        Some(line)
    }
}

/// Offset of the newline that ends the first line; `None` if the text ends before.
fn line_end(text: &[u8]) -> Option<usize> {
    let first = memchr::memchr(b'\n', text);
    let candidate = &text[..first.unwrap_or(text.len())];
    // Most lines have no string.
    if memchr::memchr(b'"', candidate).is_none() || is_comment(candidate) {
        return first;
    }
    let (mut at, mut is_field, mut behind_equals) = (0, false, usize::MAX);
    while at < text.len() {
        match text[at] {
            b'\n' => return Some(at),
            b'=' => behind_equals = at + 1,
            b'\\' if text.get(at + 1).is_some_and(|byte| *byte != b'\n') => at += 1,
            // Leading spaces do not begin the fields.
            b' ' if at > 0 && text[at - 1] != b' ' => is_field = true,
            b'"' if is_field && at == behind_equals => at = string_end(text, at + 1)?,
            _ => {}
        }
        at += 1;
    }
    None
}

fn is_comment(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"#")
}

/// Offset of the quote that closes a string.
fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += if matches!(text.get(at + 1), Some(b'"' | b'\\')) { 2 } else { 1 };
    }
}
