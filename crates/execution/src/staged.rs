//! A plan whose operators run in stages on workers, as an operator of the gateway.
//!
//! The operator is here so that this crate's passes recognise it by its type. A [`StageRunner`] of
//! a crate above runs the stages.

use std::fmt;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use crate::operator::Plan;

/// Runs the stages of a plan.
pub trait StageRunner: Send + Sync {
    /// Why the plan runs in stages, for EXPLAIN.
    fn why(&self) -> &str;

    /// A runner of these stages instead, which have not run yet.
    fn over(&self, stages: Plan) -> Arc<dyn StageRunner>;

    /// The rows of a partition of the last stage.
    ///
    /// # Errors
    /// If workers cannot be asked.
    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream>;
}

/// A plan in stages.
pub struct Staged {
    stages: Plan,
    runner: Arc<dyn StageRunner>,
}

impl Staged {
    /// `runner` runs the stages.
    #[must_use]
    pub fn new(stages: Plan, runner: Arc<dyn StageRunner>) -> Staged {
        Staged { stages, runner }
    }

    fn over(&self, stages: Plan) -> Result<Plan> {
        let runner = self.runner.over(Arc::clone(&stages));
        Ok(Arc::new(Staged { stages, runner }))
    }
}

/// True if an operator's inputs run in stages on workers, or several times. They cannot wait for
/// other operators of a run, or be restarted.
pub(crate) fn is_run_apart(operator: &Plan) -> bool {
    operator.is::<Staged>() || operator.is::<RecursiveQueryExec>()
}

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for Staged {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stages: [{}]", self.runner.why())
    }
}

impl ExecutionPlan for Staged {
    crate::over_one_input!(stages);

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
        self.runner.execute(partition, context)
    }
}
