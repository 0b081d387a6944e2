//! The threads that queries run on. They are separate from those that serve connections, so that an
//! operator that rarely yields does not delay messages: a cancel arrives, and its client gets an
//! answer, whatever the operators do.
//!
//! A plan that runs out of memory before its first row restarts as a memory-constrained plan
//! (`memory_constrained`). The restart is safe: no row was returned yet, and it reads the same
//! snapshot.

mod buffered_side;
mod byte_sized;
mod byte_sized_inputs;
mod cancellable_tasks;
mod long_series;
mod memory_constrained;
mod window_arrays;
mod window_memory;
mod yielding;

use std::future::poll_fn;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use thalweg_runtime::{TaskThreads, spawn_blocking};
use thalweg_scan::{own_bytes, text_bytes};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::errors::external;
use thalweg_values::statement_control::{
    StatementControl, StatementMemory, StatementsMemory, too_much, within,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::task::AbortOnDropHandle;

pub(crate) use byte_sized::is_byte_sized;
pub use window_memory::with_window_memory;
pub use yielding::YieldingOperators;

use self::cancellable_tasks::cancellable;
use self::memory_constrained::{MemoryConstrained, memory_constrained};
use crate::memory;
use crate::panics::broke_down;
use crate::stack::{self, STACK_BYTES};

/// Number of batches that a query may compute ahead of its consumer.
const BATCHES_AHEAD: usize = 1;

/// Number of times that a plan yields before it restarts, so that its other tasks can drop what
/// they hold.
const TURNS_TO_LET_GO: usize = 1_000;

/// The threads that plans run on, and the memory that all statements have allocated.
pub struct Executor {
    threads: TaskThreads,
    /// Memory that all statements have allocated.
    memory: Arc<StatementsMemory>,
}

impl Executor {
    /// The executor of plans that were made with this configuration.
    pub fn of(config: &SessionConfig) -> Arc<Executor> {
        let executor = config.get_extension::<Executor>();
        executor.expect("every planner is given the database's executor")
    }

    /// # Errors
    /// If the system refuses threads.
    pub fn start(threads: usize, memory: StatementsMemory) -> Result<Executor> {
        cancellable_tasks::install();
        stack::leave_room();
        // More than there are cores, so that a short statement does not wait for a long one to
        // give way: the system shares the cores out among them.
        let threads = TaskThreads::start("thalweg-query", threads * 2, Some(STACK_BYTES));
        let threads = threads.map_err(|error| {
            Error::internal("the threads of queries could not be started").with_source(error)
        })?;
        Ok(Executor { threads, memory: Arc::new(memory) })
    }

    /// Starts a plan. Dropping its rows ends it and the tasks that it started, as soon as they
    /// yield or its scans check [`StatementControl`].
    pub fn run(&self, plan: Arc<dyn ExecutionPlan>, state: &SessionState) -> Rows {
        self.run_in(plan, TaskContext::from(state))
    }

    /// Like [`Executor::run`], with an existing context.
    pub fn run_in(&self, plan: Arc<dyn ExecutionPlan>, context: TaskContext) -> Rows {
        let stop = self.stop_for(context.memory_pool());
        let Running { work, batches, stop } = Running::of(plan, context, stop);
        Rows { batches, work: Some(self.elsewhere(work)), stop, last: None }
    }

    /// Like [`Executor::run_in`], but the calling thread polls the plan once first. A small plan
    /// ends within that poll, and so saves two thread switches, which would take as long as the
    /// plan itself.
    pub fn begin_here(&self, plan: Arc<dyn ExecutionPlan>, context: TaskContext) -> Rows {
        let stop = self.stop_for(context.memory_pool());
        let Running { mut work, batches, stop } = Running::of(plan, context, stop);
        let inside = self.runtime().enter();
        // The task that continues the work polls it first, and registers its own waker then.
        let mut unwoken = Context::from_waker(Waker::noop());
        let first = AssertUnwindSafe(|| stack::roomy(|| work.as_mut().poll(&mut unwoken)));
        let first = catch_unwind(first);
        drop(inside);
        let work = match first {
            Ok(Poll::Ready(done)) => Work::Done(done),
            Ok(Poll::Pending) => self.elsewhere(work),
            Err(panic) => {
                let error = Box::new(broke_down(panic.as_ref()));
                Work::Done(Err(DataFusionError::External(error)))
            }
        };
        Rows { batches, work: Some(work), stop, last: None }
    }

    /// Plans a statement on the calling thread. Until planning ends, its allocations count like
    /// those of a running plan.
    ///
    /// # Errors
    /// Errors of planning; 53200 if it allocates more than the statement may have.
    pub async fn counted<T>(
        &self,
        state: &SessionState,
        planning: impl Future<Output = PlanResult<T>>,
    ) -> PlanResult<T> {
        let memory = self.memory_for(&state.runtime_env().memory_pool);
        let stop = Arc::new(StatementControl::within_current(memory));
        let mut planning = pin!(planning);
        poll_fn(|context| {
            let planned = within(&stop, || planning.as_mut().poll(context));
            match stop.memory().exhausted(context) {
                Some(exhausted) => Poll::Ready(Err(external(too_much(&exhausted)))),
                None => planned,
            }
        })
        .await
    }

    /// Does a statement's work ahead of planning on the calling thread. Its allocations count like
    /// those of a running plan, up to the statement's own limit in bytes, or else up to that of all
    /// statements, whose pool this is.
    ///
    /// # Errors
    /// Errors of the work; 53200 if it allocates more than it may.
    pub fn counted_now<T>(
        &self,
        own_limit: Option<usize>,
        pool: &Arc<dyn MemoryPool>,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let memory = match own_limit {
            Some(bytes) => self.memory_up_to(Some(bytes), memory::STATEMENT_LIMIT),
            None => self.memory_for(pool),
        };
        let stop = Arc::new(StatementControl::within_current(memory));
        let done = within(&stop, work);
        // The parser has no error of its own for a statement that was stopped.
        match stop.memory().exhausted(&Context::from_waker(Waker::noop())) {
            Some(exhausted) => Err(too_much(&exhausted)),
            None => done,
        }
    }

    /// Counts memory that belongs to no running statement, until the returned value is dropped.
    ///
    /// # Errors
    /// 53200 if the process has too little memory.
    pub fn hold(&self, bytes: usize) -> Result<StatementMemory> {
        let held = self.memory_up_to(None, "");
        held.add(i64::try_from(bytes).unwrap_or(i64::MAX));
        match held.exhausted(&Context::from_waker(Waker::noop())) {
            Some(exhausted) => Err(too_much(&exhausted)),
            None => Ok(held),
        }
    }

    /// A [`StatementControl`] for work of a statement that reserves memory in `pool`.
    fn stop_for(&self, pool: &Arc<dyn MemoryPool>) -> Arc<StatementControl> {
        Arc::new(StatementControl::with_memory(self.memory_for(pool)))
    }

    fn memory_for(&self, pool: &Arc<dyn MemoryPool>) -> StatementMemory {
        let (limit, setting) = memory::limit_of(pool);
        self.memory_up_to(limit, setting)
    }

    fn memory_up_to(&self, limit: Option<usize>, setting: &'static str) -> StatementMemory {
        StatementMemory::new(limit, setting, Some(Arc::clone(&self.memory)))
    }

    fn elsewhere(&self, work: BoxFuture<'static, PlanResult<()>>) -> Work {
        Work::Elsewhere(AbortOnDropHandle::new(self.runtime().spawn(work)))
    }

    /// Drops something large on a thread of its own.
    pub fn free_elsewhere(&self, large: impl Send + 'static) {
        let _inside = self.runtime().enter();
        drop(spawn_blocking(move || drop(large)));
    }

    /// Handle to spawn tasks on these threads.
    pub fn handle(&self) -> Handle {
        self.runtime().clone()
    }

    fn runtime(&self) -> &Handle {
        self.threads.handle()
    }

    /// Runs `making` on these threads and returns its rows. Tasks that it starts may also serve
    /// other consumers of the same work, so they end with `work` and not with these rows.
    pub fn take(&self, work: &Arc<StatementControl>, making: impl Making) -> Rows {
        let (sender, batches) = channel(BATCHES_AHEAD);
        let mut taker = Taker::new(sender, Arc::clone(work));
        let taking = async move { taker.forward(making).await }.boxed();
        let work = self.elsewhere(cancellable(Arc::clone(work), taking).boxed());
        Rows { batches, work: Some(work), stop: Arc::default(), last: None }
    }

    /// Runs work to its end on these threads, even if the caller goes away.
    ///
    /// # Errors
    /// Errors of the work; XX000 if it panicked.
    pub async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let done = self.runtime().spawn(work).await;
        done.unwrap_or_else(|died| {
            Err(Error::internal("the statement broke down").with_source(died))
        })
    }
}

