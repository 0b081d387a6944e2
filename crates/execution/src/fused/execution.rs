//! The operator that answers a fused aggregate.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, reset_plan_states};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use thalweg_scan::{Aggregation, Mode, Partial, ReadStatistics, Shape};
use thalweg_store::ChunkView;
use thalweg_values::errors::external;
use thalweg_values::statement_control::StatementControl;

use super::merge_partials::{Answer, Finish, merge};
use super::output::{Output, answer};
use super::recognize::{Question, recognize, spilling};
use super::scheduler::{QueryScheduler, Scattered, Watch};
use super::spilled::{Spills, check_cancelled};
use crate::executor::stop_of;
use crate::operator_metrics::OperatorMetrics;
use crate::scan::ShardScan;
use crate::semi_join_filters::{ASSUMED_SELECTIVITY_DIVISOR, Keys, Leaf, WaitingFor};

/// Greatest number of rows in a batch of the answer.
const BATCH_ROWS: usize = 8192;

/// Number of chunks after which a single thread yields.
const CHUNKS_AT_ONCE: usize = 32;

/// The aggregates of one table's rows, computed where the rows lie.
#[derive(Clone)]
pub struct FusedAggregate {
    /// The DataFusion operators that this one replaces.
    source: Arc<dyn ExecutionPlan>,
    table: Arc<str>,
    description: String,
    chunks_in_table: usize,
    work: Work,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// Semi-join filters on the group keys, which arrive while the query runs.
    among: WaitingFor,
}

/// The computation and its scheduler.
#[derive(Clone)]
pub(super) struct Work {
    aggregation: Arc<Aggregation>,
    outputs: Arc<[Output]>,
    chunks: Arc<Vec<ChunkView>>,
    mode: Mode,
    scheduler: Arc<dyn QueryScheduler>,
}

impl FusedAggregate {
    /// The fused aggregate that was recognized in `source`.
    pub(super) fn new(
        question: Question,
        source: Arc<dyn ExecutionPlan>,
        scheduler: Arc<dyn QueryScheduler>,
    ) -> FusedAggregate {
        let aggregation = Arc::new(question.aggregation);
        let outputs = question.outputs.into();
        let work = Work::new(aggregation, outputs, scheduler, question.chunks.to_vec());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(question.schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        FusedAggregate {
            source,
            table: question.table,
            description: question.description,
            chunks_in_table: question.chunks_in_table,
            work,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            among: WaitingFor::default(),
        }
    }

    pub(super) fn work(&self) -> &Work {
        &self.work
    }

    /// Name of the index that selected the rows, if one did.
    fn index(&self) -> Option<Arc<str>> {
        let mut index = None;
        let visited = self.source.apply(|plan| {
            let scan = plan.downcast_ref::<ShardScan>();
            index = scan.and_then(ShardScan::index).cloned();
            Ok(TreeNodeRecursion::Continue)
        });
        visited.ok().and(index)
    }

    /// This aggregate over no rows.
    ///
    /// # Errors
    /// If the replaced operators cannot be rebuilt.
    pub fn without_rows(&self) -> Result<FusedAggregate> {
        let mut bare = self.clone();
        let mut without = |scan: &ShardScan| Ok(scan.without_rows());
        bare.source = over(&self.source, &mut without)?;
        bare.work = self.work.without_rows();
        Ok(bare)
    }

    /// This aggregate over other rows, with the parameters' present values. If these cannot be
    /// fused, the result is DataFusion's operators.
    ///
    /// # Errors
    /// Errors of `with_rows`; if the replaced operators cannot be rebuilt.
    pub fn over(
        &self,
        with_rows: &mut dyn FnMut(&ShardScan) -> Result<ShardScan>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let source = over(&self.source, with_rows)?;
        let aggregate = source.downcast_ref::<AggregateExec>();
        if let Some(question) = aggregate.and_then(recognize) {
            let scheduler = Arc::clone(&self.work.scheduler);
            return Ok(Arc::new(FusedAggregate::new(question, source, scheduler)));
        }
        spilling(&reset_plan_states(source)?)
    }
}

/// Replaces a plan's scan.
fn over(
    plan: &Arc<dyn ExecutionPlan>,
    with_rows: &mut dyn FnMut(&ShardScan) -> Result<ShardScan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    Arc::clone(plan)
        .transform_up(|plan| match plan.downcast_ref::<ShardScan>() {
            Some(scan) => Ok(Transformed::yes(Arc::new(with_rows(scan)?) as _)),
            None => Ok(Transformed::no(plan)),
        })
        .data()
}

impl fmt::Debug for FusedAggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for FusedAggregate {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Work { chunks, scheduler, .. } = &self.work;
        write!(f, "FusedAggregate: {} mode={}", self.table, self.work.mode)?;
        if self.work.mode != Mode::Serial {
            write!(f, " workers={} {}", scheduler.workers(), scheduler.kind())?;
        }
        write!(
            f,
            " {} chunks={}/{} rows={}",
            self.description,
            chunks.len(),
            self.chunks_in_table,
            chunks.iter().map(ChunkView::live_rows).sum::<usize>(),
        )?;
        if let Some(index) = self.index() {
            write!(f, " index={index}")?;
        }
        let schema = self.properties.eq_properties.schema();
        self.among.write_column_names(f, |column| schema.field(column).name().as_str())
    }
}

