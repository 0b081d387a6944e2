//! A fragment as an operator of the gateway: a scan of one table on the workers that own its rows,
//! with the steps that they apply before they send the rows.
//!
//! Each worker is a partition, or each process of workers ([`targets`]), unless there are very many
//! ([`crate::lanes`]). A partition's stream is opened when the partition is executed, so that all
//! open at once unless the session wants otherwise ([`reading`]). It is read on demand, so that a
//! slow client slows the workers down. Dropping it cancels the work on the worker.

mod estimates;
mod keys;
pub(crate) mod reading;
mod targets;

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream, select_all};
use parking_lot::Mutex;
use prost::Message as _;
use thalweg_cluster::link::Answer;
use thalweg_execution::operator_metrics::OperatorMetrics;
use thalweg_execution::parameter_values::bound;
use thalweg_execution::scan::is_about;
use thalweg_execution::semi_join_filters::{ASSUMED_SELECTIVITY_DIVISOR, AsLeaf, Keys, Leaf};
use thalweg_protocol::cluster as wire;
use thalweg_query::{FanIn, Gathering, Stages, WorkerScan};
use thalweg_types::{Error, RowId, TableSchema};
use thalweg_values::errors::external;
use tokio_util::task::AbortOnDropHandle;

use self::estimates::{Estimates, key_after};
use self::keys::{ScanKeys, place_of_keys};
use self::reading::{Reading, Run};
pub(crate) use self::targets::{Asked, Targets, by_process};
use crate::codec::Writer;
use crate::gateway::Shared;
use crate::hidden_rows::HiddenRows;
use crate::relayed::Window;

/// Size limit of fragments that workers cache, in bytes. Larger ones are sent in full each time.
const KEPT_BYTES_MAX: usize = 64 << 10;

#[derive(Clone)]
pub(crate) struct RemoteScan {
    shared: Arc<Shared>,
    source: Source,
    pub(crate) targets: Targets,
    pub(crate) work: Work,
    estimates: Estimates,
    delivery: Delivery,
    properties: Arc<PlanProperties>,
    /// Index of the shard key among the columns of the properties.
    shard_key: Option<usize>,
    current: Current,
}

/// The rows that a scan was made for.
#[derive(Clone)]
struct Source {
    /// The requested scan, with parameters in its filter.
    wanted: WorkerScan,
    /// True if one stream may cover several workers of a process.
    together: bool,
    /// Estimated number of rows of the table when the scan was planned.
    planned: Option<usize>,
    /// Rows that are left out.
    hidden: Arc<HiddenRows>,
}

/// The work of each worker, in its serialized form.
#[derive(Clone)]
pub(crate) struct Work {
    fragment: wire::Fragment,
    pub(crate) writer: Writer,
    /// The steps as text, for EXPLAIN.
    described: Vec<String>,
    /// Semi-join filters on the rows.
    among: Vec<ScanKeys>,
    /// Parameter values of this run, if the plan was made for another one.
    values_of_run: Option<Bytes>,
    /// True if the work will probably run again.
    is_cached: bool,
}

/// The way of the rows from the streams to the client.
#[derive(Clone, Default)]
struct Delivery {
    /// Number of partitions that share all streams; `None` if each stream has its own partition.
    lanes: Option<usize>,
    /// True if the gateway forwards the rows without decoding them.
    is_relayed: bool,
    /// The reason why the plan above does not run in stages, if that was considered.
    gathered: Option<Arc<str>>,
}

/// The state of the current run.
#[derive(Clone, Default)]
struct Current {
    /// The run of which some partitions have not begun.
    run: Arc<Mutex<Option<Arc<Run>>>>,
    metrics: ExecutionPlanMetricsSet,
}

impl Current {
    /// Another run, which reports to the same metrics.
    fn with_another_run(&self) -> Current {
        Current { run: Arc::default(), metrics: self.metrics.clone() }
    }
}

impl Work {
    /// The columns, filter and limit of a scan.
    fn of(scan: &WorkerScan) -> Work {
        let WorkerScan { table, schema, projection, filter, limit, .. } = scan;
        let mut writer = Writer::default();
        // A filter that cannot be serialized is not used to skip chunks.
        let filter = filter.as_ref().and_then(|filter| writer.expression(filter, schema));
        let id = |place: &usize| table.columns.get(*place).map_or(0, |column| column.id.0 + 1);
        let fragment = wire::Fragment {
            table: table.id.0,
            table_columns: table.columns.iter().map(|column| column.id.0).collect(),
            columns: projection.iter().map(id).collect(),
            limit: limit.map(|limit| limit as u64),
            filter,
            ..wire::Fragment::default()
        };
        Work {
            fragment,
            writer,
            described: Vec::new(),
            among: Vec::new(),
            values_of_run: None,
            is_cached: false,
        }
    }
}