/// A plan that nobody polls yet.
struct Running {
    work: BoxFuture<'static, PlanResult<()>>,
    batches: Receiver<RecordBatch>,
    stop: Arc<StatementControl>,
}

impl Running {
    fn of(
        plan: Arc<dyn ExecutionPlan>,
        context: TaskContext,
        stop: Arc<StatementControl>,
    ) -> Running {
        let config = context.session_config().clone().with_extension(Arc::clone(&stop));
        let context = Arc::new(context.with_session_config(config));
        let (sender, batches) = channel(BATCHES_AHEAD);
        let work = Taker::new(sender, Arc::clone(&stop)).run(plan, context).boxed();
        let work = cancellable(Arc::clone(&stop), work).boxed();
        Running { work, batches, stop }
    }
}

/// A future that resolves to a stream of rows.
pub trait Making: Future<Output = PlanResult<SendableRecordBatchStream>> + Send + 'static {}

impl<T: Future<Output = PlanResult<SendableRecordBatchStream>> + Send + 'static> Making for T {}

/// Sends a plan's rows to their consumer.
struct Taker {
    batches: Sender<RecordBatch>,
    has_rows: bool,
    stop: Arc<StatementControl>,
}

impl Taker {
    fn new(batches: Sender<RecordBatch>, stop: Arc<StatementControl>) -> Taker {
        Taker { batches, has_rows: false, stop }
    }

