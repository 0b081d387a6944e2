//! The engine's interface for row locks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_types::Result;

use super::{Engine, Shared};
use crate::row_locks::{LockOutcome, LockOwner, LockRequest};
use crate::stage::Stage;
use crate::stage_queues::channel;
use crate::transaction_stage::{Request, TransactionStage};
use crate::waiter::Waiter;

/// The time during which an owner may hold row locks. Its locks are released when this is dropped.
pub struct RowLockTerm {
    shared: Arc<Shared>,
    transactions: Arc<Stage<TransactionStage, Request>>,
    owner: LockOwner,
}

impl Engine {
    /// A new owner of row locks. An owner has one [`RowLockTerm`] at a time.
    pub fn allocate_lock_owner(&self) -> LockOwner {
        LockOwner(self.next_lock_owner.fetch_add(1, Ordering::Relaxed))
    }

    /// Begins a time during which an owner may hold row locks.
    #[must_use]
    pub fn row_lock_term(&self, owner: LockOwner) -> RowLockTerm {
        self.shared.row_lock_terms.fetch_add(1, Ordering::AcqRel);
        let (shared, transactions) = (Arc::clone(&self.shared), Arc::clone(&self.transactions));
        RowLockTerm { shared, transactions, owner }
    }

    /// True if a commit may have to wait for a row lock: a [`RowLockTerm`] exists.
    #[must_use]
    pub fn has_row_locks(&self) -> bool {
        self.shared.row_lock_terms.load(Ordering::Acquire) != 0
    }

    /// True if an owner waits for a row lock. Blocks the thread while the stage works.
    #[must_use]
    pub fn is_waiting_for_row(&self, owner: LockOwner) -> bool {
        let (reply, answer) = channel();
        let _ = self.shared.requests.send(Request::IsParked(owner, reply));
        answer.recv().unwrap_or(false)
    }

    /// Ends the waits of an owner for row locks: its requests and commits that wait fail (`57014`).
    pub fn stop_waiting(&self, owner: LockOwner) {
        // A stage that has ended has answered all requests.
        let _ = self.shared.requests.send(Request::GiveUp(owner));
    }
}

impl RowLockTerm {
    #[must_use]
    pub fn owner(&self) -> LockOwner {
        self.owner
    }

    /// Asks for locks. `reply` is called once, as soon as they are held or the statement must run
    /// again, from one of the engine's threads or by this function.
    pub fn lock(&self, request: LockRequest, reply: Box<dyn FnOnce(Result<LockOutcome>) + Send>) {
        self.send(Request::Lock { request, reply: Waiter::new(reply) });
    }

    /// Releases all locks except the first `keep` ones.
    pub fn release(&self, keep: usize) {
        self.send(Request::Unlock { owner: self.owner, keep });
    }

    fn send(&self, request: Request) {
        let (is_quick, do_here) = (TransactionStage::is_quick, TransactionStage::do_here);
        if let Err(request) = self.transactions.do_here(request, is_quick, do_here) {
            // A request that cannot be sent is dropped, which notifies its waiter.
            let _ = self.transactions.send(request);
        }
    }
}

impl Drop for RowLockTerm {
    fn drop(&mut self) {
        self.release(0);
        self.shared.row_lock_terms.fetch_sub(1, Ordering::AcqRel);
    }
}
