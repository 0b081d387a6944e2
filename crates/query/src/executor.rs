//! The threads that queries run on. They are apart from those that serve connections, so that an
//! operator which is slow to give way holds up nobody else's messages: a cancel is heard, and its
//! client told, whatever the operators do.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{FutureExt, Stream, StreamExt};
use thalweg_types::{Error, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::task::AbortOnDropHandle;

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
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("thalweg-query")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|error| {
                Error::internal("the threads of queries could not be started").with_source(error)
            })?;
        Ok(Executor { runtime: Some(runtime) })
    }

    /// Starts a plan. Dropping its rows ends it, as soon as its operators give way.
    pub(crate) fn run(&self, plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Rows {
        let runtime = self.runtime.as_ref().expect("in place until the executor is dropped");
        let (sender, batches) = channel(BATCHES_AHEAD);
        let work = runtime.spawn(forward(plan, context, sender));
        Rows { batches, work: Some(AbortOnDropHandle::new(work)) }
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

async fn forward(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    taker: Sender<RecordBatch>,
) -> PlanResult<()> {
    let mut rows = execute_stream(plan, context)?;
    while let Some(batch) = rows.next().await {
        if taker.send(batch?).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// The rows of a plan that runs elsewhere.
pub(crate) struct Rows {
    batches: Receiver<RecordBatch>,
    /// `None` after the end was told.
    work: Option<AbortOnDropHandle<PlanResult<()>>>,
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
