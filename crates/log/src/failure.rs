//! What people are told when a file cannot be used.

use std::fmt;
use std::io;
use std::path::Path;

use thalweg_types::{Error, SqlState};

/// An operation on a file failed: which, on what, and what can be done.
pub fn file_error(operation: &str, path: &Path, error: io::Error) -> Error {
    use io::ErrorKind as Kind;
    let message = format!("cannot {operation} {}: {error}", path.display());
    let (state, hint) = match error.kind() {
        Kind::StorageFull | Kind::QuotaExceeded => {
            (SqlState::DISK_FULL, "Free space on the disk and try again.")
        }
        Kind::NotFound => (SqlState::UNDEFINED_FILE, "Check the path."),
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem => (
            SqlState::INSUFFICIENT_PRIVILEGE,
            "Make it writable for the user that runs the program.",
        ),
        _ => (SqlState::IO_ERROR, "Check the disk and the system's log."),
    };
    Error::new(state, message).with_hint(hint).with_source(error)
}

/// Bytes on disk are not what was written.
pub fn damaged(path: &Path, offset: u64, what: impl fmt::Display) -> Error {
    Error::corrupt(format!("{} is damaged at offset {offset}: {what}", path.display()))
        .with_hint("Keep a copy of the directory, then restore it, or this file, from a backup.")
}
