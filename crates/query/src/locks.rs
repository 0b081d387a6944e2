//! Advisory locks: numbers that sessions lock by agreement, with PostgreSQL's functions.
//!
//! The functions are called by statements of their own ([`alone`]), which no plan runs: the session
//! reads what is called ([`calls`]), and does it call by call ([`session`]). One table serves all
//! sessions of a database ([`table`]); nothing of it outlives the process. A lock is held for a
//! [`Term`]: for its session, or for a transaction, which outside of a block is one statement.
//! Locks of one session do not exclude each other, and are counted. Who cannot have a lock waits
//! behind those who asked before, for one lock at a time, and no thread waits along ([`waiting`]).
//!
//! Promise: whatever ends a term - a commit, an error, a client that is gone - lets go of what was
//! taken in it. Who would wait for ever, since the others wait for it, is refused (`40P01`).

mod alone;
mod calls;
mod functions;
mod session;
mod table;
#[cfg(test)]
mod tests;
mod waiting;

use std::sync::Arc;

use parking_lot::Mutex;
use thalweg_types::Result;

pub use alone::takes_locks;
pub(crate) use alone::{are_calls, check_none, has_only_calls, is_alone};
pub(crate) use calls::read;
pub(crate) use functions::{functions, takes_keys};
pub(crate) use session::{Ending, SessionLocks};
pub(crate) use table::Listed;
use table::{Lock, Table, Term};
use waiting::Waiting;

/// The advisory locks of a database.
#[derive(Default)]
pub(crate) struct AdvisoryLocks {
    /// Taken before what is in a term, where both are.
    table: Mutex<Table>,
}

impl AdvisoryLocks {
    /// Takes a lock, unless somebody is in the way.
    ///
    /// # Errors
    /// Where the session has too many.
    fn try_take(&self, term: &Arc<Term>, lock: Lock) -> Result<bool> {
        self.table.lock().try_take(term, lock)
    }

    /// Takes a lock, or a place in its queue.
    ///
    /// # Errors
    /// Where the session has too many, or who is in the way waits for it.
    fn take_or_wait(self: &Arc<Self>, term: &Arc<Term>, lock: Lock) -> Result<Option<Waiting>> {
        let mut table = self.table.lock();
        if table.try_take(term, lock)? {
            return Ok(None);
        }
        let place = table.wait(term, lock)?;
        Ok(Some(Waiting::new(Arc::clone(self), Arc::clone(term), lock, place)))
    }

    /// Lets go of a lock once; false where it is not held for this term.
    fn give_back(&self, term: &Term, lock: Lock) -> bool {
        let mut table = self.table.lock();
        let was_held = term.give_back(lock);
        if was_held {
            table.release(term.owner(), lock);
        }
        was_held
    }

    /// Lets go of what was taken in a term behind its first locks.
    fn give_back_behind(&self, term: &Term, kept: usize) {
        let locks = term.cut(kept);
        if locks.is_empty() {
            return;
        }
        let mut table = self.table.lock();
        locks.into_iter().for_each(|lock| table.release(term.owner(), lock));
    }

    /// Who holds what, and who waits for it.
    pub(crate) fn listed(&self) -> Vec<Listed> {
        self.table.lock().listed()
    }
}
