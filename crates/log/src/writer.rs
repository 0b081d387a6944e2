//! Appends to the log.
//!
//! One thread owns the [`LogWriter`]. It appends the records of a group with one write, syncs them,
//! and begins the next segment when one is full. A failed write is cut back, and the log goes on. A
//! failed sync, or a failed cut, ends the log until it is opened again.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_env::{File, FileSystem, OpenMode};
use thalweg_types::{Error, Lsn, Result};

use crate::align::{ALIGNMENT, padding};
use crate::failure::file_error;
use crate::file_header::{HEADER_BYTES, u32_at};
use crate::heads::{Heads, LogPosition};
use crate::record::{Entry, RECORD_HEADER_BYTES, RecordHeader, RecordRef, payload_checksum};
use crate::segment::{SegmentHeader, checksum_of, file_name};
use crate::tail::BlankSectors;

/// Options of the log's writer.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Approximate length of a segment. One append is never split, so a segment becomes longer if a
    /// single append is.
    pub segment_bytes: u64,
    /// Number of bytes of zeros written ahead of small appends within a segment.
    pub ahead_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { segment_bytes: 64 << 20, ahead_bytes: 4 << 20 }
    }
}

/// Appends up to this size overwrite zeros that were written ahead.
const SMALL_BYTES: u64 = 64 << 10;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Appends records to the log. A single thread owns it.
///
/// Appended records are durable once [`LogWriter::sync`] has returned. After a failed sync it is
/// unknown which records are durable, so every later call fails, until the log is opened again.
pub struct LogWriter {
    pub(crate) files: Arc<dyn FileSystem>,
    pub(crate) directory: PathBuf,
    pub(crate) database_id: u64,
    pub(crate) options: LogOptions,
    /// The segments before the active one, oldest first.
    pub(crate) older: VecDeque<OlderSegment>,
    pub(crate) active: ActiveSegment,
    pub(crate) last_lsn: Lsn,
    pub(crate) bytes_appended: u64,
    pub(crate) poison: Option<Error>,
    pub(crate) heads: Arc<Heads>,
    /// The position that was last written to the heads.
    pub(crate) vouched: LogPosition,
}

/// Extent of a segment to which nothing is appended any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompleteSegment {
    /// The last sequence number in it, or before it.
    pub last_lsn: Lsn,
    /// Length of its file.
    pub bytes: u64,
}

/// A segment that is complete and durable.
pub(crate) struct OlderSegment {
    pub path: PathBuf,
    pub bytes: u64,
    /// The last sequence number in it, or before it.
    pub last_lsn: Lsn,
}

/// The last segment, to which records are appended.
pub(crate) struct ActiveSegment {
    pub file: Arc<dyn File>,
    pub path: PathBuf,
    pub number: u64,
    pub checksum: u32,
    pub end: u64,
    /// Offset up to which it is known to be durable.
    pub durable: u64,
    /// Offset up to which zeros may follow the end; at most `end` if there are none.
    pub prepared: u64,
    /// The sequence number of the last durable record, and the checksum of its header.
    pub durable_lsn: Lsn,
    pub durable_checksum: u32,
    /// The checksum of the last header in it.
    pub previous_checksum: u32,
}

