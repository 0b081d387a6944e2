//! The tasks of a plan end with the statement that it belongs to.
//!
//! DataFusion starts tasks of its own: a sort has one for each batch, hundreds of them at once.
//! When a plan's rows are dropped, its first task is ended, which ends those that it started, and
//! so on; but each of them ends only once a thread reaches it in the run queue. So each task checks
//! before every poll if its plan was stopped. Allocations in each poll of a task count as its
//! plan's memory. When this is exhausted, the started tasks drop what they hold, and the first task
//! returns the error.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::future::BoxFuture;
use thalweg_values::statement_control::{StatementControl, within};

tokio::task_local! {
    /// The [`StatementControl`] of the plan that the current task works for.
    static STOP: Arc<StatementControl>;
}

/// Wraps work, and the tasks that it starts, so that they can be stopped. Stopped work drops what
/// it holds and stays pending for ever; its owner drops it.
pub(super) fn cancellable<T: 'static>(
    stop: Arc<StatementControl>,
    work: BoxFuture<'static, T>,
) -> impl Future<Output = T> + Send + use<T> {
    STOP.scope(Arc::clone(&stop), CancellableTask { stop, work: Some(work), is_first: true })
}

struct CancellableTask<T> {
    stop: Arc<StatementControl>,
    /// `None` after it was stopped.
    work: Option<BoxFuture<'static, T>>,
    /// True for the plan's first task, which started all others and detects exhausted memory by
    /// itself.
    is_first: bool,
}

impl<T> CancellableTask<T> {
    /// Drops the work within the plan's accounting, so that freed memory is subtracted.
    fn let_go(&mut self) {
        if let Some(work) = self.work.take() {
            within(&self.stop, || drop(work));
        }
    }
}

impl<T> Drop for CancellableTask<T> {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl<T> Future for CancellableTask<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let is_exhausted = !self.is_first && self.stop.memory().is_exhausted();
        if self.stop.is_wanted() || is_exhausted {
            self.let_go();
        }
        let CancellableTask { stop, work, .. } = &mut *self;
        match work {
            Some(work) => within(stop, || work.as_mut().poll(context)),
            None => Poll::Pending,
        }
    }
}

/// Installs the tracer that ties DataFusion's tasks to the plan that starts them.
pub(super) fn install() {
    // An error means that an earlier call installed the same tracer.
    let _ = set_join_set_tracer(&TaskTracer);
}

/// Receives each task that DataFusion spawns, through its tracing hook.
struct TaskTracer;

impl JoinSetTracer for TaskTracer {
    fn trace_future(
        &self,
        work: BoxFuture<'static, Box<dyn Any + Send>>,
    ) -> BoxFuture<'static, Box<dyn Any + Send>> {
        match STOP.try_with(Arc::clone) {
            Ok(stop) => {
                let work =
                    CancellableTask { stop: Arc::clone(&stop), work: Some(work), is_first: false };
                Box::pin(STOP.scope(stop, work))
            }
            Err(_) => work,
        }
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match STOP.try_with(Arc::clone) {
            Ok(stop) => Box::new(move || within(&stop, work)),
            Err(_) => work,
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::runtime::SpawnedTask;
    use futures::FutureExt;
    use futures::future::poll_immediate;

    use super::*;

    #[tokio::test]
    async fn what_was_stopped_drops_what_it_holds() {
        let stop = Arc::new(StatementControl::default());
        let held = Arc::new(());
        let holding = Arc::clone(&held);
        let work = async move {
            std::future::pending::<()>().await;
            drop(holding);
        };
        let mut work = Box::pin(cancellable(Arc::clone(&stop), work.boxed()));
        assert!(poll_immediate(work.as_mut()).await.is_none());
        assert_eq!(Arc::strong_count(&held), 2);
        stop.stop();
        assert!(poll_immediate(work.as_mut()).await.is_none());
        assert_eq!(Arc::strong_count(&held), 1);
    }

    /// True if a task that was started by a plan's task came to its end.
    async fn child_ends(is_stopped: bool) -> bool {
        install();
        let stop = Arc::new(StatementControl::default());
        let starting = async { [SpawnedTask::spawn(async {})] }.boxed();
        let [child] = cancellable(Arc::clone(&stop), starting).await;
        if is_stopped {
            stop.stop();
        }
        // The test has one thread, whose turn the child has now.
        tokio::task::yield_now().await;
        poll_immediate(child.join()).await.is_some()
    }

    #[tokio::test]
    async fn tasks_that_a_task_starts_stop_with_it() {
        assert!(child_ends(false).await);
        assert!(!child_ends(true).await);
    }
}
