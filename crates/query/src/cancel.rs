//! Ending a running statement from outside.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use futures::Stream;
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::outcome::BatchStream;

/// Cancels what a session is doing. Does nothing to a session that is idle.
#[derive(Clone, Debug)]
pub struct CancelHandle {
    cancels: Arc<watch::Sender<Reason>>,
}

/// Why a statement ends early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reason {
    #[default]
    User,
    StatementTimeout,
    Shutdown,
}

impl CancelHandle {
    /// Makes the running statement, and the stream of its rows, fail with `57014`.
    pub fn cancel(&self) {
        send(&self.cancels, Reason::User);
    }

    /// Makes the running statement fail with `57P01`, and all after it: the session is to end.
    pub fn shut_down(&self) {
        send(&self.cancels, Reason::Shutdown);
    }

    /// Tells of cancels from now on, to whoever waits for a statement's client.
    #[must_use]
    pub fn watch(&self) -> Cancels {
        Cancels { cancels: self.cancels.subscribe(), _sender: Arc::clone(&self.cancels) }
    }
}

/// The session's side: what it hears of cancels, from the beginning of a statement to the last of
/// its rows.
pub(crate) struct SessionCancels {
    handle: CancelHandle,
    heard: Cancels,
}

impl SessionCancels {
    pub(crate) fn new() -> SessionCancels {
        let handle = CancelHandle { cancels: Arc::new(watch::Sender::new(Reason::default())) };
        let heard = handle.watch();
        SessionCancels { handle, heard }
    }

    pub(crate) fn handle(&self) -> CancelHandle {
        self.handle.clone()
    }

    /// A statement begins: cancels from before are not meant for it.
    pub(crate) fn begin(&mut self) {
        self.heard.cancels.mark_unchanged();
    }

    /// Cancels the running statement after a while, unless what this returns is dropped before.
    pub(crate) fn after(&self, timeout: Duration) -> Timer {
        let cancels = Arc::clone(&self.handle.cancels);
        #[expect(clippy::disallowed_methods, reason = "a person waits, in real time")]
        let task = tokio::spawn(async move {
            tokio::time::sleep(timeout).await;
            send(&cancels, Reason::StatementTimeout);
        });
        Timer(task.abort_handle())
    }

    /// Resolves at the first cancel since the statement began, with what to say of it.
    fn cancelled(&self) -> impl Future<Output = Error> + Send + use<> {
        let mut heard = self.heard.clone();
        async move { heard.next().await }
    }

    /// Work that ends early when it is cancelled. What it holds is dropped then.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let cancelled = self.cancelled();
        tokio::select! {
            biased;
            error = cancelled => Err(error),
            result = work => result,
        }
    }

    /// A stream that ends early when it is cancelled, and that the timer may cancel.
    pub(crate) fn guard(&self, rows: BatchStream, timer: Option<Timer>) -> BatchStream {
        let cancelled = Box::pin(self.cancelled());
        Box::pin(Guarded { rows: Some(rows), cancelled, timer })
    }
}

/// A session that was shut down stays so.
fn send(cancels: &watch::Sender<Reason>, reason: Reason) {
    cancels.send_modify(|last| {
        if *last != Reason::Shutdown {
            *last = reason;
        }
    });
}

/// The cancels of a session since this was made.
#[derive(Clone)]
pub struct Cancels {
    cancels: watch::Receiver<Reason>,
    /// Kept, so that waiting ends by a cancel only.
    _sender: Arc<watch::Sender<Reason>>,
}

impl Cancels {
    /// Resolves at the next cancel, with what to say of it. Nothing is lost by dropping the future.
    pub async fn next(&mut self) -> Error {
        let is_over = *self.cancels.borrow() == Reason::Shutdown;
        if !is_over {
            let _ = self.cancels.changed().await;
        }
        let reason = *self.cancels.borrow_and_update();
        reason.error()
    }
}

impl Reason {
    fn error(self) -> Error {
        let (state, message) = match self {
            Reason::User => (SqlState::QUERY_CANCELED, "canceling statement due to user request"),
            Reason::StatementTimeout => {
                (SqlState::QUERY_CANCELED, "canceling statement due to statement timeout")
            }
            Reason::Shutdown => {
                (SqlState::SHUTTING_DOWN, "terminating connection due to administrator command")
            }
        };
        Error::new(state, message)
    }
}

/// A cancel that is still to come.
pub(crate) struct Timer(AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Guarded {
    rows: Option<BatchStream>,
    cancelled: Pin<Box<dyn Future<Output = Error> + Send>>,
    timer: Option<Timer>,
}

impl Stream for Guarded {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.rows.is_some()
            && let Poll::Ready(error) = self.cancelled.as_mut().poll(context)
        {
            (self.rows, self.timer) = (None, None);
            return Poll::Ready(Some(Err(error)));
        }
        let Some(rows) = &mut self.rows else { return Poll::Ready(None) };
        let polled = rows.as_mut().poll_next(context);
        if let Poll::Ready(None) = polled {
            (self.rows, self.timer) = (None, None);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    async fn runs(cancels: &SessionCancels) -> bool {
        cancels.run(async { Ok(()) }).await.is_ok()
    }

    /// Whether a stream that never comes to its end can be waited for.
    async fn ends_early(cancels: &SessionCancels) -> bool {
        let mut rows = cancels.guard(Box::pin(futures::stream::pending()), None);
        let next = futures::future::poll_immediate(rows.next()).await;
        matches!(next, Some(Some(Err(_))))
    }

    #[tokio::test]
    async fn a_cancel_is_for_the_statement_during_which_it_comes() {
        let mut cancels = SessionCancels::new();
        let handle = cancels.handle();
        handle.cancel();
        cancels.begin();
        assert!(runs(&cancels).await && !ends_early(&cancels).await);
        // Between two pieces of its work, it is for the one that comes.
        handle.cancel();
        assert!(!runs(&cancels).await && ends_early(&cancels).await);
        cancels.begin();
        assert!(runs(&cancels).await && !ends_early(&cancels).await);
    }
}
