//! The end of the log: distinguishes a write that a crash tore from damage.
//!
//! An unreadable record is cut off silently only if a crash may have torn it before it was durable.
//! Three conditions must hold. It is in the last segment, and the log was not closed cleanly. No
//! later record says that the segment was durable beyond it. And unwritten sectors explain the
//! defect: bytes are missing at the end of the file, or a sector is all zeros that was not written
//! so. Everything else is damage.

use std::io;

use thalweg_env::SECTOR;

use crate::record::{Entry, RECORD_HEADER_BYTES, RecordHeader};
use crate::sequential::Sequential;

/// Reason for which an entry cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The file ends within the header.
    HeaderIncomplete,
    HeaderZero,
    HeaderDamaged,
    /// A sound header at the wrong position.
    Misplaced(&'static str),
    /// The file ends within the payload.
    PayloadIncomplete,
    /// The payload's checksum does not match. The fields count its sectors that are all zeros now,
    /// and that were when it was written.
    PayloadDamaged {
        blank_now: u32,
        blank_written: u32,
    },
    /// Bytes follow the mark of a clean close.
    AfterCleanClose,
}

impl Defect {
    /// Description for error messages.
    pub fn describe(self) -> &'static str {
        match self {
            Defect::HeaderIncomplete => "the file ends within the header of a record",
            Defect::HeaderZero => "there are zeros instead of a record",
            Defect::HeaderDamaged => "the header of a record is not what was written",
            Defect::Misplaced(what) => what,
            Defect::PayloadIncomplete => "the file ends within a record",
            Defect::PayloadDamaged { .. } => "the checksum of a record does not match",
            Defect::AfterCleanClose => "bytes follow the mark of a clean close",
        }
    }
}

/// True if a torn write explains the defect of the entry at `place` in the last segment.
pub fn is_torn(
    data: &mut Sequential,
    segment_checksum: u32,
    place: u64,
    defect: Defect,
) -> io::Result<bool> {
    let explained = match defect {
        Defect::HeaderIncomplete | Defect::PayloadIncomplete => true,
        Defect::HeaderZero => rest_of_sector_is_zero(data, place)?,
        Defect::PayloadDamaged { blank_now, blank_written } => blank_now > blank_written,
        Defect::HeaderDamaged | Defect::Misplaced(_) | Defect::AfterCleanClose => false,
    };
    Ok(explained && !was_durable(data, segment_checksum, place)?)
}

/// Appends go forwards, so bytes after unwritten ones in a sector are unwritten too.
fn rest_of_sector_is_zero(data: &mut Sequential, place: u64) -> io::Result<bool> {
    let end = (place + 1).next_multiple_of(SECTOR as u64).min(data.length());
    let mut rest = vec![0; (end - place) as usize];
    data.read(&mut rest, place)?;
    Ok(is_zero(&rest))
}

/// True if an entry after `place` says that the segment was durable beyond `place`.
fn was_durable(data: &mut Sequential, segment_checksum: u32, place: u64) -> io::Result<bool> {
    let mut bytes = [0; RECORD_HEADER_BYTES as usize];
    let mut next = place + RECORD_HEADER_BYTES;
    while next + RECORD_HEADER_BYTES <= data.length() {
        data.read(&mut bytes, next)?;
        if let Some((header, _)) = RecordHeader::decode(&bytes) {
            let here = header.offset == next && header.segment_checksum == segment_checksum;
            if here && (header.durable_bytes > place || header.entry == Entry::CleanClose) {
                return Ok(true);
            }
        }
        next += RECORD_HEADER_BYTES;
    }
    Ok(false)
}

/// Counts the sectors of a payload that are all zeros, except the one that holds its header.
///
/// A record stores this count, so that written zeros are not mistaken for an unwritten sector. If
/// the payload fills a sector only in part, only that part is looked at.
pub struct BlankSectors {
    place: u64,
    blank: bool,
    count: u32,
}

impl BlankSectors {
    /// Begins a payload at offset `place` of its file.
    pub fn new(place: u64) -> BlankSectors {
        let begins_a_sector = place.is_multiple_of(SECTOR as u64);
        BlankSectors { place, blank: begins_a_sector, count: 0 }
    }

    /// Adds the payload's next bytes.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let left = SECTOR - (self.place % SECTOR as u64) as usize;
            let (part, rest) = bytes.split_at(left.min(bytes.len()));
            self.blank = self.blank && is_zero(part);
            self.place += part.len() as u64;
            bytes = rest;
            if part.len() == left {
                self.count += u32::from(self.blank);
                self.blank = true;
            }
        }
    }

    /// The number of blank sectors, including a last one that is filled in part.
    pub fn count(self) -> u32 {
        let within_a_sector = !self.place.is_multiple_of(SECTOR as u64);
        self.count + u32::from(within_a_sector && self.blank)
    }
}

/// True if all bytes are 0. It works in steps that the compiler vectorizes, but small enough that
/// the first one usually decides.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(64).all(|chunk| chunk.iter().fold(0, |seen, byte| seen | byte) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blank(place: u64, parts: &[&[u8]]) -> u32 {
        let mut sectors = BlankSectors::new(place);
        parts.iter().for_each(|part| sectors.add(part));
        sectors.count()
    }

    #[test]
    fn blank_sectors_are_counted_across_parts_and_not_beside_the_header() {
        assert_eq!(blank(64, &[]), 0);
        assert_eq!(blank(64, &[&[0; 448]]), 0);
        assert_eq!(blank(512, &[&[0; 512]]), 1);
        assert_eq!(blank(512, &[&[0; 511], &[7]]), 0);
        assert_eq!(blank(64, &[&[0; 448], &[0; 100], &[0; 412], &[1], &[0; 600]]), 2);
    }
}
