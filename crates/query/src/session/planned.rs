//! Work that needs a planner. It moves to a planning thread with its inputs from the session, and
//! returns what it changed. Canceled work returns nothing: its transaction has failed, its planner
//! is dropped with the work, and the session's settings are unchanged.

use std::sync::Arc;

use datafusion::execution::session_state::SessionState;
use futures::future::BoxFuture;
use thalweg_dialect::parse::Parsed;
use thalweg_execution::cancel::Cancels;
use thalweg_execution::memory;
use thalweg_execution::panics::caught;
use thalweg_execution::planning::{is_long, too_many_abandoned};
use thalweg_execution::row_forms::RowForm;
use thalweg_execution::stack::with_room;
use thalweg_functions::statement_time::begin_statement;
use thalweg_txn::{Catalog, Transaction};
use thalweg_types::Result;
use thalweg_values::errors::from_datafusion;

use super::Session;
use crate::catalog::{SearchPath, SettingRequests, StatementContext};
use crate::database::Database;
use crate::planner::Planner;
use crate::statement::{Execution, Scope, Settings, plan_text};
use crate::temporary_objects::TemporaryObjects;

/// Freeing the syntax tree of a text from this length on, in bytes, takes a millisecond or more.
const FREED_ELSEWHERE_BYTES: usize = 64 << 10;

/// Maximum number of works that a session has on planning threads: the one of its statement, and
/// canceled ones that have not ended yet.
pub(super) const PLANNING_TURNS: usize = 4;

/// Work on a statement.
pub(super) type Work<T> =
    Box<dyn for<'e, 'x> FnOnce(&'e mut Execution<'x>) -> BoxFuture<'e, Result<T>> + Send>;

/// The parts of its session that a statement's work needs.
struct SessionParts {
    database: Database,
    planner: Planner,
    state: SessionState,
    settings: Settings,
    sql: Arc<str>,
    form: RowForm,
    in_block: bool,
    has_looked: bool,
    search_path: Arc<SearchPath>,
    temporary: Arc<TemporaryObjects>,
    cancels: Cancels,
}

/// The results of a statement's work.
struct Done<T> {
    result: Result<T>,
    planner: Planner,
    settings: Settings,
}

impl SessionParts {
    async fn work<T>(mut self, work: Work<T>) -> Done<T> {
        let result = {
            let mut execution = Execution {
                database: &self.database,
                state: self.state,
                form: self.form,
                names: &self.planner.names,
                settings: &mut self.settings,
                sql: &self.sql,
                in_block: self.in_block,
                has_looked: self.has_looked,
                temporary: &self.temporary,
                goes_ahead: !self.in_block,
            };
            let work = self.cancels.heard_by(work(&mut execution));
            self.search_path.scope(caught(with_room(work))).await
        };
        Done { result, planner: self.planner, settings: self.settings }
    }
}

