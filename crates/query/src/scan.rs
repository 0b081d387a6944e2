//! The shard scan: a table's rows as one snapshot shows them, as an operator of DataFusion.
//!
//! Chunks whose zones exclude the filter are left out before the scan starts, and so are rows that
//! an index rules out; others while it goes on, where a sort above has better rows. The rest is
//! handed out chunk by chunk to whichever partition asks next, so that no thread waits for
//! another's share. Where few rows of a chunk pass the filter, columns of no others are read;
//! otherwise batches are slices of the chunk's own buffers wherever no row is dead. The filter
//! itself stays above the scan.

mod conditions;
mod filter;
mod first_rows;
mod index;
mod pruning;
mod sort_key;
mod states;
mod statistics;
mod threshold;
mod values;
mod whole;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{FilterBuilder, FilterPredicate};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::Statistics;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use futures::{StreamExt, stream};
use thalweg_dialect::stop::Stop;
use thalweg_scan::Sieve;
use thalweg_store::ChunkView;
use thalweg_types::{TableId, TableSchema};

use crate::executor::stop_of;
use crate::fused::sieve_of;
use crate::given::Given;
use crate::kept;
use crate::reduce::{KEPT_OF, Keys, Leaf, WaitingFor};

use conditions::Conditions;
pub(crate) use filter::executable;
pub(crate) use first_rows::FindFirstRows;
pub(crate) use index::direction;
use index::{FirstRows, Reads};
pub(crate) use states::States;
pub(crate) use statistics::table_statistics;
use statistics::{Asked, scan_statistics};
pub(crate) use threshold::{TellThresholds, with_thresholds};
use threshold::{Threshold, Watched};
pub(crate) use values::value_counts;
pub use whole::{ChunkIdentity, WholeChunk, whole_chunks};

/// The name of the column that tells a row's place; only statements that change rows see it.
pub(crate) const ROW_ID: &str = "__thalweg_row";

/// How many rows a batch holds at most.
const BATCH_ROWS: usize = 8192;

/// Where more than one in so many rows of a chunk pass the filter, all of them are handed on.
const SIEVED_ROWS: usize = 3;
/// So many chunks behind such a one are not looked at.
const UNSIEVED_CHUNKS: usize = 3;

/// By how much a table may grow or shrink before a plan that was made for it is made anew.
const GROWTH_MAX: usize = 4;
/// Rows that make no difference to a plan.
const ROWS_FEW: usize = 50_000;

/// Whether a plan that was made for so many rows does for as many as there are now.
#[must_use]
pub fn is_about(planned: usize, now: usize) -> bool {
    let below = |few: usize, many: usize| few <= many.saturating_mul(GROWTH_MAX) + ROWS_FEW;
    below(now, planned) && below(planned, now)
}

/// What one table looks like to a scan: its columns, and perhaps the row ids after them.
pub(crate) fn scan_schema(table: &SchemaRef, row_ids: bool) -> SchemaRef {
    if !row_ids {
        return Arc::clone(table);
    }
    let mut fields = table.fields().to_vec();
    fields.push(Arc::new(Field::new(ROW_ID, DataType::UInt64, false)));
    Arc::new(Schema::new(fields))
}

/// What a scan is planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A plan that runs once.
    Run,
    /// A plan with several runs: nothing in its shape may hold for the rows of now alone.
    Runs,
    /// A part of a plan that somebody else has made: nobody asks for statistics any more.
    Part,
    /// Such a part with several runs.
    Parts,
}

impl Purpose {
    fn is_run_again(self) -> bool {
        matches!(self, Purpose::Runs | Purpose::Parts)
    }
}

#[derive(Clone)]
pub(crate) struct ShardScan {
    table: Arc<str>,
    id: TableId,
    /// All columns that could be read.
    columns: SchemaRef,
    /// What rows must pass that are of any use; for chunks to be left out.
    filter: Option<Arc<dyn PhysicalExpr>>,
    /// How many rows the table had when the scan was planned.
    planned_rows: usize,
    /// Places in the scan schema.
    projection: Vec<usize>,
    /// How many columns the table has; the row id is the one after them.
    table_columns: usize,
    chunks: Chunks,
    schema: Arc<TableSchema>,
    /// What is asked for, if it is not all rows.
    first: Option<FirstRows>,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    statistics: Arc<Statistics>,
    /// The next chunk to hand out; one for each execution of the plan.
    next: Arc<AtomicUsize>,
    /// Keys that rows have to have to be of any use.
    among: WaitingFor,
    /// What rows have to pass once a sort above has as many as it wants.
    threshold: Option<Threshold>,
}