impl LogWriter {
    /// Appends records with one write. On an error none of them stays in the log. If that cannot be
    /// ensured, every later call fails.
    ///
    /// # Panics
    /// If a sequence number is below the previous one.
    pub fn append(&mut self, records: &[RecordRef<'_>]) -> Result<()> {
        self.check_sound()?;
        let ascending = records.is_sorted_by_key(|record| record.lsn);
        let Some((first, last)) = records.first().zip(records.last()) else { return Ok(()) };
        assert!(ascending && first.lsn >= self.last_lsn, "sequence numbers never go back");

        let bytes: u64 = records.iter().map(stored_bytes).sum();
        let fits = self.active.end + bytes <= self.options.segment_bytes;
        if !fits && self.active.end > HEADER_BYTES {
            self.rotate()?;
        }
        self.prepare(bytes);
        let last_checksum = self.write(records)?;
        self.active.end += bytes;
        self.active.previous_checksum = last_checksum;
        self.last_lsn = last.lsn;
        self.bytes_appended += bytes;
        #[cfg(test)]
        if crate::heads::canary::is_vouching_early() {
            let durable = self.active.durable;
            self.is_durable();
            self.vouch();
            self.active.durable = durable;
            let _ = self.heads.sync();
        }
        Ok(())
    }

    /// True if a record of this size fits into zeros written ahead, so that appending it is one
    /// short write.
    #[must_use]
    pub fn is_prepared_for(&self, payload_bytes: usize) -> bool {
        let stored = RECORD_HEADER_BYTES + payload_bytes as u64 + ALIGNMENT;
        self.poison.is_none() && self.active.end + stored <= self.active.prepared
    }

    /// Makes all appended records durable.
    pub fn sync(&mut self) -> Result<()> {
        self.check_sound()?;
        if self.active.durable == self.active.end {
            return Ok(());
        }
        let synced = self.active.file.sync_data();
        self.or_poison(synced, "sync")?;
        let names = self.active.file.identity().map(|identity| identity.names);
        if self.or_poison(names, "look at")? == 0 {
            let error = self.heads.directory_is_gone();
            self.poison = Some(error.clone());
            return Err(error);
        }
        self.is_durable();
        Ok(())
    }

    /// Records that all appended records are durable.
    fn is_durable(&mut self) {
        self.active.durable = self.active.end;
        self.active.durable_lsn = self.last_lsn;
        self.active.durable_checksum = self.active.previous_checksum;
    }

    /// Position up to which the log is durable.
    fn durable_position(&self) -> LogPosition {
        LogPosition {
            segment: self.active.number,
            end: self.active.durable,
            lsn: self.active.durable_lsn,
            segment_checksum: self.active.checksum,
            last_checksum: self.active.durable_checksum,
        }
    }

    /// Writes the durable position to the heads, without a sync. Callers do so after they have
    /// acknowledged the synced groups, so that no client waits for it.
    pub fn vouch(&mut self) {
        let position = self.durable_position();
        if self.poison.is_some() || position == self.vouched {
            return;
        }
        // If this fails, the older head vouches for less. The next write may succeed.
        if self.heads.write(|head| head.position = position).is_ok() {
            self.vouched = position;
        }
    }

    /// Removes the segments whose records all have sequence numbers below `lsn`, except the active
    /// one. Returns their number.
    pub fn remove_before(&mut self, lsn: Lsn) -> Result<usize> {
        let mut removed = 0;
        while let Some(oldest) = self.older.front().filter(|oldest| oldest.last_lsn < lsn) {
            self.files
                .remove_file(&oldest.path)
                .map_err(|error| file_error("remove", &oldest.path, error))?;
            self.older.pop_front();
            removed += 1;
        }
        Ok(removed)
    }

    /// The segments before the active one, oldest first. [`LogWriter::remove_before`] removes from
    /// the first one on.
    pub fn complete_segments(&self) -> impl ExactSizeIterator<Item = CompleteSegment> {
        self.older
            .iter()
            .map(|older| CompleteSegment { last_lsn: older.last_lsn, bytes: older.bytes })
    }

    /// True if the log has failed permanently and accepts no more records.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_some()
    }

    /// True if the data directory was removed or replaced under the running process.
    #[must_use]
    pub fn is_directory_gone(&self) -> bool {
        self.heads.check_present().is_err()
    }

    /// Checks that the disk takes writes: writes zeros behind the end, as small appends prepare
    /// them, and syncs them. A failed sync ends the log.
    ///
    /// # Errors
    /// If the disk takes no writes, or the log failed for good.
    pub fn probe(&mut self) -> Result<()> {
        self.check_sound()?;
        let end = self.active.end;
        if let Err(error) = self.active.file.write_all_at(&ZEROS, end) {
            return Err(self.cut_back(error));
        }
        self.active.prepared = self.active.prepared.max(end + ZEROS.len() as u64);
        let synced = self.active.file.sync_data();
        self.or_poison(synced, "sync")?;
        self.is_durable();
        Ok(())
    }

