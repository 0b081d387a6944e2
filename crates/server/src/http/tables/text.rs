//! JSON and CSV, decoded as they arrive.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use thalweg_formats::{CsvDecoder, Header, JsonArraySplitter, JsonDecoder, ReadOptions};
use thalweg_types::{Error, Result, SqlState};

use super::columns::first_columns;
use super::options::Format;
use super::sink::Group;
use super::{Rows, invalid};
use crate::http::ingest::{Failure, UploadBody};

/// Rows of a batch that has no other limit.
const BATCH_ROWS: usize = 8_192;
const SOURCE: &str = "the request";

/// The text of a body, with arrays rewritten to lines.
struct Text {
    /// Set for a body that is an array; `None` before its first byte, and for other formats.
    array: Option<JsonArraySplitter>,
    /// True if the body is one object, which is read like an array of it.
    is_single: bool,
    format: Format,
    has_begun: bool,
}

impl Text {
    fn new(format: Format) -> Text {
        Text { array: None, is_single: false, format, has_begun: false }
    }

    /// Appends the next bytes of the body as lines or as CSV.
    fn push(&mut self, bytes: Vec<u8>, is_last: bool, lines: &mut Vec<u8>) -> Result<()> {
        if self.format != Format::Json {
            lines.extend_from_slice(&bytes);
            return Ok(());
        }
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        if let (false, Some(first)) = (self.has_begun, first) {
            self.has_begun = true;
            let array = self.array.insert(JsonArraySplitter::default());
            self.is_single = *first == b'{';
            if self.is_single {
                array.push(b"[", lines)?;
            }
        }
        let Some(array) = &mut self.array else { return Ok(()) };
        array.push(&bytes, lines)?;
        if !is_last {
            return Ok(());
        }
        if self.is_single {
            array.push(b"]", lines)?;
        }
        array.finish()
    }
}

enum Decoder {
    Json(JsonLines),
    Csv(Box<CsvDecoder>),
}

impl Decoder {
    fn new(
        format: Format,
        schema: &SchemaRef,
        options: &ReadOptions,
        bytes_max: usize,
    ) -> Result<Decoder> {
        Ok(match format {
            Format::Csv => {
                let decoder = CsvDecoder::new(SOURCE, schema, options, BATCH_ROWS)?;
                Decoder::Csv(Box::new(decoder.with_record_bytes_max(bytes_max)))
            }
            _ => Decoder::Json(JsonLines {
                schema: Arc::clone(schema),
                partial: Vec::new(),
                line: 1,
                bytes_max,
            }),
        })
    }

    /// Bytes of an incomplete row at the end of the text so far.
    fn waiting_bytes(&self) -> usize {
        match self {
            Decoder::Json(lines) => lines.partial.len(),
            Decoder::Csv(decoder) => decoder.waiting_bytes(),
        }
    }

    /// Decodes the next part of the text.
    fn push(&mut self, text: Vec<u8>, is_last: bool, group: &mut Group<'_>) -> Result<()> {
        match self {
            Decoder::Json(lines) => lines.push(text, is_last, group),
            Decoder::Csv(decoder) => {
                let mut batches = decoder.push(&text)?;
                if is_last {
                    batches.extend(decoder.finish()?);
                }
                batches.into_iter().try_for_each(|batch| group.push(batch))
            }
        }
    }
}

/// Decodes JSON lines so that one which cannot be decoded does not affect the others.
struct JsonLines {
    schema: SchemaRef,
    /// The beginning of an incomplete line.
    partial: Vec<u8>,
    /// The number of the next line.
    line: u64,
    bytes_max: usize,
}

impl JsonLines {
    fn push(&mut self, text: Vec<u8>, is_last: bool, group: &mut Group<'_>) -> Result<()> {
        let mut text = match self.partial.is_empty() {
            true => text,
            false => [std::mem::take(&mut self.partial), text].concat(),
        };
        if !is_last {
            let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            self.partial = text.split_off(end);
            if self.partial.len() > self.bytes_max {
                // The decoder knows the error.
                let decoder = JsonDecoder::new(SOURCE, &self.schema, 1)?;
                let mut decoder = decoder.with_line_bytes_max(self.bytes_max);
                decoder.push(&self.partial)?;
            }
        }
        let mut rest = &text[..];
        while !rest.is_empty() {
            rest = self.decode(rest, group)?;
        }
        Ok(())
    }

