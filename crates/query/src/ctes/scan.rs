//! Scans that share the rows of one `WITH` query.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, reset_plan_states};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};
use futures::stream::{Stream, StreamExt, poll_fn};
use parking_lot::Mutex;

use crate::plan::shown;

/// The rows of a `WITH` query as far as a scan has asked for them.
///
/// Scans read at different speeds, and some begin only when others are at their end, so all rows
/// stay in memory until the statement is dropped. The memory is accounted for; too little is an
/// error of the statement.
pub(crate) struct SharedRows {
    schema: SchemaRef,
    state: Mutex<State>,
    /// The scans that wait for the source.
    waiting: Arc<Waiting>,
    /// The scans that found the state locked by another one.
    locked_out: Waiting,
}

struct State {
    plan: Arc<dyn ExecutionPlan>,
    batches: Vec<RecordBatch>,
    source: Source,
    reservation: Option<MemoryReservation>,
}

enum Source {
    NotStarted,
    Running(SendableRecordBatchStream),
    Ended,
    Failed(Arc<DataFusionError>),
}

/// The scans that wait for further rows. Each polls the source, which may wake only the last one to
/// do so: any progress wakes all.
#[derive(Default)]
struct Waiting(Mutex<Vec<Waker>>);

impl Waiting {
    fn add(&self, waker: &Waker) {
        let mut wakers = self.0.lock();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    fn wake_all(&self) {
        let wakers = std::mem::take(&mut *self.0.lock());
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

impl SharedRows {
    /// The rows of a plan, with columns of the types that `schema` names.
    pub(super) fn new(plan: Arc<dyn ExecutionPlan>, schema: SchemaRef) -> SharedRows {
        let state = State {
            plan: in_one_partition(plan),
            batches: Vec::new(),
            source: Source::NotStarted,
            reservation: None,
        };
        SharedRows {
            schema,
            state: Mutex::new(state),
            waiting: Arc::default(),
            locked_out: Waiting::default(),
        }
    }

    /// The batch at `place`; `None` behind the last one.
    fn poll_batch(
        &self,
        place: usize,
        task: &Arc<TaskContext>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        // A thread does not block while another one computes.
        let mut locked = self.state.try_lock();
        if locked.is_none() {
            self.locked_out.add(context.waker());
            locked = self.state.try_lock();
        }
        let Some(mut state) = locked else { return Poll::Pending };
        let polled = state.poll_batch(place, task, &self.schema, || {
            self.waiting.add(context.waker());
            Waker::from(Arc::clone(&self.waiting))
        });
        drop(state);
        self.locked_out.wake_all();
        if polled.is_ready() {
            self.waiting.wake_all();
        }
        polled
    }

    /// Drops all rows, since a restarted plan computes them again.
    fn reset(&self) -> Result<()> {
        let mut state = self.state.lock();
        if matches!(state.source, Source::NotStarted) {
            return Ok(());
        }
        state.plan = reset_plan_states(Arc::clone(&state.plan))?;
        (state.batches, state.reservation) = (Vec::new(), None);
        state.source = Source::NotStarted;
        Ok(())
    }
}

impl State {
    fn poll_batch(
        &mut self,
        place: usize,
        task: &Arc<TaskContext>,
        schema: &SchemaRef,
        waker: impl FnOnce() -> Waker,
    ) -> Poll<Option<Result<RecordBatch>>> {
        if let Some(batch) = self.batches.get(place) {
            return Poll::Ready(Some(Ok(batch.clone())));
        }
        if matches!(self.source, Source::NotStarted) {
            let consumer = MemoryConsumer::new("CteScan");
            self.reservation = Some(consumer.register(task.memory_pool()));
            self.source = match self.plan.execute(0, Arc::clone(task)) {
                Ok(stream) => Source::Running(stream),
                Err(error) => Source::Failed(Arc::new(error)),
            };
        }
        let polled = match &mut self.source {
            Source::Running(stream) => {
                let waker = waker();
                stream.poll_next_unpin(&mut Context::from_waker(&waker))
            }
            Source::Failed(error) => {
                return Poll::Ready(Some(Err(DataFusionError::Shared(Arc::clone(error)))));
            }
            Source::NotStarted | Source::Ended => return Poll::Ready(None),
        };
        let batch = match polled {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => {
                self.source = Source::Ended;
                return Poll::Ready(None);
            }
            Poll::Ready(Some(batch)) => batch.and_then(|batch| self.keep(&batch, schema)),
        };
        Poll::Ready(Some(batch.map_err(|error| {
            let error = Arc::new(error);
            self.source = Source::Failed(Arc::clone(&error));
            DataFusionError::Shared(error)
        })))
    }

    fn keep(&mut self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let batch = shown(batch, schema)?;
        if let Some(reservation) = &self.reservation {
            reservation.try_grow(batch.get_array_memory_size())?;
        }
        self.batches.push(batch.clone());
        Ok(batch)
    }
}

fn in_one_partition(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    if plan.output_partitioning().partition_count() < 2 {
        return plan;
    }
    match plan.output_ordering().cloned() {
        Some(order) => Arc::new(SortPreservingMergeExec::new(order, plan)),
        None => Arc::new(CoalescePartitionsExec::new(plan)),
    }
}

/// One reference to a `WITH` query.
pub(crate) struct MaterializedScan {
    rows: Arc<SharedRows>,
    /// The columns that are read.
    columns: Option<Vec<usize>>,
    properties: Arc<PlanProperties>,
}

impl MaterializedScan {
    pub(super) fn new(
        rows: Arc<SharedRows>,
        columns: Option<&Vec<usize>>,
    ) -> Result<MaterializedScan> {
        let schema = match columns {
            Some(columns) => Arc::new(rows.schema.project(columns)?),
            None => Arc::clone(&rows.schema),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(MaterializedScan { rows, columns: columns.cloned(), properties: Arc::new(properties) })
    }
}

impl fmt::Debug for MaterializedScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CteScan")
    }
}

impl DisplayAs for MaterializedScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.properties.equivalence_properties().schema().fields().iter();
        let names: Vec<&str> = names.map(|field| field.name().as_str()).collect();
        write!(f, "CteScan: columns=[{}]", names.join(", "))
    }
}

impl ExecutionPlan for MaterializedScan {
    thalweg_execution::without_inputs!();

    fn name(&self) -> &'static str {
        "CteScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        self.rows.reset()?;
        Ok(self)
    }

    fn execute(&self, _: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (rows, columns) = (Arc::clone(&self.rows), self.columns.clone());
        let mut place = 0;
        let batches = poll_fn(move |context| {
            let polled = rows.poll_batch(place, &task, context);
            place += 1 - usize::from(polled.is_pending());
            polled
        });
        let batches: Pin<Box<dyn Stream<Item = Result<RecordBatch>> + Send>> = match columns {
            Some(columns) => Box::pin(batches.map(move |batch| Ok(batch?.project(&columns)?))),
            None => Box::pin(batches),
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}