    /// Size of all segments, in bytes.
    #[must_use]
    pub fn bytes_on_disk(&self) -> u64 {
        self.older.iter().map(|segment| segment.bytes).sum::<u64>() + self.active.end
    }

    /// Number of bytes appended since the log was opened. It only grows, so the difference of two
    /// readings is the amount appended between them.
    #[must_use]
    pub fn bytes_appended(&self) -> u64 {
        self.bytes_appended
    }

    /// The sequence number of the last record; before the first append, the one that recovery
    /// reported.
    #[must_use]
    pub fn last_lsn(&self) -> Lsn {
        self.last_lsn
    }

    /// Makes everything durable, and appends the mark of a clean close.
    pub fn close(mut self) -> Result<()> {
        self.trim()?;
        self.sync()?;
        let mark = RecordHeader {
            entry: Entry::CleanClose,
            lsn: self.last_lsn,
            offset: self.active.end,
            payload_bytes: 0,
            durable_bytes: self.active.durable,
            payload_checksum: 0,
            blank_sectors: 0,
            segment_checksum: self.active.checksum,
            previous_checksum: self.active.previous_checksum,
        };
        let written = self.active.file.write_all_at(&mark.encode(), self.active.end);
        written
            .and_then(|()| self.active.file.sync_all())
            .map_err(|error| file_error("close", &self.active.path, error))?;
        let position = self.durable_position();
        self.heads.write_and_sync(|head| (head.position, head.clean) = (position, true))
    }

    /// Writes zeros ahead of a small append. Syncs after this append and the following ones then
    /// need not wait for the file system to record a new file length.
    fn prepare(&mut self, bytes: u64) {
        let active = &mut self.active;
        let needed = active.end + bytes;
        let until = (active.end + self.options.ahead_bytes).min(self.options.segment_bytes);
        if bytes > SMALL_BYTES || needed <= active.prepared || needed > until {
            return;
        }
        let from = active.end.max(active.prepared);
        let mut parts = Vec::new();
        let mut left = until - from;
        while left > 0 {
            let part = left.min(ZEROS.len() as u64);
            parts.push(IoSlice::new(&ZEROS[..part as usize]));
            left -= part;
        }
        // A failure does no harm: at most zeros follow the end, and the append reports the error.
        let _ = active.file.write_all_vectored_at(&parts, from);
        active.prepared = until;
    }

    /// Durably cuts off the zeros that were written ahead.
    fn trim(&mut self) -> Result<()> {
        self.check_sound()?;
        let active = &self.active;
        if active.prepared <= active.end {
            return Ok(());
        }
        let cut = active.file.set_len(active.end).and_then(|()| active.file.sync_all());
        self.or_poison(cut, "shorten")?;
        self.active.prepared = self.active.end;
        self.is_durable();
        Ok(())
    }

