//! The memory that statements take for sorting, joining and grouping. There are limits for one
//! statement, for all together, and for the process as the system reports it. If memory is short,
//! operators spill to disk; operators that cannot spill fail without affecting others.

mod sorts;

use std::fmt;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use thalweg_env::{MemoryWatch, Purpose};
use thalweg_values::statement_control::{check_reserving, check_spilling};

use self::sorts::SortRoom;
use crate::task::reconfigured;

/// Number of sorted runs that are merged at once. Memory that a merge reserves for them is not
/// available to other sorts.
pub const MERGED_AT_ONCE: usize = 16;

/// If memory is short, a batch has one row for this much memory. This keeps the reservation of a
/// merge small, however much is sorted.
const BYTES_FOR_A_ROW: usize = 128 << 10;
/// Fewer rows are not worth a message in a file.
const ROWS_MIN: usize = 64;
/// All sorts together reserve one part in this many of the memory for merging.
const KEPT_FOR_MERGES: usize = 4;
/// The name of one statement's pool.
/// The setting that limits the memory of one statement.
pub(crate) const STATEMENT_LIMIT: &str = "query_memory_limit";
const STATEMENT_POOL: &str = "statement";
/// Memory that is assumed if the process has a limit and statements have none.
const BYTES_OF_NO_LIMIT: usize = 256 << 20;

/// The memory of all statements: at most `limit` bytes, and no more than the process has room for.
pub fn of_all(limit: Option<usize>, watch: Option<Arc<MemoryWatch>>) -> Arc<dyn MemoryPool> {
    let shared: Arc<dyn MemoryPool> = match limit {
        Some(bytes) => Arc::new(FairSpillPool::new(bytes)),
        None => Arc::new(UnboundedMemoryPool::default()),
    };
    Arc::new(WithoutRepartitions(WatchedPool { shared, watch }))
}

/// The state for a statement that may take at most `bytes` of the shared memory.
///
/// # Errors
/// If DataFusion cannot build the environment.
pub fn limited(state: &SessionState, bytes: usize) -> PlanResult<SessionState> {
    let runtime = room(state.runtime_env(), Some(bytes))?;
    let builder = SessionStateBuilder::new_from_existing(state.clone());
    Ok(builder.with_runtime_env(runtime).build())
}

/// The environment of a statement, with a limit of its own if it has one.
///
/// # Errors
/// If DataFusion cannot build the environment.
pub fn room(runtime: &Arc<RuntimeEnv>, limit: Option<usize>) -> PlanResult<Arc<RuntimeEnv>> {
    let Some(bytes) = limit else { return Ok(Arc::clone(runtime)) };
    let pool =
        StatementPool { own: FairSpillPool::new(bytes), of_all: Arc::clone(&runtime.memory_pool) };
    let pool = Arc::new(WithoutRepartitions(pool));
    let builder = RuntimeEnvBuilder::from_runtime_env(runtime).with_memory_pool(pool);
    builder.build().map(Arc::new)
}

/// The configuration with which a statement continues after it found too little memory, with the
/// given number of sorts that spill: small batches. DataFusion's default reservation for sorts is
/// more than such a statement may have in all.
pub(crate) fn memory_constrained(context: &TaskContext, sorts: usize) -> PlanResult<TaskContext> {
    let bytes = match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(bytes) => bytes,
        MemoryLimit::Infinite | MemoryLimit::Unknown => BYTES_OF_NO_LIMIT,
    };
    let mut config = context.session_config().clone();
    let rows = (bytes / BYTES_FOR_A_ROW).max(ROWS_MIN).min(config.batch_size());
    config = config.with_batch_size(rows);
    let execution = &mut config.options_mut().execution;
    let each = bytes / (KEPT_FOR_MERGES * sorts.max(1));
    execution.sort_spill_reservation_bytes = each;
    // The texts of a combined batch would be counted again for each piece of it.
    execution.sort_in_place_threshold_bytes = 0;
    let room = SortRoom::new(Arc::clone(context.memory_pool()), each, sorts);
    let runtime = RuntimeEnvBuilder::from_runtime_env(&context.runtime_env())
        .with_memory_pool(Arc::new(room))
        .build()?;
    Ok(reconfigured(context, config).with_runtime(Arc::new(runtime)))
}

/// The memory limit of a statement that reserves in this pool, and the setting that defines it.
pub(crate) fn limit_of(pool: &Arc<dyn MemoryPool>) -> (Option<usize>, &'static str) {
    let setting = match pool.name() {
        STATEMENT_POOL => STATEMENT_LIMIT,
        _ => "memory_limit",
    };
    match pool.memory_limit() {
        MemoryLimit::Finite(bytes) => (Some(bytes), setting),
        MemoryLimit::Infinite | MemoryLimit::Unknown => (None, setting),
    }
}

