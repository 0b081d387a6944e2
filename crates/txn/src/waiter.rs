//! Those who wait to be told what became of their write set.

use thalweg_types::{Error, Lsn, Result, SqlState};

/// Told once what became of a group.
pub type Acknowledge = Box<dyn FnOnce(Result<Lsn>) + Send>;

/// Somebody who is told exactly once: when the one who should tell is gone, that the database is
/// closed.
pub(crate) struct Waiter<T = Lsn>(Option<Box<dyn FnOnce(Result<T>) + Send>>);

impl<T> Waiter<T> {
    pub(crate) fn new(acknowledge: Box<dyn FnOnce(Result<T>) + Send>) -> Waiter<T> {
        Waiter(Some(acknowledge))
    }

    /// For what the engine does by itself.
    pub(crate) fn nobody() -> Waiter<T> {
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