    async fn run(
        mut self,
        plan: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
    ) -> PlanResult<()> {
        let (first, of_first) = (Arc::clone(&plan), Arc::clone(&context));
        match self.forward(async move { execute_stream(first, of_first) }).await {
            Err(error) if !self.has_rows && is_shortage(&error) => {
                // `memory_constrained` consumes the plan, which drops all that it holds.
                let Ok(Some(MemoryConstrained { plan, sorts })) = memory_constrained(plan) else {
                    return Err(error);
                };
                let context = Arc::new(memory::memory_constrained(&context, sorts)?);
                self.until_let_go().await;
                self.forward(async move { execute_stream(plan, context) }).await
            }
            done => done,
        }
    }

    /// Waits until the ended tasks of the first attempt have dropped what they hold.
    async fn until_let_go(&self) {
        let memory = self.stop.memory();
        for _ in 0..TURNS_TO_LET_GO {
            if !memory.is_short() {
                break;
            }
            tokio::task::yield_now().await;
        }
        memory.begin_again();
    }

    async fn forward(&mut self, making: impl Making) -> PlanResult<()> {
        let mut rows = making.await?;
        while let Some(batch) = self.next(&mut rows).await? {
            self.has_rows |= batch.num_rows() > 0;
            if self.batches.send(batch).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    /// The next batch, or an error if the statement has too much memory.
    async fn next(&self, rows: &mut SendableRecordBatchStream) -> PlanResult<Option<RecordBatch>> {
        poll_fn(|context| {
            let memory = self.stop.memory();
            let refused = |context: &Context<'_>| {
                memory.exhausted(context).map(|exhausted| external(too_much(&exhausted)))
            };
            if let Some(refused) = refused(context) {
                return Poll::Ready(Err(refused));
            }
            let next = rows.poll_next_unpin(context).map(Option::transpose);
            match memory.is_exhausted().then(|| refused(context)).flatten() {
                Some(refused) => Poll::Ready(Err(refused)),
                None => next,
            }
        })
        .await
    }
}

/// True if an error reports too little memory.
fn is_shortage(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => true,
        DataFusionError::External(source) => {
            let own = source.downcast_ref::<Error>();
            own.is_some_and(|own| own.state() == SqlState::OUT_OF_MEMORY)
        }
        _ => false,
    }
}

/// The [`StatementControl`] of the plan that a context belongs to. Scans check it themselves,
/// because a task can only be dropped where it yields, and a join that finds no match reads many
/// batches before it does.
pub(crate) fn stop_of(context: &TaskContext) -> Option<Arc<StatementControl>> {
    context.session_config().get_extension::<StatementControl>()
}

