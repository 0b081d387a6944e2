//! `COPY` to and from the shell: rows are written to the output of results, and read from the lines
//! after their statement, or from standard input if the statement is on the command line.

use std::io::{self, BufRead};

use arrow::datatypes::SchemaRef;
use thalweg::{BatchStream, CopyIn, Error, SqlState};
use thalweg_formats::text::style::within;
use thalweg_formats::{Format, WriteOptions};

use crate::print::results::{self, PrintError};
use crate::shell::Output;

/// Bytes that are read before they are decoded.
const PIECE_BYTES: usize = 256 << 10;

/// Shows the rows of a `COPY … TO STDOUT`, and nothing else.
pub async fn write_rows(
    schema: &SchemaRef,
    rows: BatchStream,
    options: WriteOptions,
    output: &Output,
) -> Result<(), PrintError> {
    let format = options.format.unwrap_or(Format::Text);
    let options = WriteOptions { format: Some(format), ..options };
    results::write_formatted(schema, rows, &options, output).await
}

/// Reads the rows of a `COPY … FROM STDIN`; also returns their number of lines. Reads all of them
/// even after an error, because the next statement follows them.
pub fn take_rows(mut copy: CopyIn, data: &mut dyn BufRead) -> (Result<CopyIn, Error>, usize) {
    let is_binary = copy.options().format == Some(Format::Binary);
    let mut lines = Lines { data, is_binary, has_ended: false, count: 0 };
    let style = copy.style();
    let taken = within(style.as_ref(), || take(&mut copy, &mut lines));
    let rest = lines.skip();
    (taken.and(rest).map(|()| copy), lines.count)
}

fn take(copy: &mut CopyIn, lines: &mut Lines<'_>) -> Result<(), Error> {
    let mut decoder = copy.decoder()?;
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    loop {
        piece.clear();
        let goes_on = lines.read(&mut piece)?;
        let batches = decoder.push(&piece)?;
        batches.iter().try_for_each(|batch| copy.push(batch))?;
        if !goes_on {
            return decoder.finish()?.iter().try_for_each(|batch| copy.push(batch));
        }
    }
}

/// Rows up to a line of `\.`, or to the end; binary rows extend to the end.
struct Lines<'a> {
    data: &'a mut dyn BufRead,
    is_binary: bool,
    has_ended: bool,
    count: usize,
}

impl Lines<'_> {
    /// Reads a piece of whole lines. Returns true if there are more.
    fn read(&mut self, piece: &mut Vec<u8>) -> Result<bool, Error> {
        while piece.len() < PIECE_BYTES && !self.has_ended {
            let start = piece.len();
            if self.is_binary {
                let found = self.data.fill_buf().map_err(|error| unreadable(&error))?;
                piece.extend_from_slice(found);
                let length = found.len();
                self.data.consume(length);
            } else {
                self.data.read_until(b'\n', piece).map_err(|error| unreadable(&error))?;
                self.count += 1;
            }
            let is_mark = matches!(&piece[start..], b"\\." | b"\\.\n" | b"\\.\r\n");
            if is_mark && !self.is_binary {
                piece.truncate(start);
                self.has_ended = true;
            }
            self.has_ended |= piece.len() == start;
        }
        Ok(!self.has_ended)
    }

    /// Skips the remaining rows.
    fn skip(&mut self) -> Result<(), Error> {
        let mut piece = Vec::new();
        while self.read(&mut piece)? {
            piece.clear();
        }
        Ok(())
    }
}

fn unreadable(error: &io::Error) -> Error {
    Error::new(SqlState::IO_ERROR, format!("could not read the rows to copy: {error}"))
}
