//! A database's files on disk: log segments, checkpoint files, and the directory around them.
//!
//! Payloads are opaque bytes. This crate guarantees that they are read back as they were written
//! and in that order, or that an [`Error`](thalweg_types::Error) names the damaged file, the
//! offset, and a remedy. `docs/format.md` describes every byte.
//!
//! - [`DataDirectory`] owns a database's directory: its lock, its format, its database id.
//! - [`open`] recovers the log and returns the [`LogWriter`] that appends to it.
//! - [`CheckpointWriter`] and [`CheckpointReader`] handle files that replace a prefix of the log: a
//!   manifest, and chunk files that checkpoints share.
//! - [`verify`] checks every byte of a database that is not in use.

mod align;
mod checkpoint;
mod checksum;
mod copy;
mod data_directory;
mod failure;
mod file_header;
mod heads;
mod reader;
mod record;
mod recovery;
mod segment;
mod segment_reader;
mod sequential;
mod tail;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub use checkpoint::{
    CheckpointReader, CheckpointWriter, ChunkFile, Coverage, SectionInfo, Stored, Written,
    files_to_rewrite,
};
pub use copy::{Copied, backup, salvage};
pub use data_directory::{DataDirectory, DirectoryMode};
pub use file_header::FORMAT_VERSION;
pub use reader::LogReader;
pub use record::{Record, RecordRef};
pub use recovery::{Recovered, open};
pub use verify::{Finding, Summary, verify};
pub use writer::{CompleteSegment, LogOptions, LogWriter};
