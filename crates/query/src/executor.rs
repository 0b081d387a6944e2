//! The threads that queries run on. They are apart from those that serve connections, so that an
//! operator which is slow to give way holds up nobody else's messages: a cancel is heard, and its
//! client told, whatever the operators do.
//!
//! A plan that finds too little memory before it has a row begins anew in a way that takes less
//! (`sparing`): nobody has seen anything of it yet, and it sees the same snapshot.

mod first_side;
mod giving_way;
mod halting;
mod sparing;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{FutureExt, Stream, StreamExt};
use thalweg_types::{Error, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::task::AbortOnDropHandle;

pub(crate) use giving_way::JoinsGiveWay;

use self::halting::halting;
use self::sparing::{Sparing, sparing};
use crate::memory;
use crate::stack::STACK_BYTES;

/// How many batches a query may be ahead of whoever takes them.
const BATCHES_AHEAD: usize = 1;

pub(crate) struct Executor {
    /// `None` while it is being dropped.
    runtime: Option<Runtime>,
}

impl Executor {
    /// # Errors
    /// Where the system refuses threads.
    pub(crate) fn start(threads: usize) -> Result<Executor> {
        halting::install();
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
        Ok(Executor { runtime: Some(runtime) })
    }

    /// Starts a plan. Dropping its rows ends it and the tasks that it started, as soon as they give
    /// way or its scans look at [`Stop`].
    pub(crate) fn run(&self, plan: Arc<dyn ExecutionPlan>, state: &SessionState) -> Rows {
        self.run_in(plan, TaskContext::from(state))
    }

    /// [`Executor::run`], with a context that is there already.
    pub(crate) fn run_in(&self, plan: Arc<dyn ExecutionPlan>, context: TaskContext) -> Rows {
        let runtime = self.runtime.as_ref().expect("in place until the executor is dropped");
        let stop = Arc::new(Stop::default());
        let config = context.session_config().clone().with_extension(Arc::clone(&stop));
        let context = Arc::new(context.with_session_config(config));
        let (sender, batches) = channel(BATCHES_AHEAD);
        let work = Taker::new(sender).run(plan, context).boxed();
        let work = runtime.spawn(halting(Arc::clone(&stop), work));
        Rows { batches, work: Some(AbortOnDropHandle::new(work)), stop }
    }

    /// Takes the rows that something makes, which runs on these threads as plans do. Tasks that it
    /// starts may work for others as well, and are left alone.
    pub(crate) fn take(&self, making: impl Making) -> Rows {
        let runtime = self.runtime.as_ref().expect("in place until the executor is dropped");
        let (sender, batches) = channel(BATCHES_AHEAD);
        let mut taker = Taker::new(sender);
        let work = runtime.spawn(async move { taker.forward(making).await });
        Rows { batches, work: Some(AbortOnDropHandle::new(work)), stop: Arc::default() }
    }

    /// Does something to its end on these threads, whatever becomes of whoever waits for it.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let runtime = self.runtime.as_ref().expect("in place until the executor is dropped");
        let done = runtime.spawn(work).await;
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
}

impl Taker {
    fn new(batches: Sender<RecordBatch>) -> Taker {
        Taker { batches, has_rows: false }
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
                self.forward(async move { execute_stream(plan, context) }).await
            }
            done => done,
        }
    }

    async fn forward(&mut self, making: impl Making) -> PlanResult<()> {
        let mut rows = making.await?;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            self.has_rows |= batch.num_rows() > 0;
            if self.batches.send(batch).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Whether there was too little memory.
fn is_shortage(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// Whether nobody wants a plan's rows any more. A task is dropped where it gives way, and a join
/// that finds nothing reads batch after batch before it does.
#[derive(Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    /// The one of the plan that a context belongs to.
    pub(crate) fn of(context: &TaskContext) -> Option<Arc<Stop>> {
        context.session_config().get_extension::<Stop>()
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The rows of a plan that runs elsewhere.
pub(crate) struct Rows {
    batches: Receiver<RecordBatch>,
    /// `None` after the end was told.
    work: Option<AbortOnDropHandle<PlanResult<()>>>,
    stop: Arc<Stop>,
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.stop.0.store(true, Ordering::Relaxed);
    }
}

impl Stream for Rows {
    type Item = PlanResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(batch) = std::task::ready!(self.batches.poll_recv(context)) {
            return Poll::Ready(Some(Ok(batch)));
        }
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        let ended = std::task::ready!(work.poll_unpin(context));
        self.work = None;
        Poll::Ready(match ended {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Err(error)),
            Err(panic) => {
                let error = Error::internal("the statement broke down").with_source(panic);
                Some(Err(DataFusionError::External(Box::new(error))))
            }
        })
    }
}
