//! Decodes delimited text to record batches, piece by piece.

use std::sync::Arc;

use arrow::array::RecordBatchOptions;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use thalweg_types::{Error, Result, SqlState};

use super::layout::Layout;
use super::records::{Fault, Kind, LineEnd, Malformed, Records, Span, Stop, Texts};
use super::split::CsvSplitter;
use super::split_text::TextSplitter;
use crate::location::located;
use crate::text::ColumnBuilder;
use crate::{Format, ReadOptions};

/// Less text than this is buffered until more arrives, so that many small pieces cost little.
const DECODE_BYTES_MIN: usize = 64 << 10;
/// Maximum length of a record.
const RECORD_BYTES_MAX: usize = 1 << 30;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Decodes CSV or `COPY`'s text format that arrives in pieces of any size.
///
/// Batches have the target schema, each but the last with exactly `batch_rows` rows. After an error
/// the decoder is unusable.
pub struct CsvDecoder {
    source: String,
    target: SchemaRef,
    options: ReadOptions,
    splitter: Splitter,
    null: String,
    layout: Option<Layout>,
    columns: Vec<ColumnBuilder>,
    rows: usize,
    batch_rows: usize,
    /// Text that is not decoded yet; it begins at the start of a record.
    buffer: Vec<u8>,
    /// Length of the buffer at which decoding continues.
    decode_at_bytes: usize,
    /// The line of the buffer's first byte, counted from 1.
    line: u64,
    is_ended: bool,
    records: Records,
    record_bytes_max: usize,
}

/// The position in a source at which a decoder begins.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    /// The layout of the source; `None` if its first record has not been read.
    pub layout: Option<Layout>,
    pub line: u64,
}

pub(super) enum Splitter {
    Csv(Box<CsvSplitter>),
    Text(TextSplitter),
}

impl Splitter {
    /// A splitter for [`Format::Text`]; all other formats are split as CSV.
    pub fn new(format: Format, options: &ReadOptions) -> Splitter {
        let marks = &options.marks;
        let delimiter = marks.delimiter_for(format);
        match format {
            Format::Text => Splitter::Text(TextSplitter::new(delimiter, marks.null_for(format))),
            _ => {
                let csv = CsvSplitter::new(delimiter, marks.quote(), marks.escape());
                Splitter::Csv(Box::new(csv))
            }
        }
    }

    /// Sets the line end that all further lines must have.
    fn expect(&mut self, line_end: Option<LineEnd>) {
        match self {
            Splitter::Csv(csv) => csv.line_end = line_end,
            Splitter::Text(form) => form.line_end = line_end,
        }
    }

    /// Appends the next record of `text` to `records`. `is_last` is true if no text follows. Stops
    /// if the record is incomplete, malformed or has more than `fields_max` fields.
    pub fn split_record(
        &self,
        text: &[u8],
        is_last: bool,
        fields_max: usize,
        records: &mut Records,
    ) -> Result<(), Stop> {
        match self {
            Splitter::Csv(csv) => csv.split_record(text, is_last, fields_max, records),
            Splitter::Text(form) => form.split_record(text, is_last, fields_max, records),
        }
    }

    /// Appends records of `fields` fields each, at most `rows_max`.
    fn split(
        &self,
        text: &[u8],
        is_last: bool,
        fields: usize,
        rows_max: usize,
        records: &mut Records,
    ) -> Option<Stop> {
        while records.rows < rows_max && records.consumed < text.len() {
            let (before, rows) = (records.spans.len(), records.rows);
            let start = records.consumed;
            if let Err(stop) = self.split_record(text, is_last, fields, records) {
                return Some(stop);
            }
            let found = records.spans.len() - before;
            if records.rows > rows && found < fields {
                records.spans.truncate(before);
                (records.rows, records.consumed) = (rows, start);
                return Some(Stop::Malformed(Malformed::TooFewFields(found)));
            }
        }
        None
    }
}

impl CsvDecoder {
    /// A decoder for text of `options.format`, or CSV if this is `None`.
    ///
    /// `source` names the text in errors.
    pub fn new(
        source: &str,
        target: &SchemaRef,
        options: &ReadOptions,
        batch_rows: usize,
    ) -> Result<CsvDecoder> {
        let start = Start { layout: None, line: 1 };
        let format = options.format.unwrap_or(Format::Csv);
        CsvDecoder::starting(source, target, format, options, batch_rows, start)
    }

    pub(crate) fn starting(
        source: &str,
        target: &SchemaRef,
        format: Format,
        options: &ReadOptions,
        batch_rows: usize,
        start: Start,
    ) -> Result<CsvDecoder> {
        if !format.is_delimited() {
            return Err(Error::internal(format!("{format:?} is not a format of delimited text")));
        }
        options.checked(format)?;
        let mut splitter = Splitter::new(format, options);
        splitter.expect(start.layout.as_ref().and_then(|layout| layout.line_end));
        let columns = target.fields().iter().map(ColumnBuilder::new).collect::<Result<_>>()?;
        Ok(CsvDecoder {
            source: source.to_owned(),
            target: Arc::clone(target),
            splitter,
            null: options.marks.null_for(format).to_owned(),
            options: options.clone(),
            layout: start.layout,
            columns,
            rows: 0,
            batch_rows: batch_rows.max(1),
            buffer: Vec::new(),
            decode_at_bytes: DECODE_BYTES_MIN,
            line: start.line,
            is_ended: false,
            records: Records::default(),
            record_bytes_max: RECORD_BYTES_MAX,
        })
    }

