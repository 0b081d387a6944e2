//! Cuts a file of lines into ranges that can be decoded apart.

use std::io::Read;
use std::path::Path;

use thalweg_types::Result;

use crate::files;

const BLOCK_BYTES: usize = 256 << 10;

/// A part of a file that begins with a record and ends with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub start: u64,
    /// `None`: to the end of the file.
    pub end: Option<u64>,
    /// The line at `start`, counted from 1.
    pub first_line: u64,
}

/// Cuts what lies behind `whole.start` into ranges of about `range_bytes`, at line ends.
///
/// With `quote`, line ends inside quotes are passed over. That works without splitting records
/// because a quote mark changes between inside and outside wherever it stands: outside is where
/// an even number of them came before. (A doubled quote changes twice.)
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
    // A cut right at the end of the file leaves nothing behind it.
    if current.start < cutter.at || ranges.is_empty() {
        current.end = Some(cutter.at);
        ranges.push(current);
    }
    Ok(ranges)
}

/// Where in the file the search is.
struct Cutter {
    quote: Option<u8>,
    inside: bool,
    line: u64,
    at: u64,
}

impl Cutter {
    /// Passes over the bytes up to the first line end at or behind `wanted`; returns the place
    /// behind it. `None` if the bytes end before.
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
