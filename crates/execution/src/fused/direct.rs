//! Plans that consist of one fused aggregate. They are answered by the calling task, without the
//! threads and queues that other plans need.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::projection::ProjectionExec;
use futures::StreamExt;
use thalweg_values::statement_control::StatementControl;

use super::execution::{FusedAggregate, Work, watch};
use super::merge_partials::Answer;
use super::spilled::Spills;

/// An aggregate, and the indexes of its columns that are returned.
pub struct Direct {
    work: Work,
    columns: Vec<usize>,
    answered: SchemaRef,
}

impl Direct {
    /// Recognizes a plan that consists of one fused aggregate.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Direct> {
        let (fused, columns) = unwrapped(plan)?;
        Some(Direct { work: fused.work().clone(), columns, answered: fused.schema() })
    }

    /// The answer; `None` if memory is too short, so that operators that spill must compute it.
    ///
    /// # Errors
    /// If a value cannot be computed, for example because of overflow.
    pub async fn answer(&self, schema: &SchemaRef, runtime: &RuntimeEnv) -> Result<Option<Answer>> {
        let stop = Arc::new(StatementControl::default());
        let guard = StopWhenDropped(Arc::clone(&stop));
        let workers = self.work.scheduler().workers();
        let watch = watch(Arc::clone(&stop), &runtime.memory_pool, workers);
        let spills = Spills::new(&runtime.disk_manager, stop);
        match self.work.answer(&self.answered, watch, &spills).await {
            Ok((Answer::Whole(batches), _)) => {
                let batches = batches.iter().map(|batch| shown(batch, &self.columns, schema));
                Ok(Some(Answer::Whole(batches.collect::<Result<_>>()?)))
            }
            Ok((Answer::Parts(parts), _)) => {
                let (columns, schema) = (self.columns.clone(), Arc::clone(schema));
                let parts = parts.map(move |part| {
                    let _until_all_is_taken = &guard;
                    shown(&part?, &columns, &schema)
                });
                Ok(Some(Answer::Parts(parts.boxed())))
            }
            Err(DataFusionError::ResourcesExhausted(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn shown(batch: &RecordBatch, columns: &[usize], schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = columns.iter().map(|column| Arc::clone(batch.column(*column)));
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect())?)
}

/// Stops the work of several threads when its owner is dropped.
struct StopWhenDropped(Arc<StatementControl>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The aggregate that a plan consists of, and the indexes of its columns that are returned.
fn unwrapped(plan: &Arc<dyn ExecutionPlan>) -> Option<(&FusedAggregate, Vec<usize>)> {
    if let Some(fused) = plan.downcast_ref::<FusedAggregate>() {
        return Some((fused, (0..fused.schema().fields().len()).collect()));
    }
    if let Some(cooperative) = plan.downcast_ref::<CooperativeExec>() {
        return unwrapped(cooperative.input());
    }
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    let (fused, columns) = unwrapped(projection.input())?;
    let places = projection.expr().iter().map(|item| {
        let column = item.expr.downcast_ref::<Column>()?;
        columns.get(column.index()).copied()
    });
    Some((fused, places.collect::<Option<_>>()?))
}
