//! Splits `COPY`'s text format into records and fields.
//!
//! Backslashes escape special characters: `\t`, `\n`, `\\`, bytes in octal or hexadecimal. The mark
//! for NULL is compared before unescaping. A line `\.` ends the data.

use super::records::{Kind, LineEnd, Malformed, Records, Span, Stop};
use super::split::next_line;

pub(super) struct TextSplitter {
    delimiter: u8,
    null: Vec<u8>,
    /// The line end of all lines, once it is known.
    pub line_end: Option<LineEnd>,
}

impl TextSplitter {
    /// A splitter with the given delimiter and the text that represents NULL.
    pub fn new(delimiter: u8, null: &str) -> TextSplitter {
        TextSplitter { delimiter, null: null.as_bytes().to_vec(), line_end: None }
    }

    /// Like [`CsvSplitter::split_record`](super::split::CsvSplitter::split_record).
    pub fn split_record(
        &self,
        text: &[u8],
        is_last: bool,
        fields_max: usize,
        records: &mut Records,
    ) -> Result<(), Stop> {
        if records.take_end(text, is_last)? {
            return Ok(());
        }
        records.take_record(|records| self.fields(text, is_last, fields_max, records))
    }

    fn fields(
        &self,
        text: &[u8],
        is_last: bool,
        fields_max: usize,
        records: &mut Records,
    ) -> Result<usize, Stop> {
        let mut at = records.consumed;
        for _ in 0..fields_max {
            let (end, has_escapes) = self.field_end(text, at, is_last)?;
            let span = self.span(text, at, end, has_escapes, &mut records.scratch);
            records.spans.push(span);
            match text.get(end) {
                Some(b'\n' | b'\r') => return next_line(text, end, is_last, self.line_end),
                Some(_) => at = end + 1,
                None if is_last => return Ok(end),
                None => return Err(Stop::Incomplete),
            }
        }
        Err(Stop::Malformed(Malformed::TooManyFields))
    }

    /// The offset of the delimiter or line end after the field; the flag is true if the field has
    /// backslashes.
    fn field_end(&self, text: &[u8], start: usize, is_last: bool) -> Result<(usize, bool), Stop> {
        let mut at = start;
        let mut has_escapes = false;
        while let Some(&byte) = text.get(at) {
            match byte {
                b'\\' => {
                    has_escapes = true;
                    if at + 1 == text.len() && !is_last {
                        return Err(Stop::Incomplete);
                    }
                    at = text.len().min(at + 2);
                }
                b'\n' | b'\r' => break,
                _ if byte == self.delimiter => break,
                _ => at += 1,
            }
        }
        Ok((at, has_escapes))
    }

    fn span(
        &self,
        text: &[u8],
        start: usize,
        end: usize,
        has_escapes: bool,
        scratch: &mut Vec<u8>,
    ) -> Span {
        let raw = &text[start..end];
        if raw == self.null {
            return Span::new(start, end, Kind::Null);
        }
        if !has_escapes {
            return Span::new(start, end, Kind::Plain);
        }
        let scratch_start = scratch.len();
        let mut rest = raw;
        while let Some((&byte, behind)) = rest.split_first() {
            rest = match byte {
                b'\\' => unescape(behind, scratch),
                _ => {
                    scratch.push(byte);
                    behind
                }
            };
        }
        Span::new(scratch_start, scratch.len(), Kind::Unescaped)
    }
}

/// Appends the character that a backslash escapes, given the text after the backslash; returns the
/// rest of the text.
fn unescape<'a>(text: &'a [u8], scratch: &mut Vec<u8>) -> &'a [u8] {
    let Some((&byte, behind)) = text.split_first() else { return text };
    let meant = match byte {
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'0'..=b'7' => return digits(text, 8, 3, scratch),
        b'x' if behind.first().is_some_and(u8::is_ascii_hexdigit) => {
            return digits(behind, 16, 2, scratch);
        }
        other => other,
    };
    scratch.push(meant);
    behind
}

fn digits<'a>(text: &'a [u8], radix: u32, most: usize, scratch: &mut Vec<u8>) -> &'a [u8] {
    let mut value = 0_u32;
    let mut length = 0;
    while let Some(digit) = text.get(length).and_then(|byte| char::from(*byte).to_digit(radix)) {
        if length == most {
            break;
        }
        value = value * radix + digit;
        length += 1;
    }
    // PostgreSQL also keeps the lower eight bits of `\777`.
    scratch.push((value & 0xff) as u8);
    &text[length..]
}
