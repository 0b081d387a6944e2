//! Locations of errors in a file.

use std::path::Path;

use thalweg_types::Error;

/// Puts the location of an error before its message.
pub(crate) fn located(error: Error, place: String) -> Error {
    let detail = match error.detail() {
        Some(detail) => format!("{place}: {detail}"),
        None => place,
    };
    error.with_detail(detail)
}

/// A file's name in messages.
pub(crate) fn display_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
