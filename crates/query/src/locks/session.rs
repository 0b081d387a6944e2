//! The locks of one session, and the execution of its statements about locks.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use thalweg_types::{Error, Result, SqlState};

use super::AdvisoryLocks;
use super::calls::{Call, Wanted};
use super::functions::{Act, Until};
use super::table::{Key, Lock, Mode, Owner, Term};
use crate::outcome::{Notice, Outcome, Tag, WARNING};

/// The locks of a session. They are released when this is dropped.
pub(crate) struct SessionLocks {
    locks: Arc<AdvisoryLocks>,
    session: Arc<Term>,
    /// The open block, or the running statement. Its [`Ending`] belongs to the code that began it.
    transaction: Arc<Term>,
}

impl SessionLocks {
    pub(crate) fn new(locks: Arc<AdvisoryLocks>) -> SessionLocks {
        let owner = Arc::new(Owner::default());
        SessionLocks { locks, session: Term::new(&owner), transaction: Term::new(&owner) }
    }

    pub(crate) fn introduce(&self, process_id: i32) {
        self.session.owner().introduce(process_id);
    }

    /// Begins a transaction: a block, or a statement outside of one. Its locks are released when
    /// the returned value is dropped.
    pub(crate) fn begin(&mut self) -> Ending {
        self.transaction = Term::new(self.session.owner());
        Ending { locks: Arc::clone(&self.locks), term: Arc::clone(&self.transaction) }
    }

    /// Number of locks of the transaction, as a mark for [`Self::roll_back_to`].
    pub(crate) fn mark(&self) -> usize {
        self.transaction.count()
    }

    /// Releases the locks that the transaction took since a mark.
    pub(crate) fn roll_back_to(&self, mark: usize) {
        self.locks.give_back_behind(&self.transaction, mark);
    }

    /// Releases all locks of the session, but not those of its transaction.
    pub(crate) fn unlock_all(&self) {
        self.locks.give_back_behind(&self.session, 0);
    }

    /// Executes the calls of a statement. Each waits for its lock at most for `timeout`.
    ///
    /// # Errors
    /// If a lock cannot be had. The session keeps the locks that it took until then.
    pub(crate) async fn run(&self, wanted: Wanted, timeout: Option<Duration>) -> Result<Outcome> {
        let Wanted { calls, schema } = wanted;
        let (mut columns, mut notices) = (Vec::with_capacity(calls.len()), Vec::new());
        for call in calls {
            let answer = self.answer(call, timeout, &mut notices).await?;
            columns.push(call.column(answer));
        }
        let row = row(&schema, &columns);
        let row =
            row.map_err(|error| Error::internal("locks cannot be told").with_source(error))?;
        let outcome = Outcome::batches(schema, vec![row], Tag::Select);
        Ok(Outcome { notices, ..outcome })
    }

    /// `None` if the call did nothing because an argument is NULL.
    async fn answer(
        &self,
        Call { act, key }: Call,
        timeout: Option<Duration>,
        notices: &mut Vec<Notice>,
    ) -> Result<Option<bool>> {
        Ok(Some(match (act, key) {
            (Act::UnlockAll, _) => {
                self.unlock_all();
                true
            }
            (_, None) => return Ok(None),
            (Act::Lock(until, mode), Some(key)) => {
                self.lock(until, Lock { key, mode }, timeout).await?;
                true
            }
            (Act::Try(until, mode), Some(key)) => {
                self.locks.try_take(self.term(until), Lock { key, mode })?
            }
            (Act::Unlock(mode), Some(key)) => self.unlock(key, mode, notices),
        }))
    }

    fn term(&self, until: Until) -> &Arc<Term> {
        match until {
            Until::SessionEnds => &self.session,
            Until::TransactionEnds => &self.transaction,
        }
    }

    /// Waits for a lock. If the future is dropped, no lock and no position in the queue remain.
    async fn lock(&self, until: Until, lock: Lock, timeout: Option<Duration>) -> Result<()> {
        let waiting = self.locks.take_or_wait(self.term(until), lock)?;
        let Some(waiting) = waiting else { return Ok(()) };
        let Some(timeout) = timeout else { return waiting.await };
        let waited = thalweg_runtime::timeout(timeout, waiting).await;
        waited.unwrap_or_else(|_| {
            let message = "canceling statement due to lock timeout";
            Err(Error::new(SqlState::LOCK_NOT_AVAILABLE, message))
        })
    }

    /// Releases a lock of the session once. Returns false, with a warning, if the session does not
    /// hold it.
    fn unlock(&self, key: Key, mode: Mode, notices: &mut Vec<Notice>) -> bool {
        let was_held = self.locks.give_back(&self.session, Lock { key, mode });
        if !was_held {
            let message = format!("you don't own a lock of type {}", mode.name());
            notices.push(Notice { state: WARNING, message, detail: None });
        }
        was_held
    }
}

fn row(schema: &SchemaRef, columns: &[ArrayRef]) -> Result<RecordBatch, ArrowError> {
    let columns = columns.iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type()));
    RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<Vec<_>, _>>()?)
}

impl Drop for SessionLocks {
    fn drop(&mut self) {
        self.unlock_all();
    }
}

/// Releases a transaction's locks when it is dropped.
pub(crate) struct Ending {
    locks: Arc<AdvisoryLocks>,
    term: Arc<Term>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.locks.give_back_behind(&self.term, 0);
    }
}
