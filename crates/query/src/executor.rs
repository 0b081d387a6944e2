//! The threads that queries run on. They are apart from those that serve connections, so that an
//! operator which is slow to give way holds up nobody else's messages: a cancel is heard, and its
//! client told, whatever the operators do.
//!
//! A plan that finds too little memory before it has a row begins anew in a way that takes less
//! (`sparing`): nobody has seen anything of it yet, and it sees the same snapshot.

mod first_side;
mod giving_way;
mod halting;
mod held;
mod long_series;
mod sparing;

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
use thalweg_dialect::errors::external;
use thalweg_dialect::stop::{StatementMemory, StatementsMemory, Stop, too_much, within};
use thalweg_scan::{own_bytes, text_bytes};
use thalweg_types::{Error, Result, SqlState};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::task::AbortOnDropHandle;

pub(crate) use giving_way::JoinsGiveWay;
pub use held::with_windows_counted;

use self::halting::halting;
use self::sparing::{Sparing, sparing};
use crate::memory;
use crate::panics::broke_down;
use crate::stack::{self, STACK_BYTES};

/// How many batches a query may be ahead of whoever takes them.
const BATCHES_AHEAD: usize = 1;

/// How often other tasks get their turn before a plan begins anew, to drop what they hold of it.
const TURNS_TO_LET_GO: usize = 1_000;

pub(crate) struct Executor {
    /// `None` while it is being dropped.
    runtime: Option<Runtime>,
    /// What all plans have allocated.
    memory: Arc<StatementsMemory>,
}

impl Executor {
    /// The one that runs what was planned with this configuration.
    pub(crate) fn of(config: &SessionConfig) -> Arc<Executor> {
        let executor = config.get_extension::<Executor>();
        executor.expect("every planner is given the database's executor")
    }

