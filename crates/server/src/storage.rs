//! Lines of the process's log about faults of a database's storage.

use std::sync::Arc;

use thalweg_query::{Database, StorageChange, StorageFault};

/// Logs each fault of a database's storage when it begins and when it ends, from now on. Faults
/// that are there already are logged at once.
pub fn log_storage_faults(database: &Database) {
    database.storage().listen(Arc::new(log));
}

fn log(change: &StorageChange) {
    match change {
        StorageChange::Began(StorageFault { reason, message, until_restart, .. }) => {
            let (reason, summary) = (reason.name(), reason.summary());
            tracing::error!(reason, error = message, until_restart, "storage fault: {summary}");
        }
        StorageChange::Ended(StorageFault { reason, .. }) => {
            tracing::info!(reason = reason.name(), "the storage has recovered");
        }
    }
}
