//! Reads one segment from its beginning to its end.

use std::io;
use std::path::PathBuf;

use thalweg_env::FileSystem;
use thalweg_types::{Error, Lsn, Result};

use crate::checksum::{checksum, matches};
use crate::failure::{damaged, file_error};
use crate::file_header::HEADER_BYTES;
use crate::record::{Entry, RECORD_HEADER_BYTES, Record, RecordHeader};
use crate::segment::{Segment, open_file};
use crate::sequential::Sequential;
use crate::tail::{BlankSectors, Defect, is_torn};

/// End of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The offset in the last segment.
    pub offset: u64,
    /// The checksum of the last header before it.
    pub previous_checksum: u32,
    pub last_lsn: Lsn,
    /// Offset up to which the last segment is certainly durable.
    pub durable: u64,
    pub clean_close: bool,
    /// Number of bytes of a torn write that follow, without zeros at its end.
    pub torn_bytes: u64,
}

/// Reader of one segment.
pub struct SegmentReader {
    data: Sequential,
    path: PathBuf,
    number: u64,
    checksum: u32,
    /// The offset of the next entry.
    offset: u64,
    previous_checksum: u32,
    last_lsn: Lsn,
    /// Offset up to which the segment was durable, according to the last entry.
    durable: u64,
    clean_close: bool,
}

/// Outcome of reading one entry.
pub enum Step {
    Record(Record),
    End,
    Broken(Defect),
}

impl SegmentReader {
    /// Opens a segment whose header was already read, before its first entry.
    pub fn open(files: &dyn FileSystem, segment: &Segment) -> Result<SegmentReader> {
        let (file, length) = open_file(files, &segment.path)?;
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

    /// Reads the next entry.
    pub fn step(&mut self) -> Result<Step> {
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

    /// The reason for which a sound header cannot be the next one; `None` if it can.
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

    /// The end of the last record: its offset and the checksum of its header.
    pub fn passed(&self) -> (u64, u32) {
        (self.offset, self.previous_checksum)
    }

    /// Number of bytes read so far, and the file's length.
    pub fn progress(&self) -> (u64, u64) {
        (self.offset, self.data.length())
    }

    /// Checks the bytes after the last entry. Either `next` continues the log, or the log ends
    /// here, and may be torn unless the segment is known to be `complete`.
    pub fn finish(
        &mut self,
        defect: Option<Defect>,
        next: Option<&Segment>,
        complete: bool,
    ) -> Result<Option<LogEnd>> {
        match (next, defect) {
            (Some(next), None) => self.check_followed_by(next).map(|()| None),
            (None, None) => Ok(Some(self.log_end(0))),
            (None, Some(defect)) if !complete && self.is_torn(defect)? => {
                let torn = self.data.written_after(self.offset);
                let torn_bytes = torn.map_err(|error| file_error("read", &self.path, error))?;
                Ok(Some(self.log_end(torn_bytes)))
            }
            (_, Some(defect)) => Err(self.damaged(defect.describe())),
        }
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

    /// Checks that a segment ends where the header of the next one says; it is durable up to there.
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
        // The next header's may be higher, because a checkpoint can be ahead of a log that was not
        // synced.
        if self.last_lsn > header.previous_lsn {
            return Err(damaged(&next.path, 0, "it does not continue the segment before"));
        }
        Ok(())
    }
}
