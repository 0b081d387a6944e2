//! The shard scan: a table's rows in one snapshot, as an operator of DataFusion.
//!
//! Before the scan starts, chunks whose zones exclude the filter are left out, and so are rows that
//! an index excludes. During the scan, more chunks are left out if a sort above has better rows
//! already. The remaining chunks are handed out one by one to the partition that asks next, so that
//! no thread waits for another's share. If few rows of a chunk pass the filter, the columns are
//! read for these rows only. Otherwise batches are slices of the chunk's own buffers unless rows
//! are dead. The filter itself stays above the scan.

mod chunks;
mod conditions;
mod filter;
mod first_rows;
mod index;
mod pruning;
mod reading;
mod sort_key;
mod states;
mod statistics;
mod threshold;
mod values;
mod whole;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Statistics;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use futures::{StreamExt, stream};
use thalweg_store::ChunkView;
use thalweg_types::{TableId, TableSchema};

use crate::executor::stop_of;
use crate::parameter_values;
use crate::semi_join_filters::{ASSUMED_SELECTIVITY_DIVISOR, Keys, Leaf, WaitingFor};

use chunks::Chunks;
use conditions::Conditions;
pub use filter::executable;
pub use first_rows::FindFirstRows;
pub use index::direction;
use index::{FirstRows, Reads};
use reading::{Figures, Reading};
pub use states::States;
pub use statistics::table_statistics;
use statistics::{Asked, scan_statistics};
use threshold::Threshold;
pub use threshold::{PushDownThresholds, with_thresholds};
pub use values::value_counts;
pub use whole::{ChunkIdentity, WholeChunk, whole_chunks};

/// The name of the column that holds row ids. Only statements that change rows see it.
pub const ROW_ID: &str = "__thalweg_row";

/// Maximum number of rows of a batch.
const BATCH_ROWS: usize = 8192;

/// A plan is made anew if its table has grown or shrunk by more than this factor.
const GROWTH_MAX: usize = 4;
/// A change by this many rows makes no difference to a plan.
const ROWS_FEW: usize = 50_000;

/// True if a plan that was made for `planned` rows is suitable for `now` rows.
#[must_use]
pub fn is_about(planned: usize, now: usize) -> bool {
    let below = |few: usize, many: usize| few <= many.saturating_mul(GROWTH_MAX) + ROWS_FEW;
    below(now, planned) && below(planned, now)
}

/// The schema of a scan: the table's columns, optionally followed by the row ids.
pub fn scan_schema(table: &SchemaRef, row_ids: bool) -> SchemaRef {
    if !row_ids {
        return Arc::clone(table);
    }
    let mut fields = table.fields().to_vec();
    fields.push(Arc::new(Field::new(ROW_ID, DataType::UInt64, false)));
    Arc::new(Schema::new(fields))
}

/// The purpose of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A plan that runs once.
    Run,
    /// A plan that runs several times: its shape must not depend on the current rows.
    Runs,
    /// A part of a plan that was made elsewhere: statistics are no longer needed.
    Part,
    /// A part of a plan that runs several times.
    Parts,
}

impl Purpose {
    fn is_run_again(self) -> bool {
        matches!(self, Purpose::Runs | Purpose::Parts)
    }
}

/// The request for a scan of one table.
pub struct ScanRequest<'a> {
    /// Name of the table in plans.
    pub table: &'a str,
    /// All columns that could be read, from [`scan_schema`].
    pub schema: &'a SchemaRef,
    /// Positions in the schema.
    pub projection: Vec<usize>,
    /// A filter that operators above apply. Chunks are left out by it.
    pub filter: Option<&'a Arc<dyn PhysicalExpr>>,
    /// Greatest number of rows that are wanted.
    pub limit: Option<usize>,
    /// Greatest number of partitions.
    pub threads: usize,
    /// The number of runs, and the origin of the plan.
    pub purpose: Purpose,
}

/// The operator that reads a table's rows.
#[derive(Clone)]
pub struct ShardScan {
    columns: ScanColumns,
    wanted: WantedRows,
    chunks: Chunks,
    planned: Planned,
    current: Current,
}

/// The columns that a scan reads.
#[derive(Clone)]
struct ScanColumns {
    /// Name of the table in plans.
    table: Arc<str>,
    schema: Arc<TableSchema>,
    /// All columns that could be read.
    all: SchemaRef,
    /// Positions in `all`.
    projection: Vec<usize>,
}

impl ScanColumns {
    /// True if the table stores the column at a position in `all`. The row id follows these
    /// columns.
    fn is_stored(&self, place: usize) -> bool {
        place < self.schema.columns.len()
    }
}

