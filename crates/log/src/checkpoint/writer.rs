//! Writing a checkpoint.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use thalweg_env::{Env, FileSystem};
use thalweg_types::{Error, Lsn, Result};

use super::Coverage;
use super::layout::{
    ChunkFile, SectionInfo, Stored, TEMPORARY_SUFFIX, chunk_file_number, file_name, superfluous_in,
};
use super::section_file::{CHECKPOINT, CHUNKS, SectionWriter};
use crate::data_directory::DataDirectory;
use crate::failure::file_error;
use crate::heads::{CheckpointIdentity, Heads};

/// Writes a checkpoint, section by section. Dropping it before [`CheckpointWriter::finish`] removes
/// its files.
///
/// Files are written in this order: the chunk file, which is synced and renamed; the manifest,
/// which is synced; the directory, which is synced so that the chunk file's name is durable; the
/// head that names the manifest; the manifest's name. Only then files that it does not need are
/// removed.
pub struct CheckpointWriter {
    files: Arc<dyn FileSystem>,
    directory: PathBuf,
    heads: Arc<Heads>,
    database_id: u64,
    lsn: Lsn,
    manifest: SectionWriter,
    sections: Vec<SectionInfo>,
    /// Chunk files to which the checkpoint may refer, by number.
    known: BTreeMap<u64, ChunkFile>,
    new_file: NewFile,
    /// True from when the manifest may have its name. Its chunk file must stay then.
    named: bool,
}

/// The chunk file of this checkpoint.
struct NewFile {
    /// The number that it has, or would have.
    number: u64,
    /// `None` until it has a section, and once it has its name.
    writer: Option<SectionWriter>,
    sections: Vec<SectionInfo>,
    /// Its path once it has its name.
    renamed: Option<PathBuf>,
}

/// A checkpoint that is durable.
#[derive(Debug)]
pub struct Written {
    /// Number of bytes that were written.
    pub bytes: u64,
    /// The chunk files that the checkpoint names, ascending by number.
    pub files: Vec<ChunkFile>,
    /// Why files that are not needed any more could not be removed. The next checkpoint, or the
    /// next start, tries again.
    pub not_removed: Option<Error>,
}

impl CheckpointWriter {
    /// Begins a checkpoint that replaces the part of the log given by `coverage`. It may refer to
    /// sections in `files`, which are those of the checkpoint before.
    pub fn create(
        env: &Env,
        directory: &DataDirectory,
        coverage: Coverage,
        files: &[ChunkFile],
    ) -> Result<CheckpointWriter> {
        let Coverage { lsn, log_from } = coverage;
        let (database_id, heads) = (directory.database_id(), Arc::clone(directory.heads()));
        let directory = directory.checkpoints();
        let names = env.files.list(&directory);
        let names = names.map_err(|error| file_error("list", &directory, error))?;
        let there = names.iter().filter_map(|name| chunk_file_number(name));
        let last = there.chain(files.iter().map(|file| file.number)).max().unwrap_or(0);
        let temporary = directory.join(file_name(lsn) + TEMPORARY_SUFFIX);
        let fields = [lsn.0, log_from.0, 0, 0, 0];
        let manifest =
            SectionWriter::create(&*env.files, temporary, CHECKPOINT, database_id, fields)?;
        Ok(CheckpointWriter {
            files: Arc::clone(&env.files),
            directory,
            heads,
            database_id,
            lsn,
            manifest,
            sections: Vec::new(),
            known: files.iter().map(|file| (file.number, *file)).collect(),
            new_file: NewFile {
                number: last + 1,
                writer: None,
                sections: Vec::new(),
                renamed: None,
            },
            named: false,
        })
    }

    /// Adds a section that consists of `parts`, one after the other, to the manifest.
    pub fn section(&mut self, kind: u32, id: u64, parts: &[&[u8]]) -> Result<()> {
        let section = self.manifest.section(kind, id, 0, parts)?;
        self.sections.push(section);
        Ok(())
    }

    /// Adds a section to this checkpoint's chunk file, so that later checkpoints may refer to it.
    pub fn store(&mut self, kind: u32, id: u64, part: u32, parts: &[&[u8]]) -> Result<Stored> {
        let number = self.new_file.number;
        let writer = match &mut self.new_file.writer {
            Some(writer) => writer,
            None => {
                let name = format!("chunks-{number:020}.tcc{TEMPORARY_SUFFIX}");
                let (path, fields) = (self.directory.join(name), [number, self.lsn.0, 0, 0, 0]);
                let files = &*self.files;
                let created = SectionWriter::create(files, path, CHUNKS, self.database_id, fields);
                self.new_file.writer.insert(created?)
            }
        };
        let section = writer.section(kind, id, part, parts)?;
        self.new_file.sections.push(section);
        let SectionInfo { offset, length, checksum, .. } = section;
        let stored = Stored { file: number, offset, length, checksum };
        self.refer(kind, id, part, stored);
        Ok(stored)
    }

