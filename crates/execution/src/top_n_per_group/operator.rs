//! The operator that keeps the first rows of each group.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, LexOrdering, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, apply_expression_roots,
};
use datafusion::physical_plan::metrics::{
    ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time,
};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan,
    InputDistributionRequirements, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use super::recognize::over;
use super::retained_rows::RetainedRows;
use crate::operator_metrics::OperatorMetrics;

/// A partial operator that has seen so many rows and keeps more than half of them gives up, and
/// passes all rows through.
const ROWS_SEEN: usize = 1 << 20;

/// The recognized window and the number of rows wanted.
#[derive(Debug)]
pub(super) struct Question {
    /// The window itself, which takes over if memory is short.
    pub window: Arc<dyn ExecutionPlan>,
    pub keys: Vec<Arc<dyn PhysicalExpr>>,
    pub order: LexOrdering,
    /// Number of rows wanted of each group.
    pub rows: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// Reduces one partition's rows to those that can be among the first of their group.
    Partial,
    /// Reduces all rows of each group to the first ones, and numbers them.
    Final,
}

#[derive(Debug, Clone)]
pub(crate) struct TopNPerGroup {
    input: Arc<dyn ExecutionPlan>,
    question: Arc<Question>,
    step: Step,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl TopNPerGroup {
    pub(super) fn partial(input: Arc<dyn ExecutionPlan>, question: Arc<Question>) -> TopNPerGroup {
        TopNPerGroup::new(input, question, Step::Partial)
    }

    pub(super) fn of_all(input: Arc<dyn ExecutionPlan>, question: Arc<Question>) -> TopNPerGroup {
        TopNPerGroup::new(input, question, Step::Final)
    }

    fn new(input: Arc<dyn ExecutionPlan>, question: Arc<Question>, step: Step) -> TopNPerGroup {
        let (schema, emission) = match step {
            Step::Partial => (input.schema(), EmissionType::Both),
            Step::Final => (question.window.schema(), EmissionType::Final),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            input.properties().output_partitioning().clone(),
            emission,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        TopNPerGroup { input, question, step, properties: Arc::new(properties), metrics }
    }
}

impl DisplayAs for TopNPerGroup {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Question { keys, order, rows, .. } = self.question.as_ref();
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        write!(f, "FirstOfGroups: step={:?} rows={rows} ", self.step)?;
        write!(f, "keys=[{}] order=[{order}]", keys.join(", "))
    }
}

impl ExecutionPlan for TopNPerGroup {
    fn name(&self) -> &'static str {
        "FirstOfGroups"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let keys = &self.question.keys;
        InputDistributionRequirements::new(vec![match self.step {
            Step::Partial => Distribution::UnspecifiedDistribution,
            Step::Final if keys.is_empty() => Distribution::SinglePartition,
            Step::Final => Distribution::KeyPartitioned(keys.clone()),
        }])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![self.step == Step::Final && !self.question.keys.is_empty()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let Question { keys, order, .. } = self.question.as_ref();
        apply_expression_roots(keys.iter().chain(order.iter().map(|by| &by.expr)), f)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let question = Arc::clone(&self.question);
        Ok(Arc::new(TopNPerGroup::new(children.remove(0), question, self.step)))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let question = Arc::clone(&self.question);
        Ok(Arc::new(TopNPerGroup::new(children.remove(0), question, self.step)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let counter = |name| MetricBuilder::new(&self.metrics).counter(name, partition);
        let operator_metrics = OperatorMetrics::of_partition(&self.metrics, partition);
        // If rows do not fit, the operator sorts them, which frees its memory for others.
        let consumer = MemoryConsumer::new("FirstOfGroups").with_can_spill(true);
        let reservation = consumer.register(context.memory_pool());
        let (kept, sorted) = (counter("kept_rows"), counter("sorted_rows"));
        let work = Work {
            rows: self.input.execute(partition, Arc::clone(&context))?,
            input_schema: self.input.schema(),
            schema: self.schema(),
            question: Arc::clone(&self.question),
            reservation,
            time: operator_metrics.time().clone(),
            context,
        };
        let step = self.step;
        let found = async move {
            let (found, is_cached) = work.found(step).await?;
            let counted = if is_cached { kept } else { sorted };
            Ok::<_, DataFusionError>(found.inspect_ok(move |batch: &RecordBatch| {
                counted.add(batch.num_rows());
                operator_metrics.count(batch);
            }))
        };
        let batches = stream::once(found).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The work of one partition.
struct Work {
    rows: SendableRecordBatchStream,
    input_schema: SchemaRef,
    schema: SchemaRef,
    question: Arc<Question>,
    reservation: MemoryReservation,
    time: Time,
    context: Arc<TaskContext>,
}

impl Work {
    /// The wanted rows, and true if they are those that were kept.
    async fn found(mut self, step: Step) -> Result<(SendableRecordBatchStream, bool)> {
        let mut kept = RetainedRows::new(&self.question, &self.input_schema)?;
        let mut seen = 0;
        while let Some(batch) = self.rows.next().await {
            let batch = batch?;
            let timer = self.time.timer();
            kept.add(&batch)?;
            timer.done();
            seen += batch.num_rows();
            let is_short = self.reservation.try_resize(kept.memory_bytes()).is_err();
            let is_useless = step == Step::Partial && seen >= ROWS_SEEN && kept.rows() > seen / 2;
            if is_short || is_useless {
                return Ok((self.beginning_with(kept, step)?, false));
            }
        }
        // The input is done but may still hold memory, so it is dropped.
        self.rows = Box::pin(EmptyRecordBatchStream::new(Arc::clone(&self.input_schema)));
        Ok((self.first(kept, step), true))
    }

    fn first(self, kept: RetainedRows, step: Step) -> SendableRecordBatchStream {
        let Work { schema, reservation, time, .. } = self;
        let output_schema = Arc::clone(&schema);
        let mut kept = kept.into_batches();
        let batches = stream::iter(std::iter::from_fn(move || {
            // The closure owns the reservation, which is freed with the rows.
            let _held = &reservation;
            let _timer = time.timer();
            let batch = kept.next()?;
            Some(batch.and_then(|(rows, numbers)| {
                let mut columns = rows.columns().to_vec();
                if step == Step::Final {
                    columns.push(Arc::new(numbers));
                }
                Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
            }))
        }));
        Box::pin(RecordBatchStreamAdapter::new(output_schema, batches))
    }

    /// The kept rows and those still to come: unchanged for a partial operator, or processed by the
    /// window for a final one. The first rows of each group are among them.
    fn beginning_with(self, kept: RetainedRows, step: Step) -> Result<SendableRecordBatchStream> {
        let Work { rows, input_schema, question, reservation, context, .. } = self;
        // The consumer of the rows accounts for them.
        reservation.free();
        let kept = kept.into_batches().map(|batch| batch.map(|(rows, _)| rows));
        let rows = stream::iter(kept).chain(rows);
        let rows: SendableRecordBatchStream =
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&input_schema), rows));
        match step {
            Step::Partial => Ok(rows),
            Step::Final => sorted(&question, input_schema, rows)?.execute(0, context),
        }
    }
}

/// The window over the sorted rows.
fn sorted(
    question: &Question,
    schema: SchemaRef,
    rows: SendableRecordBatchStream,
) -> Result<Arc<dyn ExecutionPlan>> {
    let window = Arc::clone(&question.window);
    let Some(Some(order)) = window.required_input_ordering().pop() else {
        return internal_err!("a window without an order was recognized");
    };
    let once = Once { schema: Arc::clone(&schema), rows: Mutex::new(Some(rows)) };
    let rows = StreamingTableExec::try_new(schema, vec![Arc::new(once)], None, [], false, None)?;
    over(window, Arc::new(SortExec::new(LexOrdering::from(order.into_single()), Arc::new(rows))))
}

/// Wraps a stream as an operator that can be executed once.
struct Once {
    schema: SchemaRef,
    rows: Mutex<Option<SendableRecordBatchStream>>,
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Once")
    }
}

impl PartitionStream for Once {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let rows = self.rows.lock().take();
        rows.unwrap_or_else(|| Box::pin(EmptyRecordBatchStream::new(schema)))
    }
}
