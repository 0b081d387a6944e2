//! Splits CSV into records and fields, as PostgreSQL does.
//!
//! A quote anywhere in a field begins or ends a quoted part, in which delimiters and line ends are
//! literal. Lines end with LF or CR LF.

use super::records::{Kind, LineEnd, Malformed, Records, Span, Stop};

pub(super) struct CsvSplitter {
    delimiter: u8,
    quote: u8,
    escape: u8,
    /// For each byte, true if a field may end or a quoted part begin at it.
    special: [bool; 256],
    /// The line end of all lines, once it is known.
    pub line_end: Option<LineEnd>,
}

impl CsvSplitter {
    /// A splitter with the given marks. The first line end decides how all lines end.
    pub fn new(delimiter: u8, quote: u8, escape: u8) -> CsvSplitter {
        let mut special = [false; 256];
        for byte in [delimiter, quote, b'\n', b'\r'] {
            special[usize::from(byte)] = true;
        }
        CsvSplitter { delimiter, quote, escape, special, line_end: None }
    }

    /// Appends the next record of the text to `records`.
    ///
    /// `is_last` is true if no text follows.
    pub fn split_record(
        &self,
        text: &[u8],
        is_last: bool,
        fields_max: usize,
        records: &mut Records,
    ) -> Result<(), Stop> {
        if text.get(records.consumed) == Some(&b'\\') && records.take_end(text, is_last)? {
            return Ok(());
        }
        records.take_record(|records| self.fields(text, is_last, fields_max, records))
    }

    /// Reads fields up to the end of the record; returns the offset of the next record.
    fn fields(
        &self,
        text: &[u8],
        is_last: bool,
        fields_max: usize,
        records: &mut Records,
    ) -> Result<usize, Stop> {
        let mut at = records.consumed;
        for _ in 0..fields_max {
            let (span, end) = self.field(text, at, is_last, &mut records.scratch)?;
            records.spans.push(span);
            match text.get(end) {
                Some(&byte) if byte == self.delimiter => at = end + 1,
                Some(_) => return next_line(text, end, is_last, self.line_end),
                None if is_last => return Ok(end),
                None => return Err(Stop::Incomplete),
            }
        }
        Err(Stop::Malformed(Malformed::TooManyFields))
    }

    /// The field that begins at `start`, and its end: before a delimiter, a line end or the end of
    /// the text.
    fn field(
        &self,
        text: &[u8],
        start: usize,
        is_last: bool,
        scratch: &mut Vec<u8>,
    ) -> Result<(Span, usize), Stop> {
        let run = text[start..].iter().position(|byte| self.special[usize::from(*byte)]);
        let end = run.map_or(text.len(), |length| start + length);
        if text.get(end) != Some(&self.quote) {
            return Ok((Span::new(start, end, Kind::Plain), end));
        }
        if end == start
            && self.quote == self.escape
            && let Some(closing) = memchr::memchr(self.quote, &text[start + 1..])
        {
            let closing = start + 1 + closing;
            let behind = text.get(closing + 1);
            let is_whole = behind
                .map_or(is_last, |&byte| byte == self.delimiter || byte == b'\n' || byte == b'\r');
            if is_whole {
                return Ok((Span::new(start + 1, closing, Kind::Quoted), closing + 1));
            }
        }
        self.field_in_parts(text, start, is_last, scratch)
    }

    /// A field with inner quotes, assembled in the scratch space.
    fn field_in_parts(
        &self,
        text: &[u8],
        start: usize,
        is_last: bool,
        scratch: &mut Vec<u8>,
    ) -> Result<(Span, usize), Stop> {
        let scratch_start = scratch.len();
        let mut at = start;
        loop {
            let run = text[at..].iter().position(|byte| self.special[usize::from(*byte)]);
            let end = run.map_or(text.len(), |length| at + length);
            scratch.extend_from_slice(&text[at..end]);
            if text.get(end) != Some(&self.quote) {
                return Ok((Span::new(scratch_start, scratch.len(), Kind::Unescaped), end));
            }
            at = self.quoted_part(text, end + 1, is_last, scratch)?;
        }
    }

    /// Copies the text between quotes; returns the offset after the closing quote.
    fn quoted_part(
        &self,
        text: &[u8],
        start: usize,
        is_last: bool,
        scratch: &mut Vec<u8>,
    ) -> Result<usize, Stop> {
        let unterminated = match is_last {
            true => Stop::Malformed(Malformed::UnterminatedQuote),
            false => Stop::Incomplete,
        };
        let mut at = start;
        loop {
            let Some(run) = memchr::memchr2(self.quote, self.escape, &text[at..]) else {
                return Err(unterminated);
            };
            scratch.extend_from_slice(&text[at..at + run]);
            at += run;
            let next = text.get(at + 1);
            if next.is_none() && !is_last {
                return Err(Stop::Incomplete);
            }
            let escaped = next.filter(|byte| **byte == self.quote || **byte == self.escape);
            if text[at] == self.escape
                && let Some(&byte) = escaped
            {
                scratch.push(byte);
                at += 2;
            } else if text[at] == self.quote {
                return Ok(at + 1);
            } else {
                scratch.push(text[at]);
                at += 1;
            }
        }
    }
}

/// The start of the next line after a newline or carriage return outside of quotes. Mixed line ends
/// are an error: the text was joined from different sources, or its quoting is wrong.
pub(super) fn next_line(
    text: &[u8],
    at: usize,
    is_last: bool,
    known: Option<LineEnd>,
) -> Result<usize, Stop> {
    match (text[at], text.get(at + 1)) {
        (b'\n', _) if known == Some(LineEnd::Both) => Err(Stop::Malformed(Malformed::BareNewline)),
        (b'\n', _) => Ok(at + 1),
        (_, Some(b'\n')) if known != Some(LineEnd::Newline) => Ok(at + 2),
        (_, None) if is_last => Ok(at + 1),
        (_, None) => Err(Stop::Incomplete),
        (_, Some(_)) => Err(Stop::Malformed(Malformed::BareCarriageReturn)),
    }
}
