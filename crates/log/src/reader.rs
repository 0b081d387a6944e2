//! Reading the log from its oldest needed record to its end, in constant memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_env::{Env, FileSystem};
use thalweg_types::{Error, Lsn, Result};

use crate::checksum::{checksum, matches};
use crate::failure::{damaged, file_error};
use crate::file_header::HEADER_BYTES;
use crate::record::{Entry, RECORD_HEADER_BYTES, Record, RecordHeader};
use crate::segment::{self, Segment};
use crate::sequential::Sequential;
use crate::tail::{BlankSectors, Defect, is_torn};

/// Reads the records after some sequence number, in order. It changes nothing on disk.
pub struct LogReader {
    files: Arc<dyn FileSystem>,
    /// The log: segments with consecutive numbers.
    pub(crate) segments: Vec<Segment>,
    /// The last segment is complete and durable: the next one had been begun.
    last_is_complete: bool,
    /// Files that are no part of the log: left by a removal or a creation that a crash interrupted.
    pub(crate) leftovers: Vec<PathBuf>,
    after: Lsn,
    /// The next segment to open.
    next: usize,
    current: Option<SegmentReader>,
    end: Option<LogEnd>,
    bytes_total: u64,
    bytes_done: u64,
}

/// Where the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// In the last segment.
    pub offset: u64,
    /// The checksum of the last header before it.
    pub previous_checksum: u32,
    pub last_lsn: Lsn,
    /// Up to where the last segment is durable for certain.
    pub durable: u64,
    pub clean_close: bool,
    /// How many bytes of a torn write follow.
    pub torn_bytes: u64,
}

impl LogReader {
    /// Prepares to read the records after `after` from the segments in `directory`.
    pub fn open(env: &Env, directory: &Path, database_id: u64, after: Lsn) -> Result<LogReader> {
        LogReader::begin(env, directory, database_id, Some(after))
    }

    /// Prepares to read all that is there.
    pub(crate) fn open_whole(env: &Env, directory: &Path, database_id: u64) -> Result<LogReader> {
        LogReader::begin(env, directory, database_id, None)
    }

    fn begin(
        env: &Env,
        directory: &Path,
        database_id: u64,
        after: Option<Lsn>,
    ) -> Result<LogReader> {
        let listed = segment::list(&*env.files, directory, database_id)?;
        let last_is_complete = listed.unfinished.is_some();
        let mut leftovers = Vec::new();
        let mut segments = listed.all;
        if let Some(number) = listed.unfinished {
            leftovers.push(directory.join(segment::file_name(number)));
            if number != segments.last().map_or(1, |segment| segment.header.number + 1) {
                return Err(incomplete(directory, "the segments before the last are missing"));
            }
        }
        // Segments are removed from the oldest on, and a crash may undo any of the removals. What
        // lies before the last gap was to be removed, if the rest begins early enough.
        let contiguous = |pair: &[Segment]| pair[0].header.number + 1 == pair[1].header.number;
        if let Some(gap) = segments.windows(2).rposition(|pair| !contiguous(pair)) {
            leftovers.extend(segments.drain(..=gap).map(|segment| segment.path));
        }
        let held_before = segments.first().map(|segment| segment.header.previous_lsn);
        let after = after.or(held_before).unwrap_or_default();
        check_beginning(directory, held_before, after)?;
        let needed = |segment: &Segment| segment.header.previous_lsn <= after;
        let next = segments.iter().rposition(needed).unwrap_or(0);
        let bytes_total = segments[next..].iter().map(|segment| segment.bytes).sum();
        Ok(LogReader {
            files: Arc::clone(&env.files),
            segments,
            last_is_complete,
            leftovers,
            after,
            next,
            current: None,
            end: None,
            bytes_total,
            bytes_done: 0,
        })
    }

