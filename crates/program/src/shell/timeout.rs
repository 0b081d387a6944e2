//! Cancels statements that exceed their time limit.

use std::future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thalweg::{CancelHandle, Error, SqlState};
use tokio::task::JoinHandle;

/// The time limit of a running statement, until this is dropped.
pub struct Timeout {
    has_expired: Arc<AtomicBool>,
    watch: Option<JoinHandle<()>>,
}

/// Starts the timer of a statement; zero means no limit.
pub fn start(limit: Duration, handle: CancelHandle) -> Timeout {
    let has_expired = Arc::new(AtomicBool::new(false));
    let watch = (!limit.is_zero()).then(|| {
        let has_expired = Arc::clone(&has_expired);
        tokio::spawn(async move {
            if tokio::time::timeout(limit, future::pending::<()>()).await.is_err() {
                has_expired.store(true, Ordering::Relaxed);
                handle.cancel();
            }
        })
    });
    Timeout { has_expired, watch }
}

impl Timeout {
    /// The error of the statement, or a timeout error if the timeout caused it.
    pub fn explain(&self, error: Error) -> Error {
        let is_cause =
            self.has_expired.load(Ordering::Relaxed) && error.state() == SqlState::QUERY_CANCELED;
        if is_cause {
            let message = "canceling statement due to statement timeout";
            return Error::new(SqlState::QUERY_CANCELED, message);
        }
        error
    }
}

impl Drop for Timeout {
    fn drop(&mut self) {
        if let Some(watch) = &self.watch {
            watch.abort();
        }
    }
}
