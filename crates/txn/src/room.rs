//! Whether there is memory for further rows.

use thalweg_env::{MemoryWatch, Purpose};
use thalweg_types::{Error, Result, SqlState};

/// Says that rows of so many bytes are being taken in.
///
/// # Errors
/// If they are too many for the process.
pub(crate) fn make(memory: Option<&MemoryWatch>, bytes: usize) -> Result<()> {
    let Some(memory) = memory else { return Ok(()) };
    memory.check(bytes, Purpose::Rows).map_err(|over| {
        Error::new(SqlState::OUT_OF_MEMORY, "out of memory for rows")
            .with_detail(format!("For rows, {over}."))
            .with_hint("Delete rows or drop tables, or raise database.process_memory_limit.")
    })?;
    memory.took(bytes);
    Ok(())
}
