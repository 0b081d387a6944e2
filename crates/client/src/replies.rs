//! Acknowledgements of sent rows: the progress of writing, and the rows that failed.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use thalweg_protocol::v1::Failure;
use tokio::sync::watch;

use crate::Error;
use crate::error::ended;

/// The receiving end, for callers that wait for rows.
#[derive(Clone)]
pub(crate) struct Replies {
    progress: watch::Receiver<Progress>,
    failures: Failures,
}

/// The sending end, for the task that reads the server's replies.
pub(crate) struct ProgressSender {
    progress: watch::Sender<Progress>,
    failures: Failures,
}

/// Failures by row position, until a caller asks for them.
type Failures = Arc<Mutex<BTreeMap<u64, Failure>>>;

/// Progress of the stream.
#[derive(Clone, Debug, Default)]
struct Progress {
    durable: u64,
    end: Option<Error>,
}

pub(crate) fn replies() -> (ProgressSender, Replies) {
    let (progress_sender, progress) = watch::channel(Progress::default());
    let failures = Failures::default();
    (
        ProgressSender { progress: progress_sender, failures: Arc::clone(&failures) },
        Replies { progress, failures },
    )
}

impl ProgressSender {
    /// Announces that all rows before `durable` are written, except for the failed ones. Both are
    /// positions in the stream.
    pub(crate) fn advance(&self, durable: u64, failed: impl Iterator<Item = (u64, Failure)>) {
        self.failures.lock().extend(failed);
        self.progress.send_modify(|progress| progress.durable = durable);
    }

    /// Announces that the stream has ended, with the reason.
    pub(crate) fn end(&self, why: Error) {
        self.progress.send_modify(|progress| progress.end = Some(why));
    }
}

impl Replies {
    /// Number of acknowledged rows.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.progress.borrow().durable
    }

    /// The reason why the stream has ended.
    pub(crate) fn why_ended(&self) -> Error {
        self.progress.borrow().end.clone().unwrap_or_else(ended)
    }

    /// Waits until this many rows are acknowledged.
    pub(crate) async fn wait(&mut self, rows: u64) -> Result<(), Error> {
        let progress_sender =
            self.progress.wait_for(|now| now.durable >= rows || now.end.is_some()).await;
        let progress_sender = progress_sender.map_err(|_| ended())?;
        match &progress_sender.end {
            Some(end) if progress_sender.durable < rows => Err(end.clone()),
            _ => Ok(()),
        }
    }

    /// The failure of the row at this position, if any. It is returned only once.
    pub(crate) fn failure(&self, index: u64) -> Result<(), Error> {
        refused(self.failures.lock().remove(&index))
    }

    /// The first failure that no caller has asked for; all others are dropped.
    pub(crate) fn first_failure(&self) -> Result<(), Error> {
        let failures = std::mem::take(&mut *self.failures.lock());
        refused(failures.into_values().next())
    }
}

fn refused(failure: Option<Failure>) -> Result<(), Error> {
    failure.map_or(Ok(()), |failure| Err(Error::Refused(Box::new(failure))))
}
