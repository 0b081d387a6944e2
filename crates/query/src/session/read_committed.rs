//! Statements of a block at READ COMMITTED.
//!
//! A statement runs on a new snapshot, with the block's own changes on top. Then the session asks
//! the transaction stage for locks on the rows that the statement changed. If another transaction
//! has a lock, the session waits for it without a thread. If a row was changed meanwhile, the
//! statement's changes are undone, and it runs again on a newer snapshot. The locks that it got
//! stay, so that each run gets further. When all locks are held, no other transaction has changed
//! the rows since the snapshot, so that the block's commit cannot lose a conflict.
//!
//! PostgreSQL evaluates only the changed row again. Here the whole statement runs again, so that it
//! also sees rows that match only since the wait.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use datafusion::common::ScalarValue;
use thalweg_dialect::parse::Parsed;
use thalweg_execution::cancel::CancelHandle;
use thalweg_txn::{
    LockOutcome, LockOwner, LockRequest, LockWait, RowLock, Savepoint, TableLocks, Transaction,
};
use thalweg_types::{Error, Result, RowId, SqlState, TableId};

use super::Session;
use super::blocks::in_failed_block;
use crate::copy_in::CopyIn;
use crate::database::Database;
use crate::outcome::{Outcome, Tag};
use crate::point::Point;
use crate::prepared::Prepared;
use crate::statement;
use crate::workers::AtomicScope;

/// Maximum number of runs of a statement, before it fails.
const RUNS_MAX: usize = 10_000;

/// The next step of a statement that has asked for locks.
enum Next {
    /// All locks are held.
    Finish,
    /// The statement's changes were undone. It must run again.
    RunAgain,
    /// Like [`RunAgain`](Next::RunAgain), without these rows.
    RunWithout(Vec<(TableId, RowId)>),
}

impl Session {
    /// True if a block is open in which each statement reads a new snapshot.
    pub(super) fn is_read_committed(&self) -> bool {
        self.block.is_some() && self.settings.modes().is_read_committed() && self.can_lock_rows()
    }

    /// Gives the next statement of a block at READ COMMITTED a new snapshot.
    ///
    /// # Errors
    /// If another transaction has altered a table that the block has changed.
    pub(super) fn refresh(&mut self) -> Result<()> {
        if !self.is_read_committed() {
            return Ok(());
        }
        let now = self.snapshot();
        match self.block.as_mut().and_then(|block| block.transaction.as_mut()) {
            Some(transaction) => transaction.rebase(&now),
            None => Ok(()),
        }
    }

    /// Plans a statement and runs it in the open block.
    pub(super) async fn run_read_committed(
        &mut self,
        parsed: &Arc<Parsed>,
        sql: &str,
    ) -> Result<Outcome> {
        let wait = statement::lock_wait(&parsed.statement)?;
        let mut hidden: Vec<(TableId, RowId)> = Vec::new();
        let notifications = self.notifications.mark();
        for _ in 0..RUNS_MAX {
            self.notifications.roll_back_to(notifications);
            self.refresh()?;
            let mut transaction = self.take_transaction()?;
            let before = transaction.savepoint();
            for (table, row) in &hidden {
                transaction.hide(*table, *row)?;
            }
            self.duplicate = None;
            let (outcome, mut transaction) = match self.run_in(transaction, parsed, sql).await {
                Ok(done) => done,
                Err(error) => match self.must_wait_for_duplicate(&error).await? {
                    true => {
                        self.put_transaction(Transaction::at(&before));
                        continue;
                    }
                    false => return Err(error),
                },
            };
            if !hidden.is_empty() {
                transaction.show_hidden()?;
            }
            self.put_transaction(transaction);
            match self.lock_changes(&before, wait).await? {
                Next::Finish => {
                    if let Some(block) = &mut self.block
                        && !statement::is_about_settings(&parsed.statement)
                    {
                        block.look();
                    }
                    return Ok(outcome);
                }
                Next::RunAgain => {}
                Next::RunWithout(rows) => hidden.extend(rows),
            }
        }
        Err(too_many_runs())
    }

    /// Runs a statement about the row of one key in the open block; `None` if another route must
    /// run it.
    pub(super) async fn point_read_committed(
        &mut self,
        prepared: &Prepared,
        point: &Point,
        values: &[ScalarValue],
    ) -> Result<Option<Outcome>> {
        let _timer = self.statement_timer();
        for _ in 0..RUNS_MAX {
            self.refresh()?;
            let transaction = self.block.as_mut().and_then(|block| block.transaction.as_mut());
            let Some(transaction) = transaction else { return Ok(None) };
            let before = transaction.savepoint();
            let Some(outcome) = self.point_in_block(prepared, point, values)? else {
                return Ok(None);
            };
            if let Next::Finish = self.lock_changes(&before, LockWait::Wait).await? {
                return Ok(Some(outcome));
            }
        }
        Err(too_many_runs())
    }