/// The rows of a plan that runs on other threads or has ended.
pub struct Rows {
    batches: Receiver<RecordBatch>,
    /// `None` after the end was reported.
    work: Option<Work>,
    stop: Arc<StatementControl>,
    /// The batch that was taken last. Its consumer is usually done with it when it asks for the
    /// next one, so it is freed here, where the plan's memory is counted.
    last: Option<RecordBatch>,
}

impl Rows {
    /// Takes the last batch off the plan's memory.
    fn release_last(&mut self) {
        let Some(batch) = self.last.take() else { return };
        let is_held = batch.columns().iter().any(|column| Arc::strong_count(column) > 1);
        if is_held {
            self.stop.hand_over(own_bytes(&batch) + text_bytes([&batch]));
        }
        within(&self.stop, || drop(batch));
    }
}

enum Work {
    Elsewhere(AbortOnDropHandle<PlanResult<()>>),
    /// The work's result.
    Done(PlanResult<()>),
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.stop.stop();
        self.release_last();
    }
}

impl Stream for Rows {
    type Item = PlanResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.release_last();
        if let Some(batch) = ready!(self.batches.poll_recv(context)) {
            self.last = Some(batch.clone());
            return Poll::Ready(Some(Ok(batch)));
        }
        let ended = match &mut self.work {
            None => return Poll::Ready(None),
            Some(Work::Done(ended)) => mem::replace(ended, Ok(())),
            Some(Work::Elsewhere(work)) => {
                ready!(work.poll_unpin(context)).unwrap_or_else(|panic| {
                    let error = Error::internal("the statement broke down").with_source(panic);
                    Err(DataFusionError::External(Box::new(error)))
                })
            }
        };
        self.work = None;
        Poll::Ready(ended.err().map(Err))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests block on rows of a plan")]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Schema};
    use datafusion::config::ConfigOptions;
    use datafusion::logical_expr::{Volatility, create_udf};
    use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
    use datafusion::physical_plan::projection::ProjectionExec;
    use datafusion::physical_plan::union::UnionExec;
    use futures::TryStreamExt;
    use futures::executor::block_on;

    use super::*;

    fn one_row() -> Arc<dyn ExecutionPlan> {
        Arc::new(PlaceholderRowExec::new(Arc::new(Schema::empty())))
    }

    /// Number of rows of a plan that begins on the test's thread, and true if it ended there.
    fn begun(plan: Arc<dyn ExecutionPlan>) -> (PlanResult<usize>, bool) {
        let executor = Executor::start(1, StatementsMemory::default()).unwrap();
        let rows = executor.begin_here(plan, TaskContext::default());
        let has_ended = matches!(rows.work, Some(Work::Done(_)));
        let count = rows.try_fold(0, async |all, batch| Ok(all + batch.num_rows()));
        (block_on(count), has_ended)
    }

    #[test]
    fn what_need_not_wait_ends_where_it_began() {
        let (rows, has_ended) = begun(one_row());
        assert_eq!(rows.unwrap(), 1);
        assert!(has_ended);
    }

    #[test]
    fn what_waits_goes_on_elsewhere() {
        let union = UnionExec::try_new(vec![one_row(), one_row(), one_row()]).unwrap();
        let (rows, has_ended) = begun(Arc::new(CoalescePartitionsExec::new(union)));
        assert_eq!(rows.unwrap(), 3);
        assert!(!has_ended);
    }

    #[test]
    fn a_panic_is_an_error_of_the_plan() {
        let panics = Arc::new(|_: &[_]| panic!("of an operator"));
        let panics = create_udf("panics", vec![], DataType::Int64, Volatility::Volatile, panics);
        let options = Arc::new(ConfigOptions::default());
        let call =
            ScalarFunctionExpr::try_new(Arc::new(panics), Vec::new(), &Schema::empty(), options);
        let call: Arc<dyn PhysicalExpr> = Arc::new(call.unwrap());
        let plan = ProjectionExec::try_new(vec![(call, "x".to_owned())], one_row()).unwrap();
        let (rows, _) = begun(Arc::new(plan));
        assert!(rows.unwrap_err().to_string().contains("the statement broke down"));
    }
}
