//! Segments: the files of the log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_env::{File, FileSystem, OpenMode};
use thalweg_types::{Lsn, Result};

use crate::failure::{damaged, file_error};
use crate::file_header::{FileHeader, FileKind, HEADER_BYTES, u32_at};

/// Contents of a segment's header: its position in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Segments are numbered from 1 without gaps.
    pub number: u64,
    /// The last sequence number in the log before this segment; 0 if there is none.
    pub previous_lsn: Lsn,
    /// The offset at which the previous segment ended; 0 for the first.
    pub previous_end: u64,
    /// The checksum of the last header in the previous segment; 0 for the first.
    pub previous_checksum: u32,
}

impl SegmentHeader {
    /// The bytes of the file's header.
    pub fn encode(&self, database_id: u64) -> [u8; HEADER_BYTES as usize] {
        let fields = [
            self.number,
            self.previous_lsn.0,
            self.previous_end,
            u64::from(self.previous_checksum),
            0,
        ];
        FileHeader { kind: FileKind::Segment, database_id, fields }.encode()
    }
}

/// The checksum within an encoded header, by which records refer to their segment.
pub fn checksum_of(header: &[u8; HEADER_BYTES as usize]) -> u32 {
    u32_at(header, 12)
}

/// A segment whose header was read.
#[derive(Clone, Debug)]
pub struct Segment {
    pub header: SegmentHeader,
    pub checksum: u32,
    pub path: PathBuf,
    pub bytes: u64,
}

/// The segments of a directory, judged by their headers only.
#[derive(Debug, Default)]
pub struct Segments {
    /// Ascending by number. There may be gaps if a removal was interrupted.
    pub needed: Vec<Segment>,
    /// Segments that are not needed, whatever they contain.
    pub superfluous: Vec<PathBuf>,
    /// The number of the last file if a crash interrupted its creation. It never held a record.
    pub unfinished: Option<u64>,
}

/// The name of a segment's file.
pub fn file_name(number: u64) -> String {
    format!("log-{number:020}.tls")
}

/// The number in the name of a segment's file.
pub fn number_in(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("log-")?.strip_suffix(".tls")?;
    let all_digits = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits { digits.parse().ok() } else { None }
}

/// Reads the headers of the segments in a directory that hold records from `log_from` on.
///
/// It reads from the last one back, because a header gives the last record before its segment.
pub fn list(
    files: &dyn FileSystem,
    directory: &Path,
    database_id: u64,
    log_from: Lsn,
) -> Result<Segments> {
    let names = files.list(directory).map_err(|error| file_error("list", directory, error))?;
    let numbers: Vec<u64> = names.iter().filter_map(|name| number_in(name)).collect();
    let mut segments = Segments::default();
    for (place, number) in numbers.iter().enumerate().rev() {
        let path = directory.join(file_name(*number));
        if segments.needed.last().is_some_and(|next| next.header.previous_lsn < log_from) {
            segments.superfluous.push(path);
            continue;
        }
        let (file, bytes) = open_file(files, &path)?;
        let last = place + 1 == numbers.len();
        match read_header(&*file, &path, bytes, database_id)? {
            Some((header, checksum)) if header.number == *number => {
                segments.needed.push(Segment { header, checksum, path, bytes });
            }
            Some((header, _)) => {
                let what = format!("it is segment {}, under another's name", header.number);
                return Err(damaged(&path, 0, what));
            }
            None if last => segments.unfinished = Some(*number),
            None => return Err(damaged(&path, 0, "the header is missing")),
        }
    }
    segments.needed.reverse();
    Ok(segments)
}

/// Opens a file for reading, and returns its length too.
pub fn open_file(files: &dyn FileSystem, path: &Path) -> Result<(Arc<dyn File>, u64)> {
    let file = files.open(path, OpenMode::Read).map_err(|error| file_error("open", path, error))?;
    let bytes = file.len().map_err(|error| file_error("read the length of", path, error))?;
    Ok((file, bytes))
}

/// Reads the header and its checksum; `None` if it was never written. No records follow then, as
/// they are appended only after the header is durable.
pub fn read_header(
    file: &dyn File,
    path: &Path,
    bytes: u64,
    database_id: u64,
) -> Result<Option<(SegmentHeader, u32)>> {
    if bytes < HEADER_BYTES {
        return Ok(None);
    }
    let mut header = [0; HEADER_BYTES as usize];
    file.read_exact_at(&mut header, 0).map_err(|error| file_error("read", path, error))?;
    if bytes == HEADER_BYTES && header.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let decoded = FileHeader::decode_of(database_id, FileKind::Segment, &header, path, 0)?;
    let [number, previous_lsn, previous_end, previous_checksum, reserved] = decoded.fields;
    let previous_checksum = u32::try_from(previous_checksum)
        .ok()
        .filter(|_| reserved == 0)
        .ok_or_else(|| damaged(path, 0, "the header holds what was never written"))?;
    let previous_lsn = Lsn(previous_lsn);
    let header_read = SegmentHeader { number, previous_lsn, previous_end, previous_checksum };
    Ok(Some((header_read, checksum_of(&header))))
}
