//! Files of sections: what checkpoints and chunk files have in common.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_env::{File, FileSystem, OpenMode};
use thalweg_types::{Error, Result};

use super::layout::{ChunkFile, FILE_ENTRY_BYTES, SectionInfo, entry_bytes, table_offset};
use crate::align::{aligned, padding};
use crate::checksum::{checksum, matches};
use crate::failure::{damaged, file_error};
use crate::file_header::{FileHeader, FileKind, HEADER_BYTES, u32_at};
use crate::segment::open_file;

/// Smaller sections are buffered and written together.
const BUFFER_BYTES: usize = 1 << 20;

/// Number of bytes after which the file is synced, so that the last sync is short and a concurrent
/// sync of the log does not wait for gigabytes.
const UNSYNCED_BYTES_MAX: u64 = 32 << 20;

/// The two kinds of a file of sections: those of its header and of its footer.
#[derive(Clone, Copy, Debug)]
pub struct Kinds {
    pub start: FileKind,
    pub end: FileKind,
}

/// Kinds of a checkpoint's headers.
pub const CHECKPOINT: Kinds =
    Kinds { start: FileKind::CheckpointStart, end: FileKind::CheckpointEnd };

/// Kinds of a chunk file's headers.
pub const CHUNKS: Kinds = Kinds { start: FileKind::ChunksStart, end: FileKind::ChunksEnd };

/// A file of sections that is being written.
pub struct SectionWriter {
    path: PathBuf,
    file: Arc<dyn File>,
    kinds: Kinds,
    /// The number that names the file: in header and footer.
    name: u64,
    database_id: u64,
    /// Bytes at the file's end that are not written yet.
    buffer: Vec<u8>,
    /// Number of bytes written to the file.
    written: u64,
    synced: u64,
}

impl SectionWriter {
    /// Creates the file, replacing what an earlier attempt left. `fields` are the header's numbers;
    /// the first is the number that names the file.
    pub fn create(
        files: &dyn FileSystem,
        path: PathBuf,
        kinds: Kinds,
        database_id: u64,
        fields: [u64; 5],
    ) -> Result<SectionWriter> {
        let create = || -> io::Result<Arc<dyn File>> {
            if files.exists(&path)? {
                files.remove_file(&path)?;
            }
            files.open(&path, OpenMode::CreateNew)
        };
        let file = create().map_err(|error| file_error("create", &path, error))?;
        let buffer = FileHeader { kind: kinds.start, database_id, fields }.encode().to_vec();
        let name = fields[0];
        Ok(SectionWriter { path, file, kinds, name, database_id, buffer, written: 0, synced: 0 })
    }

    /// Path of the file while it is being written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of bytes in the file so far, buffered ones included.
    pub fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Appends a section that consists of `parts`, and returns its entry.
    pub fn section(
        &mut self,
        kind: u32,
        id: u64,
        part: u32,
        parts: &[&[u8]],
    ) -> Result<SectionInfo> {
        let length = parts.iter().map(|part| part.len() as u64).sum();
        let offset = self.bytes();
        let checksum = checksum(parts.iter().copied());
        self.put(parts, length)?;
        Ok(SectionInfo { kind, id, part, length, offset, checksum, file: 0 })
    }

    /// Appends the table and the footer, and writes what is buffered. Returns the footer's
    /// checksum.
    pub fn put_table(&mut self, files: &[ChunkFile], sections: &[SectionInfo]) -> Result<u32> {
        let table_offset = self.bytes();
        let files_encoded = files.iter().flat_map(ChunkFile::encode);
        let table: Vec<u8> =
            files_encoded.chain(sections.iter().flat_map(SectionInfo::encode)).collect();
        let table_checksum = checksum([&table[..]]);
        self.put(&[&table], table.len() as u64)?;
        let count = sections.len() as u64;
        let sums = u64::from(table_checksum) | (files.len() as u64) << 32;
        let fields = [self.name, table_offset, count, sums, self.bytes()];
        let (kind, database_id) = (self.kinds.end, self.database_id);
        let footer = FileHeader { kind, database_id, fields }.encode();
        self.put(&[&footer], footer.len() as u64)?;
        self.flush(&[])?;
        Ok(u32_at(&footer, 12))
    }

    /// Makes the content durable.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|error| file_error("sync", &self.path, error))
    }

    /// Appends parts, with padding.
    fn put(&mut self, parts: &[&[u8]], length: u64) -> Result<()> {
        let padding = padding(length);
        if self.buffer.len() as u64 + length + padding.len() as u64 > BUFFER_BYTES as u64 {
            return self.flush(&[parts, &[padding]].concat());
        }
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        self.buffer.extend_from_slice(padding);
        Ok(())
    }

    /// Writes the buffer, and `parts` after it, with one call.
    fn flush(&mut self, parts: &[&[u8]]) -> Result<()> {
        let slices: Vec<IoSlice<'_>> =
            [&self.buffer[..]].iter().chain(parts).map(|part| IoSlice::new(part)).collect();
        let bytes: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
        self.file
            .write_all_vectored_at(&slices, self.written)
            .map_err(|error| file_error("write to", &self.path, error))?;
        self.buffer.clear();
        self.written += bytes;
        if self.written - self.synced >= UNSYNCED_BYTES_MAX {
            self.file.sync_data().map_err(|error| file_error("sync", &self.path, error))?;
            self.synced = self.written;
        }
        Ok(())
    }
}

/// An open file of sections. Several threads may read from it concurrently.
pub struct SectionFile {
    pub file: Arc<dyn File>,
    pub path: PathBuf,
    pub bytes: u64,
    /// The numbers in its header.
    pub fields: [u64; 5],
    /// The footer's checksum.
    pub checksum: u32,
    /// Length of a section's entry in the table.
    entry_bytes: u64,
    table: TablePlace,
}

