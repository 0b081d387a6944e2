//! Records that callers append and read back, and the header before each.

use thalweg_types::Lsn;

use crate::align::{ALIGNMENT, aligned, padding};
use crate::checksum::{checksum, matches};
use crate::file_header::{u32_at, u64_at};

/// A record to append. Its parts are written one after the other without being copied.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// At least the previous record's.
    pub lsn: Lsn,
    /// The payload's kind, which the log does not interpret.
    pub kind: u8,
    pub payload: &'a [&'a [u8]],
}

/// A record read from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub lsn: Lsn,
    pub kind: u8,
    pub payload: Vec<u8>,
    /// The number of the segment that holds it.
    pub segment: u64,
    /// The offset of its header in the segment.
    pub offset: u64,
}

/// Length of a record's header, in bytes. Headers are aligned to it, so that none spans two
/// sectors.
pub const RECORD_HEADER_BYTES: u64 = ALIGNMENT;

const MAGIC: [u8; 4] = *b"TREC";

/// Kind of an entry in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A caller's record of this kind.
    Record(u8),
    /// The log was closed cleanly. Nothing follows.
    CleanClose,
}

/// The header of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    pub entry: Entry,
    pub lsn: Lsn,
    /// The offset of the header in its segment.
    pub offset: u64,
    pub payload_bytes: u64,
    /// Offset up to which the segment was known to be durable when this was written. Nothing before
    /// it can be a torn write.
    pub durable_bytes: u64,
    /// Checksum of the payload and its padding.
    pub payload_checksum: u32,
    /// Number of the payload's sectors that were written as all zeros; see [`BlankSectors`].
    ///
    /// [`BlankSectors`]: crate::tail::BlankSectors
    pub blank_sectors: u32,
    /// The checksum of the segment's header, which identifies the database and the segment.
    pub segment_checksum: u32,
    /// The checksum of the previous header; of the segment's header for the first record.
    pub previous_checksum: u32,
}

impl RecordHeader {
    /// The header's bytes, with their checksum.
    pub fn encode(&self) -> [u8; RECORD_HEADER_BYTES as usize] {
        let mut bytes = [0; RECORD_HEADER_BYTES as usize];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.lsn.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.durable_bytes.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.payload_checksum.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.blank_sectors.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.segment_checksum.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.previous_checksum.to_le_bytes());
        match self.entry {
            Entry::Record(kind) => bytes[56] = kind,
            Entry::CleanClose => bytes[57] = 1,
        }
        let checksum = checksum([&bytes[8..]]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes a header and its own checksum; `None` if the bytes are not a sound header.
    pub fn decode(bytes: &[u8; RECORD_HEADER_BYTES as usize]) -> Option<(RecordHeader, u32)> {
        let stored = u32_at(bytes, 4);
        if bytes[..4] != MAGIC || !matches(stored, checksum([&bytes[8..]])) {
            return None;
        }
        let entry = match bytes[57] {
            0 => Entry::Record(bytes[56]),
            1 => Entry::CleanClose,
            _ => return None,
        };
        let header = RecordHeader {
            entry,
            lsn: Lsn(u64_at(bytes, 8)),
            offset: u64_at(bytes, 16),
            payload_bytes: u64_at(bytes, 24),
            durable_bytes: u64_at(bytes, 32),
            payload_checksum: u32_at(bytes, 40),
            blank_sectors: u32_at(bytes, 44),
            segment_checksum: u32_at(bytes, 48),
            previous_checksum: u32_at(bytes, 52),
        };
        Some((header, stored))
    }

    /// The offset of the next header; `None` on overflow.
    pub fn end(&self) -> Option<u64> {
        aligned(self.payload_bytes)?.checked_add(self.offset)?.checked_add(RECORD_HEADER_BYTES)
    }
}

/// The checksum of a payload in parts, padding included.
pub fn payload_checksum(payload: &[&[u8]], payload_bytes: u64) -> u32 {
    checksum(payload.iter().copied().chain([padding(payload_bytes)]))
}
