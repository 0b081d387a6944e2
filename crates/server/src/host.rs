//! What a server asks of the machine that it runs on.

use std::path::Path;

/// Raises the limit of file descriptors as far as the process may: sockets are file descriptors,
/// and the usual soft limit of 1,024 is few. A warning is logged where the system refuses.
pub fn raise_descriptor_limit() {
    if let Err(error) = thalweg_env::raise_descriptor_limit() {
        tracing::warn!(%error, "the limit of file descriptors stays as it is");
    }
}

/// Logs a warning where others than their owner may read the files of a database.
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

/// How many sockets the server may have open, by the limit of file descriptors. The rest is for the
/// log, checkpoints, and files that queries spill to.
pub(crate) fn sockets_max() -> usize {
    let limit = thalweg_env::descriptor_limit().unwrap_or(1_024);
    limit - (limit / 4).min(RESERVED_DESCRIPTORS)
}

/// Descriptors that no socket takes.
const RESERVED_DESCRIPTORS: usize = 256;