impl ShardScan {
    /// A scan of `states` over the columns at `projection` in `schema`, which is [`scan_schema`]'s.
    #[expect(clippy::too_many_arguments, reason = "what DataFusion asks for, and of what")]
    pub(crate) fn new(
        table: &str,
        states: &States,
        schema: &SchemaRef,
        projection: Vec<usize>,
        filter: Option<&Arc<dyn PhysicalExpr>>,
        limit: Option<usize>,
        threads: usize,
        purpose: Purpose,
    ) -> Result<ShardScan> {
        let projected = Arc::new(schema.project(&projection)?);
        let table_schema = states.first().schema();
        let reads = Reads { table: table_schema, projection: &projection, output: &projected };
        let chunks = Chunks::of(states, schema, filter, &reads, None)?;
        // The next run of a plan that is kept may need other chunks.
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
            table: table.into(),
            id: table_schema.id,
            columns: Arc::clone(schema),
            filter: filter.cloned(),
            planned_rows: states.rows(),
            table_columns: table_schema.columns.len(),
            projection,
            chunks,
            schema: Arc::clone(table_schema),
            first: None,
            limit,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            statistics: Arc::new(statistics),
            next: Arc::default(),
            among: WaitingFor::default(),
            threshold: None,
        })
    }
}

/// The chunks that a scan reads.
#[derive(Clone, Default)]
struct Chunks {
    /// Those that zones do not rule out.
    kept: Arc<Vec<ChunkView>>,
    /// The same with those rows alone that an index does not rule out, if one does.
    read: Arc<Vec<ChunkView>>,
    index: Option<Arc<str>>,
    /// Whether it is a key of the table whose values the filter names: other values of as many keys
    /// have as few rows.
    are_of_keys: bool,
    /// What rows must pass to be read, as far as the filter was understood.
    sieve: Option<Arc<Sieve>>,
    in_table: usize,
}

impl Chunks {
    /// Those of a table that a filter, and the order of which the first rows are wanted, leave to
    /// be read.
    fn of(
        states: &States,
        columns: &SchemaRef,
        filter: Option<&Arc<dyn PhysicalExpr>>,
        reads: &Reads<'_>,
        first: Option<&FirstRows>,
    ) -> Result<Chunks> {
        let all = states.chunks();
        let filter = filter.map(kept::bound).transpose()?;
        let conditions = Conditions::of_table(filter.as_ref(), columns, reads.table);
        if let Some((found, key)) = index::by_key(states, &conditions) {
            let kept = Arc::new(found);
            return Ok(Chunks {
                read: Arc::clone(&kept),
                kept,
                index: Some(key),
                are_of_keys: true,
                sieve: None,
                in_table: all.len(),
            });
        }
        Chunks::chosen(all, columns, filter.as_ref(), &conditions, reads, first)
    }

    /// The same of some chunks, with a filter that has no parameters any more.
    fn chosen(
        all: Vec<ChunkView>,
        columns: &SchemaRef,
        filter: Option<&Arc<dyn PhysicalExpr>>,
        conditions: &Conditions,
        reads: &Reads<'_>,
        first: Option<&FirstRows>,
    ) -> Result<Chunks> {
        let in_table = all.len();
        let kept = match filter {
            Some(filter) if in_table > 1 => pruning::keep(all, filter, columns)?,
            _ => all,
        };
        let kept = Arc::new(kept);
        let (read, index) = match index::choose(&kept, reads, conditions, first)? {
            Some((read, index)) => (Arc::new(read), Some(index)),
            None => (Arc::clone(&kept), None),
        };
        let table_columns = reads.table.columns.len();
        let sieve =
            filter.and_then(|filter| sieve_of(filter, columns, table_columns)).map(Arc::new);
        Ok(Chunks { kept, read, index, are_of_keys: false, sieve, in_table })
    }

