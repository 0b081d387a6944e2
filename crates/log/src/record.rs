//! Records: what a caller appends and gets back, and the header that stands before each.

use thalweg_types::Lsn;

use crate::align::{ALIGNMENT, aligned, padding};
use crate::checksum::{checksum, matches};
use crate::file_header::{u32_at, u64_at};

/// A record to append. Its parts are written one after the other, without being copied together.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// At least that of the record before.
    pub lsn: Lsn,
    /// What the payload is; the log does not interpret it.
    pub kind: u8,
    pub payload: &'a [&'a [u8]],
}

/// A record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub lsn: Lsn,
    pub kind: u8,
    pub payload: Vec<u8>,
    /// The number of the segment that holds it.
    pub segment: u64,
    /// Where its header stands in the segment.
    pub offset: u64,
}

/// How long a record's header is: it lies on the grid, so that no two sectors share it.
pub const RECORD_HEADER_BYTES: u64 = ALIGNMENT;

const MAGIC: [u8; 4] = *b"TREC";

/// What an entry in a segment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A caller's record of this kind.
    Record(u8),
    /// The log was closed properly; nothing comes after.
    CleanClose,
}

/// The header of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    pub entry: Entry,
    pub lsn: Lsn,
    /// Where the header itself stands in its segment.
    pub offset: u64,
    pub payload_bytes: u64,
    /// Up to where the segment was known to be durable when this was written: nothing before it
    /// can be a torn write.
    pub durable_bytes: u64,
    /// Of the payload and the zeros that fill it up to the grid.
    pub payload_checksum: u32,
    /// How many of the payload's sectors are all zeros by right; see [`BlankSectors`].
    ///
    /// [`BlankSectors`]: crate::tail::BlankSectors
    pub blank_sectors: u32,
    /// The checksum of the segment's header: names the database and the segment.
    pub segment_checksum: u32,
    /// The checksum of the header before: of the segment's, for the first record.
    pub previous_checksum: u32,
}

impl RecordHeader {
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

    /// The header, with its own checksum, if these are the bytes of one.
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

    /// Where the next header stands. Nothing for lengths that no file can have.
    pub fn end(&self) -> Option<u64> {
        aligned(self.payload_bytes)?.checked_add(self.offset)?.checked_add(RECORD_HEADER_BYTES)
    }
}

/// The checksum of a payload in parts, with its padding.
pub fn payload_checksum(payload: &[&[u8]], payload_bytes: u64) -> u32 {
    checksum(payload.iter().copied().chain([padding(payload_bytes)]))
}
