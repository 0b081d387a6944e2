//! Errors for files that cannot be used.

use std::fmt;
use std::io;
use std::path::Path;

use thalweg_types::{Error, SqlState};

/// The error of a failed operation on a file: the operation, the path, and a remedy.
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

/// The error of a file whose bytes are not those that were written.
pub fn damaged(path: &Path, offset: u64, what: impl fmt::Display) -> Error {
    Error::corrupt(format!("{} is damaged at offset {offset}: {what}", path.display()))
        .with_hint("Keep a copy of the directory, then restore it, or this file, from a backup.")
}
