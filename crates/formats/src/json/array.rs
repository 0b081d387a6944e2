//! Turns an array of objects into JSON lines, piece by piece.

use thalweg_types::{Error, Result, SqlState};

/// Rewrites the text of a JSON array so that each element is a line of its own. The memory that it
/// takes does not depend on the text.
///
/// Only the brackets, commas and strings are read here; whether an element is well-formed is for
/// the reader of the lines to find out.
#[derive(Default)]
pub struct JsonArraySplitter {
    state: State,
    /// Open brackets and braces within the element.
    depth: usize,
    in_string: bool,
    /// True behind a backslash in a string.
    escaped: bool,
    /// True if the element has a byte that is no white space.
    has_bytes: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the opening bracket.
    #[default]
    Before,
    /// Behind the opening bracket; the array may be empty.
    First,
    /// Behind a comma.
    Next,
    /// Behind the closing bracket.
    After,
}

impl JsonArraySplitter {
    /// Appends the lines of the next piece to `lines`.
    ///
    /// # Errors
    /// 22P02 if the text is no array.
    pub fn push(&mut self, piece: &[u8], lines: &mut Vec<u8>) -> Result<()> {
        for &byte in piece {
            match self.state {
                State::Before if byte == b'[' => self.state = State::First,
                State::After | State::Before if byte.is_ascii_whitespace() => {}
                State::Before => return Err(malformed("an array of objects must begin with [")),
                State::After => return Err(malformed("text follows the array")),
                State::First | State::Next => self.element(byte, lines)?,
            }
        }
        Ok(())
    }

    /// Ends the text.
    ///
    /// # Errors
    /// 22P02 if the array is not complete.
    pub fn finish(&self) -> Result<()> {
        match self.state {
            State::After => Ok(()),
            _ => Err(malformed("the array is not complete")),
        }
    }

    fn element(&mut self, byte: u8, lines: &mut Vec<u8>) -> Result<()> {
        if self.in_string {
            return self.string(byte, lines);
        }
        match byte {
            b'"' => self.in_string = true,
            b'[' | b'{' => self.depth += 1,
            b']' if self.depth == 0 => {
                if !self.has_bytes && self.state == State::Next {
                    return Err(malformed("an element is missing behind a comma"));
                }
                self.state = State::After;
                return self.end(lines);
            }
            b',' if self.depth == 0 => {
                if !self.has_bytes {
                    return Err(malformed("an element is missing before a comma"));
                }
                self.state = State::Next;
                return self.end(lines);
            }
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            _ if byte.is_ascii_whitespace() => {
                // Between the parts of an element, white space of any kind means the same.
                lines.push(b' ');
                return Ok(());
            }
            _ => {}
        }
        self.has_bytes = true;
        lines.push(byte);
        Ok(())
    }

    fn string(&mut self, byte: u8, lines: &mut Vec<u8>) -> Result<()> {
        if byte == b'\n' {
            return Err(malformed("a string has a newline without an escape"));
        }
        self.in_string = byte != b'"' || self.escaped;
        self.escaped = byte == b'\\' && !self.escaped;
        lines.push(byte);
        Ok(())
    }

    fn end(&mut self, lines: &mut Vec<u8>) -> Result<()> {
        if std::mem::take(&mut self.has_bytes) {
            lines.push(b'\n');
        }
        Ok(())
    }
}

fn malformed(detail: &str) -> Error {
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
        .with_detail(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&str]) -> Result<String> {
        let (mut splitter, mut lines) = (JsonArraySplitter::default(), Vec::new());
        for piece in pieces {
            splitter.push(piece.as_bytes(), &mut lines)?;
        }
        splitter.finish()?;
        Ok(String::from_utf8(lines).unwrap())
    }

    #[test]
    fn elements_become_lines_wherever_the_text_is_cut() {
        let text = " [{\"a\":\n [1, 2]} ,{\"b\": \"],[\\\"\\\\\"},\r\n{\"c\":{\"d\":[{}]}}] \n";
        let lines = "{\"a\":  [1, 2]} \n{\"b\": \"],[\\\"\\\\\"}\n  {\"c\":{\"d\":[{}]}}\n";
        for cut in 0..=text.len() {
            assert_eq!(split(&[&text[..cut], &text[cut..]]).unwrap(), lines, "{cut}");
        }
        assert_eq!(split(&["[ ]"]).unwrap().trim(), "");
    }

    #[test]
    fn what_is_no_array_is_an_error() {
        for text in ["", "{}", "[", "[{}", "[{}] x", "[,{}]", "[{},]", "[{},,{}]", "[\"a\nb\"]"] {
            assert_eq!(split(&[text]).unwrap_err().state().0, "22P02", "{text}");
        }
    }
}
