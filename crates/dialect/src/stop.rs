//! Whether anybody still wants what is computed.
//!
//! Operators give way between their batches. A function or an aggregate of millions of values
//! computes in one go, on a thread that belongs to nobody: so it looks here now and then, and ends
//! early.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thalweg_types::{Error, Result, SqlState};

thread_local! {
    /// Of the work that the thread is at.
    static CURRENT: RefCell<Option<Arc<Stop>>> = const { RefCell::new(None) };
}

/// Looked at wherever work looks whether it was stopped.
pub type Limits = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// Stops work of several threads.
#[derive(Default)]
pub struct Stop {
    is_wanted: AtomicBool,
    limits: Option<Limits>,
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.is_wanted()).finish()
    }
}

impl Stop {
    /// Work with limits ends with their error once it is beyond them.
    #[must_use]
    pub fn with_limits(limits: Limits) -> Stop {
        Stop { limits: Some(limits), ..Stop::default() }
    }

    pub fn stop(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// Whether somebody wants the work to stop.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// # Errors
    /// Where somebody wants the work to stop: nobody is there to read the error. Where the work is
    /// beyond its limits.
    pub fn go_on(&self) -> Result<()> {
        match self.is_wanted() {
            false => self.limits.as_ref().map_or(Ok(()), |limits| limits()),
            true => Err(Error::new(SqlState::QUERY_CANCELED, "nobody wants what is computed here")),
        }
    }
}

/// Does work on this thread that hears by [`go_on`] where it is stopped.
pub fn within<T>(stop: &Arc<Stop>, work: impl FnOnce() -> T) -> T {
    let _before = Before(CURRENT.replace(Some(Arc::clone(stop))));
    work()
}

/// # Errors
/// Where the work that this belongs to was stopped, which nobody is there to read, or is beyond its
/// limits.
pub fn go_on() -> Result<()> {
    CURRENT.with_borrow(|stop| stop.as_ref().map_or(Ok(()), |stop| stop.go_on()))
}

/// Puts back what the thread was at when this is dropped.
struct Before(Option<Arc<Stop>>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_at_its_limits() {
        let limits = || Err(Error::new(SqlState::OUT_OF_MEMORY, "too much"));
        let stop = Arc::new(Stop::with_limits(Box::new(limits)));
        let state = || within(&stop, go_on).unwrap_err().state();
        assert_eq!(state(), SqlState::OUT_OF_MEMORY);
        stop.stop();
        assert_eq!(state(), SqlState::QUERY_CANCELED);
    }

    #[test]
    fn work_hears_of_its_own_stop() {
        let (outer, inner) = (Arc::new(Stop::default()), Arc::new(Stop::default()));
        inner.stop();
        within(&outer, || {
            assert!(go_on().is_ok());
            assert!(within(&inner, go_on).is_err());
            assert!(go_on().is_ok());
            outer.stop();
            assert!(go_on().is_err());
        });
        assert!(go_on().is_ok());
    }
}