    /// Writes the records at the end of the active segment, and returns the last header's checksum.
    fn write(&mut self, records: &[RecordRef<'_>]) -> Result<u32> {
        let active = &self.active;
        let mut headers = Vec::with_capacity(records.len());
        let mut offset = active.end;
        let mut previous_checksum = active.previous_checksum;
        for record in records {
            let header = header_for(record, offset, previous_checksum, active).encode();
            previous_checksum = u32_at(&header, 4);
            offset += stored_bytes(record);
            headers.push(header);
        }
        let mut parts = Vec::with_capacity(records.len() * 4);
        for (record, header) in records.iter().zip(&headers) {
            parts.push(IoSlice::new(header));
            parts.extend(record.payload.iter().map(|part| IoSlice::new(part)));
            parts.push(IoSlice::new(padding(payload_bytes(record))));
        }
        match active.file.write_all_vectored_at(&parts, active.end) {
            Ok(()) => Ok(previous_checksum),
            Err(error) => Err(self.cut_back(error)),
        }
    }

    /// Durably removes the remains of a failed write, because a later crash must not mix them with
    /// bytes written over them. Returns the error of the failed write.
    fn cut_back(&mut self, cause: io::Error) -> Error {
        let active = &mut self.active;
        active.prepared = active.end;
        let cut = active.file.set_len(active.end).and_then(|()| active.file.sync_all());
        let error = file_error("write to", &active.path, cause);
        if cut.is_err() {
            self.poison = Some(error.clone());
        }
        error
    }

    /// Begins the next segment. The previous one is completely durable then, and no longer changes.
    fn rotate(&mut self) -> Result<()> {
        self.trim()?;
        self.sync()?;
        let header = SegmentHeader {
            number: self.active.number + 1,
            previous_lsn: self.last_lsn,
            previous_end: self.active.end,
            previous_checksum: self.active.previous_checksum,
        };
        let created = create(&*self.files, &self.directory, self.database_id, &header);
        let next = created.map_err(|failed| {
            if !failed.undone {
                self.poison = Some(failed.error.clone());
            }
            failed.error
        })?;
        let full = std::mem::replace(&mut self.active, next);
        let last_lsn = self.last_lsn;
        self.older.push_back(OlderSegment { path: full.path, bytes: full.end, last_lsn });
        Ok(())
    }

    fn check_sound(&self) -> Result<()> {
        let Some(cause) = &self.poison else { return self.heads.check_present() };
        let message = format!("the log takes no more writes since an earlier failure: {cause}");
        Err(Error::new(cause.state(), message)
            .with_hint("Restart the database once the disk is well: it recovers what is durable."))
    }

    fn or_poison<T>(&mut self, result: io::Result<T>, operation: &str) -> Result<T> {
        result.map_err(|error| {
            let error = file_error(operation, &self.active.path, error);
            self.poison = Some(error.clone());
            error
        })
    }
}

/// The error of a segment that could not be created; `undone` is true if no trace is left.
pub(crate) struct CreateFailed {
    pub error: Error,
    pub undone: bool,
}

/// Creates a segment durably, with its name.
pub(crate) fn create(
    files: &dyn FileSystem,
    directory: &Path,
    database_id: u64,
    header: &SegmentHeader,
) -> Result<ActiveSegment, CreateFailed> {
    let path = directory.join(file_name(header.number));
    let bytes = header.encode(database_id);
    let file = files.open(&path, OpenMode::CreateNew).map_err(|error| CreateFailed {
        error: file_error("create", &path, error),
        undone: true,
    })?;
    if let Err(error) = file.write_all_at(&bytes, 0) {
        let undone = files.remove_file(&path).and_then(|()| files.sync_dir(directory)).is_ok();
        return Err(CreateFailed { error: file_error("write to", &path, error), undone });
    }
    if let Err(error) = file.sync_all().and_then(|()| files.sync_dir(directory)) {
        return Err(CreateFailed { error: file_error("sync", &path, error), undone: false });
    }
    Ok(ActiveSegment {
        file,
        path,
        number: header.number,
        checksum: checksum_of(&bytes),
        end: HEADER_BYTES,
        durable: HEADER_BYTES,
        prepared: HEADER_BYTES,
        durable_lsn: header.previous_lsn,
        durable_checksum: checksum_of(&bytes),
        previous_checksum: checksum_of(&bytes),
    })
}

fn header_for(
    record: &RecordRef<'_>,
    offset: u64,
    previous_checksum: u32,
    active: &ActiveSegment,
) -> RecordHeader {
    let payload_bytes = payload_bytes(record);
    let mut blank = BlankSectors::new(offset + RECORD_HEADER_BYTES);
    record.payload.iter().for_each(|part| blank.add(part));
    blank.add(padding(payload_bytes));
    RecordHeader {
        entry: Entry::Record(record.kind),
        lsn: record.lsn,
        offset,
        payload_bytes,
        durable_bytes: active.durable,
        payload_checksum: payload_checksum(record.payload, payload_bytes),
        blank_sectors: blank.count(),
        segment_checksum: active.checksum,
        previous_checksum,
    }
}

fn payload_bytes(record: &RecordRef<'_>) -> u64 {
    record.payload.iter().map(|part| part.len() as u64).sum()
}

/// Number of bytes that a record takes in a segment.
fn stored_bytes(record: &RecordRef<'_>) -> u64 {
    let payload_bytes = payload_bytes(record);
    RECORD_HEADER_BYTES + payload_bytes + padding(payload_bytes).len() as u64
}
