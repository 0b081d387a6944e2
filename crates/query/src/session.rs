//! A session: one user's statements, executed in sequence, and their transaction.
//!
//! [`route`] chooses the way in which a statement runs, and the other modules are the ways:
//! `points` and `cached_plans` need no planner, `planned` moves work to a planning thread, and
//! `locking` runs statements about advisory locks. `blocks` holds the transaction block between
//! statements. A session borrows a planner for one statement, so that idle ones are small.

mod ad_hoc;
mod blocks;
mod cached_plans;
mod cursors;
mod locking;
mod opening;
mod planned;
mod points;
mod read_committed;
mod route;
mod row_forms;

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use futures::future::{BoxFuture, ready};
use thalweg_dialect::parse::{Parsed, parse, parse_single};
use thalweg_execution::cancel::{CancelHandle, SessionCancels};
use thalweg_execution::panics::caught;
use thalweg_execution::planning::is_long;
use thalweg_execution::row_forms::RowForm;
use thalweg_execution::stack::with_room_for;
use thalweg_formats::text::style::{SessionStyle, Styled};
use thalweg_txn::{LockOwner, Snapshot, Transaction};
use thalweg_types::{DataType, Error, Result, RowId, SqlState, TableId};
use tokio::sync::Semaphore;

use crate::appender::Appender;
use crate::catalog::SettingRequests;
use crate::copy_in::CopyIn;
use crate::cursor::{Cursor, Cursors};
use crate::database::Database;
use crate::locks::{self, SessionLocks};
use crate::notifications::{Inbox, SessionNotifications};
use crate::outcome::{Notice, Outcome, Tag};
use crate::point;
use crate::prepared::{Prepared, PreparedStatements, Resolution};
use crate::privileges::Identity;
use crate::registered::RegisteredTables;
use crate::sequences::SessionSequences;
use crate::server_context::SessionInfo;
use crate::statement::{self, Description, Scope, SessionCommand, Setter, Settings};
use crate::temporary_objects::OwnTemporaryObjects;
use crate::workers::{AtomicScope, Load};

pub(crate) use self::blocks::in_failed_block;
use self::blocks::{Block, outside};
use self::planned::{PLANNING_TURNS, Work};
pub use self::route::Route;

/// Maximum number of retries of a statement that lost a conflict, before the error is reported.
const RETRIES_MAX: usize = 100;
/// Number of tries of a statement before it takes row locks, with which it cannot lose a conflict.
const LOCKLESS_TRIES: usize = 8;
/// Like [`RETRIES_MAX`], for a statement that staged its rows in the log: each try writes them
/// anew.
const STAGED_RETRIES_MAX: usize = 3;

/// One user's statements, executed in sequence.
///
/// Methods that run statements return boxed futures: the state machine of an `async fn` is compiled
/// in each crate that awaits it, and this one holds the whole of query processing.
pub struct Session {
    database: Database,
    /// One is held for each work of the session's statements that is on a planning thread.
    planning_turns: Arc<Semaphore>,
    cancels: SessionCancels,
    locks: SessionLocks,
    /// The owner of the row locks of the session's blocks.
    lock_owner: LockOwner,
    /// The row of the snapshot whose key the last statement wanted to add again.
    duplicate: Option<(TableId, RowId)>,
    block: Option<Block>,
    /// True for the implicit block around the statements of one text.
    implicit: bool,
    settings: Settings,
    /// Warnings about defaults of settings that could not be applied.
    opening_notices: Vec<Notice>,
    facts: Arc<SessionInfo>,
    /// The settings that functions of the last statement were asked to change.
    setting_requests: SettingRequests,
    sequences: Arc<SessionSequences>,
    temporary: OwnTemporaryObjects,
    notifications: Arc<SessionNotifications>,
    prepared: PreparedStatements,
    cursors: Cursors,
    registered: RegisteredTables,
    /// The form of result rows.
    form: RowForm,
    /// The route of the last statement.
    route: Option<Route>,
}

/// State of a session's transaction block, as PostgreSQL's protocol reports it after each
/// statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// No block is open: each statement is a transaction of its own.
    Idle,
    Active,
    /// A statement failed: only `ROLLBACK` is accepted.
    Failed,
}

