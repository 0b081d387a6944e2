//! A session: one user's statements, one after the other, and their transaction.

use std::sync::Arc;

use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use thalweg_dialect::parse::{Parsed, parse, parse_single};
use thalweg_txn::{Savepoint, Transaction};
use thalweg_types::{Error, Result, SqlState};

use crate::cancel::CancelHandle;
use crate::catalog::{Catalogs, DATABASE, SessionCatalog};
use crate::database::Database;
use crate::outcome::Outcome;
use crate::statement::{self, Execution, Settings};

/// How often a statement that lost against another one is tried again before its user is told.
const RETRIES_MAX: usize = 100;

pub struct Session {
    database: Database,
    context: SessionContext,
    names: Arc<SessionCatalog>,
    cancel: CancelHandle,
    block: Option<Block>,
    settings: Settings,
}

/// What lies between `BEGIN` and `COMMIT`.
struct Block {
    /// `None` after a statement failed: then nothing but the end of the block is taken.
    transaction: Option<Transaction>,
    savepoints: Vec<(String, Savepoint)>,
    /// The snapshot that rolling back to a savepoint returns to.
    beginning: Transaction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Each statement is a transaction of its own.
    Idle,
    Active,
    /// A statement failed: only `ROLLBACK` helps.
    Failed,
}

/// One statement of a text.
#[derive(Clone, Debug)]
pub struct Statement {
    pub text: String,
    /// Where it begins in the text, in bytes.
    pub offset: usize,
}

impl Session {
    pub(crate) fn new(database: Database) -> Session {
        let names = SessionCatalog::new();
        let config = SessionConfig::new()
            .with_target_partitions(database.shared.threads)
            .with_information_schema(false)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(DATABASE, thalweg_txn::DEFAULT_NAMESPACE);
        let builder = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(Arc::clone(&database.shared.runtime))
            .with_catalog_list(Arc::new(Catalogs(Arc::clone(&names))));
        let mut builder = thalweg_dialect::configure(builder);
        for rule in thalweg_dialect::rewrite::analyzer_rules() {
            builder = builder.with_analyzer_rule(rule);
        }
        let state = builder.build();
        let context = SessionContext::new_with_state(state);
        names.bind(Arc::downgrade(&context.state_ref()));
        let settings = Settings::new(database.shared.durability);
        Session { database, context, names, cancel: CancelHandle::new(), block: None, settings }
    }

