//! Checks of settings that cannot be used although each one is valid by itself.

use std::io;
use std::path::Path;

use thalweg_server::{Fault, ServerConfig};
use thalweg_types::Error;

use super::{DatabaseSettings, Settings, Size, invalid};

/// Upper limit of threads. No machine benefits from more, and no system starts them.
const THREADS_MAX: usize = 4_096;

impl Settings {
    /// The server's part of the settings.
    pub fn server(&self) -> ServerConfig {
        ServerConfig {
            listen: self.listen.clone(),
            auth: self.auth,
            tls: self.tls.clone(),
            limits: self.limits.clone(),
            ingest: self.ingest,
            log: self.log.clone(),
            otlp: self.otlp.clone(),
        }
    }
}

impl DatabaseSettings {
    /// Every reason not to open the database.
    pub(super) fn faults(&self) -> Vec<Fault> {
        let spill = self.spill_directory.as_deref().map_or(Ok(()), spill_directory);
        let checks = [
            (&["database.threads"][..], self.check_threads()),
            (&["database.memory_limit"], self.check_memory()),
            (&["database.process_memory_limit"], self.check_process_memory()),
            (&["database.spill_directory"], spill),
        ];
        let fault = |(settings, refused): (_, Result<(), Error>)| {
            refused.err().map(|error| Fault { settings, error })
        };
        checks.into_iter().filter_map(fault).collect()
    }

    fn check_threads(&self) -> Result<(), Error> {
        match self.threads {
            Some(threads) if threads.get() > THREADS_MAX => {
                let message = format!("database.threads is {threads}");
                Err(invalid(message).with_hint(format!("Give {THREADS_MAX} at most.")))
            }
            _ => Ok(()),
        }
    }

    fn check_memory(&self) -> Result<(), Error> {
        match self.memory_limit {
            Some(Size(0)) => {
                let message = "database.memory_limit is 0, with which nothing can be sorted";
                Err(invalid(message.to_owned()).with_hint("Leave it out for no limit."))
            }
            _ => Ok(()),
        }
    }

    fn check_process_memory(&self) -> Result<(), Error> {
        /// Not even an empty database runs with less.
        const LEAST: Size = Size(64 << 20);
        match self.process_memory_limit {
            Some(size) if size < LEAST => {
                let message = format!("database.process_memory_limit is {size}");
                let hint = "Give at least 64MiB, or leave it out for nine tenths of the machine's.";
                Err(invalid(message).with_hint(hint))
            }
            _ => Ok(()),
        }
    }
}

fn spill_directory(directory: &Path) -> Result<(), Error> {
    can_be_written(directory).map_err(|error| {
        let name = directory.display();
        let message = format!("database.spill_directory {name} cannot be used: {error}");
        invalid(message)
            .with_hint("Name a directory that is there and can be written, or can be made.")
    })
}

/// Succeeds if a directory is writable or can be made. Leaves nothing behind.
fn can_be_written(directory: &Path) -> io::Result<()> {
    let mut nearest = directory;
    loop {
        let here = if nearest.as_os_str().is_empty() { Path::new(".") } else { nearest };
        match (tempfile::tempfile_in(here), nearest.parent()) {
            (Ok(_), _) => return Ok(()),
            (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
                // A dangling link exists and blocks the path.
                match nearest.symlink_metadata() {
                    Ok(_) => return Err(error),
                    Err(_) => nearest = parent,
                }
            }
            (Err(error), _) => return Err(error),
        }
    }
}
