//! Shared parts of the requests that write rows: their bodies, sessions and reports.
//!
//! Promises: a body is read piece by piece, and no piece is larger after decompression than a
//! constant. Rows are written while the body arrives, in memory that does not grow with it. Reading
//! waits for the writing of earlier rows. A client that leaves cancels its request.

mod body;
mod encoding;
pub(super) mod failure;
mod memory;
mod report;
mod upload;

pub(super) use body::UploadBody;
pub(super) use failure::Failure;
pub(crate) use memory::BodyMemory;
pub(super) use report::Report;
pub(super) use upload::{Upload, on_blocking_thread, wait_for_others, written};