    fn rows(&self) -> usize {
        self.read.iter().map(ChunkView::live_rows).sum()
    }

    /// How many threads may share them: a few rows are not worth a second one.
    fn partitions(&self) -> usize {
        match self.index {
            Some(_) => self.rows().div_ceil(BATCH_ROWS),
            None => self.read.len(),
        }
    }
}

/// A scan that is planned once and run over many states of its table.
impl ShardScan {
    pub(crate) fn table_id(&self) -> TableId {
        self.id
    }

    /// The same over nothing.
    pub(crate) fn without_rows(&self) -> ShardScan {
        ShardScan { chunks: Chunks::default(), ..self.clone() }
    }

    /// Whether a plan that was made for the table as it was does for what it is now.
    pub(crate) fn fits(&self, states: &States) -> bool {
        let is_same = Arc::ptr_eq(&self.schema, states.first().schema());
        is_same && is_about(self.planned_rows, states.rows())
    }

    /// The same over another state of the table.
    pub(crate) fn over(&self, states: &States) -> Result<ShardScan> {
        let chunks = Chunks::of(
            states,
            &self.columns,
            self.filter.as_ref(),
            &self.reads(),
            self.first.as_ref(),
        )?;
        Ok(ShardScan {
            chunks,
            next: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        })
    }

    fn reads(&self) -> Reads<'_> {
        let output = self.properties.eq_properties.schema();
        Reads { table: &self.schema, projection: &self.projection, output }
    }
}

/// What an operator that does the scan's work itself has to know.
impl ShardScan {
    pub(crate) fn table(&self) -> &Arc<str> {
        &self.table
    }

    /// The places in the table of the columns that are read.
    pub(crate) fn projection(&self) -> &[usize] {
        &self.projection
    }

    pub(crate) fn reads_row_ids(&self) -> bool {
        self.projection.iter().any(|place| *place >= self.table_columns)
    }

    /// Chunks with the rows that are of use; others of the table are, or count as, dead.
    pub(crate) fn chunks(&self) -> &Arc<Vec<ChunkView>> {
        &self.chunks.read
    }

    /// How many rows are left where zones and indexes ruled others out.
    pub(crate) fn rows_to_read(&self) -> usize {
        self.chunks.rows()
    }

    pub(crate) fn chunks_in_table(&self) -> usize {
        self.chunks.in_table
    }

    /// The index that told which rows are of use.
    pub(crate) fn index(&self) -> Option<&Arc<str>> {
        self.chunks.index.as_ref()
    }

    pub(crate) fn has_indexes(&self) -> bool {
        !self.schema.indexes.is_empty()
    }

    /// The same for whoever wants the first rows of an order and none else.
    pub(crate) fn for_first(&self, first: FirstRows) -> Result<ShardScan> {
        let kept = self.chunks.kept.as_ref().clone();
        let filter = self.filter.as_ref().map(kept::bound).transpose()?;
        let (columns, filter) = (&self.columns, filter.as_ref());
        let conditions = Conditions::of_table(filter, columns, &self.schema);
        let chosen =
            Chunks::chosen(kept, columns, filter, &conditions, &self.reads(), Some(&first))?;
        // What a key has found is not looked for again.
        let index = chosen.index.or_else(|| self.chunks.index.clone());
        let chunks = Chunks { in_table: self.chunks.in_table, index, ..chosen };
        let statistics = Arc::new(self.statistics.as_ref().clone().to_inexact());
        Ok(ShardScan { chunks, statistics, first: Some(first), ..self.clone() })
    }
}

impl fmt::Debug for ShardScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for ShardScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.properties.eq_properties.schema();
        let columns: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        write!(
            f,
            "ShardScan: {} columns=[{}] chunks={}/{} rows={}",
            self.table,
            columns.join(", "),
            self.chunks.read.len(),
            self.chunks.in_table,
            self.chunks.rows(),
        )?;
        if let Some(index) = &self.chunks.index {
            write!(f, " index={index}")?;
        }
        self.among.tell(f, |column| columns[column])?;
        match self.limit {
            Some(limit) => write!(f, " limit={limit}"),
            None => Ok(()),
        }
    }
}