    /// Adds the rows of a `COPY … FROM STDIN` in the open block.
    pub(super) async fn add_copied_read_committed(&mut self, copy: CopyIn) -> Result<Outcome> {
        let transaction = self.block.as_ref().and_then(|block| block.transaction.as_ref());
        let catalog = Arc::clone(transaction.ok_or_else(in_failed_block)?.catalog());
        let (target, loaded) = copy.finish(&catalog)?;
        for _ in 0..RUNS_MAX {
            self.refresh()?;
            let mut transaction = self.take_transaction()?;
            let before = transaction.savepoint();
            let rows = loaded.share().append_in_block(&mut transaction, &target)?;
            transaction.check_new_references(Some(&before))?;
            self.put_transaction(transaction);
            if let Next::Finish = self.lock_changes(&before, LockWait::Wait).await? {
                return Ok(Outcome::done(Tag::Copy(rows)));
            }
        }
        Err(too_many_runs())
    }

    /// True if a statement outside of a block has a locking clause and some rows may be locked.
    pub(super) fn must_look_at_locks(&self, parsed: &Parsed) -> bool {
        let shared = &self.database.shared;
        shared.engine.has_row_locks()
            && self.can_lock_rows()
            && statement::has_clause(&parsed.statement)
    }

    /// True if statements here can take row locks: a gateway has none.
    pub(super) fn can_lock_rows(&self) -> bool {
        !self.database.shared.cluster().is_present()
    }

    /// True if a statement outside of a block failed because of a row that a block may have locked.
    pub(super) fn meets_locked_duplicate(&mut self, error: &Error) -> bool {
        error.state() == SqlState::UNIQUE_VIOLATION
            && self.duplicate.take().is_some()
            && self.database.shared.engine.has_row_locks()
            && self.can_lock_rows()
    }

    /// Runs a statement outside of a block in a block of its own, in which it meets row locks.
    pub(super) async fn run_locking_alone(
        &mut self,
        parsed: &Arc<Parsed>,
        sql: &str,
    ) -> Result<Outcome> {
        let modes = self.settings.modes().at_read_committed();
        self.open_block(modes, AtomicScope::EachWorker);
        match self.run_read_committed(parsed, sql).await {
            Ok(outcome) => self.end(true).await.map(|_| outcome),
            Err(error) => {
                // The statement's own error is the one to report.
                let _ = self.end(false).await;
                Err(error)
            }
        }
    }

    fn take_transaction(&mut self) -> Result<Transaction> {
        let block = self.block.as_mut().ok_or_else(|| Error::internal("no block is open"))?;
        block.transaction.take().ok_or_else(in_failed_block)
    }

    fn put_transaction(&mut self, transaction: Transaction) {
        if let Some(block) = &mut self.block {
            block.transaction = Some(transaction);
        }
    }

    /// Locks the rows that the block has changed since a savepoint.
    async fn lock_changes(&mut self, before: &Savepoint, wait: LockWait) -> Result<Next> {
        let mut transaction = self.take_transaction()?;
        let mut tables = transaction.locks_since(before)?;
        // No other session knows a temporary table.
        tables.retain(|locks| !locks.table.is_temporary());
        let outcome = match tables.is_empty() || is_lockless() {
            true => None,
            false => Some(self.ask_for_locks(tables, wait).await?),
        };
        if let Some(LockOutcome::Changed | LockOutcome::Skip(_)) = &outcome {
            transaction.roll_back_to(before);
        }
        self.put_transaction(transaction);
        Ok(match outcome {
            None => Next::Finish,
            Some(LockOutcome::Granted { count }) => {
                if let Some(block) = &mut self.block {
                    block.row_lock_count = count;
                }
                Next::Finish
            }
            Some(LockOutcome::Changed) => Next::RunAgain,
            Some(LockOutcome::Skip(rows)) => Next::RunWithout(rows),
        })
    }

    /// Waits for the transaction that has locked the row whose key a statement wanted to add again.
    /// Returns false if there is none: then the key is taken.
    async fn must_wait_for_duplicate(&mut self, error: &Error) -> Result<bool> {
        let found = self.duplicate.take();
        let found = found.filter(|_| error.state() == SqlState::UNIQUE_VIOLATION);
        // No other transaction has locked a row of a temporary table.
        let found = found.filter(|(table, _)| !table.is_temporary());
        let Some((table, row)) = found else { return Ok(false) };
        let snapshot = self.snapshot();
        let Some(version) = snapshot.catalog().table(table).map(|entry| entry.version) else {
            return Ok(false);
        };
        let (rows, added) = (vec![(row, RowLock::Share)], Vec::new());
        let locks = TableLocks {
            table,
            version,
            rows,
            added,
            truncated: false,
            keys: None,
            snapshot: snapshot.lsn(),
        };
        let outcome = self.ask_for_locks(vec![locks], LockWait::Probe).await?;
        Ok(!matches!(outcome, LockOutcome::Granted { .. }))
    }