/// The table as the footer describes it.
#[derive(Clone, Copy)]
struct TablePlace {
    offset: u64,
    files: u64,
    sections: u64,
    checksum: u32,
}

impl SectionFile {
    /// Opens a file, and reads its header and footer. `name` is the number that its name has.
    pub fn open(
        files: &dyn FileSystem,
        path: PathBuf,
        kinds: Kinds,
        database_id: u64,
        name: u64,
    ) -> Result<SectionFile> {
        let (file, bytes) = open_file(files, &path)?;
        if bytes < 2 * HEADER_BYTES {
            return Err(damaged(&path, bytes, "the file ends too early"));
        }
        let footer_offset = bytes - HEADER_BYTES;
        let mut header = [0; HEADER_BYTES as usize];
        let mut footer = header;
        for (bytes, offset) in [(&mut header, 0), (&mut footer, footer_offset)] {
            let read = file.read_exact_at(bytes, offset);
            read.map_err(|error| file_error("read", &path, error))?;
        }
        let decode = |kind, bytes, offset| {
            FileHeader::decode_of(database_id, kind, bytes, &path, offset).map(|found| found.fields)
        };
        let fields = decode(kinds.start, &header, 0)?;
        let [end_name, offset, sections, sums, footer_at] =
            decode(kinds.end, &footer, footer_offset)?;
        if fields[0] != name || end_name != name {
            return Err(damaged(&path, 0, "it is another file than its name says"));
        }
        let version = u32_at(&header, 8);
        if footer_at != footer_offset || u32_at(&footer, 8) != version {
            return Err(damaged(&path, footer_offset, "the file is not as long as it was"));
        }
        let table = TablePlace { offset, files: sums >> 32, sections, checksum: sums as u32 };
        let (checksum, entry_bytes) = (u32_at(&footer, 12), entry_bytes(kinds.start, version));
        Ok(SectionFile { file, path, bytes, fields, checksum, entry_bytes, table })
    }

    /// Reads the table: the chunk files that the file names, and its sections. Any deviation from
    /// what the footer says is damage.
    pub fn read_table(&self) -> Result<(Vec<ChunkFile>, Vec<SectionInfo>)> {
        let TablePlace { offset, files, sections, checksum: expected } = self.table;
        let footer_offset = self.bytes - HEADER_BYTES;
        let entry = self.entry_bytes;
        let file_bytes = files.checked_mul(FILE_ENTRY_BYTES);
        let section_bytes = sections.checked_mul(entry);
        let table_bytes = file_bytes.zip(section_bytes).and_then(|(a, b)| a.checked_add(b));
        let table_end = table_bytes.and_then(|bytes| aligned(bytes)?.checked_add(offset));
        if table_end != Some(footer_offset) {
            return Err(damaged(&self.path, footer_offset, "the file is not as long as it was"));
        }
        let mut table = vec![0; (footer_offset - offset) as usize];
        self.read_at(&mut table, offset)?;
        let (entries, rest) = table.split_at(table_bytes.unwrap_or_default() as usize);
        let sound = matches(expected, checksum([entries]));
        if !sound || rest.iter().any(|byte| *byte != 0) {
            let what = "the table of sections is not what was written";
            return Err(damaged(&self.path, offset, what));
        }
        let (files, sections) = entries.split_at((files * FILE_ENTRY_BYTES) as usize);
        let files: Vec<ChunkFile> =
            files.chunks_exact(FILE_ENTRY_BYTES as usize).map(ChunkFile::decode).collect();
        let sections: Vec<SectionInfo> =
            sections.chunks_exact(entry as usize).map(SectionInfo::decode).collect();
        if table_offset(&sections) != Some(offset) || !are_within(&files, &sections) {
            return Err(self.wrong_table());
        }
        Ok((files, sections))
    }

    /// Reads a section of this file and verifies its checksum.
    pub fn read(&self, section: &SectionInfo, buffer: &mut [u8]) -> Result<()> {
        assert_eq!(buffer.len() as u64, section.length, "the buffer has the section's length");
        self.read_at(buffer, section.offset)?;
        if !matches(section.checksum, checksum([&*buffer])) {
            let SectionInfo { kind, id, part, .. } = section;
            let what =
                format!("the checksum of a section (kind {kind}, id {id}, {part}) does not match");
            return Err(damaged(&self.path, section.offset, what));
        }
        Ok(())
    }

    /// Verifies a section and the padding after it.
    pub fn verify(&self, section: &SectionInfo) -> Result<()> {
        self.read(section, &mut vec![0; section.length as usize])?;
        let mut zeros = vec![0; padding(section.length).len()];
        let offset = section.offset + section.length;
        self.read_at(&mut zeros, offset)?;
        if zeros.iter().any(|byte| *byte != 0) {
            return Err(damaged(&self.path, offset, "there is something between two sections"));
        }
        Ok(())
    }

    /// The error of a table that does not fit its file.
    pub fn wrong_table(&self) -> Error {
        damaged(&self.path, self.table.offset, "the table of sections does not fit the file")
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|error| file_error("read", &self.path, error))
    }
}

/// True if the files ascend by number, and each section in a chunk file lies within one of them.
fn are_within(files: &[ChunkFile], sections: &[SectionInfo]) -> bool {
    let mut stored = sections.iter().filter_map(SectionInfo::stored);
    files.is_sorted_by(|left, right| left.number < right.number)
        && stored.all(|stored| {
            let place = files.binary_search_by_key(&stored.file, |file| file.number);
            let end = stored.offset.checked_add(stored.length);
            place.is_ok_and(|place| end.is_some_and(|end| end <= files[place].bytes))
        })
}