    /// The statements of a text.
    ///
    /// # Errors
    /// A syntax error, with its place in `sql`.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        let parsed = parse(sql)?;
        Ok(parsed.into_iter().map(|p| Statement { text: p.text, offset: p.offset }).collect())
    }

    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    #[must_use]
    pub fn transaction(&self) -> TransactionStatus {
        match &self.block {
            None => TransactionStatus::Idle,
            Some(Block { transaction: Some(_), .. }) => TransactionStatus::Active,
            Some(_) => TransactionStatus::Failed,
        }
    }

    pub(crate) fn state(&self) -> SessionState {
        self.context.state()
    }

    /// Runs one statement.
    ///
    /// # Errors
    /// What is wrong with the statement, or why it could not be done. Nothing of it happened then;
    /// an open transaction block has failed.
    pub async fn execute(&mut self, sql: &str) -> Result<Outcome> {
        let outcome = match parse_single(sql) {
            Ok(parsed) => self.run(parsed, sql).await,
            Err(error) => Err(error),
        };
        if outcome.is_err()
            && let Some(block) = &mut self.block
        {
            block.transaction = None;
        }
        self.names.forget();
        let mut outcome = outcome?;
        outcome.rows = outcome.rows.map(|rows| self.cancel.guard(rows));
        Ok(outcome)
    }

    async fn run(&mut self, parsed: Parsed, sql: &str) -> Result<Outcome> {
        if let Some(control) = statement::control(&parsed)? {
            return self.control(control).await;
        }
        match &mut self.block {
            Some(block) => {
                let transaction = block.transaction.take().ok_or_else(in_failed_block)?;
                let (outcome, transaction) = self.run_in(transaction, &parsed, sql).await?;
                if let Some(block) = &mut self.block {
                    block.transaction = Some(transaction);
                }
                Ok(outcome)
            }
            None => self.run_alone(&parsed, sql).await,
        }
    }

    /// A statement that is a transaction of its own; when it loses against another, it is tried
    /// again.
    async fn run_alone(&mut self, parsed: &Parsed, sql: &str) -> Result<Outcome> {
        let mut lost = None;
        for _ in 0..RETRIES_MAX {
            let transaction = Transaction::new(self.database.shared.engine.snapshot());
            let (outcome, transaction) = self.run_in(transaction, parsed, sql).await?;
            match self.commit(transaction).await {
                Err(error) if statement::may_retry(parsed, &error) => lost = Some(error),
                committed => return committed.map(|()| outcome),
            }
        }
        // An upsert that breaks a key other than the one it names breaks it at every try.
        if let Some(error) = lost.filter(|error| error.state() == SqlState::UNIQUE_VIOLATION) {
            return Err(error);
        }
        Err(Error::new(
            SqlState::SERIALIZATION_FAILURE,
            "could not serialize access: other transactions kept changing the same rows",
        ))
    }

    /// Runs a statement in a transaction and hands the transaction back with its changes.
    async fn run_in(
        &mut self,
        transaction: Transaction,
        parsed: &Parsed,
        sql: &str,
    ) -> Result<(Outcome, Transaction)> {
        let in_block = self.block.is_some();
        self.names.show(transaction);
        let mut execution = Execution {
            database: &self.database,
            context: &self.context,
            state: self.context.state(),
            names: &self.names,
            settings: &mut self.settings,
            sql,
            in_block,
        };
        let outcome = self.cancel.run(statement::execute(&mut execution, parsed)).await?;
        let transaction = self.names.take().expect("a statement leaves its transaction in place");
        Ok((outcome, transaction))
    }

    async fn commit(&self, transaction: Transaction) -> Result<()> {
        self.database.shared.commit(transaction, self.settings.durability).await
    }

    async fn control(&mut self, control: statement::Control) -> Result<Outcome> {
        use statement::Control;
        match control {
            Control::Begin => Ok(self.begin()),
            Control::Commit => self.end(true).await,
            Control::Rollback => self.end(false).await,
            Control::Savepoint(name) => {
                let block = self.block.as_mut().ok_or_else(|| outside("SAVEPOINT"))?;
                let transaction = block.transaction.as_ref().ok_or_else(in_failed_block)?;
                block.savepoints.push((name, transaction.savepoint()));
                Ok(Outcome::command("SAVEPOINT"))
            }
            Control::RollbackTo(name) => {
                let block = self.block.as_mut().ok_or_else(|| outside("ROLLBACK TO SAVEPOINT"))?;
                let index = block.find(&name)?;
                block.savepoints.truncate(index + 1);
                let mut transaction = block.beginning.clone();
                transaction.roll_back_to(&block.savepoints[index].1);
                block.transaction = Some(transaction);
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

    fn begin(&mut self) -> Outcome {
        let outcome = Outcome::command("BEGIN");
        if self.block.is_some() {
            return outcome.with_notice("there is already a transaction in progress".to_owned());
        }
        let transaction = Transaction::new(self.database.shared.engine.snapshot());
        self.block = Some(Block {
            beginning: transaction.clone(),
            transaction: Some(transaction),
            savepoints: Vec::new(),
        });
        outcome
    }

    async fn end(&mut self, commit: bool) -> Result<Outcome> {
        let tag = if commit { "COMMIT" } else { "ROLLBACK" };
        let Some(block) = self.block.take() else {
            let outcome = Outcome::command(tag);
            return Ok(outcome.with_notice("there is no transaction in progress".to_owned()));
        };
        match block.transaction {
            Some(transaction) if commit => {
                self.commit(transaction).await?;
                Ok(Outcome::command("COMMIT"))
            }
            // Committing a failed block rolls it back, as in PostgreSQL.
            _ => Ok(Outcome::command("ROLLBACK")),
        }
    }
}

impl Block {
    fn find(&self, name: &str) -> Result<usize> {
        self.savepoints.iter().rposition(|(saved, _)| saved == name).ok_or_else(|| {
            let message = format!("savepoint \"{name}\" does not exist");
            Error::new(SqlState::INVALID_SAVEPOINT, message)
        })
    }
}

fn in_failed_block() -> Error {
    Error::new(
        SqlState::IN_FAILED_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
    .with_hint("Use ROLLBACK to end it.")
}

fn outside(what: &str) -> Error {
    let message = format!("{what} can only be used in transaction blocks");
    Error::new(SqlState::NO_ACTIVE_TRANSACTION, message)
}