    /// Asks for row locks, and waits for other transactions if need be.
    async fn ask_for_locks(
        &mut self,
        tables: Vec<TableLocks>,
        wait: LockWait,
    ) -> Result<LockOutcome> {
        let (database, owner) = (self.database.clone(), self.lock_owner);
        let block = self.block.as_mut().ok_or_else(|| Error::internal("no block is open"))?;
        let engine = &database.shared.engine;
        let term = block.row_locks.get_or_insert_with(|| engine.row_lock_term(owner));
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let on_reply = move |reply| {
            // A canceled statement has stopped listening.
            let _ = sender.send(reply);
        };
        term.lock(LockRequest { owner, tables, wait }, Box::new(on_reply));
        let waiting = Waiting { database, owner, is_over: false };
        let answer = async move {
            let mut waiting = waiting;
            let answer = receiver.await;
            waiting.is_over = true;
            answer.unwrap_or_else(|_| Err(Error::internal("the engine gave no answer")))
        };
        match self.settings.time("lock_timeout") {
            None => self.cancels.run(answer).await,
            Some(timeout) => {
                let answer = async {
                    let answer = thalweg_runtime::timeout(timeout, answer).await;
                    answer.unwrap_or_else(|_| Err(lock_timeout()))
                };
                self.cancels.run(answer).await
            }
        }
    }

    /// The limits of a commit's wait for row locks.
    pub(super) fn patience(&self, encodes_first: bool) -> Patience {
        Patience {
            owner: self.lock_owner,
            encodes_first,
            cancels: self.cancels.handle(),
            lock_timeout: self.settings.time("lock_timeout"),
            statement_timeout: self.settings.statement_timeout(),
        }
    }
}

/// A wait for row locks, which ends when this is dropped.
struct Waiting {
    database: Database,
    owner: LockOwner,
    is_over: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.is_over {
            self.database.shared.engine.stop_waiting(self.owner);
        }
    }
}

/// The limits of a commit's wait for row locks of other transactions. A commit that does not wait
/// for a lock cannot be canceled.
pub(super) struct Patience {
    owner: LockOwner,
    /// True if the commit reaches the engine only after some work.
    encodes_first: bool,
    cancels: CancelHandle,
    lock_timeout: Option<Duration>,
    statement_timeout: Option<Duration>,
}

impl Patience {
    pub(super) async fn wait_for_commit(
        self,
        database: &Database,
        committing: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let mut committing = std::pin::pin!(committing);
        if let Poll::Ready(done) = futures::poll!(committing.as_mut()) {
            return done;
        }
        // A lock that the commit meets was asked for before the commit was sent.
        let engine = &database.shared.engine;
        if !self.encodes_first && !engine.has_row_locks() {
            return committing.await;
        }
        let reason = tokio::select! {
            biased;
            done = committing.as_mut() => return done,
            reason = self.is_over() => reason,
        };
        engine.stop_waiting(self.owner);
        match committing.await {
            Err(error) if error.state() == SqlState::QUERY_CANCELED => Err(reason),
            done => done,
        }
    }

    /// Resolves with the reason to wait no longer.
    async fn is_over(&self) -> Error {
        let mut cancels = self.cancels.watch();
        let statement_timeout = || {
            let message = "canceling statement due to statement timeout";
            Error::new(SqlState::QUERY_CANCELED, message)
        };
        tokio::select! {
            reason = cancels.next() => reason,
            () = after(self.lock_timeout) => lock_timeout(),
            () = after(self.statement_timeout) => statement_timeout(),
        }
    }
}

async fn after(timeout: Option<Duration>) {
    let forever = std::future::pending::<()>();
    match timeout {
        Some(timeout) => drop(thalweg_runtime::timeout(timeout, forever).await),
        None => forever.await,
    }
}

fn lock_timeout() -> Error {
    Error::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout")
}

fn too_many_runs() -> Error {
    Error::new(
        SqlState::SERIALIZATION_FAILURE,
        "could not serialize access: other transactions kept changing the same rows",
    )
    .with_hint("Run the transaction again.")
}

#[cfg(not(test))]
fn is_lockless() -> bool {
    false
}

#[cfg(test)]
use canary::is_lockless;

/// A deliberate bug, which the checker of histories must find.
#[cfg(test)]
mod canary {
    use std::cell::Cell;

    thread_local! {
        static LOCKLESS: Cell<bool> = const { Cell::new(false) };
    }

    /// True if blocks of this thread's sessions take no row locks.
    pub(super) fn is_lockless() -> bool {
        LOCKLESS.get()
    }

    pub(super) fn set_lockless(on: bool) {
        LOCKLESS.set(on);
    }
}
