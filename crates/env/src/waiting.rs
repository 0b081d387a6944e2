//! A queue and a condition variable for threads that block.
//!
//! On threads of a simulation a wait passes the turn on instead of blocking. On all other threads
//! the two are those of `std` and `parking_lot`, after one look at a thread-local flag.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::MutexGuard;

use crate::simulated::{is_simulated, wait_until};

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, Sender, TryRecvError};

/// A queue without a limit.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the queue that simulations control")]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    (sender, Receiver(receiver))
}

/// The end of a queue from which one thread takes.
pub struct Receiver<T>(mpsc::Receiver<T>);

/// A receiver whose owner waits while others look into it, one at a time.
struct Lent<'a, T>(&'a mpsc::Receiver<T>);

// SAFETY: the owner waits in `wait_until` while others, one at a time, use the receiver there; each
// hand-over is synchronized by the schedule's lock. The items are `Send`.
unsafe impl<T: Send> Send for Lent<'_, T> {}

impl<T> Lent<'_, T> {
    fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.0.try_recv()
    }
}

impl<T: Send> Receiver<T> {
    /// Takes the next item, and waits for it.
    ///
    /// # Errors
    /// If the queue is empty and all senders are gone.
    pub fn recv(&self) -> Result<T, RecvError> {
        match is_simulated() {
            false => self.0.recv(),
            true => self.recv_simulated(None).map_err(|_| RecvError),
        }
    }

    /// Takes the next item, and waits for it up to the timeout.
    ///
    /// # Errors
    /// If there is none by then, or the queue is empty and all senders are gone.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        match is_simulated() {
            false => self.0.recv_timeout(timeout),
            true => self.recv_simulated(Some(timeout)),
        }
    }

    /// Takes the next item if there is one.
    ///
    /// # Errors
    /// If the queue is empty.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.0.try_recv()
    }

    fn recv_simulated(&self, timeout: Option<Duration>) -> Result<T, RecvTimeoutError> {
        let (mut taken, mut lent) = (Err(TryRecvError::Empty), Lent(&self.0));
        wait_until(timeout, &mut || {
            if let Err(TryRecvError::Empty) = taken {
                taken = lent.try_recv();
            }
            !matches!(taken, Err(TryRecvError::Empty))
        });
        taken.map_err(|error| match error {
            TryRecvError::Empty => RecvTimeoutError::Timeout,
            TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
        })
    }
}

/// A condition variable for `parking_lot`'s mutexes. Waits may end without a notification.
#[derive(Default)]
pub struct Condvar {
    real: parking_lot::Condvar,
    /// Number of notifications by simulated threads.
    notifications: AtomicU64,
}

impl Condvar {
    #[must_use]
    pub const fn new() -> Condvar {
        Condvar { real: parking_lot::Condvar::new(), notifications: AtomicU64::new(0) }
    }

    /// Wakes a thread that waits. In a simulation, all of them.
    pub fn notify_one(&self) {
        self.note();
        self.real.notify_one();
    }

    pub fn notify_all(&self) {
        self.note();
        self.real.notify_all();
    }

    /// Waits for a notification, without the lock.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        match is_simulated() {
            false => self.real.wait(guard),
            true => _ = self.wait_simulated(guard, None),
        }
    }

    /// Waits for a notification up to the timeout, without the lock. Returns true if there was
    /// none.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        match is_simulated() {
            false => self.real.wait_for(guard, timeout).timed_out(),
            true => !self.wait_simulated(guard, Some(timeout)),
        }
    }

    fn wait_simulated<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Option<Duration>) -> bool {
        let before = self.notifications.load(Ordering::Relaxed);
        MutexGuard::unlocked(guard, || {
            let is_notified = || self.notifications.load(Ordering::Relaxed) != before;
            wait_until(timeout, &mut { is_notified })
        })
        .unwrap_or(true)
    }

    fn note(&self) {
        if is_simulated() {
            self.notifications.fetch_add(1, Ordering::Relaxed);
        }
    }
}