/// The future answer of a worker. Dropping it cancels the request.
pub(crate) type Opening = AbortOnDropHandle<thalweg_types::Result<Answer>>;

impl RemoteScan {
    pub(crate) fn new(shared: &Arc<Shared>, scan: WorkerScan) -> Result<RemoteScan> {
        let WorkerScan { table, schema, projection, filter, limit, hidden, .. } = &scan;
        let known = filter.as_ref().filter(|_| !scan.is_cached).map(bound).transpose()?;
        // A row handle identifies a row of one worker only, so such rows need separate streams.
        let has_places = projection.iter().any(|place| *place >= table.columns.len());
        let together = scan.gathering.together && !has_places && hidden.is_empty();
        let targets = Targets::of(shared, table, known.as_ref(), together).map_err(external)?;
        let projected = Arc::new(schema.project(projection)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(projected),
            Partitioning::UnknownPartitioning(targets.streams.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        // It yields between batches itself.
        .with_scheduling_type(SchedulingType::Cooperative);
        let shard_key = table.shard_key.and_then(|column| table.position(column));
        let shard_key = shard_key.and_then(|key| projection.iter().position(|place| *place == key));
        let rows = shared.row_count(table.id);
        let value_count = |place: &usize| {
            let column = table.columns.get(*place)?;
            shared.value_count(table.id, column.id)
        };
        let values = projection.iter().map(value_count).collect();
        Ok(RemoteScan {
            shared: Arc::clone(shared),
            work: Work::of(&scan),
            estimates: Estimates::of_table(rows, *limit, targets.share(), values),
            source: Source {
                together,
                planned: rows,
                hidden: Arc::new(HiddenRows::of(hidden).map_err(external)?),
                wanted: scan,
            },
            targets,
            delivery: Delivery::default(),
            properties: Arc::new(properties),
            shard_key,
            current: Current::default(),
        })
    }

    /// The table that is scanned.
    fn table(&self) -> &TableSchema {
        &self.source.wanted.table
    }

    fn gathering(&self) -> Gathering {
        self.source.wanted.gathering
    }

    /// The scan for another run, with the current parameter values. Returns `None` if the plan
    /// around it was made for a table of another size, or for fewer streams.
    pub(crate) fn rebound(&self, gathering: Gathering) -> Result<Option<RemoteScan>> {
        let now = self.shared.row_count(self.table().id);
        let wanted = WorkerScan { gathering, is_cached: false, ..self.source.wanted.clone() };
        let mut scan = RemoteScan::new(&self.shared, wanted)?;
        scan.work.is_cached = true;
        let fits = is_about(self.estimates.rows.unwrap_or_default(), now.unwrap_or_default())
            && scan.targets.streams.len() <= self.targets.streams.len();
        Ok(fits.then_some(scan))
    }

    /// The folded scan for another run of its plan, with the current parameter values. Returns
    /// `None` if the plan does not fit the table's size or targets, or has semi-join filters of
    /// another run.
    pub(crate) fn same_again(&self) -> Result<Option<RemoteScan>> {
        let Source { wanted, together, planned, .. } = &self.source;
        let now = self.shared.row_count(wanted.table.id);
        let fits = is_about(planned.unwrap_or_default(), now.unwrap_or_default());
        let Some(values) = self.work.writer.values().map_err(external)? else { return Ok(None) };
        if !fits || !self.work.among.is_empty() {
            return Ok(None);
        }
        let filter = wanted.filter.as_ref().map(bound).transpose()?;
        let targets = Targets::of(&self.shared, &wanted.table, filter.as_ref(), *together)
            .map_err(external)?;
        let are_as_many = targets.streams.len() == self.targets.streams.len();
        Ok(are_as_many.then(|| {
            let mut scan = RemoteScan { targets, current: Current::default(), ..self.clone() };
            scan.work.values_of_run = Some(values);
            scan
        }))
    }

    /// True if its rows can be relayed when the gateway only counts those in `window`. A limit over
    /// all workers has to be counted by the gateway.
    pub(crate) fn may_relay(&self, window: &Window) -> bool {
        use wire::step::Kind;
        let limits = |step: &wire::Step| match &step.kind {
            Some(Kind::Limit(_)) => true,
            Some(Kind::Sort(sort)) => sort.fetch.is_some(),
            Some(Kind::Filter(filter)) => filter.fetch.is_some(),
            _ => false,
        };
        let fragment = &self.work.fragment;
        let is_limited = fragment.limit.is_some() || fragment.steps.iter().any(limits);
        let is_counted = window.ends() || self.targets.streams.len() == 1;
        self.gathering().relays && (!is_limited || is_counted)
    }

    /// Marks the scan as one whose rows are forwarded without decoding.
    pub(crate) fn relayed(&self) -> RemoteScan {
        let mut more = self.clone();
        more.delivery.is_relayed = true;
        more
    }

    pub(crate) fn is_relayed(&self) -> bool {
        self.delivery.is_relayed
    }

    /// The run of a partition that begins now.
    fn run(&self) -> thalweg_types::Result<Arc<Run>> {
        let Current { run: current, metrics } = &self.current;
        let mut current = current.lock();
        let run = match current.take() {
            Some(run) => run,
            None => {
                let clock = self.shared.clock();
                Arc::new(Run::begin(self, self.fan_in(), metrics, clock)?)
            }
        };
        if !run.begins() {
            *current = Some(Arc::clone(&run));
        }
        Ok(run)
    }

    pub(crate) fn fan_in(&self) -> FanIn {
        self.gathering().fan_in
    }

    pub(crate) fn stages(&self) -> Stages {
        self.gathering().stages
    }

    /// Estimated number of rows that its workers send, before semi-join filters; `None` if unknown.
    pub(crate) fn sent(&self) -> Option<usize> {
        self.estimates.sent
    }

    /// Estimated fraction of these rows that pass its semi-join filters.
    pub(crate) fn share_of_keys(&self) -> f64 {
        self.work.among.iter().map(|among| among.keys.share()).product()
    }

    /// Index of the column that decides on which worker a row lies, if the steps keep it.
    pub(crate) fn shard_key(&self) -> Option<usize> {
        self.shard_key
    }

    /// The streams, of which each is a partition.
    pub(crate) fn streams(&self) -> &[Asked] {
        &self.targets.streams
    }

    /// Limits the partitions to `lanes`, each of which reads a share of the streams.
    pub(crate) fn in_lanes(&self, lanes: usize) -> RemoteScan {
        let dealt = Partitioning::UnknownPartitioning(lanes);
        let properties = self.properties.as_ref().clone().with_partitioning(dealt);
        let mut more = self.clone();
        more.delivery.lanes = Some(lanes);
        more.properties = Arc::new(properties);
        more.current = self.current.with_another_run();
        more
    }

    pub(crate) fn has_lanes(&self) -> bool {
        self.delivery.lanes.is_some()
    }

    /// The rows of one stream in the current run.
    fn read(&self, stream: usize) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let run = self.run().map_err(external)?;
        let operator_metrics = OperatorMetrics::of_partition(&self.current.metrics, stream);
        let reading = Reading::begin(run, self, stream, operator_metrics).map_err(external)?;
        Ok(Box::pin(stream::try_unfold(reading, |mut reading| async move {
            tokio::task::consume_budget().await;
            let rows = reading.next().await.map_err(external)?;
            Ok(rows.map(|rows| (rows, reading)))
        })))
    }

    /// Stores the reason why no stages are made over the scan.
    pub(crate) fn gathered(&self, why: &Arc<str>) -> RemoteScan {
        let mut more = self.clone();
        more.delivery.gathered = Some(Arc::clone(why));
        more
    }

    /// Replaces a partial aggregate by a whole one, if each group lies on one worker. `groups` are
    /// the properties of the final aggregate.
    pub(crate) fn of_whole_groups(&self, groups: &EquivalenceProperties) -> Option<RemoteScan> {
        use wire::step::Kind;
        if self.shard_key.is_none() && self.targets.streams.len() > 1 {
            return None;
        }
        let mut more = self.clone();
        let step = more.work.fragment.steps.last_mut()?;
        let Some(Kind::Aggregate(aggregate)) = step.kind.as_mut() else { return None };
        if !std::mem::replace(&mut aggregate.partial, false) {
            return None;
        }
        if let Some(described) = more.work.described.last_mut() {
            *described = described.replacen("partial ", "", 1);
        }
        // Operators above rely on columns that are constant.
        let mut equal = groups.clone();
        equal.clear_orderings();
        more.properties = Arc::new(PlanProperties::new(
            equal,
            Partitioning::UnknownPartitioning(self.targets.streams.len()),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        more.current = Current::default();
        Some(more)
    }

    /// Each worker's fragment for a leaf of stages; `None` for workers that are not asked.
    ///
    /// # Errors
    /// If the fragment cannot be encoded.
    pub(crate) fn parts(
        &self,
        workers: usize,
    ) -> thalweg_types::Result<Vec<Option<wire::Fragment>>> {
        let asked = self.asked(None)?;
        let mut parts = vec![None; workers];
        for stream in self.streams() {
            let part = parts.get_mut(stream.first());
            *part.ok_or_else(|| Error::unsupported("a stage of so few workers"))? =
                Some(self.question(&asked, stream)?);
        }
        Ok(parts)
    }

    /// The request to each stream's worker, for rows in a client's format.
    pub(crate) fn questions(
        &self,
        form: wire::RowForm,
    ) -> thalweg_types::Result<Vec<(usize, wire::Fragment)>> {
        let asked = self.asked(Some(form))?;
        let question = |stream: &Asked| Ok((stream.first(), self.question(&asked, stream)?));
        self.streams().iter().map(question).collect()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Appends a step, which does the work of the operator `replaced`.
    pub(crate) fn with_step(
        &self,
        step: wire::step::Kind,
        described: String,
        writer: Writer,
        replaced: &Arc<dyn ExecutionPlan>,
    ) -> RemoteScan {
        let mut more = self.clone();
        more.shard_key = self.shard_key.and_then(|key| key_after(&step, key));
        more.estimates = self.estimates.after(&step, replaced, self.targets.streams.len());
        more.work.fragment.steps.push(wire::Step { kind: Some(step) });
        more.work.described.push(described);
        more.work.writer = writer;
        more.properties = Arc::clone(replaced.properties());
        more.current = Current::default();
        more
    }

    /// Appends a limit, which changes neither columns nor partitions.
    pub(crate) fn limited(&self, fetch: usize) -> RemoteScan {
        let mut more = self.clone();
        let limit = wire::Limit { skip: 0, fetch: Some(fetch as u64) };
        more.work.fragment.steps.push(wire::Step { kind: Some(wire::step::Kind::Limit(limit)) });
        more.work.described.push(format!("limit {fetch}"));
        more
    }

    /// True if the last step limits each worker's rows.
    pub(crate) fn is_limited(&self) -> bool {
        use wire::step::Kind;
        match self.work.fragment.steps.last().and_then(|step| step.kind.as_ref()) {
            Some(Kind::Limit(limit)) => limit.fetch.is_some(),
            Some(Kind::Sort(sort)) => sort.fetch.is_some(),
            _ => false,
        }
    }

    /// True if an answer should begin only with its first rows. The rows of an aggregate come when
    /// a worker has finished its work, so an earlier beginning would cost both sides an extra
    /// wake-up. In sync mode each worker must begin early, since the next one is asked after that.
    fn begins_with_rows(&self) -> bool {
        use wire::step::Kind;
        let is_aggregate = |step: &wire::Step| matches!(step.kind, Some(Kind::Aggregate(_)));
        self.fan_in() != FanIn::Sync && self.work.fragment.steps.iter().any(is_aggregate)
    }

    /// The part of the request that is the same for all workers.
    fn asked(&self, form: Option<wire::RowForm>) -> thalweg_types::Result<wire::Fragment> {
        let Work { fragment, writer, values_of_run, is_cached, .. } = &self.work;
        let mut asked = wire::Fragment {
            fields: writer.fields()?,
            form,
            memory_limit: self.gathering().memory.map(|bytes| bytes as u64),
            begins_with_rows: self.begins_with_rows(),
            literals: writer.literals()?,
            ..fragment.clone()
        };
        let hides_none = self.source.hidden.count() == 0;
        if *is_cached && hides_none && asked.encoded_len() <= KEPT_BYTES_MAX {
            // Number 0 means that the fragment is not cached.
            asked.number = self.shared.number(&asked.encode_to_vec()) | 1;
        }
        asked.values = match (values_of_run, writer.values()?) {
            (Some(values), _) => values.clone(),
            (None, values) => values.ok_or_else(|| Error::internal("a run has no values"))?,
        };
        Ok(asked)
    }

    /// The request to the workers of one stream.
    fn question(
        &self,
        asked: &wire::Fragment,
        stream: &Asked,
    ) -> thalweg_types::Result<wire::Fragment> {
        let place = stream.first();
        let node = u16::try_from(place).map_err(|_| Error::unsupported("so many workers"))?;
        let (place_base, hidden) = (RowId::base_of_node(node), self.source.hidden.at(place));
        let together = stream.others(&self.shared.map().current());
        Ok(wire::Fragment { place_base, hidden, together, ..asked.clone() })
    }
}

/// Finds scans of workers that can wait for semi-join filters.
pub(crate) const REMOTE: AsLeaf =
    |plan| plan.downcast_ref::<RemoteScan>().map(|scan| scan as &dyn Leaf);

impl Leaf for RemoteScan {
    /// Estimated number of rows that its workers send.
    #[expect(clippy::misnamed_getters, reason = "a scan has other rows, too")]
    fn rows(&self) -> Option<usize> {
        self.estimates.sent
    }

    fn share(&self) -> f64 {
        use wire::step::Kind;
        let is_filter = |step: &&wire::Step| matches!(step.kind, Some(Kind::Filter(_)));
        let filters = self.work.fragment.steps.iter().filter(is_filter).count();
        let asked = self.targets.share() * self.share_of_keys();
        (0..filters).fold(asked, |share, _| share / ASSUMED_SELECTIVITY_DIVISOR as f64)
    }

    fn takes_keys(&self, _: usize) -> bool {
        !self.is_limited() && self.fetch().is_none()
    }

    fn among(&self, column: usize, keys: &Arc<Keys>) -> Arc<dyn ExecutionPlan> {
        let mut more = self.clone();
        let (step, at) = place_of_keys(&self.work.fragment.steps, column);
        let is_shard_key = self.shard_key == Some(column);
        let name = self.schema().field(column).name().clone();
        more.work.among.push(ScanKeys { name, step, at, is_shard_key, keys: Arc::clone(keys) });
        more.current = self.current.with_another_run();
        Arc::new(more)
    }
}

impl fmt::Debug for RemoteScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for RemoteScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Targets { streams, workers, of, how } = &self.targets;
        let (table, work, delivery) = (self.table(), &self.work, &self.delivery);
        write!(f, "RemoteScan: {} workers={how} {workers}/{of}", table.name)?;
        if streams.len() < *workers {
            write!(f, " streams={}", streams.len())?;
        }
        let names = work.fragment.columns.iter().map(|column| match column.checked_sub(1) {
            None => "place",
            Some(id) => {
                let column = table.columns.iter().find(|column| column.id.0 == id);
                column.map_or("?", |column| column.name.as_str())
            }
        });
        write!(f, " columns=[{}]", names.collect::<Vec<_>>().join(", "))?;
        if let Some(limit) = work.fragment.limit {
            write!(f, " limit={limit}")?;
        }
        if self.source.hidden.count() > 0 {
            write!(f, " hidden={}", self.source.hidden.count())?;
        }
        if !work.described.is_empty() {
            write!(f, " steps=[{}]", work.described.join("; "))?;
        }
        if self.fan_in() != FanIn::default() {
            write!(f, " fan_in={}", self.fan_in())?;
        }
        if !work.among.is_empty() {
            let names = work.among.iter().map(|among| among.name.as_str());
            write!(f, " among=[{}]", names.collect::<Vec<_>>().join(", "))?;
        }
        if let Some(lanes) = delivery.lanes {
            write!(f, " lanes={lanes}")?;
        }
        if let Some(why) = &delivery.gathered {
            write!(f, " gathered=[{why}]")?;
        }
        match delivery.is_relayed {
            true => f.write_str(" relayed"),
            false => Ok(()),
        }
    }
}

impl ExecutionPlan for RemoteScan {
    thalweg_execution::without_inputs!();

    fn name(&self) -> &'static str {
        "RemoteScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(RemoteScan { current: Current::default(), ..self.as_ref().clone() }))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let streams = self.targets.streams.len();
        let rows = match self.delivery.lanes {
            None => self.read(partition)?,
            Some(lanes) => {
                let own = (partition..streams).step_by(lanes).map(|stream| self.read(stream));
                select_all(own.collect::<Result<Vec<_>>>()?).boxed()
            }
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema() as SchemaRef, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.current.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let (None, Some(rows)) = (args.partition(), self.estimates.rows) {
            statistics.num_rows = Precision::Inexact(rows);
        }
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        if !self.work.fragment.steps.is_empty() {
            return None;
        }
        let mut limited = self.clone();
        limited.work.fragment.limit = limit.map(|limit| limit as u64);
        limited.source.wanted.limit = limit;
        Some(Arc::new(limited))
    }

    fn fetch(&self) -> Option<usize> {
        self.work.fragment.limit.and_then(|limit| usize::try_from(limit).ok())
    }
}
