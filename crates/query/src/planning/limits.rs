//! How large a statement may become while it is planned: in operators, in grouping sets, and in
//! memory.
//!
//! What a thread allocates while it plans counts as memory of the statement, with a granularity of
//! [`STEP_BYTES`]: it is reserved from the pool that the statement's operators share. Programs whose
//! allocator counts nothing (see `thalweg_env::thread_allocated_bytes`) have no such limit.

mod grouping_sets;

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as PlanResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::LogicalPlan;
use parking_lot::Mutex;
use thalweg_dialect::errors::{external, from_datafusion};
use thalweg_env::{Clock as _, RealClock, thread_allocated_bytes};
use thalweg_types::{Error, Result, SqlState};

pub(crate) use self::grouping_sets::check as check_grouping_sets;

/// How many operators a plan may have, each counted as often as it is run: passes take time and
/// memory for each.
const OPERATORS_MAX: usize = 32_768;

/// So much is reserved at once, and so much goes uncounted.
const STEP_BYTES: usize = 1 << 20;

/// Planning that has taken so long is worth a look at what has become of its plan.
const LONG: Duration = Duration::from_millis(10);

/// # Errors
/// As [`check_size`], where a pass has made a plan grow that is not planned in a moment.
pub(crate) fn check_growth(plan: &LogicalPlan) -> PlanResult<()> {
    let is_long = |taken: &Arc<Taken>| taken.since.monotonic() > LONG;
    match CURRENT.with_borrow(|taken| taken.as_ref().is_some_and(is_long)) {
        true => check_size(plan),
        false => Ok(()),
    }
}

/// # Errors
/// 54001 where a plan has more operators than can be planned in time.
pub(crate) fn check_size(plan: &LogicalPlan) -> PlanResult<()> {
    let mut operators = 0_usize;
    plan.apply_with_subqueries(|_| {
        operators += 1;
        Ok(match operators > OPERATORS_MAX {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    if operators <= OPERATORS_MAX {
        return Ok(());
    }
    let message = format!("the statement needs a plan of more than {OPERATORS_MAX} operators");
    let error = Error::new(SqlState::STATEMENT_TOO_COMPLEX, message);
    Err(external(error.with_hint(
        "A WITH query and a view count as often as they are used. Keep what is used often in a \
         temporary table.",
    )))
}

thread_local! {
    /// Of the planning that the thread is at.
    static CURRENT: RefCell<Option<Arc<Taken>>> = const { RefCell::new(None) };
}

/// The memory that the planning of one statement takes.
struct Taken {
    /// Begins with the planning.
    since: RealClock,
    pool: Arc<dyn MemoryPool>,
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    /// What was allocated in earlier turns of the work.
    before: isize,
    /// The thread's count when this turn began.
    at_begin: isize,
    reserved: Option<MemoryReservation>,
}

impl Taken {
    fn check(&self) -> PlanResult<()> {
        let mut counted = self.counted.lock();
        let taken = counted.before + (thread_allocated_bytes() - counted.at_begin);
        let taken = usize::try_from(taken).unwrap_or(0);
        let reserved = counted.reserved.as_ref().map_or(0, MemoryReservation::size);
        if taken < reserved + STEP_BYTES {
            return Ok(());
        }
        let consumer = || MemoryConsumer::new("planning").register(&self.pool);
        counted.reserved.get_or_insert_with(consumer).try_grow(taken - reserved)
    }
}

/// # Errors
/// 53200 where the planning that this thread is at takes more memory than there is for it.
pub(crate) fn check() -> Result<()> {
    let current = CURRENT.with_borrow(Option::clone);
    current.map_or(Ok(()), |taken| taken.check().map_err(|error| from_datafusion(error, "")))
}

/// Plans, and counts the memory that this takes until it is done.
///
/// # Errors
/// Those of the work.
pub(crate) async fn within_memory<T>(
    pool: &Arc<dyn MemoryPool>,
    work: impl Future<Output = PlanResult<T>>,
) -> PlanResult<T> {
    let mut work = pin!(work);
    let (since, pool, counted) = (RealClock::new(), Arc::clone(pool), Mutex::default());
    let taken = Arc::new(Taken { since, pool, counted });
    poll_fn(|context| {
        let outer = CURRENT.take();
        if outer.is_some() {
            // What a view's plan takes counts with the plan around it.
            CURRENT.set(outer);
            return work.as_mut().poll(context);
        }
        taken.counted.lock().at_begin = thread_allocated_bytes();
        CURRENT.set(Some(Arc::clone(&taken)));
        let _turn = Turn(&taken);
        work.as_mut().poll(context)
    })
    .await
}

/// One turn of the work on one thread.
struct Turn<'t>(&'t Taken);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        CURRENT.set(None);
        let mut counted = self.0.counted.lock();
        counted.before += thread_allocated_bytes() - counted.at_begin;
    }
}

#[cfg(test)]
mod tests;