impl Leaf for FusedAggregate {
    fn rows(&self) -> Option<usize> {
        Some(self.work.chunks.iter().map(ChunkView::live_rows).sum())
    }

    fn share(&self) -> f64 {
        let is_filtered = self.work.aggregation.is_filtered() || !self.among.is_nothing();
        if is_filtered { 1.0 / ASSUMED_SELECTIVITY_DIVISOR as f64 } else { 1.0 }
    }

    fn takes_keys(&self, column: usize) -> bool {
        self.work.aggregation.has_whole_key(column)
    }

    fn among(&self, column: usize, keys: &Arc<Keys>) -> Arc<dyn ExecutionPlan> {
        Arc::new(FusedAggregate { among: self.among.and(column, keys), ..self.clone() })
    }
}

impl ExecutionPlan for FusedAggregate {
    crate::without_inputs!();

    fn name(&self) -> &'static str {
        "FusedAggregate"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut fresh = self.as_ref().clone();
        fresh.metrics = ExecutionPlanMetricsSet::new();
        fresh.source = reset_plan_states(Arc::clone(&self.source))?;
        Ok(Arc::new(fresh))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (schema, told_schema) = (self.schema(), self.schema());
        let operator_metrics = OperatorMetrics::of_partition(&self.metrics, partition);
        let counter = |name| MetricBuilder::new(&self.metrics).counter(name, partition);
        let (chunks, rows) = (counter("chunks_read"), counter("rows_read"));
        let (pruned, spilled) = (counter("chunks_pruned"), counter("spilled_bytes"));
        let time = MetricBuilder::new(&self.metrics).subset_time("scan_time", partition);
        let (work, source) = (self.work.clone(), Arc::clone(&self.source));
        let among = self.among.clone();
        let answered = async move {
            let chunks_planned = work.chunks.len();
            let work = work.among(&among).await;
            pruned.add(chunks_planned - work.chunks.len());
            let timer = time.timer();
            let stop = stop_of(&context).unwrap_or_default();
            let workers = work.scheduler.workers();
            let watch = watch(Arc::clone(&stop), context.memory_pool(), workers);
            let spills = Spills::new(&context.runtime_env().disk_manager, stop);
            let answered = work.answer(&schema, watch, &spills).await;
            timer.done();
            spilled.add(spills.bytes());
            match answered {
                Ok((answer, statistics)) => {
                    chunks.add(statistics.chunks_read);
                    pruned.add(statistics.chunks_pruned);
                    rows.add(statistics.rows_read);
                    Ok(rows_of(answer, operator_metrics))
                }
                // No row was returned yet, so operators that spill can restart.
                Err(DataFusionError::ResourcesExhausted(_)) => {
                    let batches = spilling(&source)?.execute(0, context)?;
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

/// The rows of an answer, counted as they are taken.
pub(super) fn rows_of(
    answer: Answer,
    operator_metrics: OperatorMetrics,
) -> BoxStream<'static, Result<RecordBatch>> {
    let parts = match answer {
        Answer::Whole(batches) => stream::iter(batches.into_iter().map(Ok)).boxed(),
        Answer::Parts(parts) => parts,
    };
    let parts = parts.inspect_ok(move |batch| operator_metrics.count(batch));
    parts.map_ok(|part| stream::iter(in_pieces(part).map(Ok))).try_flatten().boxed()
}

fn in_pieces(batch: RecordBatch) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    (0..rows).step_by(BATCH_ROWS).map(move |start| batch.slice(start, BATCH_ROWS.min(rows - start)))
}

/// Converts complete groups to the columns of the answer.
pub(super) fn finishing(outputs: &Arc<[Output]>, schema: &SchemaRef) -> Finish {
    let (outputs, schema) = (Arc::clone(outputs), Arc::clone(schema));
    Arc::new(move |groups: Partial| answer(&groups.finish(), &outputs, &schema).map_err(external))
}

/// A check that ends work whose statement was stopped or exceeds its memory.
pub(super) fn watch(
    stop: Arc<StatementControl>,
    memory: &Arc<dyn MemoryPool>,
    workers: usize,
) -> Watch {
    let reservation = MemoryConsumer::new("FusedAggregate").register(memory);
    let reservations: Vec<Mutex<MemoryReservation>> =
        (0..workers).map(|_| Mutex::new(reservation.new_empty())).collect();
    Watch(Arc::new(move |worker, bytes| {
        check_cancelled(&stop)?;
        // Each worker has its own reservation, so this lock is never contended.
        reservations[worker].lock().try_resize(bytes)
    }))
}

impl Work {
    fn new(
        aggregation: Arc<Aggregation>,
        outputs: Arc<[Output]>,
        scheduler: Arc<dyn QueryScheduler>,
        mut chunks: Vec<ChunkView>,
    ) -> Work {
        // Planning prunes chunks by zones only. Here their dictionaries prune more.
        chunks.retain(|chunk| chunk.live_rows() > 0 && aggregation.may_concern(chunk));
        let shape = Shape {
            rows: chunks.iter().map(ChunkView::live_rows).sum(),
            chunks: chunks.len(),
            threads: scheduler.workers(),
        };
        Work {
            aggregation,
            outputs,
            chunks: Arc::new(chunks),
            mode: scheduler.mode(&shape),
            scheduler,
        }
    }

    /// The scheduler that runs the work.
    pub fn scheduler(&self) -> &dyn QueryScheduler {
        self.scheduler.as_ref()
    }

    /// This work over no chunks.
    pub fn without_rows(&self) -> Work {
        self.over(Vec::new())
    }

    /// This work over other chunks.
    pub fn over(&self, chunks: Vec<ChunkView>) -> Work {
        let Work { aggregation, outputs, scheduler, .. } = self;
        Work::new(Arc::clone(aggregation), Arc::clone(outputs), Arc::clone(scheduler), chunks)
    }

    /// Waits for the semi-join filters, and restricts the work to groups with their keys.
    async fn among(self, among: &WaitingFor) -> Work {
        let mut work = self;
        for (column, keys) in among.all().await {
            let Some(aggregation) = work.aggregation.among(column, &keys) else { continue };
            let Work { outputs, scheduler, chunks, .. } = work;
            work = Work::new(Arc::new(aggregation), outputs, scheduler, chunks.to_vec());
        }
        work
    }

    /// Computes the answer in columns of `schema`, with what was read.
    ///
    /// # Errors
    /// If a value cannot be computed, the statement was stopped, or memory and disk have no room.
    pub async fn answer(
        &self,
        schema: &SchemaRef,
        watch: Watch,
        spills: &Spills,
    ) -> Result<(Answer, ReadStatistics)> {
        let finish = finishing(&self.outputs, schema);
        if self.mode == Mode::Serial {
            match self.run_inline(&watch).await {
                Ok(partial) => {
                    let statistics = partial.statistics();
                    return Ok((Answer::Whole(vec![finish(partial)?]), statistics));
                }
                // Continue below: the parallel path can spill.
                Err(DataFusionError::ResourcesExhausted(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let question = Scattered {
            aggregation: Arc::clone(&self.aggregation),
            chunks: Arc::clone(&self.chunks),
            units: (0..self.chunks.len()).map(|chunk| chunk..chunk + 1).collect(),
            watch: watch.clone(),
            spills: spills.clone(),
        };
        let found = self.scheduler.scatter(question).await?;
        merge(&self.aggregation, found, &self.scheduler, finish, watch)
    }

    /// Does all the work on the calling thread.
    async fn run_inline(&self, watch: &Watch) -> Result<Partial> {
        let mut partial = Partial::new(&self.aggregation);
        for some in self.chunks.chunks(CHUNKS_AT_ONCE) {
            for chunk in some {
                partial.add_chunk(chunk).map_err(external)?;
                watch.look(0, partial.memory_bytes())?;
            }
            if some.len() == CHUNKS_AT_ONCE {
                tokio::task::yield_now().await;
            }
        }
        Ok(partial)
    }
}
