//! The locks of one session, and who asks for locks in its name.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thalweg_types::{Error, Result, SqlState};

use super::AdvisoryLocks;
use super::table::{Key, Lock, Mode, Owner, Term};
use crate::outcome::{Notice, WARNING};
use crate::surroundings::PlaceHandle;

/// How long a lock is held, unless it is given back before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Until {
    SessionEnds,
    TransactionEnds,
}

/// The locks of a session, which end with this.
pub(crate) struct SessionLocks {
    locks: Arc<AdvisoryLocks>,
    session: Arc<Term>,
    /// The open block, or the statement that runs; whoever began it holds what ends it.
    transaction: Arc<Term>,
    notices: Arc<Mutex<Vec<Notice>>>,
    place: PlaceHandle,
}

impl SessionLocks {
    pub(crate) fn new(locks: Arc<AdvisoryLocks>) -> SessionLocks {
        let owner = Arc::new(Owner::default());
        SessionLocks {
            locks,
            session: Term::new(&owner),
            transaction: Term::new(&owner),
            notices: Arc::default(),
            place: PlaceHandle::default(),
        }
    }

    pub(crate) fn introduce(&self, process_id: i32) {
        self.session.owner().introduce(process_id);
    }

    pub(crate) fn place(&self) -> &PlaceHandle {
        &self.place
    }

    /// A transaction begins: a block, or a statement outside of one. Its locks end with what this
    /// returns.
    pub(crate) fn begin(&mut self) -> Ending {
        self.transaction = Term::new(self.session.owner());
        Ending { locks: Arc::clone(&self.locks), term: Arc::clone(&self.transaction) }
    }

    /// How many locks the transaction has: where [`Self::roll_back_to`] goes back to.
    pub(crate) fn mark(&self) -> usize {
        self.transaction.count()
    }

    /// Gives back what the transaction took since a mark.
    pub(crate) fn roll_back_to(&self, mark: usize) {
        self.locks.give_back_behind(&self.transaction, mark);
    }

    /// Gives back all locks of the session, but not those of its transaction.
    pub(crate) fn unlock_all(&self) {
        self.locks.give_back_behind(&self.session, 0);
    }

    /// What functions had to remark since this was asked last.
    pub(crate) fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut self.notices.lock())
    }

    /// Whom a statement takes locks for, and how long it waits for one.
    pub(crate) fn asker(&self, timeout: Option<Duration>) -> Asker {
        Asker {
            locks: Arc::clone(&self.locks),
            session: Arc::clone(&self.session),
            transaction: Arc::clone(&self.transaction),
            notices: Arc::clone(&self.notices),
            place: self.place.clone(),
            timeout,
        }
    }
}

impl Drop for SessionLocks {
    fn drop(&mut self) {
        self.locks.end(&self.session);
    }
}

/// Ends a transaction's locks when it is dropped.
pub(crate) struct Ending {
    locks: Arc<AdvisoryLocks>,
    term: Arc<Term>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.locks.end(&self.term);
    }
}

/// Whom a statement takes locks for.
#[derive(Clone)]
pub(crate) struct Asker {
    locks: Arc<AdvisoryLocks>,
    session: Arc<Term>,
    transaction: Arc<Term>,
    notices: Arc<Mutex<Vec<Notice>>>,
    place: PlaceHandle,
    timeout: Option<Duration>,
}

impl Asker {
    /// Whether this asks for the same transaction.
    pub(super) fn is_for(&self, other: &Asker) -> bool {
        Arc::ptr_eq(&self.transaction, &other.transaction)
    }

    fn term(&self, until: Until) -> &Arc<Term> {
        match until {
            Until::SessionEnds => &self.session,
            Until::TransactionEnds => &self.transaction,
        }
    }

    pub(super) fn try_lock(&self, until: Until, key: Key, mode: Mode) -> Result<bool> {
        self.locks.try_take(self.term(until), Lock { key, mode })
    }

    /// Waits for a lock. While it does, the statement's place among those that run is somebody
    /// else's: whoever has the lock may need one to let go of it.
    pub(super) async fn lock(&self, until: Until, key: Key, mode: Mode) -> Result<()> {
        let waiting = self.locks.take_or_wait(self.term(until), Lock { key, mode })?;
        let Some(waiting) = waiting else { return Ok(()) };
        self.place.give_up();
        let Some(timeout) = self.timeout else { return waiting.await };
        let waited = tokio::time::timeout(timeout, waiting).await;
        waited.unwrap_or_else(|_| {
            let message = "canceling statement due to lock timeout";
            Err(Error::new(SqlState::LOCK_NOT_AVAILABLE, message))
        })
    }

    /// Gives a lock of the session back once; false, with a warning, where it has none.
    pub(super) fn unlock(&self, key: Key, mode: Mode) -> bool {
        let was_held = self.locks.give_back(&self.session, Lock { key, mode });
        if !was_held {
            let message = format!("you don't own a lock of type {}", mode.name());
            self.notices.lock().push(Notice { state: WARNING, message });
        }
        was_held
    }

    pub(super) fn unlock_all(&self) {
        self.locks.give_back_behind(&self.session, 0);
    }
}
