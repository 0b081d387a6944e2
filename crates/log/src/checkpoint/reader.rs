//! Reading a checkpoint.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_env::{Env, File};
use thalweg_types::{Lsn, Result};

use super::Coverage;
use super::layout::{ENTRY_BYTES, SectionInfo, checkpoints_in, file_name, table_offset};
use crate::align::{aligned, padding};
use crate::checksum::{checksum, matches};
use crate::data_directory::DataDirectory;
use crate::failure::{damaged, file_error};
use crate::file_header::{FileHeader, FileKind, HEADER_BYTES, u32_at};
use crate::heads::CheckpointIdentity;
use crate::segment::open_file;

/// A checkpoint whose table was read and verified. Several threads may read its sections
/// concurrently.
pub struct CheckpointReader {
    file: Arc<dyn File>,
    path: PathBuf,
    coverage: Coverage,
    bytes: u64,
    checksum: u32,
    sections: Vec<SectionInfo>,
}

impl CheckpointReader {
    /// Opens the newest checkpoint in a directory, if there is one, and makes its name durable. A
    /// damaged one is an error: the log may lack records that an older checkpoint would need.
    ///
    /// A process that died may have left its name only in the page cache. The caller will remove
    /// log segments that this checkpoint covers, so a crash must not lose it.
    ///
    /// # Errors
    /// If the checkpoint is damaged, or is not one that the directory's head records name.
    pub fn open_newest(env: &Env, directory: &DataDirectory) -> Result<Option<CheckpointReader>> {
        let (path, heads) = (directory.checkpoints(), directory.heads());
        env.files.sync_dir(&path).map_err(|error| file_error("sync", &path, error))?;
        let names = env.files.list(&path).map_err(|error| file_error("list", &path, error))?;
        let newest = match checkpoints_in(&names).pop() {
            Some(lsn) => Some(CheckpointReader::open(env, &path, directory.database_id(), lsn)?),
            None => None,
        };
        let found = newest.as_ref().map(CheckpointReader::identity);
        if heads.exist() {
            heads.newest().check_checkpoint(&path, found)?;
        }
        heads.checkpoint_found(found);
        Ok(newest)
    }

    pub(crate) fn open(
        env: &Env,
        directory: &Path,
        database_id: u64,
        lsn: Lsn,
    ) -> Result<CheckpointReader> {
        let path = directory.join(file_name(lsn));
        let (file, bytes) = open_file(&*env.files, &path)?;
        let (coverage, checksum, sections) = read_table(&*file, &path, bytes, database_id, lsn)?;
        Ok(CheckpointReader { file, path, coverage, bytes, checksum, sections })
    }

    /// The open file, its path and its length.
    pub(crate) fn source(&self) -> (Arc<dyn File>, PathBuf, u64) {
        (Arc::clone(&self.file), self.path.clone(), self.bytes)
    }

    pub(crate) fn identity(&self) -> CheckpointIdentity {
        CheckpointIdentity { lsn: self.coverage.lsn, bytes: self.bytes, checksum: self.checksum }
    }

    /// The sequence number up to which it replaces the log.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.coverage.lsn
    }

    /// The part of the log that it replaces.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// Length of the file, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Path of the checkpoint's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The sections, in the order in which they were written.
    #[must_use]
    pub fn sections(&self) -> &[SectionInfo] {
        &self.sections
    }

    /// Reads a section and verifies its checksum.
    ///
    /// # Panics
    /// If there is no such section, or `buffer` is not as long as it.
    pub fn read_into(&self, index: usize, buffer: &mut [u8]) -> Result<()> {
        let section = &self.sections[index];
        assert_eq!(buffer.len() as u64, section.length, "the buffer has the section's length");
        self.read_at(buffer, section.offset)?;
        if !matches(section.checksum, checksum([&*buffer])) {
            let what = format!(
                "the checksum of section {index} (kind {}, id {}) does not match",
                section.kind, section.id
            );
            return Err(damaged(&self.path, section.offset, what));
        }
        Ok(())
    }

    /// Reads a section and verifies its checksum.
    ///
    /// # Panics
    /// If there is no such section.
    pub fn read(&self, index: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.sections[index].length as usize];
        self.read_into(index, &mut bytes)?;
        Ok(bytes)
    }

    /// Verifies the padding after a section.
    pub(crate) fn verify_padding(&self, index: usize) -> Result<()> {
        let section = &self.sections[index];
        let mut zeros = vec![0; padding(section.length).len()];
        let offset = section.offset + section.length;
        self.read_at(&mut zeros, offset)?;
        if zeros.iter().any(|byte| *byte != 0) {
            return Err(damaged(&self.path, offset, "there is something between two sections"));
        }
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|error| file_error("read", &self.path, error))
    }
}

/// Reads header, footer and table. Any deviation from what the footer says is damage.
fn read_table(
    file: &dyn File,
    path: &Path,
    bytes: u64,
    database_id: u64,
    lsn: Lsn,
) -> Result<(Coverage, u32, Vec<SectionInfo>)> {
    let read = |buffer: &mut [u8], offset| {
        file.read_exact_at(buffer, offset).map_err(|error| file_error("read", path, error))
    };
    if bytes < 2 * HEADER_BYTES {
        return Err(damaged(path, bytes, "the file ends too early"));
    }
    let footer_offset = bytes - HEADER_BYTES;
    let (mut header, mut footer) = ([0; HEADER_BYTES as usize], [0; HEADER_BYTES as usize]);
    read(&mut header, 0)?;
    let header = FileHeader::decode_of(database_id, FileKind::CheckpointStart, &header, path, 0)?;
    read(&mut footer, footer_offset)?;
    let kind = FileKind::CheckpointEnd;
    let footer_checksum = u32_at(&footer, 12);
    let footer = FileHeader::decode_of(database_id, kind, &footer, path, footer_offset)?;
    let [end_lsn, table_at, count, table_checksum, footer_at] = footer.fields;
    let [begin_lsn, log_from, ..] = header.fields;
    if begin_lsn != lsn.0 || end_lsn != lsn.0 {
        return Err(damaged(path, 0, "it is another checkpoint than its name says"));
    }
    let table_bytes = count.checked_mul(ENTRY_BYTES);
    let table_end = table_bytes.and_then(|bytes| aligned(bytes)?.checked_add(table_at));
    if footer_at != footer_offset || table_end != Some(footer_offset) {
        return Err(damaged(path, footer_offset, "the file is not as long as it was"));
    }
    let mut table = vec![0; (footer_offset - table_at) as usize];
    read(&mut table, table_at)?;
    let (entries, rest) = table.split_at((count * ENTRY_BYTES) as usize);
    let sound = matches(table_checksum as u32, checksum([entries]));
    if !sound || rest.iter().any(|byte| *byte != 0) {
        return Err(damaged(path, table_at, "the table of sections is not what was written"));
    }
    let sections: Vec<SectionInfo> =
        entries.chunks_exact(ENTRY_BYTES as usize).map(SectionInfo::decode).collect();
    if table_offset(&sections) != Some(table_at) {
        return Err(damaged(path, table_at, "the table of sections does not fit the file"));
    }
    Ok((Coverage { lsn, log_from: Lsn(log_from) }, footer_checksum, sections))
}
