//! Plans that are kept: a query is planned once, and runs again over other rows and with other
//! values.
//!
//! One cache serves all sessions. A plan is found by the statement's text, the types of its
//! parameters and the role that asks, and fits as long as the catalog is the one that it was made
//! for. It is made without the values of its parameters ([`parameter`]), and waits without rows
//! ([`generic`]); a run takes it out, gives it both and puts it back when its rows have come.
//!
//! Promise: what comes out is what planning anew would give. Whatever cannot promise that - a
//! function that answers while a statement is planned, a relation that is no table, a transaction
//! that changes the catalog, a table that has grown out of its plan - goes the ordinary way.

mod generic;
mod over_rows;
mod parameter;
mod plain;
mod statements;

use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use arrow::datatypes::FieldRef;
use arrow::record_batch::RecordBatch;
use futures::Stream;
use parking_lot::Mutex;
use thalweg_txn::{Catalog, RoleId};
use thalweg_types::Result;

pub(crate) use generic::{GenericPlan, Reusable, Run};
pub(crate) use over_rows::{OverRows, template};
pub(crate) use parameter::value;
pub use parameter::{Values, bound, parameter, value_of_run};
pub(crate) use plain::is_short;

use self::statements::{STATEMENTS_MAX, Statements};
use crate::outcome::BatchStream;

/// How many plans of one statement wait at most: as many runs as may take place at once.
const IDLE_MAX: usize = 8;

/// The longest text that is looked for, in bytes: longer ones come from programs that write a new
/// one each time.
const TEXT_MAX: usize = 16 << 10;

/// What a plan is found by.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    sql: Arc<str>,
    parameters: Arc<[FieldRef]>,
    role: RoleId,
}

impl Key {
    /// `None` where a statement is not worth to be kept.
    pub(crate) fn new(sql: &Arc<str>, parameters: &[FieldRef], role: RoleId) -> Option<Key> {
        let key = || Key { sql: Arc::clone(sql), parameters: parameters.into(), role };
        (sql.len() <= TEXT_MAX).then(key)
    }
}

/// What the cache of plans has done since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanFigures {
    /// Runs of plans that were kept.
    pub runs: u64,
    /// Plans that were made to be kept.
    pub made: u64,
    /// Statements of which no plan can be kept, counted anew when the catalog has changed.
    pub refused: u64,
    /// Statements that the cache knows now.
    pub statements: u64,
}

/// The plans that are kept.
#[derive(Default)]
pub(crate) struct Plans {
    runs: AtomicU64,
    made: AtomicU64,
    refused: AtomicU64,
    statements: Mutex<Statements>,
    /// Hashes of texts that came once: a plan is made for those that come again.
    noted: Noted,
    hasher: RandomState,
}

struct Noted([AtomicU64; STATEMENTS_MAX]);

impl Default for Noted {
    fn default() -> Noted {
        Noted([const { AtomicU64::new(0) }; STATEMENTS_MAX])
    }
}

/// The plans of one statement.
#[derive(Default)]
pub(crate) struct Kept {
    idle: Mutex<Vec<GenericPlan>>,
    /// The catalog for which the statement turned out to have no plan that can be kept.
    refused: Mutex<Option<Arc<Catalog>>>,
    /// Since room was made last.
    is_used: AtomicBool,
}

impl Plans {
    /// What is kept of a statement, if it was asked for before.
    pub(crate) fn find(&self, key: &Key) -> Option<Arc<Kept>> {
        self.statements.lock().find(key)
    }

    pub(crate) fn figures(&self) -> PlanFigures {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let statements = self.statements.lock().len() as u64;
        let (runs, made, refused) = (of(&self.runs), of(&self.made), of(&self.refused));
        PlanFigures { runs, made, refused, statements }
    }

    pub(crate) fn note_run(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes whether a plan could be made to be kept.
    pub(crate) fn note_made(&self, made: bool) {
        let counter = if made { &self.made } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a text came.
    pub(crate) fn note(&self, sql: &str) {
        let (place, hash) = self.noted(sql);
        place.store(hash, Ordering::Relaxed);
    }

    /// Whether a text was noted; with some other texts now and then.
    pub(crate) fn may_know(&self, sql: &str) -> bool {
        let (place, hash) = self.noted(sql);
        place.load(Ordering::Relaxed) == hash
    }

    fn noted(&self, sql: &str) -> (&AtomicU64, u64) {
        let hash = self.hasher.hash_one(sql);
        (&self.noted.0[hash as usize % STATEMENTS_MAX], hash)
    }

    /// Makes a place for a statement's plans.
    pub(crate) fn keep(&self, key: Key) -> Arc<Kept> {
        self.statements.lock().keep(key)
    }
}

impl Kept {
    /// A plan that fits the catalog and that nobody else uses now.
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

    /// Remembers that there is no use in trying again before the catalog changes.
    pub(crate) fn refuse(&self, catalog: &Arc<Catalog>) {
        *self.refused.lock() = Some(Arc::clone(catalog));
    }

    pub(crate) fn is_refused(&self, catalog: &Arc<Catalog>) -> bool {
        self.refused.lock().as_ref().is_some_and(|refused| Arc::ptr_eq(refused, catalog))
    }
}

/// The rows of a plan, which goes back to where it was when nobody wants them any more.
pub(crate) struct Lent {
    rows: BatchStream,
    plan: Option<GenericPlan>,
    home: Arc<Kept>,
}

impl Lent {
    pub(crate) fn new(rows: BatchStream, plan: GenericPlan, home: Arc<Kept>) -> Lent {
        Lent { rows, plan: Some(plan), home }
    }
}

impl Stream for Lent {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.rows.as_mut().poll_next(context)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(plan) = self.plan.take() {
            self.home.give_back(plan);
        }
    }
}