    /// Adds a section that a chunk file has already: one of the checkpoint before, or of this one.
    ///
    /// # Panics
    /// If the checkpoint knows no such file.
    pub fn refer(&mut self, kind: u32, id: u64, part: u32, stored: Stored) {
        let Stored { file, offset, length, checksum } = stored;
        let is_known = file == self.new_file.number || self.known.contains_key(&file);
        assert!(is_known, "a section lies in a file that the checkpoint does not know");
        self.sections.push(SectionInfo { kind, id, part, length, offset, checksum, file });
    }

    /// Number of bytes in the files so far, buffered ones included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.manifest.bytes() + self.new_file.writer.as_ref().map_or(0, SectionWriter::bytes)
    }

    /// Makes the checkpoint durable under its name, and removes files that it does not need.
    pub fn finish(mut self) -> Result<Written> {
        let new_file = self.finish_new_file()?;
        self.known.extend(new_file.map(|file| (file.number, file)));
        let referred: HashSet<u64> = self.sections.iter().map(|section| section.file).collect();
        let known = self.known.values().filter(|file| referred.contains(&file.number));
        let files: Vec<ChunkFile> = known.copied().collect();
        let checksum = self.manifest.put_table(&files, &self.sections)?;
        let identity = CheckpointIdentity { lsn: self.lsn, bytes: self.manifest.bytes(), checksum };
        self.manifest.sync()?;
        if new_file.is_some() && !is_manifest_first() {
            self.sync_names()?;
        }
        // Recovery refuses a checkpoint that no head record names.
        self.heads.checkpoint_comes(identity, || self.sync_names())?;
        self.named = true;
        let (temporary, path) = (self.manifest.path(), self.directory.join(file_name(self.lsn)));
        let renamed = self.files.rename(temporary, &path);
        renamed.map_err(|error| file_error("rename", temporary, error))?;
        self.heads.checkpoint_renamed();
        self.sync_names()?;
        self.heads.checkpoint_found(Some(identity));
        let bytes = identity.bytes + new_file.map_or(0, |file| file.bytes);
        let not_removed = self.remove_superfluous(&files).err();
        Ok(Written { bytes, files, not_removed })
    }

    /// Makes the content of the chunk file durable, and gives it its name, not yet durably.
    fn finish_new_file(&mut self) -> Result<Option<ChunkFile>> {
        let NewFile { number, writer, sections, .. } = &mut self.new_file;
        let Some(open) = writer else { return Ok(None) };
        let checksum = open.put_table(&[], sections)?;
        let file = ChunkFile { number: *number, bytes: open.bytes(), checksum };
        if !is_manifest_first() {
            open.sync()?;
        }
        let path = self.directory.join(file.name());
        let renamed = self.files.rename(open.path(), &path);
        renamed.map_err(|error| file_error("rename", open.path(), error))?;
        *writer = None;
        self.new_file.renamed = Some(path);
        Ok(Some(file))
    }

    fn sync_names(&self) -> Result<()> {
        let synced = self.files.sync_dir(&self.directory);
        synced.map_err(|error| file_error("sync", &self.directory, error))
    }

    fn remove_superfluous(&self, files: &[ChunkFile]) -> Result<()> {
        let names = self
            .files
            .list(&self.directory)
            .map_err(|error| file_error("list", &self.directory, error))?;
        #[cfg(test)]
        let files = &files[usize::from(super::canary::is_removing_needed()).min(files.len())..];
        for name in superfluous_in(&names, Some(self.lsn), files) {
            let path = self.directory.join(name);
            self.files.remove_file(&path).map_err(|error| file_error("remove", &path, error))?;
        }
        Ok(())
    }
}

/// True if a deliberate bug leaves the chunk file for later.
fn is_manifest_first() -> bool {
    #[cfg(test)]
    if super::canary::is_manifest_first() {
        return true;
    }
    false
}

impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        if self.named {
            return;
        }
        // If this fails, no checkpoint names the files, and the next start removes them.
        let _ = self.files.remove_file(self.manifest.path());
        let chunks = self.new_file.writer.as_ref().map(SectionWriter::path);
        if let Some(path) = chunks.or(self.new_file.renamed.as_deref()) {
            let _ = self.files.remove_file(path);
        }
    }
}
