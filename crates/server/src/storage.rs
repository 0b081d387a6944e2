//! What the log says of the storage.

use std::sync::Arc;

use thalweg_query::{Database, StorageChange, StorageFault};

/// From now on, the log says when a fault of a database's storage begins, and when it ends.
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
