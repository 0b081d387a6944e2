//! A fragment as an operator of the gateway: a scan of one table on the workers that own its rows,
//! and what they do with the rows before they send them.
//!
//! Each worker is a partition. Its stream is opened when the partition is executed, so that all
//! open at once; it is read when somebody wants rows, so that a slow client slows the workers down;
//! and dropping it ends the work on the worker.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use futures::stream;
use thalweg_cluster::chunks::{Cutter, MESSAGE_BYTES_MAX};
use thalweg_cluster::link::Answer;
use thalweg_protocol::cluster as wire;
use thalweg_query::WorkerScan;
use thalweg_types::{BUCKETS, Error, RowId, TableSchema};
use tokio_util::task::AbortOnDropHandle;

use crate::codec::Writer;
use crate::gateway::Shared;
use crate::rows::RowReader;
use crate::sharding;

/// Which workers are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Targets {
    /// Their places in the map.
    pub(crate) places: Arc<[usize]>,
    pub(crate) of: usize,
    /// How they were chosen, in a word.
    how: &'static str,
}

#[derive(Clone)]
pub(crate) struct RemoteScan {
    shared: Arc<Shared>,
    table: Arc<TableSchema>,
    pub(crate) targets: Targets,
    fragment: wire::Fragment,
    pub(crate) writer: Writer,
    /// The steps in words.
    told: Vec<String>,
    /// About how many rows there are, before any step.
    rows: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl RemoteScan {
    pub(crate) fn new(shared: &Arc<Shared>, scan: WorkerScan) -> Result<RemoteScan> {
        let WorkerScan { table, schema, projection, filter, limit } = scan;
        let targets = targets(shared, &table, filter.as_ref()).map_err(external)?;
        let mut writer = Writer::default();
        // What has no word prunes no chunks.
        let filter = filter.and_then(|filter| writer.expression(&filter, &schema));
        let id = |place: &usize| table.columns.get(*place).map_or(0, |column| column.id.0 + 1);
        let fragment = wire::Fragment {
            table: table.id.0,
            table_columns: table.columns.iter().map(|column| column.id.0).collect(),
            columns: projection.iter().map(id).collect(),
            limit: limit.map(|limit| limit as u64),
            filter,
            ..wire::Fragment::default()
        };
        let rows = shared.row_count(table.id);
        let projected = Arc::new(schema.project(&projection)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(projected),
            Partitioning::UnknownPartitioning(targets.places.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        // It gives way itself, between batches.
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(RemoteScan {
            shared: Arc::clone(shared),
            table,
            targets,
            fragment,
            writer,
            told: Vec::new(),
            rows,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The same with one step more, which makes of it what `replaced` is.
    pub(crate) fn with_step(
        &self,
        step: wire::step::Kind,
        told: String,
        writer: Writer,
        replaced: &Arc<dyn ExecutionPlan>,
    ) -> RemoteScan {
        let mut more = self.clone();
        more.fragment.steps.push(wire::Step { kind: Some(step) });
        more.told.push(told);
        more.writer = writer;
        more.rows = None;
        more.properties = Arc::clone(replaced.properties());
        more.metrics = ExecutionPlanMetricsSet::new();
        more
    }

    /// The same with a step that changes neither columns nor partitions.
    pub(crate) fn limited(&self, fetch: usize) -> RemoteScan {
        let mut more = self.clone();
        let limit = wire::Limit { skip: 0, fetch: Some(fetch as u64) };
        more.fragment.steps.push(wire::Step { kind: Some(wire::step::Kind::Limit(limit)) });
        more.told.push(format!("limit {fetch}"));
        more
    }

    /// Whether each worker sends so few rows already.
    pub(crate) fn is_limited(&self) -> bool {
        use wire::step::Kind;
        match self.fragment.steps.last().and_then(|step| step.kind.as_ref()) {
            Some(Kind::Limit(limit)) => limit.fetch.is_some(),
            Some(Kind::Sort(sort)) => sort.fetch.is_some(),
            _ => false,
        }
    }

    fn question(&self, place: usize) -> thalweg_types::Result<wire::Fragment> {
        let node = u16::try_from(place).map_err(|_| Error::unsupported("so many workers"))?;
        let mut fragment = self.fragment.clone();
        fragment.place_base = RowId::base_of_node(node);
        fragment.fields = self.writer.fields()?;
        fragment.literals = self.writer.literals()?;
        Ok(fragment)
    }
}

/// The workers that may have rows for which the filter is true.
fn targets(
    shared: &Shared,
    table: &TableSchema,
    filter: Option<&Arc<dyn PhysicalExpr>>,
) -> thalweg_types::Result<Targets> {
    let map = shared.map().current();
    map.owner(thalweg_types::Bucket(0))?;
    let of = map.shares().iter().filter(|buckets| **buckets > 0).count();
    let key = table.shard_key.and_then(|column| table.position(column));
    let left = key.zip(filter).and_then(|(key, filter)| {
        let schema = thalweg_dialect::types::column_field(&table.columns[key]);
        sharding::buckets_of(filter, key, schema.data_type())
    });
    let mut places = Vec::new();
    match &left {
        None => {
            let mut owners = vec![false; map.workers().len()];
            for bucket in 0..BUCKETS {
                owners[map.owner(thalweg_types::Bucket(bucket))?] = true;
            }
            places.extend((0..owners.len()).filter(|place| owners[*place]));
        }
        Some(buckets) => {
            for bucket in buckets {
                places.push(map.owner(thalweg_types::Bucket(*bucket))?);
            }
            places.sort_unstable();
            places.dedup();
            // A condition that no row meets: somebody has to say so.
            if places.is_empty() {
                places.push(map.owner(thalweg_types::Bucket(0))?);
            }
        }
    }
    let how = match (&left, places.len()) {
        (None, _) => "all",
        (Some(_), 1) => "one",
        (Some(_), _) => "owners",
    };
    Ok(Targets { places: places.into(), of, how })
}

pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl fmt::Debug for RemoteScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for RemoteScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Targets { places, of, how } = &self.targets;
        write!(f, "RemoteScan: {} workers={how} {}/{of}", self.table.name, places.len())?;
        let names = self.fragment.columns.iter().map(|column| match column.checked_sub(1) {
            None => "place",
            Some(id) => {
                let column = self.table.columns.iter().find(|column| column.id.0 == id);
                column.map_or("?", |column| column.name.as_str())
            }
        });
        write!(f, " columns=[{}]", names.collect::<Vec<_>>().join(", "))?;
        if let Some(limit) = self.fragment.limit {
            write!(f, " limit={limit}")?;
        }
        match self.told.is_empty() {
            true => Ok(()),
            false => write!(f, " steps=[{}]", self.told.join("; ")),
        }
    }
}

impl ExecutionPlan for RemoteScan {
    fn name(&self) -> &'static str {
        "RemoteScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut fresh = self.as_ref().clone();
        fresh.metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(fresh))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let place = self.targets.places[partition];
        let fragment = self.question(place).map_err(external)?;
        let shared = Arc::clone(&self.shared);
        let times = Times::new(&self.metrics, partition);
        let open_time = times.open.clone();
        let opening = self.shared.spawn(async move {
            let timer = open_time.timer();
            let answer = shared.ask(place, wire::work::Kind::Fragment(fragment)).await;
            timer.done();
            answer
        });
        let state = Reading {
            opening: Some(opening),
            answer: None,
            cutter: Cutter::new(MESSAGE_BYTES_MAX),
            reader: RowReader::new(self.schema()),
            ready: VecDeque::new(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            times,
        };
        let rows = stream::try_unfold(state, |mut state| async move {
            tokio::task::consume_budget().await;
            let rows = state.next().await.map_err(external)?;
            Ok(rows.map(|rows| (rows, state)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema() as SchemaRef, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let (None, Some(rows)) = (args.partition(), self.rows) {
            statistics.num_rows = Precision::Inexact(rows);
        }
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        if !self.fragment.steps.is_empty() {
            return None;
        }
        let mut limited = self.clone();
        limited.fragment.limit = limit.map(|limit| limit as u64);
        Some(Arc::new(limited))
    }

    fn fetch(&self) -> Option<usize> {
        self.fragment.limit.and_then(|limit| usize::try_from(limit).ok())
    }
}

/// What it took to read one worker's rows.
struct Times {
    /// Until the worker began to answer.
    open: Time,
    /// From then until its first row.
    first_row: Time,
    /// Spent waiting for rows and decoding them.
    read: Time,
}

impl Times {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Times {
        let time = |name| MetricBuilder::new(metrics).subset_time(name, partition);
        Times {
            open: time("open_time"),
            first_row: time("first_row_time"),
            read: time("read_time"),
        }
    }
}

/// One worker's stream.
struct Reading {
    opening: Option<AbortOnDropHandle<thalweg_types::Result<Answer>>>,
    answer: Option<Answer>,
    cutter: Cutter,
    reader: RowReader,
    ready: VecDeque<RecordBatch>,
    metrics: BaselineMetrics,
    times: Times,
}

impl Reading {
    async fn next(&mut self) -> thalweg_types::Result<Option<RecordBatch>> {
        let is_first = self.opening.is_some();
        if let Some(opening) = self.opening.take() {
            let opened = opening.await.map_err(|died| Error::internal(died.to_string()))?;
            self.answer = Some(opened?);
        }
        let first = is_first.then(|| self.times.first_row.clone());
        let _first = first.as_ref().map(Time::timer);
        let read = self.times.read.clone();
        let _read = read.timer();
        loop {
            if let Some(rows) = self.ready.pop_front() {
                self.metrics.record_output(rows.num_rows());
                return Ok(Some(rows));
            }
            let Some(answer) = &mut self.answer else { return Ok(None) };
            let Some(piece) = answer.piece().await? else {
                let is_whole = self.cutter.is_between_messages();
                let from = answer.from().clone();
                self.answer = None;
                return match is_whole {
                    true => Ok(None),
                    false => Err(Error::internal(format!("the answer of {from} is cut off"))),
                };
            };
            let (reader, ready) = (&mut self.reader, &mut self.ready);
            self.cutter.feed(&piece, |message| {
                ready.extend(reader.read(message.to_bytes())?);
                Ok::<_, Error>(())
            })?;
        }
    }
}
