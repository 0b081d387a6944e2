//! Files of lines (CSV, text, JSON) as units of work.

use std::fs::File;
use std::io::{Read, Take};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use thalweg_types::{Error, Result};

use crate::csv::{self, CsvDecoder, Layout, Start};
use crate::json::{self, JsonDecoder};
use crate::location::{display_name, located};
use crate::ranges::{self, ByteRange};
use crate::{Format, ReadOptions, files};

/// Bytes that one unit decodes.
const UNIT_BYTES: u64 = 16 << 20;
/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;
/// Bytes at the beginning of a file that inference reads.
const INFER_BYTES: u64 = 4 << 20;

/// State that all units of a file share.
pub(crate) struct LinesFile {
    path: PathBuf,
    format: Format,
    target: SchemaRef,
    options: ReadOptions,
    batch_rows: usize,
    layout: Option<Layout>,
}

/// A range of a file's lines.
pub(crate) struct LinesUnit {
    file: Arc<LinesFile>,
    range: ByteRange,
}

pub(crate) fn open(
    path: &Path,
    format: Format,
    target: &SchemaRef,
    options: &ReadOptions,
    batch_rows: usize,
) -> Result<Vec<LinesUnit>> {
    open_in_units_of(UNIT_BYTES, path, format, target, options, batch_rows)
}

fn open_in_units_of(
    unit_bytes: u64,
    path: &Path,
    format: Format,
    target: &SchemaRef,
    options: &ReadOptions,
    batch_rows: usize,
) -> Result<Vec<LinesUnit>> {
    options.checked(format)?;
    let mut file = LinesFile {
        path: path.to_owned(),
        format,
        target: Arc::clone(target),
        options: options.clone(),
        batch_rows,
        layout: None,
    };
    let mut whole = ByteRange { start: 0, end: None, first_line: 1 };
    let length = files::length(path)?;
    // Pipes can't be read twice, and in COPY's format a line end may follow a backslash.
    let can_be_cut =
        length.is_some_and(|length| length > unit_bytes) && file.format != Format::Text;
    let mut quote = None;
    if can_be_cut && format.is_delimited() {
        let marks = &options.marks;
        if marks.quote() != marks.escape() {
            return Ok(vec![LinesUnit { file: Arc::new(file), range: whole }]);
        }
        quote = Some(marks.quote());
        let Some((layout, start, line)) = file.find_layout()? else {
            return Ok(vec![LinesUnit { file: Arc::new(file), range: whole }]);
        };
        file.layout = Some(layout);
        (whole.start, whole.first_line) = (start, line);
    }
    let file = Arc::new(file);
    let ranges = match can_be_cut {
        true => ranges::cut(path, whole, quote, unit_bytes)?,
        false => vec![whole],
    };
    let unit = |range| LinesUnit { file: Arc::clone(&file), range };
    Ok(ranges.into_iter().map(unit).collect())
}

/// The schema of a file of lines, inferred from its beginning.
pub(crate) fn infer(path: &Path, format: Format, options: &ReadOptions) -> Result<Schema> {
    options.checked(format)?;
    let head = files::head(path, INFER_BYTES)?;
    let is_whole = (head.len() as u64) < INFER_BYTES;
    let schema = match format {
        Format::Json => json::infer(&head, is_whole),
        _ => csv::infer(&head, is_whole, format, options),
    };
    schema.map_err(|error| located(error, display_name(path)))
}

impl LinesFile {
    /// The layout, and the offset and line of the first data; `None` if the first record is too
    /// long.
    fn find_layout(&self) -> Result<Option<(Layout, u64, u64)>> {
        let head = files::head(&self.path, READ_BYTES as u64)?;
        self.csv_decoder(1)?.find_layout(&head)
    }

    fn csv_decoder(&self, line: u64) -> Result<CsvDecoder> {
        let start = Start { layout: self.layout.clone(), line };
        let name = display_name(&self.path);
        CsvDecoder::starting(
            &name,
            &self.target,
            self.format,
            &self.options,
            self.batch_rows,
            start,
        )
    }

    fn decoder(&self, line: u64) -> Result<Decoder> {
        Ok(match self.format {
            Format::Json => {
                let name = display_name(&self.path);
                let decoder = JsonDecoder::starting(&name, &self.target, self.batch_rows, line)?;
                Decoder::Json(Box::new(decoder))
            }
            _ => Decoder::Csv(Box::new(self.csv_decoder(line)?)),
        })
    }
}

impl LinesUnit {
    /// Number of bytes of the unit, as far as known.
    pub fn bytes(&self) -> u64 {
        let length = || files::length(&self.file.path).ok().flatten();
        self.range.end.or_else(length).unwrap_or(0).saturating_sub(self.range.start)
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Opens the file at the start of the unit.
    pub fn read(self) -> Result<LinesReader> {
        let input = files::open_at(&self.file.path, self.range.start)?;
        let length = self.range.end.map_or(u64::MAX, |end| end - self.range.start);
        Ok(LinesReader {
            decoder: Some(self.file.decoder(self.range.first_line)?),
            input: input.take(length),
            path: self.file.path.clone(),
            ready: Vec::new().into_iter(),
            block: vec![0; READ_BYTES],
        })
    }
}

enum Decoder {
    Csv(Box<CsvDecoder>),
    Json(Box<JsonDecoder>),
}

impl Decoder {
    fn push(&mut self, piece: &[u8]) -> Result<Vec<RecordBatch>> {
        match self {
            Decoder::Csv(decoder) => decoder.push(piece),
            Decoder::Json(decoder) => decoder.push(piece),
        }
    }

    fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        match self {
            Decoder::Csv(decoder) => decoder.finish(),
            Decoder::Json(decoder) => decoder.finish(),
        }
    }
}

pub(crate) struct LinesReader {
    /// `None` once everything is decoded or an error has occurred.
    decoder: Option<Decoder>,
    input: Take<File>,
    path: PathBuf,
    ready: std::vec::IntoIter<RecordBatch>,
    block: Vec<u8>,
}

impl LinesReader {
    /// Reads and decodes one block.
    fn advance(&mut self, decoder: &mut Decoder) -> Result<bool> {
        let length =
            self.input.read(&mut self.block).map_err(|error: std::io::Error| -> Error {
                files::io_error("read", &self.path, error)
            })?;
        let batches = match length {
            0 => decoder.finish()?,
            _ => decoder.push(&self.block[..length])?,
        };
        self.ready = batches.into_iter();
        Ok(length > 0)
    }
}

impl Iterator for LinesReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.next() {
                return Some(Ok(batch));
            }
            let mut decoder = self.decoder.take()?;
            match self.advance(&mut decoder) {
                Ok(true) => self.decoder = Some(decoder),
                Ok(false) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