impl Leaf for ShardScan {
    fn rows(&self) -> Option<usize> {
        Some(self.chunks.rows())
    }

    /// Conditions on its rows are those of filters above it.
    fn share(&self) -> f64 {
        if self.among.is_nothing() { 1.0 } else { 1.0 / KEPT_OF as f64 }
    }

    fn takes_keys(&self, column: usize) -> bool {
        let is_stored = self.projection.get(column).is_some_and(|at| *at < self.table_columns);
        is_stored && self.limit.is_none() && self.first.is_none()
    }

    fn among(&self, column: usize, keys: &Arc<Keys>) -> Arc<dyn ExecutionPlan> {
        Arc::new(ShardScan { among: self.among.and(column, keys), ..self.clone() })
    }
}

impl ExecutionPlan for ShardScan {
    crate::without_inputs!();

    fn name(&self) -> &'static str {
        "ShardScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut fresh = self.as_ref().clone();
        fresh.next = Arc::default();
        fresh.metrics = ExecutionPlanMetricsSet::new();
        // A sort that begins anew has another one.
        fresh.threshold = None;
        Ok(Arc::new(fresh))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let stop = stop_of(&context);
        let schema = self.schema();
        let figures = Figures::of(&self.metrics, partition);
        let read = move |scan| Reading::of(scan, stop, figures);
        let stream = match self.among.is_nothing() {
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
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match args.partition() {
            None => Ok(Arc::clone(&self.statistics)),
            Some(_) => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
        }
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let mut limited = self.clone();
        limited.limit = limit;
        Some(Arc::new(limited))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }
}

/// What is told of one partition.
struct Figures {
    given: Given,
    chunks_read: Count,
    /// Chunks that were to be read, and in which the sieve found nothing, or which are beyond the
    /// threshold.
    chunks_pruned: Count,
    /// Rows of which all columns were read: those that the sieve left, where it left few.
    rows_read: Count,
}

impl Figures {
    fn of(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Figures {
        let counter = |name| MetricBuilder::new(metrics).counter(name, partition);
        Figures {
            given: Given::by(metrics, partition),
            chunks_read: counter("chunks_read"),
            chunks_pruned: counter("chunks_pruned"),
            rows_read: counter("rows_read"),
        }
    }
}

/// One partition's rows, as they are asked for.
struct Reading {
    scan: ShardScan,
    stop: Option<Arc<Stop>>,
    figures: Figures,
    cursor: Cursor,
    /// Chunks that are not looked at ahead of reading them.
    unsieved: usize,
    threshold: Option<Watched>,
    /// How many rows are still wanted.
    left: usize,
}

impl Reading {
    fn of(scan: ShardScan, stop: Option<Arc<Stop>>, figures: Figures) -> Reading {
        let left = scan.limit.unwrap_or(usize::MAX);
        let (threshold, cursor) = (scan.threshold.as_ref().map(Watched::of), Cursor::default());
        Reading { scan, stop, figures, cursor, unsieved: 0, threshold, left }
    }
}

impl Iterator for Reading {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let time = self.figures.given.time().clone();
        let timer = time.timer();
        if self.stop.as_ref().is_some_and(|stop| stop.is_wanted()) {
            return None;
        }
        while self.left > 0 {
            if self.cursor.chunk.is_none() {
                let index = self.scan.next.fetch_add(1, Ordering::Relaxed);
                let chunk = self.scan.chunks.read.get(index)?.clone();
                let columns = &self.scan.columns;
                let is_beyond = |threshold: &mut Watched| threshold.is_beyond(&chunk, columns);
                if self.threshold.as_mut().is_some_and(is_beyond) {
                    self.figures.chunks_pruned.add(1);
                    continue;
                }
                match self.scan.sieved(chunk, &mut self.unsieved) {
                    Some(chunk) => {
                        self.cursor = self.scan.open(chunk);
                        self.figures.chunks_read.add(1);
                        self.figures.rows_read.add(self.cursor.length);
                    }
                    None => self.figures.chunks_pruned.add(1),
                }
                continue;
            }
            if self.cursor.row == self.cursor.length {
                self.cursor.chunk = None;
                continue;
            }
            let batch = self.cursor.next_batch(&self.scan.properties, self.left);
            let rows = batch.as_ref().map_or(0, RecordBatch::num_rows);
            if batch.is_ok() && rows == 0 {
                continue;
            }
            self.left -= rows.min(self.left);
            timer.done();
            return Some(batch.inspect(|batch| self.figures.given.count(batch)));
        }
        None
    }
}