/// The rows that are wanted of a scan.
#[derive(Clone)]
struct WantedRows {
    /// A filter on rows, used to leave out chunks.
    filter: Option<Arc<dyn PhysicalExpr>>,
    /// The first rows of an order, if only these are wanted.
    first: Option<FirstRows>,
    limit: Option<usize>,
    /// Keys to which a join restricts the scan.
    among: WaitingFor,
    /// The threshold of a sort above, which changes while the sort runs.
    threshold: Option<Threshold>,
}

/// The knowledge about a scan that its plan was made with.
#[derive(Clone)]
struct Planned {
    /// Number of rows of the table.
    rows: usize,
    properties: Arc<PlanProperties>,
    statistics: Arc<Statistics>,
}

/// The state of one execution.
#[derive(Clone, Default)]
struct Current {
    /// The next chunk to hand out.
    next: Arc<AtomicUsize>,
    metrics: ExecutionPlanMetricsSet,
}

impl ShardScan {
    /// A scan of `states`.
    ///
    /// # Errors
    /// If the projection is not within the schema, or the filter is not about its columns.
    pub fn new(states: &States, request: ScanRequest<'_>) -> Result<ShardScan> {
        let ScanRequest { table, schema, projection, filter, limit, threads, purpose } = request;
        let projected = Arc::new(schema.project(&projection)?);
        let table_schema = states.first().schema();
        let reads = Reads { table: table_schema, projection: &projection, output: &projected };
        let chunks = Chunks::of(states, schema, filter, &reads, None)?;
        // The next run of a kept plan may need other chunks.
        let shared = match purpose.is_run_again() && !chunks.are_of_keys {
            true => chunks.in_table,
            false => chunks.partitions(),
        };
        let partitions = threads.min(shared).max(1);
        let statistics = match purpose {
            Purpose::Part | Purpose::Parts => Statistics::new_unknown(&projected),
            Purpose::Run | Purpose::Runs => {
                let asked = Asked { filter, reusable: purpose.is_run_again() };
                scan_statistics(states.first(), schema, &projection, asked)
            }
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(projected),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::NonCooperative);
        Ok(ShardScan {
            columns: ScanColumns {
                table: table.into(),
                schema: Arc::clone(table_schema),
                all: Arc::clone(schema),
                projection,
            },
            wanted: WantedRows {
                filter: filter.cloned(),
                first: None,
                limit,
                among: WaitingFor::default(),
                threshold: None,
            },
            chunks,
            planned: Planned {
                rows: states.rows(),
                properties: Arc::new(properties),
                statistics: Arc::new(statistics),
            },
            current: Current::default(),
        })
    }
}

/// A scan that is planned once and run over many states of its table.
impl ShardScan {
    /// The table that is read.
    #[must_use]
    pub fn table_id(&self) -> TableId {
        self.columns.schema.id
    }

    /// A copy of the scan without rows.
    pub fn without_rows(&self) -> ShardScan {
        ShardScan { chunks: Chunks::default(), ..self.clone() }
    }

    /// True if a plan that was made for an earlier state of the table is suitable for this one.
    pub fn fits(&self, states: &States) -> bool {
        let is_same = Arc::ptr_eq(&self.columns.schema, states.first().schema());
        is_same && is_about(self.planned.rows, states.rows())
    }

    /// A copy of the scan over another state of the table.
    ///
    /// # Errors
    /// If a value of this execution does not fit the filter.
    pub fn over(&self, states: &States) -> Result<ShardScan> {
        let chunks = Chunks::of(
            states,
            &self.columns.all,
            self.wanted.filter.as_ref(),
            &self.reads(),
            self.wanted.first.as_ref(),
        )?;
        Ok(ShardScan { chunks, current: Current::default(), ..self.clone() })
    }

    fn reads(&self) -> Reads<'_> {
        let ScanColumns { schema, projection, .. } = &self.columns;
        Reads { table: schema, projection, output: self.output() }
    }

    fn output(&self) -> &SchemaRef {
        self.planned.properties.eq_properties.schema()
    }
}

/// Accessors for operators that do the scan's work themselves.
impl ShardScan {
    pub(crate) fn table(&self) -> &Arc<str> {
        &self.columns.table
    }

    /// The positions in the table of the columns that are read.
    pub(crate) fn projection(&self) -> &[usize] {
        &self.columns.projection
    }

    pub(crate) fn reads_row_ids(&self) -> bool {
        self.columns.projection.iter().any(|place| !self.columns.is_stored(*place))
    }

