//! Checkpoints: files that replace all records of the log up to a sequence number.
//!
//! A checkpoint is a list of sections, whose bytes the caller defines. It consists of a *manifest*,
//! which lists the sections and holds some of them, and of *chunk files* that hold the others.
//! Chunk files never change, so that later checkpoints refer to their sections instead of writing
//! them again. A manifest with a checkpoint's name is complete, because it is written under another
//! name and renamed once it and its chunk files are durable.

mod chunk_file;
mod layout;
mod reader;
mod rewrite;
mod section_file;
mod writer;

use thalweg_types::Lsn;

pub use layout::{ChunkFile, SectionInfo, Stored};
pub use reader::CheckpointReader;
pub use rewrite::files_to_rewrite;
pub use writer::{CheckpointWriter, Written};

/// The part of the log that a checkpoint replaces. The default, without a checkpoint, is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// It holds the effects of all records up to this one.
    pub lsn: Lsn,
    /// The log is needed from this record on. It may be before `lsn`, because later records may
    /// refer to earlier ones that the checkpoint does not hold.
    pub log_from: Lsn,
}

pub(crate) use chunk_file::ChunkFileReader;
pub(crate) use layout::{TEMPORARY_SUFFIX, checkpoints_in, chunk_file_number, superfluous_in};

/// Deliberate bugs, which tests must catch.
#[cfg(test)]
pub(crate) mod canary {
    use std::cell::Cell;

    thread_local! {
        static REMOVING_NEEDED: Cell<bool> = const { Cell::new(false) };
        static MANIFEST_FIRST: Cell<bool> = const { Cell::new(false) };
    }

    pub fn is_removing_needed() -> bool {
        REMOVING_NEEDED.get()
    }

    pub fn is_manifest_first() -> bool {
        MANIFEST_FIRST.get()
    }

    /// Runs `body` with checkpoints that remove a chunk file which they name.
    pub fn removing_needed<T>(body: impl FnOnce() -> T) -> T {
        REMOVING_NEEDED.set(true);
        let result = body();
        REMOVING_NEEDED.set(false);
        result
    }

    /// Runs `body` with checkpoints that do not sync their chunk file before the manifest has its
    /// name.
    pub fn manifest_first<T>(body: impl FnOnce() -> T) -> T {
        MANIFEST_FIRST.set(true);
        let result = body();
        MANIFEST_FIRST.set(false);
        result
    }
}
