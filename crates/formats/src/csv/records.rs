//! Records as spans of the text that contains them.

use thalweg_types::{Error, Result, SqlState};

/// The form of a field in the text, which decides if it can be NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Literal text without quotes.
    Plain,
    /// Literal text between quotes.
    Quoted,
    /// Text without its quotes or escapes; it is in the scratch space.
    Unescaped,
    /// The mark for NULL.
    Null,
}

/// The span of a field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    start: u32,
    end: u32,
    pub kind: Kind,
}

impl Span {
    /// The bytes `start..end` of the text, or of the scratch buffer if they were unescaped. Offsets
    /// must fit 32 bits.
    pub fn new(start: usize, end: usize, kind: Kind) -> Span {
        debug_assert!(start <= end && end <= u32::MAX as usize);
        Span { start: start as u32, end: end as u32, kind }
    }
}

/// The line end of a text, the same for all of its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnd {
    Newline,
    /// A carriage return and a newline.
    Both,
}

impl LineEnd {
    /// The end of a line; `None` if the text ends instead.
    pub fn of(line: &[u8]) -> Option<LineEnd> {
        match line {
            [.., b'\r', b'\n'] => Some(LineEnd::Both),
            [.., b'\n'] => Some(LineEnd::Newline),
            _ => None,
        }
    }
}

/// The fields of some records, in sequence.
#[derive(Default)]
pub(super) struct Records {
    pub spans: Vec<Span>,
    pub scratch: Vec<u8>,
    /// Complete records.
    pub rows: usize,
    /// Offset of the text after the last complete record.
    pub consumed: usize,
    /// True once the mark for the end of the data was read.
    pub is_ended: bool,
}

impl Records {
    /// Removes all records, but keeps the allocations.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.scratch.clear();
        (self.rows, self.consumed, self.is_ended) = (0, 0, false);
    }

    /// Takes the mark for the end of the data, a line of `\.` alone, if it comes next. `pg_restore`
    /// sends empty lines behind it.
    ///
    /// # Errors
    /// If data follow it.
    pub fn take_end(&mut self, text: &[u8], is_last: bool) -> Result<bool, Stop> {
        let rest = &text[self.consumed..];
        let is_mark = |behind: &[u8]| {
            let is_whole = if is_last { behind != b"\r" } else { behind.ends_with(b"\n") };
            is_whole && behind.iter().all(|byte| matches!(byte, b'\n' | b'\r'))
        };
        if rest.strip_prefix(b"\\.").is_some_and(is_mark) {
            self.is_ended = true;
            self.consumed = text.len();
            return Ok(true);
        }
        if rest.starts_with(b"\\.\n") || rest.starts_with(b"\\.\r\n") {
            return Err(Stop::Malformed(Malformed::TextBehindEnd));
        }
        Ok(false)
    }

    /// Reads the next record. `fields` appends its fields and returns the offset of the following
    /// record. If it fails, the fields that it appended are removed.
    pub fn take_record(
        &mut self,
        fields: impl FnOnce(&mut Records) -> Result<usize, Stop>,
    ) -> Result<(), Stop> {
        let (spans, scratch) = (self.spans.len(), self.scratch.len());
        match fields(self) {
            Ok(end) => {
                self.rows += 1;
                self.consumed = end;
                Ok(())
            }
            Err(stop) => {
                self.spans.truncate(spans);
                self.scratch.truncate(scratch);
                Err(stop)
            }
        }
    }
}

/// The texts of spans, validated as UTF-8.
pub(super) struct Texts<'a> {
    plain: &'a str,
    scratch: &'a str,
}

impl<'a> Texts<'a> {
    /// Fails at the first byte that is not UTF-8.
    pub fn new(plain: &'a [u8], scratch: &'a [u8]) -> Result<Texts<'a>, Fault> {
        let plain = checked(plain)?;
        // Escapes can spell any bytes; their offset in the text is not known here.
        let scratch = checked(scratch).map_err(|fault| Fault { offset: 0, ..fault })?;
        Ok(Texts { plain, scratch })
    }

    /// The text of a field; empty for NULL.
    pub fn text(&self, span: Span) -> &'a str {
        let range = span.start as usize..span.end as usize;
        match span.kind {
            Kind::Plain | Kind::Quoted => &self.plain[range],
            Kind::Unescaped => &self.scratch[range],
            Kind::Null => "",
        }
    }
}

/// The reason why a text is unreadable, and the offset of the problem.
#[derive(Debug)]
pub(super) struct Fault {
    pub offset: usize,
    pub error: Error,
}

/// Validates bytes as text without NUL characters.
fn checked(bytes: &[u8]) -> Result<&str, Fault> {
    if let Some(offset) = memchr::memchr(0, bytes) {
        return Err(Fault { offset, error: invalid_bytes(&[0]) });
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to();
        let length = error.error_len().unwrap_or(bytes.len() - offset);
        Fault { offset, error: invalid_bytes(&bytes[offset..offset + length]) }
    })
}

pub(crate) fn invalid_bytes(bytes: &[u8]) -> Error {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    Error::new(
        SqlState::INVALID_BYTE_SEQUENCE,
        format!("invalid byte sequence for encoding \"UTF8\": {}", bytes.join(" ")),
    )
}

/// The reason why splitting ended before the end of the text or the wanted number of records.
#[derive(Debug)]
pub(super) enum Stop {
    /// The last record continues in text that has not arrived yet.
    Incomplete,
    /// The record that begins at `consumed` can't be read.
    Malformed(Malformed),
}

#[derive(Debug)]
pub(super) enum Malformed {
    TooFewFields(usize),
    TooManyFields,
    UnterminatedQuote,
    BareCarriageReturn,
    /// A newline alone, although earlier lines ended with a carriage return as well.
    BareNewline,
    /// Text after the mark for the end of the data.
    TextBehindEnd,
}