    /// Limits the length of a record, which is held in memory until it is complete; 1 GiB by
    /// default.
    #[must_use]
    pub fn with_record_bytes_max(self, bytes: usize) -> CsvDecoder {
        CsvDecoder { record_bytes_max: bytes.min(RECORD_BYTES_MAX), ..self }
    }

    /// Number of bytes that are not decoded yet.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Adds the next piece; returns the batches that are full.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<RecordBatch>> {
        self.buffer.extend_from_slice(piece);
        if self.buffer.len() < self.decode_at_bytes {
            return Ok(Vec::new());
        }
        self.decode(false)
    }

    /// Ends the text; returns the remaining batches.
    pub fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = self.decode(true)?;
        if self.rows > 0 {
            batches.push(self.flush()?);
        }
        Ok(batches)
    }

    /// The layout of a source that begins with `head`, and the offset and line at which its data
    /// begin.
    pub(crate) fn find_layout(mut self, head: &[u8]) -> Result<Option<(Layout, u64, u64)>> {
        let start = self.begin(head, false)?;
        Ok(self.layout.map(|layout| (layout, start as u64, self.line)))
    }

    fn decode(&mut self, is_last: bool) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        let buffer = std::mem::take(&mut self.buffer);
        let mut at = match self.layout {
            Some(_) => 0,
            None => self.begin(&buffer, is_last)?,
        };
        while at < buffer.len() && self.layout.is_some() && !self.is_ended {
            let window = &buffer[at..buffer.len().min(at + self.record_bytes_max)];
            let taken = self.decode_some(window, is_last && at + window.len() == buffer.len())?;
            if self.rows == self.batch_rows {
                batches.push(self.flush()?);
            }
            if taken == 0 {
                break;
            }
            at += taken;
        }
        self.keep(buffer, at);
        Ok(batches)
    }

    /// Keeps the text that is not decoded until there is much more of it. A long record is thus not
    /// scanned again for every piece.
    fn keep(&mut self, mut buffer: Vec<u8>, decoded: usize) {
        buffer.drain(..decoded);
        self.decode_at_bytes = DECODE_BYTES_MIN.max(buffer.len() * 2);
        self.buffer = buffer;
    }

    /// Reads the first record and resolves the layout; returns the offset of the data.
    fn begin(&mut self, buffer: &[u8], is_last: bool) -> Result<usize> {
        let start = if buffer.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let text = &buffer[start..];
        let Some(first) = self.first_record(text, is_last)? else { return Ok(0) };
        let mut layout = Layout::resolve(&self.target, &self.options, &first)
            .map_err(|error| located(error, self.source.clone()))?;
        layout.line_end = LineEnd::of(&text[..self.records.consumed]);
        self.splitter.expect(layout.line_end);
        let mut at = start;
        if layout.has_header {
            at += self.records.consumed;
            self.line += newlines(&text[..self.records.consumed]);
        }
        self.layout = Some(layout);
        Ok(at)
    }

    /// The texts of the first record's fields; `None` if it is not complete or there is none.
    fn first_record(&mut self, text: &[u8], is_last: bool) -> Result<Option<Vec<String>>> {
        self.records.clear();
        if text.is_empty() {
            return Ok(None);
        }
        match self.splitter.split_record(text, is_last, usize::MAX, &mut self.records) {
            Ok(()) => {}
            Err(Stop::Incomplete) if text.len() < self.record_bytes_max => return Ok(None),
            Err(stop) => return Err(self.stopped(stop, &[])),
        }
        let texts = Texts::new(&text[..self.records.consumed], &self.records.scratch)
            .map_err(|fault| self.unreadable(fault, text))?;
        let fields = self.records.spans.iter().map(|span| texts.text(*span).to_owned());
        Ok(Some(fields.collect()))
    }

    /// Decodes records up to the end of the text or of the batch; returns the number of bytes
    /// decoded.
    fn decode_some(&mut self, text: &[u8], is_last: bool) -> Result<usize> {
        let layout = self.layout.as_ref().expect("the layout is found before the data are read");
        self.records.clear();
        let rows_max = self.batch_rows - self.rows;
        let fields = layout.names.len();
        let stop = self.splitter.split(text, is_last, fields, rows_max, &mut self.records);
        let taken = self.records.consumed;
        self.append(&text[..taken])?;
        self.rows += self.records.rows;
        self.is_ended = self.records.is_ended;
        match stop {
            Some(Stop::Incomplete) if text.len() < self.record_bytes_max || taken > 0 => {}
            Some(stop) => return Err(self.stopped(stop, &text[..taken])),
            None => {}
        }
        self.line += newlines(&text[..taken]);
        Ok(taken)
    }

    /// Appends the records to the columns, column by column.
    fn append(&mut self, text: &[u8]) -> Result<()> {
        let texts = Texts::new(text, &self.records.scratch)
            .map_err(|fault| self.unreadable(fault, text))?;
        let layout = self.layout.as_ref().expect("the layout is found before the data are read");
        let fields = layout.names.len();
        let mut rows = self.records.rows;
        let mut refused = None;
        for (builder, &place) in self.columns.iter_mut().zip(&layout.places) {
            let name = builder.field().name();
            let nulls = Nulls {
                mark: &self.null,
                if_quoted: self.options.force_null.contains(name),
                never: self.options.force_not_null.contains(name),
            };
            let spans = self.records.spans.iter().skip(place).step_by(fields);
            let values = spans.take(rows).map(|span| nulls.value(*span, &texts));
            // A later column may have an error in an earlier row: the first error of the text is
            // reported.
            if let Err(found) = builder.extend(values) {
                rows = found.row;
                refused = Some((found, place));
            }
        }
        let Some((refused, place)) = refused else { return Ok(()) };
        let line = self.line_of_row(text, refused.row);
        let name = &layout.names[place];
        let location = format!("{}, line {line}, column \"{name}\"", self.source);
        Err(located(refused.error, location))
    }

    /// The line at which a record begins: splits the text again up to this record.
    fn line_of_row(&self, text: &[u8], row: usize) -> u64 {
        let mut records = Records::default();
        let fields = self.layout.as_ref().map_or(usize::MAX, |layout| layout.names.len());
        self.splitter.split(text, true, fields, row, &mut records);
        self.line + newlines(&text[..records.consumed])
    }

    fn unreadable(&self, fault: Fault, text: &[u8]) -> Error {
        let line = self.line + newlines(&text[..fault.offset]);
        located(fault.error, format!("{}, line {line}", self.source))
    }

    /// The error for a record that begins after `before`.
    fn stopped(&self, stop: Stop, before: &[u8]) -> Error {
        let malformed = |message: String| Error::new(SqlState::BAD_COPY_FILE_FORMAT, message);
        let names = self.layout.as_ref().map_or(&[][..], |layout| &layout.names);
        let error = match stop {
            Stop::Incomplete if self.record_bytes_max == RECORD_BYTES_MAX => {
                malformed("record is longer than 1 GiB".to_owned())
            }
            Stop::Incomplete => {
                let limit = self.record_bytes_max;
                let message = format!("a record is longer than the limit of {limit} bytes");
                Error::new(SqlState::LIMIT_EXCEEDED, message)
            }
            Stop::Malformed(Malformed::TooFewFields(found)) => {
                malformed(format!("missing data for column \"{}\"", names[found]))
            }
            Stop::Malformed(Malformed::TooManyFields) => {
                malformed("extra data after last expected column".to_owned())
            }
            Stop::Malformed(Malformed::UnterminatedQuote) => {
                malformed("unterminated CSV quoted field".to_owned())
            }
            Stop::Malformed(Malformed::BareCarriageReturn) => {
                malformed("unquoted carriage return found in data".to_owned())
                    .with_hint("Use quotes around a field that holds a carriage return.")
            }
            Stop::Malformed(Malformed::BareNewline) => {
                malformed("unquoted newline found in data".to_owned())
                    .with_hint("Lines before this one end with a carriage return and a newline.")
            }
            Stop::Malformed(Malformed::TextBehindEnd) => {
                malformed("data after the end-of-copy marker".to_owned())
            }
        };
        let line = self.line + newlines(before);
        located(error, format!("{}, line {line}", self.source))
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        let columns = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        RecordBatch::try_new_with_options(Arc::clone(&self.target), columns, &options)
            .map_err(|error| Error::internal(error.to_string()))
    }
}

/// The fields of the first record of a text that begins with `head`; `None` if the record is not
/// complete. `is_whole` is true if no text follows.
///
/// # Errors
/// 22P04 if the record is malformed, 22021 if it is not UTF-8.
pub fn csv_header(
    head: &[u8],
    is_whole: bool,
    options: &ReadOptions,
) -> Result<Option<Vec<String>>> {
    let nothing = Arc::new(arrow::datatypes::Schema::empty());
    let mut decoder = CsvDecoder::new("the header", &nothing, options, 1)?;
    let start = if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    decoder.first_record(&head[start..], is_whole)
}

/// The rules for NULL in a column.
struct Nulls<'a> {
    mark: &'a str,
    if_quoted: bool,
    never: bool,
}

impl Nulls<'_> {
    fn value<'t>(&self, span: Span, texts: &Texts<'t>) -> Option<&'t str> {
        let text = texts.text(span);
        let is_null = match span.kind {
            Kind::Plain => !self.never && text == self.mark,
            Kind::Quoted | Kind::Unescaped => self.if_quoted && text == self.mark,
            Kind::Null => true,
        };
        (!is_null).then_some(text)
    }
}

fn newlines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}
