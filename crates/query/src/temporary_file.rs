//! Temporary files beside the files that queries spill to.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::execution::{SpillFile, SpillWriter};
use thalweg_types::{Error, Result, SqlState};

use crate::database::Database;

/// A file for bytes that must be complete before they can be read. Its size counts towards the
/// limit of spilled data. Dropping it removes it.
pub struct TemporaryFile {
    path: PathBuf,
    writer: Box<dyn SpillWriter>,
    /// Removes the file when it is dropped.
    _file: Arc<dyn SpillFile>,
}

impl Database {
    /// An empty temporary file in the directory for spilled data.
    ///
    /// # Errors
    /// 53100 if the file cannot be created.
    pub fn temporary_file(&self) -> Result<TemporaryFile> {
        let refused = |error| {
            Error::new(SqlState::DISK_FULL, "a temporary file cannot be created").with_source(error)
        };
        let disk = &self.shared.planners.runtime().disk_manager;
        let file = disk.create_tmp_file("an upload").map_err(refused)?;
        let path = file.path().map(std::path::Path::to_owned);
        let path = path.ok_or_else(|| Error::internal("a temporary file has no path"))?;
        let writer = file.open_writer().map_err(refused)?;
        Ok(TemporaryFile { path, writer, _file: file })
    }
}

impl TemporaryFile {
    /// Appends bytes.
    ///
    /// # Errors
    /// 53100 if the disk is full, or if all spilled data together would exceed their limit.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write_all(bytes).map_err(|error| {
            Error::new(SqlState::DISK_FULL, format!("a temporary file cannot grow: {error}"))
                .with_hint("Free disk space, or raise database.spill_limit.")
        })
    }

    /// The file's path, valid as long as this value.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }
}
