//! Waits for a lock without blocking a thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use thalweg_types::{Error, Result};
use tokio::sync::oneshot;

use super::AdvisoryLocks;
use super::table::{Lock, Place, Term};

/// A position in a lock's queue. Dropping it gives up the position, or releases the lock if it was
/// granted meanwhile.
pub(super) struct Waiting {
    locks: Arc<AdvisoryLocks>,
    term: Arc<Term>,
    lock: Lock,
    number: u64,
    granted: oneshot::Receiver<()>,
    is_done: bool,
}

impl Waiting {
    pub(super) fn new(
        locks: Arc<AdvisoryLocks>,
        term: Arc<Term>,
        lock: Lock,
        (number, granted): Place,
    ) -> Waiting {
        Waiting { locks, term, lock, number, granted, is_done: false }
    }
}

impl Future for Waiting {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let granted = ready!(self.granted.poll_unpin(context));
        self.is_done = true;
        Poll::Ready(granted.map_err(|_| Error::internal("a place in the queue of a lock was lost")))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut table = self.locks.table.lock();
        let was_given =
            !table.leave_queue(self.number, self.lock.key) && self.granted.try_recv().is_ok();
        if was_given && self.term.give_back(self.lock) {
            table.release(self.term.owner(), self.lock);
        }
    }
}