impl Session {
    /// Does some work on a planning thread. Canceled work may still be running there, beside the
    /// work of the session's next statement: it has its own planner and its own copy of the
    /// settings. A session with [`PLANNING_TURNS`] such works is refused. Does not borrow the
    /// session, so that the future is `Send` regardless of the session's contents.
    fn on_planning_thread<T: Send + 'static, W>(
        &self,
        work: W,
    ) -> impl Future<Output = Result<T>> + Send + use<T, W>
    where
        W: Future<Output = Result<T>> + Send + 'static,
    {
        let (threads, turns) = (self.database.clone(), Arc::clone(&self.planning_turns));
        let role = self.settings.identity.authenticated;
        async move {
            let turn = turns.try_acquire_owned().map_err(|_| too_many_abandoned())?;
            let work = async move {
                let done = work.await;
                drop(turn);
                done
            };
            threads.shared.planners.planning().run(role, work).await
        }
    }

    /// Parses a text, on a planning thread where it is long.
    pub(super) fn parsing<'t, T: Send + 'static>(
        &self,
        sql: &'t str,
        parse: fn(&str) -> Result<T>,
    ) -> impl Future<Output = Result<T>> + Send + use<'t, T> {
        let elsewhere = is_long(sql).then(|| {
            let sql = sql.to_owned();
            let planners = &self.database.shared.planners;
            let (executor, pool) = (planners.executor().clone(), planners.memory_pool().clone());
            let own_limit = self.settings.query_memory();
            let parse = move || executor.counted_now(own_limit, &pool, || parse(&sql));
            self.on_planning_thread(async move { parse() })
        });
        async move {
            match elsewhere {
                Some(parsed) => parsed.await,
                None => parse(sql),
            }
        }
    }

    /// Drops a statement. The tree of a long one has millions of nodes, which another thread frees.
    pub(super) fn drop_parsed(&self, parsed: Arc<Parsed>, sql: &str) {
        if sql.len() >= FREED_ELSEWHERE_BYTES {
            self.database.shared.planners.executor().free_elsewhere(parsed);
        }
    }

    /// Does some work on a statement in a transaction, and returns the transaction with the
    /// changes.
    pub(super) async fn with_planner<T: Send + 'static>(
        &mut self,
        transaction: Transaction,
        sql: &str,
        work: Work<T>,
    ) -> Result<(T, Transaction)> {
        self.carry_out_setting_requests()?;
        self.setting_requests = SettingRequests::default();
        self.publish_notifications();
        let planner = self.database.shared.planners.take()?;
        let session_parts = self.session_parts(planner, transaction, sql)?;
        let working = self.on_planning_thread(async move { Ok(session_parts.work(work).await) });
        let done = self.cancels.run(working).await?;
        let Done { result, planner, settings } = done;
        self.settings = settings;
        let transaction = planner.names.take();
        self.database.shared.planners.give_back(planner);
        if result.is_err() {
            self.duplicate = transaction.as_ref().and_then(Transaction::duplicate);
        }
        Ok((result?, transaction.expect("a statement leaves its transaction in place")))
    }

    /// Changes the settings that `set_config` was called for while the rows of the last statement
    /// were made. Rows may be made ahead of their delivery, so the end of the statement decides.
    /// Outside of a block, a change for the transaction has no effect.
    ///
    /// # Errors
    /// If a setting cannot have the value.
    pub(super) fn carry_out_setting_requests(&mut self) -> Result<()> {
        let requests = std::mem::take(&mut *self.setting_requests.lock());
        if requests.is_empty() {
            return Ok(());
        }
        let snapshot = self.snapshot();
        for request in requests {
            if request.scope == Scope::Session || self.block.is_some() {
                request.apply(&mut self.settings, snapshot.catalog())?;
            }
        }
        Ok(())
    }

    /// The text of a statement's current executable plan, cut after this many bytes. Making it
    /// takes no longer than the session's timeout.
    ///
    /// # Errors
    /// If the statement has no plan; errors of planning it.
    pub fn plan_text<'a>(
        &'a mut self,
        sql: &'a str,
        bytes_max: usize,
    ) -> BoxFuture<'a, Result<String>> {
        Box::pin(async move {
            self.cancels.begin();
            let _timer = self.statement_timer();
            let sql = format!("EXPLAIN {sql}");
            let parsed = self.parsed(&sql).await?;
            let transaction = Transaction::new(self.snapshot());
            let work: Work<String> = Box::new(move |execution| {
                Box::pin(async move { plan_text(execution, &parsed.statement, bytes_max).await })
            });
            self.with_planner(transaction, &sql, work).await.map(|(text, _)| text)
        })
    }

    fn session_parts(
        &self,
        planner: Planner,
        transaction: Transaction,
        sql: &str,
    ) -> Result<SessionParts> {
        let search_path = Arc::new(self.search_path(transaction.catalog()));
        let statement_context = StatementContext {
            database: Arc::clone(&self.database.shared),
            settings: self.settings.clone(),
            search_path: Arc::clone(&search_path),
            facts: Arc::clone(&self.facts),
            setting_requests: Arc::clone(&self.setting_requests),
            sequences: Arc::clone(&self.sequences),
            temporary: Arc::clone(&self.temporary),
            notifications: Arc::clone(&self.notifications),
            registered: self.registered.clone(),
        };
        planner.names.show(transaction, statement_context);
        let mut state = self.gathering_in(&planner);
        if let Some(block) = &self.block {
            let now_micros = self.database.env().clock.now_micros();
            begin_statement(&mut state, block.began_micros, now_micros);
        }
        if let Some(bytes) = self.settings.query_memory() {
            state = memory::limited(&state, bytes).map_err(|error| from_datafusion(error, sql))?;
        }
        Ok(SessionParts {
            database: self.database.clone(),
            planner,
            state,
            settings: self.settings.clone(),
            sql: sql.into(),
            form: self.form.clone(),
            in_block: self.block.is_some(),
            has_looked: self.block.as_ref().is_some_and(|block| block.has_looked),
            search_path,
            temporary: Arc::clone(&self.temporary),
            cancels: self.cancels.heard(),
        })
    }

    /// The namespaces in which the session finds unqualified names.
    fn search_path(&self, catalog: &Catalog) -> SearchPath {
        let role = catalog.roles().get(self.settings.identity.current);
        let role = role.map(|role| role.name.as_str());
        SearchPath::new(self.settings.search_path().map(AsRef::as_ref), role, catalog)
    }
}
