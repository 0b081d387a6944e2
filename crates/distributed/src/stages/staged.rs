//! A plan in stages, as an operator of the gateway.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt as _, stream};
use thalweg_dialect::errors::external;
use thalweg_query::reconfigured;
use thalweg_types::Error;
use tokio::sync::mpsc;

use super::{Plan, planning};
use crate::gateway::Shared;

pub(super) struct Staged {
    shared: Arc<Shared>,
    /// The plan from which the stages were made.
    plan: Plan,
    stages: Plan,
    partitions: usize,
    why: String,
    /// True once these stages have run.
    is_used: AtomicBool,
}

impl Staged {
    pub(super) fn new(
        shared: &Arc<Shared>,
        plan: &Plan,
        stages: Plan,
        partitions: usize,
        why: &str,
    ) -> Staged {
        let (shared, plan) = (Arc::clone(shared), Arc::clone(plan));
        let (why, is_used) = (why.to_owned(), AtomicBool::new(false));
        Staged { shared, plan, stages, partitions, why, is_used }
    }

    fn over(&self, stages: Plan) -> Result<Plan> {
        let Staged { shared, plan, partitions, why, .. } = self;
        Ok(Arc::new(Staged::new(shared, plan, stages, *partitions, why)))
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

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for Staged {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stages: [{}]", self.why)
    }
}

impl ExecutionPlan for Staged {
    thalweg_query::over_one_input!(stages);

    fn name(&self) -> &'static str {
        "Stages"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stages.properties()
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
        let rows = self.fresh()?.execute(partition, context)?;
        let rows = stream::try_unfold((rows, failed), |(mut rows, mut failed)| async move {
            Ok(next(&mut rows, &mut failed).await?.map(|batch| (batch, (rows, failed))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
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