    /// The next record, or nothing at the end of the log. An error where the log is damaged; what a
    /// crash tore at the end is no damage, but the end.
    // Not an `Iterator`: after an error there is nothing more to ask for.
    #[expect(clippy::should_implement_trait, reason = "an iterator goes on after an error")]
    pub fn next(&mut self) -> Result<Option<Record>> {
        loop {
            if self.current.is_none() && !self.open_next()? {
                return Ok(None);
            }
            let current = self.current.as_mut().expect("opened above");
            match current.step()? {
                Step::Record(record) if record.lsn > self.after => return Ok(Some(record)),
                Step::Record(_) => {}
                Step::End => self.finish_segment(None)?,
                Step::Broken(defect) => self.finish_segment(Some(defect))?,
            }
        }
    }

    /// How many bytes were read of how many.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        let current = self.current.as_ref().map_or(0, |current| current.offset);
        (self.bytes_done + current, self.bytes_total)
    }

    /// Where the log ends. Nothing before the end was reached, or where there is no log.
    pub(crate) fn end(&self) -> Option<LogEnd> {
        self.end
    }

    fn open_next(&mut self) -> Result<bool> {
        let Some(segment) = self.segments.get(self.next) else { return Ok(false) };
        self.current = Some(SegmentReader::open(&*self.files, segment)?);
        self.next += 1;
        Ok(true)
    }

    fn finish_segment(&mut self, defect: Option<Defect>) -> Result<()> {
        let mut current = self.current.take().expect("a segment is being read");
        match (self.segments.get(self.next), defect) {
            (Some(following), None) => current.check_followed_by(following)?,
            (None, None) => self.end = Some(current.log_end(0)),
            (None, Some(defect)) if !self.last_is_complete && current.is_torn(defect)? => {
                self.end = Some(current.log_end(current.data.length() - current.offset));
            }
            (_, Some(defect)) => return Err(current.damaged(defect.describe())),
        }
        self.bytes_done += current.data.length();
        Ok(())
    }
}

/// Refuses a log that begins too late.
fn check_beginning(directory: &Path, held_before: Option<Lsn>, after: Lsn) -> Result<()> {
    match held_before {
        Some(held_before) if held_before > after => {
            let what = format!("records after {after} up to {held_before} are missing");
            Err(incomplete(directory, &what))
        }
        None if after > Lsn(0) => {
            let what = format!("no segment is there, but records up to {after} were");
            Err(incomplete(directory, &what))
        }
        _ => Ok(()),
    }
}

fn incomplete(directory: &Path, what: &str) -> Error {
    Error::corrupt(format!("the log in {} is incomplete: {what}", directory.display()))
        .with_hint("Put the missing segment files back, or restore the directory from a backup.")
}

/// One segment being read.
struct SegmentReader {
    data: Sequential,
    path: PathBuf,
    number: u64,
    checksum: u32,
    /// Where the next entry stands.
    offset: u64,
    previous_checksum: u32,
    last_lsn: Lsn,
    /// Up to where the segment was durable, as the last entry says.
    durable: u64,
    clean_close: bool,
}

enum Step {
    Record(Record),
    End,
    Broken(Defect),
}

impl SegmentReader {
    fn open(files: &dyn FileSystem, segment: &Segment) -> Result<SegmentReader> {
        let (file, length) = segment::open_file(files, &segment.path)?;
        Ok(SegmentReader {
            data: Sequential::new(file, length),
            path: segment.path.clone(),
            number: segment.header.number,
            checksum: segment.checksum,
            offset: HEADER_BYTES,
            previous_checksum: segment.checksum,
            last_lsn: segment.header.previous_lsn,
            durable: 0,
            clean_close: false,
        })
    }

    fn step(&mut self) -> Result<Step> {
        self.read_entry().map_err(|error| file_error("read", &self.path, error))
    }

