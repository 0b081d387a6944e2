//! Reading a checkpoint.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_env::{Env, File};
use thalweg_types::{Lsn, Result};

use super::Coverage;
use super::chunk_file::ChunkFileReader;
use super::layout::{ChunkFile, SectionInfo, checkpoints_in, file_name, superfluous_in};
use super::section_file::{CHECKPOINT, SectionFile};
use crate::data_directory::DataDirectory;
use crate::failure::file_error;
use crate::heads::CheckpointIdentity;

/// A checkpoint whose table was read and verified, with its chunk files open. Several threads may
/// read its sections concurrently.
pub struct CheckpointReader {
    manifest: SectionFile,
    coverage: Coverage,
    sections: Vec<SectionInfo>,
    /// The chunk files that it names, ascending by number.
    named: Vec<ChunkFile>,
    /// These files, open; empty if only the manifest was opened.
    chunk_files: Vec<ChunkFileReader>,
}

impl CheckpointReader {
    /// Opens the newest checkpoint in a directory, if there is one, and makes its name durable. A
    /// damaged one is an error: the log may lack records that an older checkpoint would need.
    ///
    /// A process that died may have left its name only in the page cache. The caller will remove
    /// log segments that this checkpoint covers, so a crash must not lose it.
    ///
    /// # Errors
    /// If the checkpoint or one of its chunk files is damaged, or it is not one that the
    /// directory's head records name.
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

    /// Removes the files that the newest checkpoint does not need. The caller has read that one,
    /// and the log after it, without damage: until then a repair may need an older checkpoint.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove_superfluous(
        env: &Env,
        directory: &DataDirectory,
        newest: Option<&CheckpointReader>,
    ) -> Result<()> {
        let path = directory.checkpoints();
        let names = env.files.list(&path).map_err(|error| file_error("list", &path, error))?;
        let needed = newest.map_or(&[][..], CheckpointReader::chunk_files);
        for name in superfluous_in(&names, newest.map(CheckpointReader::lsn), needed) {
            let path = path.join(name);
            env.files.remove_file(&path).map_err(|error| file_error("remove", &path, error))?;
        }
        Ok(())
    }

    pub(crate) fn open(
        env: &Env,
        directory: &Path,
        database_id: u64,
        lsn: Lsn,
    ) -> Result<CheckpointReader> {
        let mut reader = CheckpointReader::open_manifest(env, directory, database_id, lsn)?;
        for named in &reader.named {
            let opened = ChunkFileReader::open(env, &reader.manifest.path, database_id, *named);
            reader.chunk_files.push(opened?);
        }
        Ok(reader)
    }

    /// Opens a checkpoint without its chunk files. Sections in them cannot be read.
    pub(crate) fn open_manifest(
        env: &Env,
        directory: &Path,
        database_id: u64,
        lsn: Lsn,
    ) -> Result<CheckpointReader> {
        let path = directory.join(file_name(lsn));
        let manifest = SectionFile::open(&*env.files, path, CHECKPOINT, database_id, lsn.0)?;
        let (named, sections) = manifest.read_table()?;
        let coverage = Coverage { lsn, log_from: Lsn(manifest.fields[1]) };
        Ok(CheckpointReader { manifest, coverage, sections, named, chunk_files: Vec::new() })
    }

    /// The open files with their paths and lengths, the manifest first.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (Arc<dyn File>, PathBuf, u64)> {
        let chunk_files = self.chunk_files.iter().map(|opened| &opened.file);
        let files = std::iter::once(&self.manifest).chain(chunk_files);
        files.map(|file| (Arc::clone(&file.file), file.path.clone(), file.bytes))
    }

    pub(crate) fn identity(&self) -> CheckpointIdentity {
        let SectionFile { bytes, checksum, .. } = self.manifest;
        CheckpointIdentity { lsn: self.coverage.lsn, bytes, checksum }
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

    /// Length of the manifest and of all chunk files that it names, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let chunk_bytes: u64 = self.named.iter().map(|file| file.bytes).sum();
        self.manifest.bytes + chunk_bytes
    }

    /// Length of the manifest, in bytes.
    pub(crate) fn manifest_bytes(&self) -> u64 {
        self.manifest.bytes
    }

    /// Path of the manifest.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.manifest.path
    }

    /// The chunk files that it names, ascending by number.
    #[must_use]
    pub fn chunk_files(&self) -> &[ChunkFile] {
        &self.named
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
        let file = match section.file {
            0 => &self.manifest,
            number => {
                let place = self.named.binary_search_by_key(&number, |file| file.number);
                &self.chunk_files[place.expect("the table was checked")].file
            }
        };
        file.read(section, buffer)
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

    /// Verifies every byte of the manifest.
    pub(crate) fn verify_manifest(&self) -> Result<()> {
        let mut own = self.sections.iter().filter(|section| section.file == 0);
        own.try_for_each(|section| self.manifest.verify(section))
    }
}
