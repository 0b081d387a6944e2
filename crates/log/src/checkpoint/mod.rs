//! Checkpoints: files that replace all records of the log up to a sequence number.
//!
//! A checkpoint is a list of sections, whose bytes the caller defines. A file with a checkpoint's
//! name is complete, because it is written under another name and renamed once it is durable.

mod layout;
mod reader;
mod writer;

use thalweg_types::Lsn;

pub use layout::SectionInfo;
pub use reader::CheckpointReader;
pub use writer::CheckpointWriter;

/// The part of the log that a checkpoint replaces. The default, without a checkpoint, is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// It holds the effects of all records up to this one.
    pub lsn: Lsn,
    /// The log is needed from this record on. It may be before `lsn`, because later records may
    /// refer to earlier ones that the checkpoint does not hold.
    pub log_from: Lsn,
}

pub(crate) use layout::{TEMPORARY_SUFFIX, checkpoints_in};