/// The error for an operator that would need more memory than there is, in the words of the pool
/// that refuses.
pub(crate) fn refusal(operator: &str, pool: &Arc<dyn MemoryPool>) -> DataFusionError {
    let too_much = match pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes.saturating_add(1),
        MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX / 2,
    };
    let refused = MemoryConsumer::new(operator).register(pool).try_grow(too_much);
    refused.err().unwrap_or_else(|| {
        DataFusionError::ResourcesExhausted(format!("Failed to allocate memory for {operator}"))
    })
}

/// A pool in which batches on their way between partitions reserve nothing. What they allocate
/// counts for their statement, which ends if that is too much.
///
/// Where such a reservation is refused, DataFusion 55.2 writes the batch to disk, and then two
/// writers and a reader may wait for each other for ever. Upstream:
/// <https://github.com/apache/datafusion/issues/24883>.
#[derive(Debug)]
struct WithoutRepartitions<P>(P);

fn is_repartition(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("RepartitionExec[")
}

impl<P: fmt::Display> fmt::Display for WithoutRepartitions<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

impl<P: MemoryPool + fmt::Display> MemoryPool for WithoutRepartitions<P> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        if !is_repartition(consumer) {
            self.0.register(consumer);
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if !is_repartition(consumer) {
            self.0.unregister(consumer);
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if !is_repartition(reservation.consumer()) {
            self.0.grow(reservation, additional);
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if !is_repartition(reservation.consumer()) {
            self.0.shrink(reservation, shrink);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> PlanResult<()> {
        match is_repartition(reservation.consumer()) {
            true => Ok(()),
            false => self.0.try_grow(reservation, additional),
        }
    }

    fn reserved(&self) -> usize {
        self.0.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.0.memory_limit()
    }
}

/// Refuses reservations that the process has no room for, and statements that have allocated more
/// than they reserved and more than they may.
#[derive(Debug)]
struct WatchedPool {
    shared: Arc<dyn MemoryPool>,
    watch: Option<Arc<MemoryWatch>>,
}

impl WatchedPool {
    fn took(&self, additional: usize) {
        if let Some(watch) = &self.watch {
            watch.took(additional);
        }
    }
}

impl fmt::Display for WatchedPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.shared, formatter)
    }
}

impl MemoryPool for WatchedPool {
    fn name(&self) -> &str {
        "watched"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.shared.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.shared.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.shared.grow(reservation, additional);
        self.took(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.shared.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> PlanResult<()> {
        if let Some(watch) = &self.watch {
            watch
                .check(additional, Purpose::Passing)
                .map_err(|over| refused(reservation, additional, "process_memory_limit", &over))?;
        }
        let checked = match reservation.consumer().can_spill() {
            true => check_reserving().and_then(|()| check_spilling(reservation.size())),
            false => check_reserving(),
        };
        checked.map_err(|over| refused(reservation, additional, over.setting, &over))?;
        self.shared.try_grow(reservation, additional)?;
        self.took(additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.shared.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.shared.memory_limit()
    }
}

/// Limits one statement to a part of the shared memory.
#[derive(Debug)]
struct StatementPool {
    own: FairSpillPool,
    of_all: Arc<dyn MemoryPool>,
}

impl fmt::Display for StatementPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.own, formatter)
    }
}

impl MemoryPool for StatementPool {
    fn name(&self) -> &str {
        STATEMENT_POOL
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.own.register(consumer);
        self.of_all.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.own.unregister(consumer);
        self.of_all.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.own.grow(reservation, additional);
        self.of_all.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.own.shrink(reservation, shrink);
        self.of_all.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> PlanResult<()> {
        self.own.try_grow(reservation, additional).map_err(|error| {
            refused(reservation, additional, "query_memory_limit", &error.strip_backtrace())
        })?;
        self.of_all
            .try_grow(reservation, additional)
            .inspect_err(|_| self.own.shrink(reservation, additional))
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.own.memory_limit()
    }
}

/// An error in the words of DataFusion's own pools, with the setting that refused.
fn refused(
    reservation: &MemoryReservation,
    additional: usize,
    setting: &str,
    why: &dyn fmt::Display,
) -> DataFusionError {
    let operator = reservation.consumer().name();
    DataFusionError::ResourcesExhausted(format!(
        "Failed to allocate {additional} bytes for {operator} with {} allocated ({setting}): {why}",
        reservation.size(),
    ))
}
