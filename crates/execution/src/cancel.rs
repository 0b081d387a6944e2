//! Ending a running statement from outside.
//!
//! A session has a channel of cancels. A [`CancelHandle`] sends a reason into it (the user, a
//! timeout, or the end of the session). Code that waits drops its work when a reason arrives; work
//! that does not yield its thread calls [`check`]. A cancel before the beginning of a statement
//! does not concern it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use thalweg_formats::text::style;
use thalweg_runtime::{sleep, spawn, spawn_blocking};
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::watch;
use tokio::task::AbortHandle;

tokio::task_local! {
    /// Cancels of the statement that the current task works for.
    static HEARD: Cancels;
}

/// Cancellation check for work that does not yield to the runtime.
///
/// # Errors
/// The cancel's error, if the current task's statement was canceled.
pub(crate) fn check() -> Result<()> {
    HEARD.try_with(Cancels::check).unwrap_or(Ok(()))
}

/// Result stream of a statement.
type ResultStream<T> = Pin<Box<dyn Stream<Item = Result<T>> + Send>>;

/// Cancels a session's running statement. Does nothing to an idle session.
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

    /// Subscribes to cancels from now on, for code that waits for a statement's client.
    #[must_use]
    pub fn watch(&self) -> Cancels {
        Cancels { cancels: self.cancels.subscribe(), _sender: Arc::clone(&self.cancels) }
    }
}

/// The session's side: it receives cancels from the beginning of a statement to the last of its
/// rows.
pub struct SessionCancels {
    handle: CancelHandle,
    heard: Cancels,
}

impl Default for SessionCancels {
    fn default() -> SessionCancels {
        SessionCancels::new()
    }
}

impl SessionCancels {
    /// The cancels of a new session: none so far.
    #[must_use]
    pub fn new() -> SessionCancels {
        let handle = CancelHandle { cancels: Arc::new(watch::Sender::new(Reason::default())) };
        let heard = handle.watch();
        SessionCancels { handle, heard }
    }

    /// A handle for others, who cancel the session's statements with it.
    #[must_use]
    pub fn handle(&self) -> CancelHandle {
        self.handle.clone()
    }

    /// Begins a statement: earlier cancels do not apply to it.
    pub fn begin(&mut self) {
        self.heard.cancels.mark_unchanged();
    }

    /// Cancels the running statement after `timeout`, unless the returned timer is dropped first.
    pub fn after(&self, timeout: Duration) -> Timer {
        let cancels = Arc::clone(&self.handle.cancels);
        let task = spawn(async move {
            sleep(timeout).await;
            send(&cancels, Reason::StatementTimeout);
        });
        Timer(task.abort_handle())
    }

    /// Cancels since the beginning of the statement.
    pub fn heard(&self) -> Cancels {
        self.heard.clone()
    }

    /// Runs work until it ends or is canceled. A cancel drops the work and everything it holds.
    ///
    /// # Errors
    /// Errors of the work; the cancel's error if one came first.
    pub async fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut heard = self.heard.clone();
        self.heard().heard_by(heard.unless_any(work)).await.unwrap_or_else(Err)
    }

    /// Wraps a stream so that a cancel, the timer's included, ends it early.
    pub fn guard<T: 'static>(
        &self,
        rows: ResultStream<T>,
        timer: Option<Timer>,
    ) -> ResultStream<T> {
        let cancels = self.heard.clone();
        Box::pin(Guarded { rows: Some(rows), cancels, cancelled: None, timer })
    }
}

/// Records a cancel. A shutdown is final: no later reason replaces it.
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
    /// Keeps the channel open, so that only a cancel ends the wait.
    _sender: Arc<watch::Sender<Reason>>,
}

impl Cancels {
    /// Resolves at the next cancel with its error. Dropping the future loses no cancel.
    pub async fn next(&mut self) -> Error {
        let is_over = *self.cancels.borrow() == Reason::Shutdown;
        if !is_over {
            let _ = self.cancels.changed().await;
        }
        let reason = *self.cancels.borrow_and_update();
        reason.error()
    }