    fn read_entry(&mut self) -> io::Result<Step> {
        let rest = self.data.length() - self.offset;
        if rest == 0 || (self.clean_close && rest == RECORD_HEADER_BYTES) {
            return Ok(Step::End);
        }
        if self.clean_close {
            return Ok(Step::Broken(Defect::AfterCleanClose));
        }
        if rest < RECORD_HEADER_BYTES {
            return Ok(Step::Broken(Defect::HeaderIncomplete));
        }
        let mut bytes = [0; RECORD_HEADER_BYTES as usize];
        self.data.read(&mut bytes, self.offset)?;
        let Some((header, header_checksum)) = RecordHeader::decode(&bytes) else {
            let zero = bytes.iter().all(|byte| *byte == 0);
            return Ok(Step::Broken(if zero { Defect::HeaderZero } else { Defect::HeaderDamaged }));
        };
        if let Some(what) = self.misplaced(&header) {
            return Ok(Step::Broken(Defect::Misplaced(what)));
        }
        match header.entry {
            Entry::Record(kind) => self.read_record(&header, header_checksum, kind),
            Entry::CleanClose => {
                self.clean_close = true;
                self.durable = header.durable_bytes;
                self.read_entry()
            }
        }
    }

    /// Why a sound header cannot be the next one here.
    fn misplaced(&self, header: &RecordHeader) -> Option<&'static str> {
        if header.segment_checksum != self.checksum {
            Some("the record belongs to another segment")
        } else if header.offset != self.offset || header.durable_bytes > self.offset {
            Some("the record belongs to another place")
        } else if header.previous_checksum != self.previous_checksum {
            Some("the record does not follow the one before it")
        } else if header.lsn < self.last_lsn {
            Some("the sequence number is below that of the record before")
        } else if header.entry == Entry::CleanClose && header.payload_bytes != 0 {
            Some("the mark of a clean close has a payload")
        } else {
            None
        }
    }

    fn read_record(
        &mut self,
        header: &RecordHeader,
        header_checksum: u32,
        kind: u8,
    ) -> io::Result<Step> {
        let Some(end) = header.end().filter(|end| *end <= self.data.length()) else {
            return Ok(Step::Broken(Defect::PayloadIncomplete));
        };
        let begin = self.offset + RECORD_HEADER_BYTES;
        let mut payload = vec![0; (end - begin) as usize];
        self.data.read(&mut payload, begin)?;
        if !matches(header.payload_checksum, checksum([&payload[..]])) {
            let mut blank = BlankSectors::new(begin);
            blank.add(&payload);
            let blank_written = header.blank_sectors;
            let defect = Defect::PayloadDamaged { blank_now: blank.count(), blank_written };
            return Ok(Step::Broken(defect));
        }
        payload.truncate(header.payload_bytes as usize);
        let (segment, offset) = (self.number, self.offset);
        self.offset = end;
        self.previous_checksum = header_checksum;
        self.last_lsn = header.lsn;
        self.durable = header.durable_bytes;
        Ok(Step::Record(Record { lsn: header.lsn, kind, payload, segment, offset }))
    }

    fn is_torn(&mut self, defect: Defect) -> Result<bool> {
        is_torn(&mut self.data, self.checksum, self.offset, defect)
            .map_err(|error| file_error("read", &self.path, error))
    }

    fn damaged(&self, what: impl std::fmt::Display) -> Error {
        damaged(&self.path, self.offset, what)
    }

    fn log_end(&self, torn_bytes: u64) -> LogEnd {
        LogEnd {
            offset: self.offset,
            previous_checksum: self.previous_checksum,
            last_lsn: self.last_lsn,
            durable: self.durable,
            clean_close: self.clean_close,
            torn_bytes,
        }
    }

    /// A segment that is not the last one ends where the next says, and is durable to there.
    fn check_followed_by(&self, next: &Segment) -> Result<()> {
        let header = &next.header;
        if self.clean_close {
            return Err(self.damaged("the log was closed here, and yet a segment follows"));
        }
        if self.offset != header.previous_end || self.previous_checksum != header.previous_checksum
        {
            return Err(self.damaged(format!(
                "the segment ends here, but segment {} continues one that ends at {}",
                header.number, header.previous_end
            )));
        }
        // It may be higher: a checkpoint can be ahead of a log that nobody synced.
        if self.last_lsn > header.previous_lsn {
            return Err(damaged(&next.path, 0, "it does not continue the segment before"));
        }
        Ok(())
    }
}
