//! Writing a checkpoint.

use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;

use thalweg_env::{Env, File, FileSystem, OpenMode};
use thalweg_types::{Lsn, Result};

use super::Coverage;
use super::layout::{SectionInfo, TEMPORARY_SUFFIX, checkpoints_in, file_name};
use crate::align::padding;
use crate::checksum::checksum;
use crate::data_directory::DataDirectory;
use crate::failure::file_error;
use crate::file_header::{FileHeader, FileKind, u32_at};
use crate::heads::{CheckpointIdentity, Heads};

/// Smaller sections are buffered and written together.
const BUFFER_BYTES: usize = 1 << 20;

/// Number of bytes after which the file is synced, so that the last sync is short and a concurrent
/// sync of the log does not wait for gigabytes.
const UNSYNCED_BYTES_MAX: u64 = 32 << 20;

/// Writes a checkpoint, section by section. Dropping it before [`CheckpointWriter::finish`] removes
/// the file.
pub struct CheckpointWriter {
    files: Arc<dyn FileSystem>,
    directory: PathBuf,
    heads: Arc<Heads>,
    temporary: PathBuf,
    file: Arc<dyn File>,
    lsn: Lsn,
    database_id: u64,
    sections: Vec<SectionInfo>,
    /// Bytes at the file's end that are not written yet.
    buffer: Vec<u8>,
    /// Number of bytes written to the file.
    written: u64,
    synced: u64,
    finished: bool,
}

impl CheckpointWriter {
    /// Begins a checkpoint that replaces the part of the log given by `coverage`.
    pub fn create(
        env: &Env,
        directory: &DataDirectory,
        coverage: Coverage,
    ) -> Result<CheckpointWriter> {
        let Coverage { lsn, log_from } = coverage;
        let files = Arc::clone(&env.files);
        let (database_id, heads) = (directory.database_id(), Arc::clone(directory.heads()));
        let directory = directory.checkpoints();
        let temporary = directory.join(file_name(lsn) + TEMPORARY_SUFFIX);
        let create = || -> io::Result<Arc<dyn File>> {
            if files.exists(&temporary)? {
                files.remove_file(&temporary)?;
            }
            files.open(&temporary, OpenMode::CreateNew)
        };
        let file = create().map_err(|error| file_error("create", &temporary, error))?;
        let fields = [lsn.0, log_from.0, 0, 0, 0];
        let header = FileHeader { kind: FileKind::CheckpointStart, database_id, fields };
        Ok(CheckpointWriter {
            files,
            directory,
            heads,
            temporary,
            file,
            lsn,
            database_id,
            sections: Vec::new(),
            buffer: header.encode().to_vec(),
            written: 0,
            synced: 0,
            finished: false,
        })
    }

    /// Adds a section that consists of `parts`, one after the other.
    pub fn section(&mut self, kind: u32, id: u64, parts: &[&[u8]]) -> Result<()> {
        let length = parts.iter().map(|part| part.len() as u64).sum();
        let offset = self.written + self.buffer.len() as u64;
        let checksum = checksum(parts.iter().copied());
        self.sections.push(SectionInfo { kind, id, length, offset, checksum });
        self.put(parts, length)
    }

    /// Number of bytes in the file so far, buffered ones included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Makes the checkpoint durable under its name, removes older ones, and returns its length in
    /// bytes.
    pub fn finish(mut self) -> Result<u64> {
        let checksum = self.put_table()?;
        let bytes = self.bytes();
        self.flush(&[])?;
        let path = self.directory.join(file_name(self.lsn));
        self.file.sync_all().map_err(|error| file_error("sync", &self.temporary, error))?;
        let sync_names = || {
            let synced = self.files.sync_dir(&self.directory);
            synced.map_err(|error| file_error("sync", &self.directory, error))
        };
        // Recovery refuses a checkpoint that no head record names.
        let identity = CheckpointIdentity { lsn: self.lsn, bytes, checksum };
        self.heads.checkpoint_comes(identity, sync_names)?;
        self.files
            .rename(&self.temporary, &path)
            .map_err(|error| file_error("rename", &self.temporary, error))?;
        self.heads.checkpoint_renamed();
        sync_names()?;
        self.finished = true;
        self.heads.checkpoint_found(Some(identity));
        self.remove_older()?;
        Ok(bytes)
    }

    /// Appends the table and the footer, and returns the footer's checksum.
    fn put_table(&mut self) -> Result<u32> {
        let table_offset = self.bytes();
        let table: Vec<u8> = self.sections.iter().flat_map(SectionInfo::encode).collect();
        let table_bytes = table.len() as u64;
        let table_checksum = checksum([&table[..]]);
        self.put(&[&table], table_bytes)?;
        let count = self.sections.len() as u64;
        let footer_offset = self.bytes();
        let fields = [self.lsn.0, table_offset, count, u64::from(table_checksum), footer_offset];
        let (kind, database_id) = (FileKind::CheckpointEnd, self.database_id);
        let footer = FileHeader { kind, database_id, fields }.encode();
        self.put(&[&footer], footer.len() as u64)?;
        Ok(u32_at(&footer, 12))
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
            .map_err(|error| file_error("write to", &self.temporary, error))?;
        self.buffer.clear();
        self.written += bytes;
        if self.written - self.synced >= UNSYNCED_BYTES_MAX {
            self.file.sync_data().map_err(|error| file_error("sync", &self.temporary, error))?;
            self.synced = self.written;
        }
        Ok(())
    }

    fn remove_older(&self) -> Result<()> {
        let names = self
            .files
            .list(&self.directory)
            .map_err(|error| file_error("list", &self.directory, error))?;
        for lsn in checkpoints_in(&names).into_iter().filter(|lsn| *lsn < self.lsn) {
            let path = self.directory.join(file_name(lsn));
            self.files.remove_file(&path).map_err(|error| file_error("remove", &path, error))?;
        }
        Ok(())
    }
}

impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        if !self.finished {
            // If this fails, the file has no checkpoint's name, and the next start removes it.
            let _ = self.files.remove_file(&self.temporary);
        }
    }
}
