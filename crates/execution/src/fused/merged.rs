//! The final step of an aggregate whose partial aggregates come from workers.
//!
//! Workers send one row for each group: its key, and the states of its aggregates. The final step
//! is an aggregate over such rows: it sums counts and sums, and takes the minimum of minimums. So
//! it is computed like a fused aggregate: each thread reads its share of the rows into groups of
//! its own, whatever their keys are, and these are merged, partition by partition if they are many.
//! No rows are repartitioned before. If memory is short, groups spill to disk; if that fails too,
//! DataFusion's operators restart.
//!
//! ```text
//!   Aggregate(final)                   MergedGroups
//!     Repartition     ── merged ──►      parts
//!       parts
//! ```

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, SchemaRef, TimeUnit};
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, reset_plan_states};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use futures::stream::{self, BoxStream, select_all};
use futures::{StreamExt, TryStreamExt};
use thalweg_scan::{Aggregation, Key, KeyValue};

use super::QueryScheduler;
use super::execution::{finishing, rows_of, watch};
use super::expression::Value;
use super::measures::Measures;
use super::merge_partials::{Answer, merge, partitions};
use super::output::Output;
use super::partial_state::{PartialState, Shared};
use super::spilled::Spills;
use crate::executor::stop_of;
use crate::operator_metrics::OperatorMetrics;

/// Extension of a session's configuration: the scheduler that merges groups.
pub struct Scheduling(pub Arc<dyn QueryScheduler>);