impl ShardScan {
    /// The same, once it is known which keys rows have to have.
    async fn with_keys(mut self) -> ShardScan {
        let mut sieve = self.chunks.sieve.take();
        for (column, keys) in self.among.all().await {
            let place = self.projection[column];
            sieve = Some(Arc::new(Sieve::among(sieve.as_deref(), place, &keys)));
        }
        self.chunks.sieve = sieve;
        self
    }

    /// A chunk with the rows that pass the filter, where they are few; `None` where there is none.
    /// After one in which they are not few, some are not looked at.
    fn sieved(&self, chunk: ChunkView, unsieved: &mut usize) -> Option<ChunkView> {
        let Some(sieve) = &self.chunks.sieve else { return Some(chunk) };
        if !self.among.is_nothing() && !sieve.may_concern(&chunk) {
            return None;
        }
        if chunk.chosen().is_some() {
            return Some(chunk);
        }
        if let Some(fewer) = unsieved.checked_sub(1) {
            *unsieved = fewer;
            return Some(chunk);
        }
        match sieve.passing(&chunk, chunk.live_rows() / SIEVED_ROWS) {
            Ok(Some(passing)) => (!passing.is_empty()).then(|| chunk.narrowed(passing)),
            Ok(None) => {
                *unsieved = UNSIEVED_CHUNKS;
                Some(chunk)
            }
            // Whether there is an error in it, the filter above says.
            Err(_) => Some(chunk),
        }
    }

    fn open(&self, chunk: ChunkView) -> Cursor {
        let stored: Vec<usize> =
            self.projection.iter().copied().filter(|i| *i < self.table_columns).collect();
        let chosen = chunk.chosen();
        let read = match chosen {
            Some(places) => chunk.take(&stored, places),
            None => chunk.columns(&stored),
        };
        let ids = || match chosen {
            Some(places) => chunk.row_ids(places.values().iter().map(|place| (*place).into())),
            None => chunk.row_ids(0..chunk.rows()),
        };
        let mut read = read.into_iter();
        let columns = self
            .projection
            .iter()
            .map(|index| {
                if *index < self.table_columns {
                    read.next().expect("as many columns came as were asked for")
                } else {
                    Arc::new(ids()) as ArrayRef
                }
            })
            .collect();
        let (length, live) = match chosen {
            Some(places) => (places.len(), None),
            None => (chunk.rows(), chunk.live_mask().map(|mask| BooleanArray::new(mask, None))),
        };
        Cursor { chunk: Some(chunk), columns, live, length, row: 0 }
    }
}

/// Where a partition is in its current chunk.
#[derive(Default)]
struct Cursor {
    chunk: Option<ChunkView>,
    columns: Vec<ArrayRef>,
    live: Option<BooleanArray>,
    /// How many rows the columns have.
    length: usize,
    row: usize,
}

impl Cursor {
    fn next_batch(&mut self, properties: &PlanProperties, most: usize) -> Result<RecordBatch> {
        let length = BATCH_ROWS.min(self.length - self.row);
        let start = self.row;
        self.row += length;
        let live = self.live.as_ref().map(|live| live.slice(start, length));
        // Before there is a batch: dead rows may have NULLs that a column may not have any more.
        let filter = live.as_ref().map(|live| FilterBuilder::new(live).optimize().build());
        let column = |column: &ArrayRef| match &filter {
            None => Ok(column.slice(start, length)),
            Some(filter) => filter.filter(&column.slice(start, length)),
        };
        let columns = self.columns.iter().map(column).collect::<Result<_, ArrowError>>()?;
        let count = filter.as_ref().map_or(length, FilterPredicate::count);
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::clone(properties.eq_properties.schema());
        let live = RecordBatch::try_new_with_options(schema, columns, &options)?;
        Ok(if live.num_rows() > most { live.slice(0, most) } else { live })
    }
}
