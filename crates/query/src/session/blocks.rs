//! Transaction blocks: begin, savepoints, and end.

use datafusion::sql::sqlparser::ast::TransactionMode;
use thalweg_execution::cancellable_rules::check_cancelled;
use thalweg_txn::{ConstraintTime, RowLockTerm, Savepoint, Transaction};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::errors::from_datafusion;

use super::Session;
use crate::locks::Ending;
use crate::outcome::Outcome;
use crate::statement::{self, Control, Modes, Settings};
use crate::workers::AtomicScope;

const NO_BLOCK: &str = "there is no transaction in progress";

/// The state of a transaction block.
pub(super) struct Block {
    /// `None` after a statement failed: then only the end of the block is accepted.
    pub(super) transaction: Option<Transaction>,
    savepoints: Vec<Saved>,
    /// The settings that a rollback restores.
    settings: Settings,
    /// True if a statement has read the snapshot.
    pub(super) has_looked: bool,
    /// True if a statement that did more than take locks has read it.
    has_read: bool,
    atomic_scope: AtomicScope,
    /// The value of `now()` in the block, in microseconds since 1970.
    pub(super) began_micros: i64,
    /// True if a statement had an `ON CONFLICT` clause.
    pub(super) has_upserts: bool,
    /// Releases the block's row locks; `None` if it has asked for none.
    pub(super) row_locks: Option<RowLockTerm>,
    /// Number of row locks that the block holds.
    pub(super) row_lock_count: usize,
    /// Releases the block's advisory locks.
    _locks: Ending,
}

/// The state that a rollback to a savepoint restores.
struct Saved {
    name: String,
    savepoint: Savepoint,
    settings: Settings,
    /// Number of locks that the block had.
    locks: usize,
    /// Number of row locks that the block had.
    row_locks: usize,
    /// Number of requests about notifications that the block had made.
    notifications: usize,
}

impl Session {
    pub(super) async fn control(&mut self, control: Control) -> Result<Outcome> {
        match control {
            Control::Begin(modes) => self.begin(&modes),
            Control::Commit { chain } => self.end_and_chain(true, chain).await,
            Control::Rollback { chain } => self.end_and_chain(false, chain).await,
            // An implicit block does not count as a transaction block.
            Control::Savepoint(_) if self.implicit => Err(outside("SAVEPOINT")),
            Control::RollbackTo(_) if self.implicit => Err(outside("ROLLBACK TO SAVEPOINT")),
            Control::Release(_) if self.implicit => Err(outside("RELEASE SAVEPOINT")),
            Control::Savepoint(name) => {
                let block = self.block.as_mut().ok_or_else(|| outside("SAVEPOINT"))?;
                let transaction = block.transaction.as_mut().ok_or_else(in_failed_block)?;
                let (savepoint, settings) = (transaction.savepoint(), self.settings.clone());
                let locks = self.locks.mark();
                let row_locks = block.row_lock_count;
                let notifications = self.notifications.mark();
                block.savepoints.push(Saved {
                    name,
                    savepoint,
                    settings,
                    locks,
                    row_locks,
                    notifications,
                });
                Ok(Outcome::command("SAVEPOINT"))
            }
            Control::RollbackTo(name) => {
                let block = self.block.as_mut().ok_or_else(|| outside("ROLLBACK TO SAVEPOINT"))?;
                let index = block.find(&name)?;
                block.savepoints.truncate(index + 1);
                let saved = &block.savepoints[index];
                let transaction = Transaction::at(&saved.savepoint);
                self.settings = self.settings.rolled_back_to(saved.settings.clone());
                self.locks.roll_back_to(saved.locks);
                self.notifications.roll_back_to(saved.notifications);
                block.transaction = Some(transaction);
                block.release_row_locks_since_savepoint();
                Ok(Outcome::command("ROLLBACK"))
            }
            Control::Release(name) => {
                let block = self.block.as_mut().ok_or_else(|| outside("RELEASE SAVEPOINT"))?;
                if block.transaction.is_none() {
                    return Err(in_failed_block());
                }
                let index = block.find(&name)?;
                block.savepoints.truncate(index);
                Ok(Outcome::command("RELEASE"))
            }
        }
    }

    pub(super) fn begin(&mut self, modes: &[TransactionMode]) -> Result<Outcome> {
        let on_gateway = self.database.shared.cluster().is_present();
        let notice = statement::less_isolated(modes, on_gateway);
        let outcome = notice.into_iter().fold(Outcome::command("BEGIN"), Outcome::with_notice);
        if std::mem::take(&mut self.implicit) {
            // Earlier statements of the text belong to the block, as in PostgreSQL.
            self.settings.set_modes(self.settings.modes().with(modes)?);
            return Ok(outcome);
        }
        if self.block.is_some() {
            let warning = "there is already a transaction in progress";
            return Ok(outcome.with_warning(SqlState::ACTIVE_TRANSACTION, warning));
        }
        self.open_block(self.settings.modes().with(modes)?, AtomicScope::Whole);
        Ok(outcome)
    }

    pub(super) fn open_block(&mut self, modes: Modes, atomic_scope: AtomicScope) {
        let transaction = Transaction::new(self.snapshot());
        self.block = Some(Block {
            transaction: Some(transaction),
            savepoints: Vec::new(),
            settings: self.settings.clone(),
            has_looked: false,
            has_read: false,
            atomic_scope,
            began_micros: self.database.env().clock.now_micros(),
            has_upserts: false,
            row_locks: None,
            row_lock_count: 0,
            _locks: self.locks.begin(),
        });
        self.settings.set_modes(modes);
    }