    /// # Errors
    /// Where the system refuses threads.
    pub(crate) fn start(threads: usize, memory: StatementsMemory) -> Result<Executor> {
        halting::install();
        stack::leave_room();
        let runtime = Builder::new_multi_thread()
            // More than there are cores, so that a short statement does not wait for a long one to
            // give way: the system shares the cores out among them.
            .worker_threads(threads * 2)
            .thread_name("thalweg-query")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|error| {
                Error::internal("the threads of queries could not be started").with_source(error)
            })?;
        Ok(Executor { runtime: Some(runtime), memory: Arc::new(memory) })
    }

    /// Starts a plan. Dropping its rows ends it and the tasks that it started, as soon as they give
    /// way or its scans look at [`Stop`].
    pub(crate) fn run(&self, plan: Arc<dyn ExecutionPlan>, state: &SessionState) -> Rows {
        self.run_in(plan, TaskContext::from(state))
    }

    /// [`Executor::run`], with a context that is there already.
    pub(crate) fn run_in(&self, plan: Arc<dyn ExecutionPlan>, context: TaskContext) -> Rows {
        let stop = self.stop_for(context.memory_pool());
        let Running { work, batches, stop } = Running::of(plan, context, stop);
        Rows { batches, work: Some(self.elsewhere(work)), stop, last: None }
    }

    /// [`Executor::run_in`], of which whoever asks does what can be done without waiting: a plan
    /// with little to do is at its end then, and two changes of threads took as long as all of it.
    pub(crate) fn begin_here(&self, plan: Arc<dyn ExecutionPlan>, context: TaskContext) -> Rows {
        let stop = self.stop_for(context.memory_pool());
        let Running { mut work, batches, stop } = Running::of(plan, context, stop);
        let inside = self.runtime().enter();
        // Whoever goes on polls first, and is woken then.
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

    /// Plans a statement on the thread that asks. What planning allocates counts up to its end, as
    /// that of a plan does while it runs.
    pub(crate) async fn counted<T>(
        &self,
        state: &SessionState,
        planning: impl Future<Output = PlanResult<T>>,
    ) -> PlanResult<T> {
        let memory = self.memory_for(&state.runtime_env().memory_pool);
        let stop = Arc::new(Stop::within_current(memory));
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

    /// For work of a statement that reserves in a pool.
    fn stop_for(&self, pool: &Arc<dyn MemoryPool>) -> Arc<Stop> {
        Arc::new(Stop::with_memory(self.memory_for(pool)))
    }

    fn memory_for(&self, pool: &Arc<dyn MemoryPool>) -> StatementMemory {
        let (limit, setting) = memory::limit_of(pool);
        StatementMemory::new(limit, setting, Some(Arc::clone(&self.memory)))
    }

    fn elsewhere(&self, work: BoxFuture<'static, PlanResult<()>>) -> Work {
        Work::Elsewhere(AbortOnDropHandle::new(self.runtime().spawn(work)))
    }

    /// For tasks that are to run on these threads.
    pub(crate) fn handle(&self) -> Handle {
        self.runtime().handle().clone()
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("in place until the executor is dropped")
    }

    /// Takes the rows that something makes, which runs on these threads as plans do. Tasks that it
    /// starts may work for other takers of the same work as well: they end with the work.
    pub(crate) fn take(&self, work: &Arc<Stop>, making: impl Making) -> Rows {
        let (sender, batches) = channel(BATCHES_AHEAD);
        let mut taker = Taker::new(sender, Arc::clone(work));
        let taking = async move { taker.forward(making).await }.boxed();
        let work = self.elsewhere(halting(Arc::clone(work), taking).boxed());
        Rows { batches, work: Some(work), stop: Arc::default(), last: None }
    }

    /// Does something to its end on these threads, whatever becomes of whoever waits for it.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let done = self.runtime().spawn(work).await;
        done.unwrap_or_else(|died| {
            Err(Error::internal("the statement broke down").with_source(died))
        })
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // The last user may well be a task of some runtime, which must not wait for threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A plan that nobody polls yet.
struct Running {
    work: BoxFuture<'static, PlanResult<()>>,
    batches: Receiver<RecordBatch>,
    stop: Arc<Stop>,
}

impl Running {
    fn of(plan: Arc<dyn ExecutionPlan>, context: TaskContext, stop: Arc<Stop>) -> Running {
        let config = context.session_config().clone().with_extension(Arc::clone(&stop));
        let context = Arc::new(context.with_session_config(config));
        let (sender, batches) = channel(BATCHES_AHEAD);
        let work = Taker::new(sender, Arc::clone(&stop)).run(plan, context).boxed();
        let work = halting(Arc::clone(&stop), work).boxed();
        Running { work, batches, stop }
    }
}

/// Something that comes to have rows.
pub(crate) trait Making:
    Future<Output = PlanResult<SendableRecordBatchStream>> + Send + 'static
{
}

impl<T: Future<Output = PlanResult<SendableRecordBatchStream>> + Send + 'static> Making for T {}

/// Whoever waits for a plan's rows.
struct Taker {
    batches: Sender<RecordBatch>,
    has_rows: bool,
    stop: Arc<Stop>,
}

impl Taker {
    fn new(batches: Sender<RecordBatch>, stop: Arc<Stop>) -> Taker {
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
                // What the plan holds goes with it.
                let Ok(Some(Sparing { plan, sorts })) = sparing(plan) else { return Err(error) };
                let context = Arc::new(memory::sparing(&context, sorts)?);
                self.until_let_go().await;
                self.forward(async move { execute_stream(plan, context) }).await
            }
            done => done,
        }
    }

    /// Waits until the tasks of the first attempt, which were ended, have dropped what they hold.
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

    /// The next batch, unless the statement has too much memory.
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

/// Whether there was too little memory.
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

/// What stops the plan that a context belongs to. A task is dropped where it gives way, and a join
/// that finds nothing reads batch after batch before it does.
pub(crate) fn stop_of(context: &TaskContext) -> Option<Arc<Stop>> {
    context.session_config().get_extension::<Stop>()
}

/// The rows of a plan that runs on other threads, or ran already.
pub(crate) struct Rows {
    batches: Receiver<RecordBatch>,
    /// `None` after the end was told.
    work: Option<Work>,
    stop: Arc<Stop>,
    /// The batch that was taken last. Whoever took it is done with it, as a rule, when they ask for
    /// the next one: so it is freed here, where that is seen.
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
    /// How it ended.
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

    /// How many rows a plan has that begins on the thread of the test, and whether it ended there.
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
