//! Checkpoints: files that stand for all records of the log up to a sequence number.
//!
//! A checkpoint is a list of sections, whose bytes and whose meaning are the caller's. A file that
//! has a checkpoint's name is complete: it is written under another name and renamed when it is
//! durable.

mod layout;
mod reader;
mod writer;

pub use layout::SectionInfo;
pub use reader::CheckpointReader;
pub use writer::CheckpointWriter;

pub(crate) use layout::{TEMPORARY_SUFFIX, checkpoints_in};
