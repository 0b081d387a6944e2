//! The 64 bytes with which every file begins.
//!
//! The magic number, the version and the checksum keep their offsets in every future version, so
//! that a program can always report which version it found.

use std::path::Path;

use thalweg_types::{Error, Result, SqlState};

use crate::checksum::{checksum, matches};
use crate::failure::damaged;

/// The directory version that this program writes. Earlier versions are converted when they are
/// opened.
pub const FORMAT_VERSION: u32 = 2;

/// The version of segments and chunk files, which have not changed since version 1.
const FILE_VERSION: u32 = 1;

/// The version of checkpoints. Those of version 1 have all sections in their own file.
const CHECKPOINT_VERSION: u32 = 2;

/// Length of a file's header, in bytes.
pub const HEADER_BYTES: u64 = 64;

/// Kind of a file or header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Format,
    Segment,
    CheckpointStart,
    CheckpointEnd,
    ChunksStart,
    ChunksEnd,
}

impl FileKind {
    const fn magic(self) -> [u8; 8] {
        match self {
            FileKind::Format => *b"THALWEGF",
            FileKind::Segment => *b"THALWEGL",
            FileKind::CheckpointStart => *b"THALWEGC",
            FileKind::CheckpointEnd => *b"THALWEGE",
            FileKind::ChunksStart => *b"THALWEGK",
            FileKind::ChunksEnd => *b"THALWEGX",
        }
    }

    /// The version that this program writes.
    const fn version(self) -> u32 {
        match self {
            FileKind::Format => FORMAT_VERSION,
            FileKind::CheckpointStart | FileKind::CheckpointEnd => CHECKPOINT_VERSION,
            FileKind::Segment | FileKind::ChunksStart | FileKind::ChunksEnd => FILE_VERSION,
        }
    }
}

/// Contents of a header. The meaning of `fields` depends on the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    pub kind: FileKind,
    pub database_id: u64,
    pub fields: [u64; 5],
}

impl FileHeader {
    /// The header's bytes, with the version that this program writes.
    pub fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        self.encode_as(self.kind.version())
    }

    /// The header's bytes with another version, for tests of old and future files.
    pub fn encode_as(&self, version: u32) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&self.kind.magic());
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.database_id.to_le_bytes());
        for (field, place) in self.fields.iter().zip(bytes[24..].chunks_exact_mut(8)) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let checksum = header_checksum(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes a header. `path` and `offset` locate it in errors.
    pub fn decode(
        kind: FileKind,
        bytes: &[u8; HEADER_BYTES as usize],
        path: &Path,
        offset: u64,
    ) -> Result<FileHeader> {
        if bytes[..8] != kind.magic() {
            return Err(damaged(path, offset, "this is not how such a file begins"));
        }
        if !matches(u32_at(bytes, 12), header_checksum(bytes)) {
            return Err(damaged(path, offset, "the checksum of the header does not match"));
        }
        let version = u32_at(bytes, 8);
        if version == 0 || version > kind.version() {
            return Err(wrong_version(path, version, kind.version()));
        }
        let fields = std::array::from_fn(|field| u64_at(bytes, 24 + 8 * field));
        Ok(FileHeader { kind, database_id: u64_at(bytes, 16), fields })
    }

    /// Like [`FileHeader::decode`], for a file that must belong to this database.
    pub fn decode_of(
        database_id: u64,
        kind: FileKind,
        bytes: &[u8; HEADER_BYTES as usize],
        path: &Path,
        offset: u64,
    ) -> Result<FileHeader> {
        let header = FileHeader::decode(kind, bytes, path, offset)?;
        if header.database_id != database_id {
            let message = format!("{} belongs to another database", path.display());
            return Err(Error::corrupt(message)
                .with_detail(format!(
                    "It carries the id {:016x}, this database {database_id:016x}.",
                    header.database_id
                ))
                .with_hint(
                    "Put back the file that was here, or remove this one if it was added.",
                ));
        }
        Ok(header)
    }
}

fn header_checksum(bytes: &[u8; HEADER_BYTES as usize]) -> u32 {
    checksum([&bytes[..12], &bytes[16..]])
}

fn wrong_version(path: &Path, version: u32, known: u32) -> Error {
    Error::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!(
            "{} has format version {version}, this program reads versions up to {known}",
            path.display()
        ),
    )
    .with_hint("Use the version of the program that wrote it.")
}

/// The little-endian number at `place`. Panics if it does not lie within `bytes`.
pub fn u32_at(bytes: &[u8], place: usize) -> u32 {
    u32::from_le_bytes(bytes[place..place + 4].try_into().expect("four bytes"))
}

/// The little-endian number at `place`. Panics if it does not lie within `bytes`.
pub fn u64_at(bytes: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(bytes[place..place + 8].try_into().expect("eight bytes"))
}
