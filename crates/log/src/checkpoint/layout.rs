//! Layout of checkpoints and chunk files: a header, the sections, a table of them, a footer.

use thalweg_types::Lsn;

use crate::align::aligned;
use crate::file_header::{FileKind, HEADER_BYTES, u32_at, u64_at};

/// Suffix of a file's name while it is being written.
pub const TEMPORARY_SUFFIX: &str = ".new";

/// Length of a section's entry in the table, in bytes.
pub const ENTRY_BYTES: u64 = 48;

/// Length of a section's entry in a checkpoint of version 1, in bytes.
const ENTRY_BYTES_V1: u64 = 32;

/// Length of a chunk file's entry in the table, in bytes.
pub const FILE_ENTRY_BYTES: u64 = 24;

/// One section of a checkpoint or chunk file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionInfo {
    pub kind: u32,
    pub id: u64,
    /// Distinguishes sections of one kind and id. The caller defines it.
    pub part: u32,
    /// Length in bytes, without padding.
    pub length: u64,
    pub(super) offset: u64,
    pub(super) checksum: u32,
    /// Number of the chunk file that has the section; 0 if it lies in the file of this table.
    pub(super) file: u64,
}

/// Where a section lies in a chunk file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// Number of the chunk file.
    pub file: u64,
    pub(super) offset: u64,
    /// Length in bytes, without padding.
    pub length: u64,
    pub(super) checksum: u32,
}

/// A chunk file as a checkpoint names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkFile {
    pub number: u64,
    /// Length of the file.
    pub bytes: u64,
    /// The footer's checksum, which covers the table and so the checksums of all sections.
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
        bytes[32..40].copy_from_slice(&self.file.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.part.to_le_bytes());
        bytes
    }

    /// Decodes an entry of either version. Those of version 1 end before the file's number.
    pub(super) fn decode(bytes: &[u8]) -> SectionInfo {
        let has_file = bytes.len() as u64 == ENTRY_BYTES;
        SectionInfo {
            kind: u32_at(bytes, 0),
            checksum: u32_at(bytes, 4),
            id: u64_at(bytes, 8),
            offset: u64_at(bytes, 16),
            length: u64_at(bytes, 24),
            file: if has_file { u64_at(bytes, 32) } else { 0 },
            part: if has_file { u32_at(bytes, 40) } else { 0 },
        }
    }

    /// Where the section lies in a chunk file; `None` if it lies in the checkpoint itself.
    #[must_use]
    pub fn stored(&self) -> Option<Stored> {
        let SectionInfo { file, offset, length, checksum, .. } = *self;
        (file != 0).then_some(Stored { file, offset, length, checksum })
    }
}

impl ChunkFile {
    pub(super) fn encode(&self) -> [u8; FILE_ENTRY_BYTES as usize] {
        let mut bytes = [0; FILE_ENTRY_BYTES as usize];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> ChunkFile {
        ChunkFile { number: u64_at(bytes, 0), bytes: u64_at(bytes, 8), checksum: u32_at(bytes, 16) }
    }

    /// The file's name. It begins with the number, so that names sort by age.
    pub(super) fn name(&self) -> String {
        format!("chunks-{:020}-{:08x}.tcc", self.number, self.checksum)
    }
}

/// Length of a section's entry in a file of this kind and version, in bytes.
pub fn entry_bytes(kind: FileKind, version: u32) -> u64 {
    let is_first = kind == FileKind::CheckpointStart && version == 1;
    if is_first { ENTRY_BYTES_V1 } else { ENTRY_BYTES }
}

/// Offset of the table if the sections of this file follow each other as they must; `None` if they
/// do not.
pub fn table_offset(sections: &[SectionInfo]) -> Option<u64> {
    let mut own = sections.iter().filter(|section| section.file == 0);
    own.try_fold(HEADER_BYTES, |offset, section| {
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
    number(name.strip_prefix("checkpoint-")?.strip_suffix(".tck")?).map(Lsn)
}

fn number(digits: &str) -> Option<u64> {
    let all_digits = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits { digits.parse().ok() } else { None }
}

/// The number of the chunk file with this name; `None` if it is no chunk file's name.
pub fn chunk_file_number(name: &str) -> Option<u64> {
    let (digits, checksum) = name.strip_prefix("chunks-")?.strip_suffix(".tcc")?.split_once('-')?;
    let is_checksum = checksum.len() == 8 && checksum.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_checksum { number(digits) } else { None }
}

/// The checkpoints among file names, oldest first.
pub fn checkpoints_in(names: &[String]) -> Vec<Lsn> {
    let mut found: Vec<Lsn> = names.iter().filter_map(|name| lsn_in(name)).collect();
    found.sort_unstable();
    found
}

/// The files among `names` that the newest checkpoint, which has these chunk files, does not need:
/// older checkpoints, then chunk files that it does not name.
pub fn superfluous_in(names: &[String], lsn: Option<Lsn>, files: &[ChunkFile]) -> Vec<String> {
    let needed: Vec<String> = files.iter().map(ChunkFile::name).collect();
    let older = checkpoints_in(names).into_iter().filter(|found| Some(*found) < lsn);
    let is_unnamed = |name: &&String| chunk_file_number(name).is_some() && !needed.contains(name);
    older.map(file_name).chain(names.iter().filter(is_unnamed).cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_files_are_not_taken_for_chunk_files() {
        let file = ChunkFile { number: 7, bytes: 100, checksum: 0xAB };
        assert_eq!(file.name(), "chunks-00000000000000000007-000000ab.tcc");
        assert_eq!(chunk_file_number(&file.name()), Some(7));
        for name in [
            "chunks-00000000000000000007-000000ab.tcc.new",
            "chunks-7-000000ab.tcc",
            "chunks-00000000000000000007-ab.tcc",
            "chunks-00000000000000000007.tcc",
            "checkpoint-00000000000000000007.tck",
        ] {
            assert_eq!(chunk_file_number(name), None, "{name}");
        }
    }

    #[test]
    fn older_checkpoints_and_unnamed_chunk_files_are_superfluous() {
        let file = |number| ChunkFile { number, bytes: 100, checksum: number as u32 };
        let mut names: Vec<String> = [1, 2, 3].map(|number| file(number).name()).to_vec();
        names.extend([4, 9].map(|lsn| file_name(Lsn(lsn))));
        names.push("notes.txt".to_owned());
        let superfluous = superfluous_in(&names, Some(Lsn(9)), &[file(2), file(3)]);
        assert_eq!(superfluous, [file_name(Lsn(4)), file(1).name()]);
        assert_eq!(superfluous_in(&names, None, &[]).len(), 3);
    }
}
