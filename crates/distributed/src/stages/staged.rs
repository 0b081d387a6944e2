//! Runs the stages of a plan for the operator [`Staged`](thalweg_query::Staged), which is a type of
//! `thalweg_query` so that passes there recognise it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt as _, stream};
use thalweg_execution::staged::StageRunner;
use thalweg_execution::task::reconfigured;
use thalweg_types::Error;
use thalweg_values::errors::external;
use tokio::sync::mpsc;

use super::{Plan, planning};
use crate::gateway::Shared;

/// Runs the stages of one plan.
pub(super) struct Runner {
    shared: Arc<Shared>,
    /// The plan from which the stages were made.
    plan: Plan,
    stages: Plan,
    partitions: usize,
    why: String,
    /// True once these stages have run.
    is_used: AtomicBool,
}

impl Runner {
    pub(super) fn new(
        shared: &Arc<Shared>,
        plan: &Plan,
        stages: Plan,
        partitions: usize,
        why: &str,
    ) -> Runner {
        let (shared, plan) = (Arc::clone(shared), Arc::clone(plan));
        let (why, is_used) = (why.to_owned(), AtomicBool::new(false));
        Runner { shared, plan, stages, partitions, why, is_used }
    }

    /// Stages that have not run yet. Tasks are identified by a number of the stages, so each run
    /// needs its own.
    fn fresh(&self) -> Result<Plan> {
        match self.is_used.swap(true, Ordering::Relaxed) {
            false => Ok(Arc::clone(&self.stages)),
            true => planning::in_stages(&self.plan, &self.shared, self.partitions),
        }
    }
}

impl StageRunner for Runner {
    fn why(&self) -> &str {
        &self.why
    }

    fn over(&self, stages: Plan) -> Arc<dyn StageRunner> {
        let Runner { shared, plan, partitions, why, .. } = self;
        Arc::new(Runner::new(shared, plan, stages, *partitions, why))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (failures, failed) = mpsc::unbounded_channel();
        let mut config = context.session_config().clone();
        planning::configure(&mut config, &self.shared, Some(failures))?;
        let context = Arc::new(reconfigured(&context, config));
        let schema = self.stages.schema();
        let rows = self.fresh()?.execute(partition, context)?;
        let rows = stream::try_unfold((rows, failed), |(mut rows, mut failed)| async move {
            Ok(next(&mut rows, &mut failed).await?.map(|batch| (batch, (rows, failed))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// The next rows, or the error of a task: operators that wait for its rows may notice it only
/// later.
async fn next(
    rows: &mut SendableRecordBatchStream,
    failed: &mut mpsc::UnboundedReceiver<Error>,
) -> Result<Option<RecordBatch>> {
    tokio::select! {
        biased;
        Some(error) = failed.recv() => Err(external(error)),
        batch = rows.next() => batch.transpose(),
    }
}
