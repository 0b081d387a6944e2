//! Layout of a checkpoint file: a header, the sections, a table of them, a footer.

use thalweg_types::Lsn;

use crate::align::aligned;
use crate::file_header::{HEADER_BYTES, u32_at, u64_at};

/// Suffix of a file's name while it is being written.
pub const TEMPORARY_SUFFIX: &str = ".new";

/// Length of a section's entry in the table, in bytes.
pub const ENTRY_BYTES: u64 = 32;

/// One section of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionInfo {
    pub kind: u32,
    pub id: u64,
    /// Length in bytes, without padding.
    pub length: u64,
    pub(super) offset: u64,
    pub(super) checksum: u32,
}

impl SectionInfo {
    pub(super) fn encode(&self) -> [u8; ENTRY_BYTES as usize] {
        let mut bytes = [0; ENTRY_BYTES as usize];
        bytes[..4].copy_from_slice(&self.kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> SectionInfo {
        SectionInfo {
            kind: u32_at(bytes, 0),
            checksum: u32_at(bytes, 4),
            id: u64_at(bytes, 8),
            offset: u64_at(bytes, 16),
            length: u64_at(bytes, 24),
        }
    }
}

/// Offset of the table if the sections follow each other as they must; `None` if they do not.
pub fn table_offset(sections: &[SectionInfo]) -> Option<u64> {
    sections.iter().try_fold(HEADER_BYTES, |offset, section| {
        if section.offset != offset {
            return None;
        }
        aligned(offset.checked_add(section.length)?)
    })
}

/// The name of a checkpoint's file; names sort like sequence numbers.
pub fn file_name(lsn: Lsn) -> String {
    format!("checkpoint-{:020}.tck", lsn.0)
}

fn lsn_in(name: &str) -> Option<Lsn> {
    let digits = name.strip_prefix("checkpoint-")?.strip_suffix(".tck")?;
    let all_digits = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits { digits.parse().ok().map(Lsn) } else { None }
}

/// The checkpoints among file names, oldest first.
pub fn checkpoints_in(names: &[String]) -> Vec<Lsn> {
    let mut found: Vec<Lsn> = names.iter().filter_map(|name| lsn_in(name)).collect();
    found.sort_unstable();
    found
}