    /// Ends the block, and with `chain` begins another one in the same modes.
    async fn end_and_chain(&mut self, commit: bool, chain: bool) -> Result<Outcome> {
        let modes = self.settings.modes();
        let implicit = self.implicit;
        if chain && (implicit || self.block.is_none()) {
            return Err(outside(if commit { "COMMIT AND CHAIN" } else { "ROLLBACK AND CHAIN" }));
        }
        let ended = self.end(commit).await?;
        if chain {
            self.open_block(modes, AtomicScope::Whole);
        }
        if implicit {
            return Ok(ended.with_warning(SqlState::NO_ACTIVE_TRANSACTION, NO_BLOCK));
        }
        Ok(ended)
    }

    pub(super) async fn end(&mut self, commit: bool) -> Result<Outcome> {
        self.implicit = false;
        let ended = self.end_block(commit).await;
        self.cursors.end_transaction(matches!(ended, Ok((_, true))));
        ended.map(|(outcome, _)| outcome)
    }

    /// Checks the foreign keys whose check the transaction has deferred to its commit. The
    /// transaction stage checks the rows that refer to others.
    fn check_deferred(&self, transaction: &mut Transaction) -> Result<()> {
        if transaction.removed_count() == 0 {
            return Ok(());
        }
        if self.settings.modes().is_read_committed() && self.can_lock_rows() {
            transaction.rebase(&self.snapshot())?;
        }
        let check = || check_cancelled().map_err(|error| from_datafusion(error, ""));
        transaction.check_removed_keys(0, ConstraintTime::Commit, &check)
    }

    /// Also returns whether the transaction was committed.
    async fn end_block(&mut self, commit: bool) -> Result<(Outcome, bool)> {
        let Some(block) = self.block.take() else {
            let outcome = ended_as(commit).with_warning(SqlState::NO_ACTIVE_TRANSACTION, NO_BLOCK);
            return Ok((outcome, commit));
        };
        let ended = match block.transaction {
            Some(mut transaction) if commit => {
                let checked = self.check_deferred(&mut transaction);
                let committed = match checked {
                    Ok(()) => self.commit(transaction, None, block.atomic_scope).await,
                    Err(error) => Err(error),
                };
                committed.map(|()| true).map_err(|error| match block.has_upserts {
                    true => lost_upsert(error),
                    false => error,
                })
            }
            // Committing a failed block rolls it back, as in PostgreSQL.
            _ => Ok(false),
        };
        match ended {
            Ok(true) => {
                self.settings.end_transaction();
                self.notifications.commit();
            }
            _ => {
                self.settings = self.settings.rolled_back_to(block.settings);
                self.notifications.roll_back_to(0);
            }
        }
        ended.map(|committed| (ended_as(committed), committed))
    }
}

impl Block {
    /// Records that a statement reads the snapshot.
    pub(super) fn look(&mut self) {
        (self.has_looked, self.has_read) = (true, true);
    }

    /// Called after a statement about locks. A block that has read and written nothing gets a new
    /// snapshot, so that it sees the commits of the locks' previous holders.
    pub(super) fn catch_up(&mut self, mut now: Transaction) {
        self.has_looked = true;
        let is_new = !self.has_read;
        let Some(transaction) = self.transaction.as_mut().filter(|own| is_new && own.is_empty())
        else {
            return;
        };
        for saved in &mut self.savepoints {
            saved.savepoint = now.savepoint();
        }
        *transaction = now;
    }

    /// Releases the row locks that were taken since the last savepoint.
    pub(super) fn release_row_locks_since_savepoint(&mut self) {
        let keep = self.savepoints.last().map_or(0, |saved| saved.row_locks);
        self.row_lock_count = self.row_lock_count.min(keep);
        if let Some(row_locks) = &self.row_locks {
            row_locks.release(keep);
        }
    }

    /// Number of locks at the last savepoint.
    pub(super) fn locks_at_savepoint(&self) -> usize {
        self.savepoints.last().map_or(0, |saved| saved.locks)
    }

    fn find(&self, name: &str) -> Result<usize> {
        self.savepoints.iter().rposition(|saved| saved.name == name).ok_or_else(|| {
            let message = format!("savepoint \"{name}\" does not exist");
            Error::new(SqlState::INVALID_SAVEPOINT, message)
        })
    }
}

/// A key was free when an `ON CONFLICT` clause checked it, and another transaction has taken it
/// since. The block as a whole would have another result now.
fn lost_upsert(error: Error) -> Error {
    if error.state() != SqlState::UNIQUE_VIOLATION {
        return error;
    }
    let message = "could not serialize access due to concurrent update";
    Error::new(SqlState::SERIALIZATION_FAILURE, message)
        .with_detail(error.message().to_owned())
        .with_hint("The transaction might succeed if retried.")
}

fn ended_as(committed: bool) -> Outcome {
    Outcome::command(if committed { "COMMIT" } else { "ROLLBACK" })
}

pub(crate) fn in_failed_block() -> Error {
    Error::new(
        SqlState::IN_FAILED_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
    .with_hint("Use ROLLBACK to end it.")
}

pub(super) fn outside(what: &str) -> Error {
    let message = format!("{what} can only be used in transaction blocks");
    Error::new(SqlState::NO_ACTIVE_TRANSACTION, message)
}
