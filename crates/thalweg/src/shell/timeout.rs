//! Ends statements that take longer than they may.

use std::future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thalweg::{CancelHandle, Error, SqlState};
use tokio::task::JoinHandle;

/// The limit on a statement that runs, until this is dropped.
pub struct Timeout {
    has_expired: Arc<AtomicBool>,
    watch: Option<JoinHandle<()>>,
}

/// Starts to watch a statement; a limit of zero is none.
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
    /// The error of the statement, or that it took too long if that was its cause.
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
