//! Chunk files: sections that never change, to which checkpoints refer.

use std::collections::HashSet;
use std::path::Path;

use thalweg_env::Env;
use thalweg_types::{Error, Result, SqlState};

use super::layout::{ChunkFile, SectionInfo};
use super::section_file::{CHUNKS, SectionFile};
use crate::failure::damaged;

/// A chunk file that is open and is the one that its checkpoint names.
pub struct ChunkFileReader {
    pub named: ChunkFile,
    pub file: SectionFile,
}

impl ChunkFileReader {
    /// Opens a chunk file in the directory of `checkpoint`, which names it.
    ///
    /// # Errors
    /// If the file is missing, of another length, of another database, or another chunk file.
    pub fn open(
        env: &Env,
        checkpoint: &Path,
        database_id: u64,
        named: ChunkFile,
    ) -> Result<ChunkFileReader> {
        let path = checkpoint.with_file_name(named.name());
        let opened = SectionFile::open(&*env.files, path, CHUNKS, database_id, named.number);
        let file = opened.map_err(|error| match error.state() {
            SqlState::UNDEFINED_FILE => missing(checkpoint, &named),
            _ => error,
        })?;
        if file.bytes != named.bytes || file.checksum != named.checksum {
            let at = file.bytes.min(named.bytes);
            let what = format!("it is not the file that {} names", checkpoint.display());
            return Err(damaged(&file.path, at, what));
        }
        Ok(ChunkFileReader { named, file })
    }

    /// Verifies every byte, and that the file has the sections to which its checkpoint refers.
    /// Returns the number of sections.
    pub fn verify(&self, referred: &[SectionInfo]) -> Result<usize> {
        let (files, sections) = self.file.read_table()?;
        if !files.is_empty() || sections.iter().any(|section| section.file != 0) {
            return Err(self.file.wrong_table());
        }
        sections.iter().try_for_each(|section| self.file.verify(section))?;
        let place = |section: &SectionInfo| (section.offset, section.length, section.checksum);
        let there: HashSet<(u64, u64, u32)> = sections.iter().map(place).collect();
        let mut own = referred.iter().filter(|section| section.file == self.named.number);
        match own.find(|section| !there.contains(&place(section))) {
            Some(section) => {
                let what = "the checkpoint refers to a section that the file does not list";
                Err(damaged(&self.file.path, section.offset, what))
            }
            None => Ok(sections.len()),
        }
    }
}

fn missing(checkpoint: &Path, named: &ChunkFile) -> Error {
    let path = checkpoint.with_file_name(named.name());
    let message = format!("{} is missing, but {} names it", path.display(), checkpoint.display());
    Error::corrupt(message)
        .with_hint("Keep a copy of the directory, then restore this file, or all, from a backup.")
}
