//! Checks of the machine that the server runs on: descriptor limits and file permissions.

use std::path::Path;

/// Raises the process's soft limit of file descriptors as far as allowed. Each socket takes a
/// descriptor, and the usual limit of 1,024 is too low. Logs a warning if the system refuses.
pub fn raise_descriptor_limit() {
    if let Err(error) = thalweg_env::raise_descriptor_limit() {
        tracing::warn!(%error, "the limit of file descriptors stays as it is");
    }
}

/// Logs a warning if users other than the owner can read the database's files.
pub fn warn_of_access(directory: Option<&Path>) {
    let Some(directory) = directory else { return };
    if let Some((mode, count)) = thalweg_env::open_to_others(directory) {
        let directory = directory.display();
        tracing::warn!(
            %directory,
            mode = format!("{mode:o}"),
            files = count,
            "other users of this machine may read the database: chmod -R go= {directory}"
        );
    }
}

/// Maximum number of open sockets, derived from the descriptor limit. The remaining descriptors
/// serve the log, checkpoints and spill files.
pub(crate) fn sockets_max() -> usize {
    let limit = thalweg_env::descriptor_limit().unwrap_or(1_024);
    limit - (limit / 4).min(RESERVED_DESCRIPTORS)
}

/// Descriptors that sockets leave free.
const RESERVED_DESCRIPTORS: usize = 256;