    /// True if [`next`](Self::next) resolves at once.
    #[must_use]
    pub fn has_any(&self) -> bool {
        // `has_changed` cannot fail, since this value holds a sender itself.
        self.cancels.has_changed().unwrap_or(true) || *self.cancels.borrow() == Reason::Shutdown
    }

    /// Runs work whose calls of [`check`] look at these cancels.
    pub async fn heard_by<T>(self, work: impl Future<Output = T>) -> T {
        HEARD.scope(self, work).await
    }

    /// Fails if there is a cancel that `next` has not reported yet.
    ///
    /// # Errors
    /// The cancel's error.
    pub fn check(&self) -> Result<()> {
        match self.cancels.has_changed() {
            Ok(false) => Ok(()),
            _ => Err(self.cancels.borrow().error()),
        }
    }

    /// Result of the work, unless a cancel comes first.
    ///
    /// # Errors
    /// The cancel's error.
    pub async fn unless_any<T>(&mut self, work: impl Future<Output = T>) -> Result<T> {
        let mut work = std::pin::pin!(work);
        // Most work is ready at once, and then needs no subscription to cancels.
        if !self.has_any()
            && let Poll::Ready(done) = futures::poll!(work.as_mut())
        {
            return Ok(done);
        }
        tokio::select! {
            biased;
            error = self.next() => Err(error),
            done = work => Ok(done),
        }
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

/// Runs long work on a thread of its own, so that the caller can be canceled meanwhile. The work
/// polls the flag that it receives, which becomes true once nobody waits for the result.
///
/// # Errors
/// If the work panicked.
pub async fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> Result<T> {
    let wanted = Wanted(Arc::default());
    let is_unwanted = Arc::clone(&wanted.0);
    let style = style::current();
    let in_style = move || style::within(style.as_ref(), || work(&is_unwanted));
    let done = spawn_blocking(in_style).await;
    done.map_err(|died| Error::internal("the statement broke down").with_source(died))
}

/// Sets its flag to true (unwanted) when it is dropped.
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A scheduled cancel. Dropping it calls the cancel off.
pub struct Timer(AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Guarded<T> {
    rows: Option<ResultStream<T>>,
    cancels: Cancels,
    /// Resolves at a cancel. Created at the first poll that has to wait.
    cancelled: Option<Pin<Box<dyn Future<Output = Error> + Send>>>,
    timer: Option<Timer>,
}

impl<T> Stream for Guarded<T> {
    type Item = Result<T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Some(rows) = &mut this.rows else { return Poll::Ready(None) };
        let mut polled = Poll::Pending;
        if !this.cancels.has_any() {
            polled = rows.as_mut().poll_next(context);
        }
        if polled.is_pending() {
            let cancels = &this.cancels;
            let cancelled = this.cancelled.get_or_insert_with(|| {
                let mut cancels = cancels.clone();
                Box::pin(async move { cancels.next().await })
            });
            polled = cancelled.as_mut().poll(context).map(|error| Some(Err(error)));
            // A canceled stream is dropped, even if it had another item ready.
            if polled.is_ready() {
                this.rows = None;
            }
        }
        if let Poll::Ready(None) = polled {
            this.rows = None;
        }
        if this.rows.is_none() {
            this.timer = None;
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

    /// True if a cancel ends a stream that never ends by itself.
    async fn ends_early(cancels: &SessionCancels) -> bool {
        let mut rows = cancels.guard::<()>(Box::pin(futures::stream::pending()), None);
        let next = futures::future::poll_immediate(rows.next()).await;
        matches!(next, Some(Some(Err(_))))
    }

    #[tokio::test]
    async fn work_on_a_thread_learns_that_nobody_waits() {
        let (begun, begins) = tokio::sync::oneshot::channel();
        let (ended, ends) = tokio::sync::oneshot::channel();
        let mut work = Box::pin(on_own_thread(move |is_unwanted| {
            let _ = begun.send(());
            while !is_unwanted.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            let _ = ended.send(());
        }));
        assert!(futures::future::poll_immediate(work.as_mut()).await.is_none());
        begins.await.unwrap();
        drop(work);
        ends.await.unwrap();
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
