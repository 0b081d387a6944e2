//! Checkpoints: files that stand for all records of the log up to a sequence number.
//!
//! A checkpoint is a list of sections, whose bytes and whose meaning are the caller's. A file that
//! has a checkpoint's name is complete: it is written under another name and renamed when it is
//! durable.

mod layout;
mod reader;
mod writer;

use thalweg_types::Lsn;

pub use layout::SectionInfo;
pub use reader::CheckpointReader;
pub use writer::CheckpointWriter;

/// How far a checkpoint stands for the log. Without one, not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// It holds what the records up to this one did.
    pub lsn: Lsn,
    /// The log is needed from this one on. That may be before `lsn`: records may count on earlier
    /// ones that the checkpoint does not hold.
    pub log_from: Lsn,
}

pub(crate) use layout::{TEMPORARY_SUFFIX, checkpoints_in};