    /// Decodes lines up to the first that cannot be decoded, which is rejected. Returns the text
    /// behind it.
    fn decode<'t>(&mut self, text: &'t [u8], group: &mut Group<'_>) -> Result<&'t [u8]> {
        let mut decoder = self.decoder()?;
        let decoded = decoder.push(text).and_then(|mut batches| {
            batches.extend(decoder.finish()?);
            Ok(batches)
        });
        let error = match decoded {
            Ok(batches) => {
                self.line += newlines(text);
                batches.into_iter().try_for_each(|batch| group.push(batch))?;
                return Ok(&[]);
            }
            Err(error) => error,
        };
        // The lines before it are decoded again, since the decoder has lost them.
        let (before, behind) = cut_at_line(text, decoder.line() - self.line);
        let mut decoder = self.decoder()?;
        let mut batches = decoder.push(before)?;
        batches.extend(decoder.finish()?);
        batches.into_iter().try_for_each(|batch| group.push(batch))?;
        group.reject(with_hint(error))?;
        self.line += newlines(before) + 1;
        Ok(behind)
    }

    fn decoder(&self) -> Result<JsonDecoder> {
        let decoder = JsonDecoder::new(SOURCE, &self.schema, usize::MAX)?;
        Ok(decoder.refusing_unknown_keys().at_line(self.line))
    }
}

fn with_hint(error: Error) -> Error {
    match error.state() {
        SqlState::UNDEFINED_COLUMN => {
            error.with_hint("The option columns names them, or else the keys of the first row.")
        }
        _ => error,
    }
}

/// The text before the line of this index, and the text behind that line.
fn cut_at_line(text: &[u8], index: u64) -> (&[u8], &[u8]) {
    let mut at = 0;
    let next =
        |at: usize| text[at..].iter().position(|byte| *byte == b'\n').map(|end| at + end + 1);
    for _ in 0..index {
        at = next(at).unwrap_or(text.len());
    }
    (&text[..at], &text[next(at).unwrap_or(text.len())..])
}

fn newlines(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

impl Rows {
    pub(super) async fn write_text(
        &mut self,
        mut body: UploadBody,
        format: Format,
    ) -> Result<(), Failure> {
        let bytes_max = self.upload.shared.config.limits.record_message_bytes;
        let header = if self.options.has_header() { Header::Present } else { Header::Absent };
        let mut options = ReadOptions { header, ..ReadOptions::default() };
        let (mut text, mut lines) = (Text::new(format), Vec::new());
        let (columns, mut is_last) = loop {
            let mut bytes = Vec::new();
            let is_last = body.gather(&mut bytes, lines.len()).await?;
            text.push(bytes, is_last, &mut lines)?;
            let found = match self.options.columns() {
                Some(columns) => Some(columns),
                None => first_columns(format, &lines, is_last, &options, bytes_max)?,
            };
            if let Some(columns) = found {
                break (columns, is_last);
            }
        };
        check_names(&columns)?;
        let mut sink = self.open(&columns).await?;
        options.columns = Some(columns);
        let mut decoder = Decoder::new(format, &sink.schema(), &options, bytes_max)?;
        loop {
            if let Some(room) = sink.room() {
                room(lines.len())?;
            }
            let held = self.upload.memory(lines.len()).await;
            let decode = move |group: &mut Group<'_>| {
                decoder.push(lines, is_last, group)?;
                Ok(decoder)
            };
            (sink, decoder) = sink.write(&mut self.upload, &mut self.report, decode).await?;
            drop(held);
            if is_last {
                break;
            }
            let mut bytes = Vec::new();
            is_last = body.gather(&mut bytes, decoder.waiting_bytes()).await?;
            lines = Vec::new();
            text.push(bytes, is_last, &mut lines)?;
        }
        Ok(self.finish(sink).await?)
    }
}

fn check_names(columns: &[String]) -> Result<()> {
    match columns.iter().any(String::is_empty) {
        true => Err(invalid("a column has no name")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_lines() {
        let text = b"a\n\nb\nc";
        assert_eq!(cut_at_line(text, 0), (&b""[..], &b"\nb\nc"[..]));
        assert_eq!(cut_at_line(text, 2), (&b"a\n\n"[..], &b"c"[..]));
        assert_eq!(cut_at_line(text, 3), (&b"a\n\nb\n"[..], &b""[..]));
        assert_eq!(cut_at_line(text, 9), (&text[..], &b""[..]));
    }

    #[test]
    fn arrays_and_single_objects_become_lines() {
        for (body, lines) in [
            ("[{\"a\":1},{\"a\":2}]", "{\"a\":1}\n{\"a\":2}\n"),
            ("  {\"a\":\n1}", "  {\"a\": 1}\n"),
            ("", ""),
            (" ", ""),
        ] {
            let (mut text, mut out) = (Text::new(Format::Json), Vec::new());
            for (place, byte) in body.bytes().enumerate() {
                text.push(vec![byte], place + 1 == body.len(), &mut out).unwrap();
            }
            assert_eq!(str::from_utf8(&out).unwrap().trim(), lines.trim(), "{body}");
        }
    }
}
