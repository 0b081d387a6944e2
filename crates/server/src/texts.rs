//! Texts as clients send them.

use thalweg_types::{Error, Result, SqlState};

/// PostgreSQL's texts, and so those of its clients, have no byte 0 inside; messages of other
/// protocols may have some.
///
/// # Errors
/// Where there is one.
pub(crate) fn without_zero(text: &str) -> Result<()> {
    if !text.contains('\0') {
        return Ok(());
    }
    let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
    Err(Error::new(SqlState::INVALID_BYTE_SEQUENCE, message))
}
