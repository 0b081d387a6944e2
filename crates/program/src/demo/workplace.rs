//! Location of the demonstration's files: a directory of the user's, or a temporary one.

use std::path::{Path, PathBuf};

use thalweg::{Error, Result, SqlState};

use super::screen::Screen;

/// The directories of a demonstration. Temporary ones are removed when this is dropped.
pub struct Workplace {
    data: PathBuf,
    /// Directory that is removed at the end.
    temporary: PathBuf,
    is_kept: bool,
}

impl Workplace {
    /// Puts data into the requested directory, which must be new, or into a temporary one.
    pub fn new(asked: Option<PathBuf>) -> Result<Workplace> {
        let temporary = std::env::temp_dir().join(format!("thalweg-demo-{}", std::process::id()));
        if let Some(directory) = &asked
            && std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some())
        {
            let message = format!("{} is not empty", directory.display());
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message)
                .with_hint("Name a directory that is new or empty."));
        }
        std::fs::create_dir_all(temporary.join("files")).map_err(|error| {
            let message = format!("{} could not be created: {error}", temporary.display());
            Error::new(SqlState::IO_ERROR, message)
        })?;
        let is_kept = asked.is_some();
        let data = asked.unwrap_or_else(|| temporary.join("data"));
        Ok(Workplace { data, temporary, is_kept })
    }

    /// Directory of the database.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Directory of the files to load.
    pub fn files(&self) -> PathBuf {
        self.temporary.join("files")
    }

    /// Prints commands to try next.
    pub fn say_how_to_go_on(&self, screen: &Screen) {
        let data = self.data.display().to_string();
        let data = if self.is_kept { data.as_str() } else { "./flights" };
        screen.line("Go on:");
        let advice = |command: String, what: &str| {
            screen.line(&format!("  {command:<32} {what}"));
        };
        if !self.is_kept {
            advice(format!("thalweg demo --data {data}"), "the same, and keep the data");
        }
        advice(format!("thalweg --data {data}"), "a shell on it; \\? lists its commands");
        advice("thalweg bench tpch".to_owned(), "how fast it is, beside its peers");
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // If removal fails, the system clears its temporary files later.
        let _ = std::fs::remove_dir_all(&self.temporary);
    }
}
