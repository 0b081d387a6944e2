//! Cuts a file of lines into ranges that can be decoded independently.

use std::io::Read;
use std::path::Path;

use thalweg_types::Result;

use crate::files;

const BLOCK_BYTES: usize = 256 << 10;

/// A part of a file that consists of whole records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub start: u64,
    /// `None`: to the end of the file.
    pub end: Option<u64>,
    /// The line at `start`, counted from 1.
    pub first_line: u64,
}

/// Cuts the rest of the file from `whole.start` on into ranges of about `range_bytes`, at line
/// ends.
///
/// With `quote`, line ends inside quotes are skipped. This needs no splitting into records: every
/// quote mark switches between inside and outside, so a position is outside if an even number of
/// them precede it. (A doubled quote switches twice.)
pub(crate) fn cut(
    path: &Path,
    whole: ByteRange,
    quote: Option<u8>,
    range_bytes: u64,
) -> Result<Vec<ByteRange>> {
    let mut cutter = Cutter { quote, inside: false, line: whole.first_line, at: whole.start };
    let mut ranges = Vec::new();
    let mut file = files::open_at(path, whole.start)?;
    let mut block = vec![0; BLOCK_BYTES];
    let mut current = whole;
    loop {
        let length = file.read(&mut block).map_err(|error| files::io_error("read", path, error))?;
        if length == 0 {
            break;
        }
        let mut rest = &block[..length];
        while let Some(behind) = cutter.cut_behind(&mut rest, current.start + range_bytes) {
            let next = ByteRange { start: behind, end: None, first_line: cutter.line };
            current.end = Some(behind);
            ranges.push(std::mem::replace(&mut current, next));
        }
    }
    // A cut exactly at the end of the file leaves no further range.
    if current.start < cutter.at || ranges.is_empty() {
        current.end = Some(cutter.at);
        ranges.push(current);
    }
    Ok(ranges)
}

/// State of the search for cuts.
struct Cutter {
    quote: Option<u8>,
    inside: bool,
    line: u64,
    at: u64,
}

impl Cutter {
    /// Skips the bytes up to the first line end at or after `wanted`; returns the offset after it.
    /// `None` if the bytes end before.
    fn cut_behind(&mut self, bytes: &mut &[u8], wanted: u64) -> Option<u64> {
        let before = (wanted.saturating_sub(self.at)).min(bytes.len() as u64) as usize;
        self.pass(bytes, before);
        while !bytes.is_empty() {
            let line = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
            let ends_line = bytes[line - 1] == b'\n';
            self.pass(bytes, line);
            if ends_line && !self.inside {
                return Some(self.at);
            }
        }
        None
    }

    fn pass(&mut self, bytes: &mut &[u8], length: usize) {
        let (passed, rest) = bytes.split_at(length);
        *bytes = rest;
        self.at += length as u64;
        self.line += memchr::memchr_iter(b'\n', passed).count() as u64;
        if let Some(quote) = self.quote {
            self.inside ^= memchr::memchr_iter(quote, passed).count() % 2 == 1;
        }
    }
}
