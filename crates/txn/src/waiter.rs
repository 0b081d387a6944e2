//! Callers that wait for the outcome of their write set.

use thalweg_types::{Error, Lsn, Result, SqlState};

/// Callback that is called once with the group's outcome.
pub type Acknowledge = Box<dyn FnOnce(Result<Lsn>) + Send>;

/// A callback that is called exactly once. Dropping it unused reports that the database is closed.
pub(crate) struct Waiter<T = Lsn>(Option<Box<dyn FnOnce(Result<T>) + Send>>);

impl<T> Waiter<T> {
    pub(crate) fn new(acknowledge: Box<dyn FnOnce(Result<T>) + Send>) -> Waiter<T> {
        Waiter(Some(acknowledge))
    }

    /// No callback, for the engine's own changes.
    pub(crate) fn without_waiter() -> Waiter<T> {
        Waiter(None)
    }

    pub(crate) fn tell(mut self, result: Result<T>) {
        if let Some(acknowledge) = self.0.take() {
            acknowledge(result);
        }
    }
}

impl<T> Drop for Waiter<T> {
    fn drop(&mut self) {
        if let Some(acknowledge) = self.0.take() {
            acknowledge(Err(closed()));
        }
    }
}

pub(crate) fn closed() -> Error {
    Error::new(SqlState::SHUTTING_DOWN, "the database is closed")
}
