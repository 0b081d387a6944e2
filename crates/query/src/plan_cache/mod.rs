//! The plan cache: a query is planned once, and executed again over other rows and with other
//! values.
//!
//! One cache serves all sessions. A plan is found by the statement's text, the types of its
//! parameters and the role, and is valid as long as the catalog is the one that it was made for. It
//! is made without parameter values ([`parameter`]) and cached without rows ([`generic`]). An
//! execution takes the plan out, binds both, and puts it back after its last row.
//!
//! Invariant: the result equals that of a fresh plan. Statements that cannot guarantee this are
//! planned each time: those with functions that are evaluated while planning, with relations that
//! are not tables, in transactions that change the catalog, or with a table that has outgrown the
//! plan.

mod entries;
mod generic;
mod inline_plans;
mod parameter;
mod seen_texts;
mod template;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use arrow::datatypes::FieldRef;
use arrow::record_batch::RecordBatch;
use futures::Stream;
use parking_lot::Mutex;
use thalweg_formats::text::style::SessionStyle;
use thalweg_txn::{Catalog, RoleId};
use thalweg_types::Result;

pub(crate) use entries::CachedStatements;
pub(crate) use generic::{GenericPlan, PlansForCache, Run};
pub(crate) use inline_plans::is_short;
pub(crate) use seen_texts::SeenTexts;
pub(crate) use template::{TemplateBinder, template};

use crate::outcome::BatchStream;

/// Greatest number of idle plans of one statement, and so of its concurrent executions from the
/// cache.
const IDLE_MAX: usize = 8;

/// The longest text that is cached, in bytes: longer ones usually come from programs that generate
/// a new text each time.
const TEXT_MAX: usize = 16 << 10;

/// Key of a cached plan.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    sql: Arc<str>,
    parameters: Arc<[FieldRef]>,
    role: RoleId,
    /// The setting `search_path`; `None` for the initial one.
    search_path: Option<Arc<str>>,
    /// The namespace of the session's temporary objects, which the statement may name.
    temporary: Option<Arc<str>>,
    /// Constants were folded in this style.
    style: Option<Arc<SessionStyle>>,
}

impl Key {
    /// `None` if the statement's text is too long for the cache.
    pub(crate) fn new(
        sql: &Arc<str>,
        parameters: &[FieldRef],
        role: RoleId,
        search_path: Option<&Arc<str>>,
        temporary: Option<&Arc<str>>,
        style: Option<&Arc<SessionStyle>>,
    ) -> Option<Key> {
        let (search_path, style) = (search_path.cloned(), style.cloned());
        let (temporary, parameters) = (temporary.cloned(), parameters.into());
        let sql = (sql.len() <= TEXT_MAX).then(|| Arc::clone(sql))?;
        Some(Key { sql, parameters, role, search_path, temporary, style })
    }
}

/// Counters of the plan cache since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanCacheMetrics {
    /// Executions of cached plans.
    pub runs: u64,
    /// Plans that were made for the cache.
    pub made: u64,
    /// Statements whose plan cannot be cached, counted again after each change of the catalog.
    pub refused: u64,
    /// Statements that are in the cache now.
    pub statements: u64,
}

/// The plan cache.
#[derive(Default)]
pub(crate) struct PlanCache {
    runs: AtomicU64,
    made: AtomicU64,
    refused: AtomicU64,
    statements: Mutex<CachedStatements<CachedStatement>>,
    /// Texts that were seen once. A plan is cached when a text comes again.
    seen: SeenTexts,
}

/// The plans of one statement.
#[derive(Default)]
pub(crate) struct CachedStatement {
    idle: Mutex<Vec<GenericPlan>>,
    /// The catalog for which the statement's plan could not be cached.
    refused: Mutex<Option<Arc<Catalog>>>,
}

impl PlanCache {
    /// The statement's plans, if it is in the cache.
    pub(crate) fn find(&self, key: &Key) -> Option<Arc<CachedStatement>> {
        self.statements.lock().find(key)
    }

    pub(crate) fn figures(&self) -> PlanCacheMetrics {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let statements = self.statements.lock().len() as u64;
        let (runs, made, refused) = (of(&self.runs), of(&self.made), of(&self.refused));
        PlanCacheMetrics { runs, made, refused, statements }
    }

    pub(crate) fn note_run(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an attempt to make a plan for the cache.
    pub(crate) fn note_made(&self, made: bool) {
        let counter = if made { &self.made } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a text that was seen.
    pub(crate) fn note(&self, sql: &str) {
        self.seen.note(sql);
    }

    /// True if a text was recorded. It may have been overwritten since, and hash collisions give
    /// false positives.
    pub(crate) fn may_know(&self, sql: &str) -> bool {
        self.seen.may_know(sql)
    }

    /// Adds a statement to the cache.
    pub(crate) fn keep(&self, key: Key) -> Arc<CachedStatement> {
        self.statements.lock().keep(key)
    }
}

impl CachedStatement {
    /// Takes an idle plan that fits the catalog.
    pub(crate) fn take(&self, catalog: &Arc<Catalog>) -> Option<GenericPlan> {
        let mut idle = self.idle.lock();
        while let Some(plan) = idle.pop() {
            if plan.is_for(catalog) {
                return Some(plan);
            }
        }
        None
    }

    pub(crate) fn give_back(&self, plan: GenericPlan) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(plan);
        }
    }

    /// Records that caching the statement is futile until the catalog changes.
    pub(crate) fn refuse(&self, catalog: &Arc<Catalog>) {
        *self.refused.lock() = Some(Arc::clone(catalog));
    }

    pub(crate) fn is_refused(&self, catalog: &Arc<Catalog>) -> bool {
        self.refused.lock().as_ref().is_some_and(|refused| Arc::ptr_eq(refused, catalog))
    }
}

/// The rows of a cached plan. Dropping them returns the plan to the cache.
pub(crate) struct ReturningPlan {
    rows: BatchStream,
    plan: Option<GenericPlan>,
    home: Arc<CachedStatement>,
}

impl ReturningPlan {
    pub(crate) fn new(
        rows: BatchStream,
        plan: GenericPlan,
        home: Arc<CachedStatement>,
    ) -> ReturningPlan {
        ReturningPlan { rows, plan: Some(plan), home }
    }
}

impl Stream for ReturningPlan {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.rows.as_mut().poll_next(context)
    }
}

impl Drop for ReturningPlan {
    fn drop(&mut self) {
        if let Some(plan) = self.plan.take() {
            self.home.give_back(plan);
        }
    }
}