    /// The chunks to read. Rows that are excluded are dead, or count as dead.
    pub fn chunks(&self) -> &Arc<Vec<ChunkView>> {
        &self.chunks.read
    }

    /// Number of rows that zones and indexes do not exclude.
    pub fn rows_to_read(&self) -> usize {
        self.chunks.rows()
    }

    /// Number of chunks of the table that have rows, those that are left out included.
    #[must_use]
    pub fn chunks_in_table(&self) -> usize {
        self.chunks.in_table
    }

    /// The index that excluded rows, if one did.
    pub(crate) fn index(&self) -> Option<&Arc<str>> {
        self.chunks.index.as_ref()
    }

    pub(crate) fn has_indexes(&self) -> bool {
        !self.columns.schema.indexes.is_empty()
    }

    /// A copy of the scan for an operator that needs only the first rows of an order.
    pub(crate) fn for_first(&self, first: FirstRows) -> Result<ShardScan> {
        let unpruned = self.chunks.unpruned.as_ref().clone();
        let filter = self.wanted.filter.as_ref().map(parameter_values::bound).transpose()?;
        let (columns, filter) = (&self.columns.all, filter.as_ref());
        let conditions = Conditions::of_table(filter, columns, &self.columns.schema);
        let chosen =
            Chunks::chosen(unpruned, columns, filter, &conditions, &self.reads(), Some(&first))?;
        // Rows that were found by key need no second search.
        let index = chosen.index.or_else(|| self.chunks.index.clone());
        let chunks = Chunks { in_table: self.chunks.in_table, index, ..chosen };
        let mut more = ShardScan { chunks, ..self.clone() };
        more.planned.statistics = Arc::new(self.planned.statistics.as_ref().clone().to_inexact());
        more.wanted.first = Some(first);
        Ok(more)
    }
}

impl fmt::Debug for ShardScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for ShardScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> = self.output().fields().iter().map(|f| f.name().as_str()).collect();
        write!(
            f,
            "ShardScan: {} columns=[{}] chunks={}/{} rows={}",
            self.columns.table,
            columns.join(", "),
            self.chunks.read.len(),
            self.chunks.in_table,
            self.chunks.rows(),
        )?;
        if let Some(index) = &self.chunks.index {
            write!(f, " index={index}")?;
        }
        self.wanted.among.write_column_names(f, |column| columns[column])?;
        match self.wanted.limit {
            Some(limit) => write!(f, " limit={limit}"),
            None => Ok(()),
        }
    }
}

impl Leaf for ShardScan {
    fn rows(&self) -> Option<usize> {
        Some(self.chunks.rows())
    }

    /// Its filters are operators above it, so only keys count.
    fn share(&self) -> f64 {
        if self.wanted.among.is_nothing() { 1.0 } else { 1.0 / ASSUMED_SELECTIVITY_DIVISOR as f64 }
    }

    fn takes_keys(&self, column: usize) -> bool {
        let ScanColumns { projection, .. } = &self.columns;
        let is_stored = projection.get(column).is_some_and(|at| self.columns.is_stored(*at));
        is_stored && self.wanted.limit.is_none() && self.wanted.first.is_none()
    }

    fn among(&self, column: usize, keys: &Arc<Keys>) -> Arc<dyn ExecutionPlan> {
        let mut more = self.clone();
        more.wanted.among = self.wanted.among.and(column, keys);
        Arc::new(more)
    }
}

impl ExecutionPlan for ShardScan {
    crate::without_inputs!();

    fn name(&self) -> &'static str {
        "ShardScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.planned.properties
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut fresh = ShardScan { current: Current::default(), ..self.as_ref().clone() };
        // A sort that is reset has a new threshold.
        fresh.wanted.threshold = None;
        Ok(Arc::new(fresh))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let stop = stop_of(&context);
        let schema = self.schema();
        let figures = Figures::of(&self.current.metrics, partition);
        let read = move |scan| Reading::of(scan, stop, figures);
        let stream = match self.wanted.among.is_nothing() {
            true => stream::iter(read(self.clone())).boxed(),
            false => {
                let scan = self.clone();
                let batches = async move { stream::iter(read(scan.with_keys().await)) };
                stream::once(batches).flatten().boxed()
            }
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.current.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match args.partition() {
            None => Ok(Arc::clone(&self.planned.statistics)),
            Some(_) => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
        }
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let mut limited = self.clone();
        limited.wanted.limit = limit;
        Some(Arc::new(limited))
    }

    fn fetch(&self) -> Option<usize> {
        self.wanted.limit
    }
}
