//! One head record: a position in the log, with its encoding.

use thalweg_types::Lsn;

use crate::checksum::{checksum, matches};
use crate::file_header::{u32_at, u64_at};

/// Length of an encoded head record, in bytes. It fits one sector, which a disk writes atomically.
pub const HEAD_BYTES: usize = 256;

const MAGIC: [u8; 8] = *b"THALWEGH";
const VERSION: u32 = 1;
const CLEAN: u64 = 1;

/// A position in the log's history. The checksums chain back to the first record, so that no other
/// history has the same position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPosition {
    /// The number of the segment; 0 before there is one.
    pub segment: u64,
    /// The offset in the segment.
    pub end: u64,
    /// Sequence number of the last record before it.
    pub lsn: Lsn,
    /// The checksum of the segment's header.
    pub segment_checksum: u32,
    /// The checksum of the last record header before it; of the segment's header if there is none.
    pub last_checksum: u32,
}

/// Identity of a checkpoint file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointIdentity {
    pub lsn: Lsn,
    pub bytes: u64,
    /// The footer's checksum, which covers the table and so the checksums of all sections.
    pub checksum: u32,
}

/// Knowledge of the log that is stored outside of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Increases with each head record that is written.
    pub generation: u64,
    /// Random for each start of a process, so that two continuations of one copied directory
    /// differ.
    pub incarnation: u64,
    /// The log was durable up to here.
    pub position: LogPosition,
    /// True if the log was closed cleanly at the position.
    pub clean: bool,
    pub checkpoint: Option<CheckpointIdentity>,
    /// A checkpoint that is complete and about to be renamed.
    pub next_checkpoint: Option<CheckpointIdentity>,
}

impl Head {
    /// The bytes of a slot, with a checksum.
    pub fn encode(&self, database_id: u64) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let position = &self.position;
        let checksums =
            u64::from(position.segment_checksum) << 32 | u64::from(position.last_checksum);
        let [lsn, length, sum] = encode_checkpoint(self.checkpoint);
        let [next_lsn, next_length, next_sum] = encode_checkpoint(self.next_checkpoint);
        let fields = [
            database_id,
            self.generation,
            if self.clean { CLEAN } else { 0 },
            self.incarnation,
            position.segment,
            position.end,
            position.lsn.0,
            checksums,
            lsn,
            length,
            sum,
            next_lsn,
            next_length,
            next_sum,
        ];
        for (field, place) in fields.iter().zip(bytes[16..].chunks_exact_mut(8)) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let sum = head_checksum(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes a head record and the id of its database; `None` if the bytes are not a sound one.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Option<(Head, u64)> {
        let sound = bytes[..8] == MAGIC
            && u32_at(bytes, 8) == VERSION
            && matches(u32_at(bytes, 12), head_checksum(bytes));
        if !sound {
            return None;
        }
        let field = |number: usize| u64_at(bytes, 16 + 8 * number);
        let position = LogPosition {
            segment: field(4),
            end: field(5),
            lsn: Lsn(field(6)),
            segment_checksum: (field(7) >> 32) as u32,
            last_checksum: field(7) as u32,
        };
        let head = Head {
            generation: field(1),
            incarnation: field(3),
            position,
            clean: field(2) & CLEAN != 0,
            checkpoint: decode_checkpoint([field(8), field(9), field(10)]),
            next_checkpoint: decode_checkpoint([field(11), field(12), field(13)]),
        };
        Some((head, field(0)))
    }
}

fn head_checksum(bytes: &[u8; HEAD_BYTES]) -> u32 {
    checksum([&bytes[..12], &bytes[16..]])
}

fn encode_checkpoint(checkpoint: Option<CheckpointIdentity>) -> [u64; 3] {
    checkpoint.map_or([0; 3], |checkpoint| {
        [checkpoint.lsn.0, checkpoint.bytes, u64::from(checkpoint.checksum)]
    })
}

/// A length of 0 means that there is no checkpoint.
fn decode_checkpoint([lsn, bytes, checksum]: [u64; 3]) -> Option<CheckpointIdentity> {
    let checksum = checksum as u32;
    (bytes > 0).then_some(CheckpointIdentity { lsn: Lsn(lsn), bytes, checksum })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_as_it_was_and_no_byte_may_change() {
        let identity = |lsn| CheckpointIdentity { lsn: Lsn(lsn), bytes: 4096, checksum: u32::MAX };
        let position = LogPosition {
            segment: 3,
            end: 640,
            lsn: Lsn(77),
            segment_checksum: 0x8000_0001,
            last_checksum: 0xffff_fffe,
        };
        let head = Head {
            generation: 9,
            incarnation: u64::MAX,
            position,
            clean: true,
            checkpoint: Some(identity(5)),
            next_checkpoint: Some(identity(70)),
        };
        for head in [head, Head::default()] {
            let bytes = head.encode(42);
            assert_eq!(Head::decode(&bytes), Some((head, 42)));
            for place in 0..HEAD_BYTES {
                let mut damaged = bytes;
                damaged[place] ^= 0x10;
                assert_eq!(Head::decode(&damaged), None, "{place}");
            }
        }
    }
}
