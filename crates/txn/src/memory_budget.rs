//! Admission control: refuses rows when memory is short.

use thalweg_env::{MemoryWatch, Purpose};
use thalweg_types::{Error, Result, SqlState};

/// Announces rows of so many bytes that are about to be added.
///
/// # Errors
/// If the process has no memory for them.
pub(crate) fn reserve(memory: Option<&MemoryWatch>, bytes: usize) -> Result<()> {
    let Some(memory) = memory else { return Ok(()) };
    memory.check(bytes, Purpose::Rows).map_err(|over| {
        Error::new(SqlState::OUT_OF_MEMORY, "out of memory for rows")
            .with_detail(format!("For rows, {over}."))
            .with_hint("Delete rows or drop tables, or raise database.process_memory_limit.")
    })?;
    memory.took(bytes);
    Ok(())
}