/// Operator that merges partial groups from workers.
#[derive(Clone)]
pub struct MergedGroups {
    parts: Arc<dyn ExecutionPlan>,
    /// The replaced operator, over all parts in one partition.
    upper: Arc<AggregateExec>,
    aggregation: Arc<Aggregation>,
    outputs: Arc<[Output]>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl MergedGroups {
    /// Replaces the final step of an aggregate, and reads the input of the exchange or merge below
    /// it. `None` if only DataFusion's operators are certain to be right.
    ///
    /// # Errors
    /// If the plan is invalid.
    pub fn in_place_of(aggregate: &AggregateExec) -> Result<Option<MergedGroups>> {
        let is_upper =
            matches!(aggregate.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned);
        let keys = aggregate.group_expr();
        let has_plain_keys = keys.is_single() && !keys.is_true_no_grouping();
        let declared = aggregate.properties();
        let is_plain = aggregate.limit_options().is_none() && declared.output_ordering().is_none();
        if !is_upper || !has_plain_keys || !is_plain {
            return Ok(None);
        }
        let Some(parts) = below_exchange(aggregate.input()) else { return Ok(None) };
        let Some((aggregation, outputs)) = recognize(aggregate, &parts.schema())? else {
            return Ok(None);
        };
        // Operators above rely on the columns that are known to be constant.
        let mut equal = declared.eq_properties.clone();
        equal.clear_orderings();
        let properties = PlanProperties::new(
            equal,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Ok(Some(MergedGroups {
            upper: Arc::new(in_one(aggregate, &parts)?),
            parts,
            aggregation: Arc::new(aggregation),
            outputs: outputs.into(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    /// This operator over other parts.
    fn over(&self, parts: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(MergedGroups { parts, metrics, ..self.clone() }))
    }
}

/// The input of a hash repartitioning, or of a merge of all partitions.
fn below_exchange(input: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if let Some(dealt) = input.downcast_ref::<RepartitionExec>() {
        return matches!(dealt.partitioning(), Partitioning::Hash(..))
            .then(|| dealt.input().clone());
    }
    let merged = input.downcast_ref::<CoalescePartitionsExec>()?;
    merged.fetch().is_none().then(|| merged.input().clone())
}

/// DataFusion's final step over all parts at once.
fn in_one(aggregate: &AggregateExec, parts: &Arc<dyn ExecutionPlan>) -> Result<AggregateExec> {
    AggregateExec::try_new(
        AggregateMode::Final,
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::new(CoalescePartitionsExec::new(Arc::clone(parts))),
        aggregate.input_schema(),
    )
}

/// The measures over the parts, and the output columns made of them.
fn recognize(
    aggregate: &AggregateExec,
    parts: &SchemaRef,
) -> Result<Option<(Aggregation, Vec<Output>)>> {
    let answered = aggregate.schema();
    let keys = aggregate.group_expr().expr();
    let key_fields = answered.fields().iter().zip(parts.fields()).take(keys.len());
    let are_first = keys.iter().enumerate().all(|(place, (key, _))| is_column(key, place));
    let are_alike =
        key_fields.clone().all(|(declared, sent)| declared.data_type() == sent.data_type());
    let are_read = parts.fields().iter().all(|field| is_read(field.data_type()));
    if !are_first || !are_alike || !are_read {
        return Ok(None);
    }
    let (mut measures, mut outputs) = (Measures::default(), Vec::new());
    let mut next = keys.len();
    for (function, field) in aggregate.aggr_expr().iter().zip(&answered.fields()[keys.len()..]) {
        let places = next..next + function.state_fields()?.len();
        next = places.end;
        let states = states(parts, places);
        match measures.of_states(function, &states, field.data_type()) {
            Some(output) => outputs.push(output),
            None => return Ok(None),
        }
    }
    let keys = key_fields.enumerate().map(|(place, (field, _))| whole_key(place, field));
    let columns = (0..parts.fields().len()).collect();
    let aggregation = Aggregation::new(columns, None, keys.collect(), measures.into_list());
    Ok(aggregation.filter(|_| next == parts.fields().len()).map(|found| (found, outputs)))
}

/// True if times are in a unit that tables may have.
fn is_read(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(unit, _) => {
            matches!(unit, TimeUnit::Microsecond | TimeUnit::Nanosecond)
        }
        DataType::Time64(unit) => *unit == TimeUnit::Microsecond,
        _ => true,
    }
}

fn is_column(key: &Arc<dyn PhysicalExpr>, place: usize) -> bool {
    key.downcast_ref::<Column>().is_some_and(|column| column.index() == place)
}

fn whole_key(place: usize, field: &FieldRef) -> Key {
    Key { value: KeyValue::Column(place), data_type: field.data_type().clone() }
}

/// Columns of the parts. DataFusion's counts are unsigned; here they are read as signed.
fn states(parts: &SchemaRef, places: Range<usize>) -> Vec<Value> {
    let fields = parts.fields().iter().enumerate().skip(places.start).take(places.len());
    let states = fields.map(|(place, field)| match field.data_type() {
        DataType::UInt64 => Value::column(place, DataType::Int64),
        known => Value::column(place, known.clone()),
    });
    states.collect()
}

impl fmt::Debug for MergedGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for MergedGroups {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.upper.group_expr().expr().iter().map(|(_, name)| name.as_str());
        let functions = self.upper.aggr_expr().iter().map(|function| function.name());
        let (keys, functions): (Vec<&str>, Vec<&str>) = (keys.collect(), functions.collect());
        write!(f, "MergedGroups: keys=[{}] aggregates=[{}]", keys.join(", "), functions.join(", "))
    }
}

impl ExecutionPlan for MergedGroups {
    crate::over_one_input!(parts);

    fn name(&self) -> &'static str {
        "MergedGroups"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut fresh = self.as_ref().clone();
        fresh.metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(fresh))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (schema, told_schema) = (self.schema(), self.schema());
        let operator_metrics = OperatorMetrics::of_partition(&self.metrics, partition);
        let spilled = MetricBuilder::new(&self.metrics).counter("spilled_bytes", partition);
        let parts = self.shares(&context)?;
        let own = self.clone();
        let answered = async move {
            let stop = stop_of(&context).unwrap_or_default();
            let spills = Spills::new(&context.runtime_env().disk_manager, stop);
            let answered = own.answer(parts, &schema, &context, &spills).await;
            spilled.add(spills.bytes());
            match answered {
                Ok(answer) => Ok(rows_of(answer, operator_metrics)),
                // No row was returned yet, so DataFusion's operators can restart.
                Err(DataFusionError::ResourcesExhausted(_)) => {
                    let parts = reset_plan_states(Arc::clone(&own.parts))?;
                    let batches = in_one(&own.upper, &parts)?.execute(0, context)?;
                    Ok(batches.inspect_ok(move |batch| operator_metrics.count(batch)).boxed())
                }
                Err(error) => Err(error),
            }
        };
        let batches = stream::once(answered).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(told_schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Stream of some of the parts.
type Share = BoxStream<'static, Result<RecordBatch>>;

impl MergedGroups {
    /// The parts that each thread reads.
    fn shares(&self, context: &Arc<TaskContext>) -> Result<Vec<Share>> {
        let partitions = self.parts.properties().output_partitioning().partition_count();
        let threads = scheduler(context)?.workers().min(partitions);
        let share = |thread| {
            let own = (thread..partitions).step_by(threads);
            let own = own.map(|partition| self.parts.execute(partition, Arc::clone(context)));
            Ok(select_all(own.collect::<Result<Vec<_>>>()?).boxed())
        };
        (0..threads).map(share).collect()
    }

    async fn answer(
        &self,
        parts: Vec<Share>,
        schema: &SchemaRef,
        context: &Arc<TaskContext>,
        spills: &Spills,
    ) -> Result<Answer> {
        let scheduler = scheduler(context)?;
        let stop = stop_of(context).unwrap_or_default();
        let watch = watch(stop, context.memory_pool(), scheduler.workers());
        let divided = partitions(scheduler.workers());
        let shared = Arc::new(Shared::new(&self.aggregation, divided, &watch, spills));
        let tasks: Vec<_> = (0..)
            .zip(parts)
            .map(|(thread, share)| SpawnedTask::spawn(read(share, thread, Arc::clone(&shared))))
            .collect();
        let mut found = Vec::new();
        for task in tasks {
            let done = task.join_unwind().await;
            found.extend(done.map_err(|died| DataFusionError::ExecutionJoin(Box::new(died)))??);
        }
        let finish = finishing(&self.outputs, schema);
        merge(&self.aggregation, found, &scheduler, finish, watch).map(|(answer, _)| answer)
    }
}

async fn read(mut parts: Share, thread: usize, shared: Arc<Shared>) -> Result<Vec<super::Found>> {
    let mut finding = PartialState::new(&shared, thread);
    while let Some(batch) = parts.try_next().await? {
        finding.add(|groups| groups.add_batch(&batch))?;
    }
    finding.end()
}

fn scheduler(context: &TaskContext) -> Result<Arc<dyn QueryScheduler>> {
    let known = context.session_config().get_extension::<Scheduling>();
    let known = known.map(|scheduling| Arc::clone(&scheduling.0));
    known.ok_or_else(|| DataFusionError::Internal("nobody works on groups here".to_owned()))
}

#[cfg(test)]
mod tests;
