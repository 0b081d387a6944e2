//! What is told of rows that were sent: how far they are written, and which failed.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use thalweg_protocol::v1::Failure;
use tokio::sync::watch;

use crate::Error;
use crate::error::ended;

/// Whoever waits to be told.
#[derive(Clone)]
pub(crate) struct Replies {
    progress: watch::Receiver<Progress>,
    failures: Failures,
}

/// Whoever tells.
pub(crate) struct Told {
    progress: watch::Sender<Progress>,
    failures: Failures,
}

/// Rows that failed, and that nobody asked for yet.
type Failures = Arc<Mutex<BTreeMap<u64, Failure>>>;

/// How far the server is.
#[derive(Clone, Debug, Default)]
struct Progress {
    durable: u64,
    end: Option<Error>,
}

pub(crate) fn replies() -> (Told, Replies) {
    let (told, progress) = watch::channel(Progress::default());
    let failures = Failures::default();
    (Told { progress: told, failures: Arc::clone(&failures) }, Replies { progress, failures })
}

impl Told {
    /// Tells that all rows before this one are written, but for those that failed, by their places
    /// in the stream.
    pub(crate) fn advance(&self, durable: u64, failed: impl Iterator<Item = (u64, Failure)>) {
        self.failures.lock().extend(failed);
        self.progress.send_modify(|progress| progress.durable = durable);
    }

    /// Tells that nothing more is told, and why.
    pub(crate) fn end(&self, why: Error) {
        self.progress.send_modify(|progress| progress.end = Some(why));
    }
}

impl Replies {
    /// How many rows are acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.progress.borrow().durable
    }

    /// Why nothing more is told.
    pub(crate) fn why_ended(&self) -> Error {
        self.progress.borrow().end.clone().unwrap_or_else(ended)
    }

    /// Waits until so many rows are acknowledged.
    pub(crate) async fn wait(&mut self, rows: u64) -> Result<(), Error> {
        let told = self.progress.wait_for(|now| now.durable >= rows || now.end.is_some()).await;
        let told = told.map_err(|_| ended())?;
        match &told.end {
            Some(end) if told.durable < rows => Err(end.clone()),
            _ => Ok(()),
        }
    }

    /// Why the row at this place failed, if it did. Says so once.
    pub(crate) fn failure(&self, index: u64) -> Result<(), Error> {
        refused(self.failures.lock().remove(&index))
    }

    /// The first failure that nobody asked for yet; the others are forgotten.
    pub(crate) fn first_failure(&self) -> Result<(), Error> {
        let failures = std::mem::take(&mut *self.failures.lock());
        refused(failures.into_values().next())
    }
}

fn refused(failure: Option<Failure>) -> Result<(), Error> {
    failure.map_or(Ok(()), |failure| Err(Error::Refused(Box::new(failure))))
}
