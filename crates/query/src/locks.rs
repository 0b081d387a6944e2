//! Advisory locks: sessions lock numbers by agreement, with PostgreSQL's functions.
//!
//! The functions may only be called by statements that contain nothing else ([`alone`]) and that no
//! plan runs. The session reads the calls of such a statement ([`calls`]) and executes them one by
//! one ([`session`]). One table serves all sessions of a database ([`table`]); it does not outlive
//! the process. A lock is held for a [`Term`]: a session, or a transaction, which outside of a
//! block is one statement. Locks of one session do not exclude each other; they are counted. A
//! session that cannot get a lock queues behind the sessions that asked before. It waits for one
//! lock at a time, and no thread blocks ([`waiting`]).
//!
//! Promise: when a term ends, by a commit, an error or a lost client, all of its locks are
//! released. A wait that would close a cycle is refused (`40P01`).

mod calls;
mod functions;
mod recognize;
mod session;
mod table;
#[cfg(test)]
mod tests;
mod waiting;

use std::sync::Arc;

use parking_lot::Mutex;
use thalweg_types::Result;

pub(crate) use calls::read;
pub(crate) use functions::{functions, takes_keys};
pub use recognize::takes_locks;
pub(crate) use recognize::{are_calls, check_none, has_only_calls, is_alone};
pub(crate) use session::{Ending, SessionLocks};
pub(crate) use table::Listed;
use table::{Lock, Table, Term};
use waiting::Waiting;

/// The advisory locks of a database.
#[derive(Default)]
pub(crate) struct AdvisoryLocks {
    /// Locked before the locks of a term, if both are needed.
    table: Mutex<Table>,
}

impl AdvisoryLocks {
    /// Takes a lock unless another session is in the way.
    ///
    /// # Errors
    /// If the session has too many locks.
    fn try_take(&self, term: &Arc<Term>, lock: Lock) -> Result<bool> {
        self.table.lock().try_take(term, lock)
    }

    /// Takes a lock, or a position in its queue.
    ///
    /// # Errors
    /// If the session has too many locks, or the wait would be a deadlock.
    fn take_or_wait(self: &Arc<Self>, term: &Arc<Term>, lock: Lock) -> Result<Option<Waiting>> {
        let mut table = self.table.lock();
        if table.try_take(term, lock)? {
            return Ok(None);
        }
        let place = table.wait(term, lock)?;
        Ok(Some(Waiting::new(Arc::clone(self), Arc::clone(term), lock, place)))
    }

    /// Releases a lock once. Returns false if it is not held for this term.
    fn give_back(&self, term: &Term, lock: Lock) -> bool {
        let mut table = self.table.lock();
        let was_held = term.give_back(lock);
        if was_held {
            table.release(term.owner(), lock);
        }
        was_held
    }

    /// Releases the locks of a term except its first `kept` ones.
    fn give_back_behind(&self, term: &Term, kept: usize) {
        let locks = term.cut(kept);
        if locks.is_empty() {
            return;
        }
        let mut table = self.table.lock();
        locks.into_iter().for_each(|lock| table.release(term.owner(), lock));
    }

    /// All locks, with their holders and waiters.
    pub(crate) fn listed(&self) -> Vec<Listed> {
        self.table.lock().listed()
    }
}