/// One statement of a text.
#[derive(Clone, Debug)]
pub struct Statement {
    pub text: String,
    /// Its position in the text, in bytes.
    pub offset: usize,
}

impl Session {
    /// A session without defaults of settings for roles, for work of the database itself.
    pub(crate) fn new(database: Database, identity: Identity) -> Session {
        let settings = Settings::new(database.shared.defaults(), identity);
        let locks = SessionLocks::new(Arc::clone(&database.shared.locks));
        let lock_owner = database.shared.engine.allocate_lock_owner();
        let notifications = Arc::new(SessionNotifications::new(&database.shared.channels));
        Session {
            database,
            planning_turns: Arc::new(Semaphore::new(PLANNING_TURNS)),
            cancels: SessionCancels::new(),
            locks,
            lock_owner,
            duplicate: None,
            block: None,
            implicit: false,
            settings,
            opening_notices: Vec::new(),
            facts: Arc::default(),
            setting_requests: SettingRequests::default(),
            sequences: Arc::default(),
            temporary: OwnTemporaryObjects::default(),
            notifications,
            prepared: PreparedStatements::default(),
            cursors: Cursors::default(),
            registered: RegisteredTables::default(),
            form: RowForm::Batches,
            route: None,
        }
    }

    /// The statements of a text. [`Session::split`] does not block the thread.
    ///
    /// # Errors
    /// A syntax error, with its position in `sql`; a cancel that came meanwhile.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        let cancels = self.cancels.handle().watch();
        let statements = statements(sql)?;
        cancels.check()?;
        Ok(statements)
    }

    /// The statements of a text. A long text is parsed on another thread. A cancel, or the
    /// session's timeout, ends this early.
    ///
    /// # Errors
    /// A syntax error, with its position in `sql`; the cancel.
    pub fn split<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Vec<Statement>>> {
        if let Some(shared) = self.statement_of_shared(sql) {
            return Box::pin(ready(Ok(vec![shared])));
        }
        // The text may have several statements, which get timers of their own. Parsing a short text
        // takes no time.
        let timer = is_long(sql).then(|| self.statement_timer()).flatten();
        let mut cancels = self.cancels.handle().watch();
        let parsing = self.parsing(sql, statements);
        Box::pin(async move {
            let _timer = timer;
            cancels.unless_any(parsing).await?
        })
    }

    /// A handle with which other tasks cancel this session's statements.
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancels.handle()
    }

    /// State of the transaction block between statements.
    #[must_use]
    pub fn transaction(&self) -> TransactionStatus {
        match &self.block {
            None => TransactionStatus::Idle,
            Some(Block { transaction: Some(_), .. }) => TransactionStatus::Active,
            Some(_) => TransactionStatus::Failed,
        }
    }

    /// Sets what the session knows of its client.
    pub fn introduce(&mut self, facts: SessionInfo) {
        self.locks.introduce(facts.process_id);
        self.facts = Arc::new(facts);
    }

    /// The value that `SHOW` returns for one of the session's own settings.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<String> {
        let catalog = || self.database.shared.engine.snapshot();
        let of_role = || statement::role_setting(catalog().catalog(), self.settings.identity, name);
        self.settings.get(name).or_else(of_role)
    }

    /// The style in which the session reads values from text and writes them; `None` is the default
    /// one.
    #[must_use]
    pub fn style(&self) -> Option<Arc<SessionStyle>> {
        self.settings.style().cloned()
    }

    /// The role that the session was opened for, or its replacement.
    #[must_use]
    pub fn user(&self) -> String {
        self.setting("session_authorization").unwrap_or_default()
    }

    /// Changes one of the session's own settings, like `SET`.
    ///
    /// # Errors
    /// If there is no such setting, or it cannot have the value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.set_with(name, value, None)
    }

    fn set_with(&mut self, name: &str, value: &str, opening: Option<&'static str>) -> Result<()> {
        let snapshot = self.database.shared.engine.snapshot();
        let is_superuser = snapshot.catalog().roles().is_superuser(self.settings.identity.current);
        let setter = Setter { is_superuser, opening };
        match self.settings.set(name, Some(value), setter)? {
            true => Ok(()),
            false => Err(statement::unrecognized(name)),
        }
    }

    /// Bulk writes into a table with the privileges of the session's role: all rows or none, in a
    /// transaction of their own.
    ///
    /// # Errors
    /// If there is no such table, or the role may not insert into it.
    pub fn appender(&self, table: &str) -> Result<Appender> {
        Appender::new(self.database.clone(), self.settings.identity.current, table)
    }

    /// Makes rows of the program known to this session's queries under a name, which replaces
    /// earlier rows of that name. A relation of the database that has the name comes first.
    ///
    /// # Errors
    /// If a batch has other columns than the schema.
    pub fn register(
        &mut self,
        name: &str,
        schema: SchemaRef,
        rows: Vec<RecordBatch>,
    ) -> Result<()> {
        self.registered.insert(name, schema, rows)
    }

    /// Ends [`Session::register`]. Returns false if nothing is registered under the name. Results
    /// that are not read yet keep their rows.
    pub fn unregister(&mut self, name: &str) -> bool {
        self.registered.remove(name)
    }

    /// Parses the one statement of a text.
    async fn parsed(&mut self, sql: &str) -> Result<Parsed> {
        let parsing = self.parsing(sql, parse_single);
        self.cancels.run(parsing).await
    }

    /// Describes a statement's parameters and result without running it.
    ///
    /// `declared` are the known types of its first parameters.
    ///
    /// # Errors
    /// Errors of the statement; if an open transaction block has failed.
    pub fn prepare<'a>(
        &'a mut self,
        sql: &'a str,
        declared: &'a [Option<DataType>],
    ) -> BoxFuture<'a, Result<Prepared>> {
        let carried_out = self.carry_out_setting_requests();
        in_style(self.style(), async {
            self.cancels.begin();
            let work = async {
                carried_out?;
                let _timer = self.statement_timer();
                let parsed = self.parsed(sql).await?;
                let prepared = self.describe(parsed, sql, declared).await?;
                // A cancel that arrived at the end would be lost when the statement runs.
                self.cancels.heard().check()?;
                Ok(prepared)
            };
            let prepared = with_room_for(sql, caught(work)).await;
            self.note_failure(prepared)
        })
    }

    /// Stores a prepared statement under a name, as `PREPARE` does.
    ///
    /// # Errors
    /// If the name is taken; 53200 if the session's prepared statements are too large together.
    pub fn keep_prepared(&mut self, name: &str, prepared: Prepared) -> Result<()> {
        let free = self.prepared.check_free(name);
        let kept = free.and_then(|()| self.prepared.keep(name.to_owned(), prepared));
        self.note_failure(kept)
    }

    /// The prepared statement of a name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find_prepared(&mut self, name: &str) -> Result<Prepared> {
        let found = self.prepared.find(name).cloned();
        self.note_failure(found)
    }

    /// Drops a prepared statement; does nothing if there is none.
    pub fn forget_prepared(&mut self, name: &str) {
        let _ = self.prepared.remove(name);
    }

    /// Adds the rows that a `COPY … FROM STDIN` took in, or gives up on it because of an error.
    ///
    /// # Errors
    /// The given one, or the reason why the rows could not be added: then none was.
    pub fn finish_copy(&mut self, copy: Result<CopyIn>) -> BoxFuture<'_, Result<Outcome>> {
        in_style(self.style(), async {
            let outcome = caught(async { self.add_copied(copy?).await }).await;
            self.note_failure(outcome)
        })
    }

    /// Reports that not all rows of the last statement could be delivered: an open block fails.
    pub fn fail(&mut self) {
        match &mut self.block {
            Some(block) => {
                block.transaction = None;
                block.release_row_locks_since_savepoint();
                self.locks.roll_back_to(block.locks_at_savepoint());
            }
            None => self.notifications.roll_back_to(0),
        }
        self.setting_requests = SettingRequests::default();
    }

    /// Carries out what functions of the last statement asked for, once all its rows are delivered:
    /// `set_config`, and outside of a block the messages of `pg_notify`.
    ///
    /// # Errors
    /// If a setting cannot have its value any more; the messages were sent.
    pub fn finish_statement(&mut self) -> Result<()> {
        self.publish_notifications();
        self.carry_out_setting_requests()
    }

    /// Sends the messages of a statement outside of a block, whose rows have all been delivered.
    fn publish_notifications(&self) {
        if self.block.is_none() {
            self.notifications.commit();
        }
    }

    /// The messages of the channels that the session listens to; `None` if it has never listened.
    #[must_use]
    pub fn inbox(&self) -> Option<Arc<Inbox>> {
        self.notifications.inbox()
    }

    /// Makes the statements up to [`Session::end_implicit`] one transaction, for a text with
    /// several statements. Explicit transaction statements among them still work.
    pub fn begin_implicit(&mut self) {
        if self.block.is_none() {
            self.open_block(self.settings.modes(), AtomicScope::Whole);
            self.implicit = true;
        }
    }

    /// Begins a block of several steps that are one statement to the client: workers treat them as
    /// one statement. `COMMIT` or `ROLLBACK` ends it.
    pub fn begin_steps(&mut self) {
        if self.block.is_none() {
            self.open_block(self.settings.modes(), AtomicScope::EachWorker);
        }
    }

    /// Ends the block of [`Session::begin_implicit`] unless it has ended already.
    ///
    /// # Errors
    /// If the transaction could not be committed: nothing of it took effect.
    pub fn end_implicit(&mut self, commit: bool) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match std::mem::take(&mut self.implicit) {
                true => self.end(commit).await.map(drop),
                false => Ok(()),
            }
        })
    }

    /// The newest snapshot of the database, with the session's temporary objects.
    fn snapshot(&self) -> Snapshot {
        self.temporary.snapshot(&self.database.shared)
    }

    /// Maximum time that the session may be idle, in or outside of a transaction block.
    #[must_use]
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.settings.time(match self.block {
            None => "idle_session_timeout",
            Some(_) => "idle_in_transaction_session_timeout",
        })
    }

    /// After an error, a block accepts only its end.
    fn note_failure<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.fail();
        }
        result
    }

    async fn add_copied(&mut self, copy: CopyIn) -> Result<Outcome> {
        if self.is_read_committed() {
            return self.add_copied_read_committed(copy).await;
        }
        let mut transaction = match &mut self.block {
            Some(block) => block.transaction.take().ok_or_else(in_failed_block)?,
            None => Transaction::new(self.snapshot()),
        };
        let (target, mut loaded) = copy.finish(transaction.catalog())?;
        let rows = match &mut self.block {
            Some(block) => {
                let before = transaction.savepoint();
                let rows = loaded.append_in_block(&mut transaction, &target)?;
                transaction.check_new_references(Some(&before))?;
                block.transaction = Some(transaction);
                rows
            }
            None => {
                let ahead = loaded.ahead.take();
                let rows = loaded.append_to(&mut transaction, target.id())?;
                self.commit(transaction, ahead, AtomicScope::EachWorker).await?;
                rows
            }
        };
        Ok(Outcome::done(Tag::Copy(rows)))
    }

    /// The description of a statement, whose memory counts from now on.
    async fn describe(
        &mut self,
        parsed: Parsed,
        sql: &str,
        declared: &[Option<DataType>],
    ) -> Result<Prepared> {
        let bytes = parsed.bytes;
        let prepared = self.described(parsed, sql, declared).await?;
        prepared.held_by(self.database.shared.planners.executor(), bytes)
    }

    async fn described(
        &mut self,
        parsed: Parsed,
        sql: &str,
        declared: &[Option<DataType>],
    ) -> Result<Prepared> {
        if statement::control(&parsed).is_some() {
            return Ok(Prepared::new(parsed, sql, Description::default()));
        }
        let transaction = match &mut self.block {
            Some(block) => block.transaction.as_mut().ok_or_else(in_failed_block)?.share(),
            None => Transaction::new(self.snapshot()),
        };
        let description = match statement::of_session(&parsed) {
            Some(SessionCommand::Fetch { name, gives_rows: true, .. }) => {
                let schema = self.cursors.find(&name)?.schema.clone();
                Description { parameters: Vec::new(), schema: Some(schema) }
            }
            Some(SessionCommand::Execute { name, .. }) => {
                let schema = self.prepared.find(&name)?.schema().cloned();
                Description { parameters: Vec::new(), schema }
            }
            Some(_) => Description::default(),
            None => {
                let (declared, text): (Vec<_>, Arc<str>) = (declared.to_vec(), sql.into());
                let work: Work<Prepared> = Box::new(move |execution| {
                    Box::pin(async move {
                        let tree = &parsed.statement;
                        let description = statement::describe(execution, tree, &declared).await?;
                        let point = point::recognize(execution, tree, &description);
                        let resolution = Resolution {
                            search_path: execution.settings.search_path().cloned(),
                            role: Some(execution.settings.identity.current),
                            style: execution.settings.style().cloned(),
                        };
                        Ok(Prepared::new(parsed, &text, description).with_point(point, resolution))
                    })
                });
                let (prepared, _) = self.with_planner(transaction, sql, work).await?;
                return Ok(prepared);
            }
        };
        Ok(Prepared::new(parsed, sql, description))
    }

    /// Plans a statement and runs it, in the open block or as a transaction of its own.
    async fn run_planned(&mut self, parsed: &Arc<Parsed>, sql: &str) -> Result<Outcome> {
        let check_modes = || match self.settings.modes().read_only {
            true => statement::check_writable(&parsed.statement),
            false => Ok(()),
        };
        if self.is_read_committed() {
            if self.transaction() == TransactionStatus::Failed {
                return Err(in_failed_block());
            }
            check_modes()?;
            return self.run_read_committed(parsed, sql).await;
        }
        match &mut self.block {
            Some(block) => {
                let transaction = block.transaction.take().ok_or_else(in_failed_block)?;
                check_modes()?;
                let (outcome, transaction) = self.run_in(transaction, parsed, sql).await?;
                if let Some(block) = &mut self.block {
                    block.transaction = Some(transaction);
                    block.has_upserts |= statement::is_upsert(parsed);
                    if !statement::is_about_settings(&parsed.statement) {
                        block.look();
                    }
                }
                Ok(outcome)
            }
            None => {
                check_modes()?;
                // The statement before is over, even if its rows were not read to their end.
                self.publish_notifications();
                let outcome = match self.must_look_at_locks(parsed) {
                    true => self.run_locking_alone(parsed, sql).await?,
                    false => self.run_alone(parsed, sql).await?,
                };
                if outcome.rows.is_none() {
                    self.publish_notifications();
                }
                Ok(outcome)
            }
        }
    }

    /// Runs a statement as its own transaction, and retries it after a conflict with another one.
    async fn run_alone(&mut self, parsed: &Arc<Parsed>, sql: &str) -> Result<Outcome> {
        let (mut lost, mut tries, mut most) = (None, 0, RETRIES_MAX);
        while tries < most {
            tries += 1;
            self.notifications.roll_back_to(0);
            let transaction = Transaction::new(self.snapshot());
            let (mut outcome, transaction) = match self.run_in(transaction, parsed, sql).await {
                // On a gateway: the rows of one part were changed before the next part checked
                // them.
                Err(error) if error.state() == SqlState::SERIALIZATION_FAILURE => {
                    lost = Some(error);
                    continue;
                }
                Err(error) if self.meets_locked_duplicate(&error) => {
                    return self.run_locking_alone(parsed, sql).await;
                }
                ran => ran?,
            };
            let may_lock = !transaction.has_definitions() && self.can_lock_rows();
            if transaction.has_staged() || outcome.ahead.is_some() {
                most = STAGED_RETRIES_MAX;
            }
            match self.commit(transaction, outcome.ahead.take(), AtomicScope::EachWorker).await {
                Err(error) if statement::may_retry(parsed, &error) => {
                    if may_lock && tries >= LOCKLESS_TRIES.min(most) {
                        return self.run_locking_alone(parsed, sql).await;
                    }
                    lost = Some(error);
                }
                committed => return committed.map(|()| outcome),
            }
        }
        // If an upsert violates a key other than the one it names, retries fail as well.
        if let Some(error) = lost.filter(|error| error.state() == SqlState::UNIQUE_VIOLATION) {
            return Err(error);
        }
        Err(Error::new(
            SqlState::SERIALIZATION_FAILURE,
            "could not serialize access: other transactions kept changing the same rows",
        ))
    }

    /// Runs a statement in a transaction and returns the transaction with its changes.
    async fn run_in(
        &mut self,
        transaction: Transaction,
        parsed: &Arc<Parsed>,
        sql: &str,
    ) -> Result<(Outcome, Transaction)> {
        let parsed = Arc::clone(parsed);
        let work: Work<Outcome> = Box::new(move |execution| {
            Box::pin(async move { statement::execute(execution, &parsed).await })
        });
        self.with_planner(transaction, sql, work).await
    }

    /// Statements that only change the session.
    async fn run_of_session(&mut self, wanted: SessionCommand, sql: &str) -> Result<Outcome> {
        if self.transaction() == TransactionStatus::Failed {
            return Err(in_failed_block());
        }
        match wanted {
            SessionCommand::Prepare { name, declared, parsed } => {
                self.prepared.check_free(&name)?;
                locks::check_none(&parsed.statement)?;
                let prepared = Box::pin(self.describe(*parsed, sql, &declared)).await?;
                self.prepared.keep(name, prepared)?;
                Ok(Outcome::command("PREPARE"))
            }
            SessionCommand::Execute { name, values } => {
                let prepared = self.prepared.find(&name)?.clone();
                let parsed = prepared.with_expressions(&values)?;
                let (_, outcome) = Box::pin(self.run(parsed, prepared.sql())).await?;
                Ok(outcome)
            }
            SessionCommand::Deallocate(None) => {
                self.prepared.clear();
                Ok(Outcome::command("DEALLOCATE ALL"))
            }
            SessionCommand::Deallocate(Some(name)) => {
                self.prepared.remove(&name).map(|()| Outcome::command("DEALLOCATE"))
            }
            SessionCommand::Declare { name, manner, query } => {
                if self.block.is_none() && !manner.hold {
                    return Err(outside("DECLARE CURSOR"));
                }
                self.form = RowForm::Batches;
                let (_, outcome) = Box::pin(self.run(*query, sql)).await?;
                let rows = outcome.rows.ok_or_else(|| Error::internal("a query gives rows"))?;
                self.cursors.declare(&name, Cursor::new(outcome.schema, rows, manner))?;
                Ok(Outcome::command("DECLARE CURSOR"))
            }
            SessionCommand::Fetch { name, motion, gives_rows } => {
                let cursor = self.cursors.find(&name)?;
                match gives_rows {
                    true => self.cancels.run(cursor.fetch(motion?)).await,
                    false => self.cancels.run(cursor.pass(motion?)).await,
                }
            }
            SessionCommand::Close(None) => {
                self.cursors.close_all();
                Ok(Outcome::command("CLOSE CURSOR ALL"))
            }
            SessionCommand::Close(Some(name)) => {
                self.cursors.close(&name).map(|()| Outcome::command("CLOSE CURSOR"))
            }
            SessionCommand::DiscardAll => self.discard_all().await,
            SessionCommand::Listen(channel) => self.listen(&channel),
            SessionCommand::Unlisten(channel) => {
                self.notifications.unlisten(channel.as_deref())?;
                self.publish_notifications();
                Ok(Outcome::command("UNLISTEN"))
            }
            SessionCommand::Notify { channel, payload } => {
                self.notifications.notify(self.facts.process_id, &channel, &payload)?;
                self.publish_notifications();
                Ok(Outcome::command("NOTIFY"))
            }
            SessionCommand::DiscardSequences => {
                self.sequences.discard();
                Ok(Outcome::command("DISCARD SEQUENCES"))
            }
            SessionCommand::DiscardTemporary => self.discard_temporary().await,
            // Plans follow the catalog.
            SessionCommand::Discard(what) => Ok(Outcome::command(what)),
        }
    }

    fn listen(&self, channel: &str) -> Result<Outcome> {
        if !self.facts.receives_notifications {
            return Err(Error::unsupported("LISTEN over this protocol")
                .with_hint("Connect with PostgreSQL's protocol."));
        }
        self.notifications.listen(channel)?;
        self.publish_notifications();
        Ok(Outcome::command("LISTEN"))
    }

    /// Drops the temporary objects, in the open block or at once.
    async fn discard_temporary(&mut self) -> Result<Outcome> {
        let outcome = Outcome::command("DISCARD TEMP");
        if let Some(block) = &mut self.block {
            let transaction = block.transaction.as_mut().ok_or_else(in_failed_block)?;
            self.temporary.discard_in(transaction)?;
            return Ok(outcome);
        }
        let mut transaction = Transaction::new(self.snapshot());
        self.temporary.discard_in(&mut transaction)?;
        self.commit(transaction, None, AtomicScope::EachWorker).await?;
        Ok(outcome)
    }

    async fn discard_all(&mut self) -> Result<Outcome> {
        if self.block.is_some() {
            let message = "DISCARD ALL cannot run inside a transaction block";
            return Err(Error::new(SqlState::ACTIVE_TRANSACTION, message));
        }
        self.prepared.clear();
        self.cursors.close_all();
        self.locks.unlock_all();
        self.sequences.discard();
        self.notifications.unlisten(None)?;
        self.publish_notifications();
        self.discard_temporary().await?;
        let identity = Identity::of(self.settings.identity.authenticated);
        let identity = self.settings.in_opening_role(identity);
        self.settings.set_identity(Scope::Session, identity);
        self.settings.reset_all();
        Ok(Outcome::command("DISCARD ALL"))
    }

    /// Commits a transaction, together with the rows that were sent to workers. Does not borrow the
    /// session, so that the future is `Send` regardless of the session's contents.
    fn commit(
        &self,
        mut transaction: Transaction,
        ahead: Option<Box<dyn Load>>,
        atomic_scope: AtomicScope,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let ready = self.temporary.before_commit(&mut transaction);
        let (own, temporary) = (self.temporary.clone(), transaction.take_temporary());
        let has_others = !transaction.is_empty() || ahead.is_some();
        let (database, durability) = (self.database.clone(), self.settings.durability);
        let has_bulks = !database.shared.cluster().is_present() && transaction.has_bulks();
        let cancels = has_bulks.then(|| self.cancels.heard());
        let transaction = transaction.owned_by(self.lock_owner);
        let patience = self.patience(has_bulks);
        async move {
            ready?;
            let temporary = match temporary {
                Some(changes) => Some(own.prepare(changes, has_others).await?),
                None => None,
            };
            let shared = Arc::clone(&database.shared);
            let committing = async move {
                match (ahead, cancels) {
                    (None, None) => shared.commit(transaction, atomic_scope, durability).await,
                    (Some(load), _) => shared.commit_load(load, transaction, durability).await,
                    (None, Some(cancels)) => {
                        Box::pin(shared.commit_bulks(transaction, cancels, durability)).await
                    }
                }
            };
            match temporary {
                None if has_others => patience.wait_for_commit(&database, committing).await,
                None => Ok(()),
                Some(temporary) if !has_others => temporary.commit().await,
                Some(temporary) => {
                    // A task of its own: a caller that stops waiting between the two commits must
                    // not leave the second one out. The objects last until that one is made.
                    let both = async move {
                        let _own = own;
                        patience.wait_for_commit(&database, committing).await?;
                        temporary.commit().await
                    };
                    let done = thalweg_runtime::spawn(both).await;
                    done.map_err(|died| Error::internal("a commit broke down").with_source(died))?
                }
            }
        }
    }
}

/// Work in a session's style of values.
fn in_style<'a, T: 'a>(
    style: Option<Arc<SessionStyle>>,
    work: impl Future<Output = T> + Send + 'a,
) -> BoxFuture<'a, T> {
    let work = Box::pin(work);
    match style {
        None => work,
        style => Box::pin(Styled::new(style, work)),
    }
}

fn statements(sql: &str) -> Result<Vec<Statement>> {
    let parsed = parse(sql)?.into_iter();
    Ok(parsed.map(|parsed| Statement { text: parsed.text, offset: parsed.offset }).collect())
}

#[cfg(test)]
mod tests;
