//! Decoders of binary formats, kept from taking the process down.

use std::panic::{AssertUnwindSafe, catch_unwind};

use thalweg_types::{Error, Result, SqlState};

/// Runs a decoder over bytes that may be damaged in any way.
///
/// The decoders check what they read, but not every length in every place; what they then meet
/// out of bounds is the file's fault and told as such. The decoder must not be used any more.
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
