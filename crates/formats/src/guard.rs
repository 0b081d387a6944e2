//! Contains panics of decoders of binary formats.

use std::panic::{AssertUnwindSafe, catch_unwind};

use thalweg_types::{Error, Result, SqlState};

/// Runs a decoder over bytes that may be damaged in any way.
///
/// The decoders check their input, but not every length. If one panics on a value out of bounds,
/// this is reported as damage of the file. The decoder must not be used afterwards.
pub(crate) fn guarded<T>(name: &str, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(damaged(name, text.unwrap_or("the decoder failed")))
        }
    }
}

/// The error for a file that its decoder can't read.
pub(crate) fn damaged(name: &str, what: impl std::fmt::Display) -> Error {
    Error::new(SqlState::BAD_COPY_FILE_FORMAT, format!("could not read \"{name}\": {what}"))
        .with_hint("The file is damaged, not complete, or of another format.")
}
