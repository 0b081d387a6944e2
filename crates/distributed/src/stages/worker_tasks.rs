//! A worker's side of stages: the tasks that it runs.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::common::internal_datafusion_err;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::session_state::SessionState;
use datafusion_distributed::{
    CoordinatorToWorkerMsg, DistributedExt as _, ExecuteTaskRequest, MaybeEncoded, ProducerHead,
    SetPlanRequest, TaskKey, Worker, WorkerQueryContext, WorkerSessionBuilder,
    WorkerToCoordinatorMsg,
};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use http::HeaderMap;
use parking_lot::Mutex;
use thalweg_cluster::chunks::{ChunkWriter, Fill, Source};
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::task_rows::Head;
use thalweg_query::Shards;
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::errors::from_datafusion;
use thalweg_values::statement_control::StatementControl;
use tokio::sync::oneshot;
use url::Url;
use uuid::Uuid;

use super::channel::Channels;
use super::leaf::LeafCodec;
use super::{Exchange, Peers};
use crate::worker::{Counted, Member};

/// The tasks of a worker. Clones share them.
#[derive(Clone)]
pub(crate) struct Tasks {
    worker: Worker,
    shards: Shards,
    /// Stop flags of all tasks that run or are waited for.
    stops: Arc<Mutex<HashMap<TaskKey, Weak<StatementControl>>>>,
}

tokio::task_local! {
    /// Settings of the task that is being started.
    static BEGINNING: TaskContext;
}

/// The stop flag of a task, and its memory limit in bytes, if it has one.
#[derive(Clone, Default)]
struct TaskContext {
    stop: Arc<StatementControl>,
    memory: Option<usize>,
}

impl Tasks {
    pub(crate) fn new(member: &Arc<Member>, peers: Arc<Peers>) -> Tasks {
        let sessions = Sessions { member: Arc::clone(member), exchange: Arc::new(peers) };
        let shards = member.shards().clone();
        let worker = Worker::from_session_builder(sessions);
        Tasks { worker, shards, stops: Arc::default() }
    }

    fn stop_of(&self, task: TaskKey) -> Arc<StatementControl> {
        let mut stops = self.stops.lock();
        if let Some(stop) = stops.get(&task).and_then(Weak::upgrade) {
            return stop;
        }
        stops.retain(|_, stop| stop.strong_count() > 0);
        let stop = Arc::new(StatementControl::default());
        stops.insert(task, Arc::downgrade(&stop));
        stop
    }

    /// Starts a task, which lives until the returned value is dropped.
    ///
    /// # Errors
    /// If it is malformed, or its scans find other tables than it was made for.
    pub(crate) async fn begin(&self, task: wire::BeginTask, counted: Counted) -> Result<Begun> {
        let key = task_key(task.key)?;
        let worker = Url::parse(&task.worker).map_err(|error| malformed(&error))?;
        let request = SetPlanRequest {
            task_key: key,
            task_count: number(task.tasks)?,
            plan: MaybeEncoded::Encoded(task.plan.to_vec()),
            work_unit_feed_declarations: Vec::new(),
            target_worker_url: worker,
            query_start_time_ns: 0,
        };
        let (wanted, ended) = oneshot::channel::<()>();
        let until_ended = stream::once(ended)
            .filter_map(|_| std::future::ready(None::<PlanResult<CoordinatorToWorkerMsg>>));
        let memory = task.memory_limit.map(crate::worker::limit_of);
        let stop = self.stop_of(key);
        let begun = self.worker.coordinator_channel(HeaderMap::new(), request, until_ended.boxed());
        let task_context = TaskContext { stop: Arc::clone(&stop), memory };
        let begun = BEGINNING.scope(task_context, begun).await;
        let messages = begun.map_err(|error| from_datafusion(error, ""))?;
        Ok(Begun { stop, _wanted: wanted, _messages: messages, _counted: counted })
    }

    /// The rows of a partition of a task.
    ///
    /// # Errors
    /// If the request is malformed.
    pub(crate) fn rows(
        &self,
        wanted: wire::TaskRows,
    ) -> Result<impl Stream<Item = PlanResult<RecordBatch>> + Send + use<>> {
        let partition = number(wanted.partition)?;
        let producer_head = match wanted.head {
            None => ProducerHead::None,
            Some(Head::Broadcast(partitions)) => {
                ProducerHead::BroadcastExec { output_partitions: number(partitions)? }
            }
            Some(Head::Repartition(partitioning)) => ProducerHead::RepartitionExec {
                partitioning: MaybeEncoded::Encoded(partitioning.to_vec()),
            },
        };
        let key = task_key(wanted.key)?;
        let request = ExecuteTaskRequest {
            task_key: key,
            target_partition_start: partition,
            target_partition_end: partition.saturating_add(1),
            producer_head,
        };
        let worker = self.worker.clone();
        Ok(self.shards.take(&self.stop_of(key), async move {
            let (mut rows, _) = worker.execute_task(request).await?;
            rows.pop().ok_or_else(|| internal_datafusion_err!("a task has no such partition"))
        }))
    }
}

fn malformed(why: &impl std::fmt::Display) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, format!("this is no task: {why}"))
}

fn number(wide: u64) -> Result<usize> {
    usize::try_from(wide).map_err(|error| malformed(&error))
}

fn task_key(key: Option<wire::TaskKey>) -> Result<TaskKey> {
    let key = key.ok_or_else(|| malformed(&"it has no key"))?;
    Ok(TaskKey {
        query_id: Uuid::from_slice(&key.query).map_err(|error| malformed(&error))?,
        stage_id: number(key.stage)?,
        task_number: number(key.task)?,
    })
}

/// A running task. As an answer it sends nothing, but keeps the task alive.
pub(crate) struct Begun {
    stop: Arc<StatementControl>,
    _wanted: oneshot::Sender<()>,
    _messages: BoxStream<'static, PlanResult<WorkerToCoordinatorMsg>>,
    _counted: Counted,
}

impl Drop for Begun {
    /// Operators are dropped when they yield. Scans and large aggregates check the stop flag
    /// earlier.
    fn drop(&mut self) {
        self.stop.stop();
    }
}

impl Source for Begun {
    fn poll_fill(&mut self, _: &mut Context<'_>, _: &mut ChunkWriter) -> Poll<Result<Fill>> {
        // The caller ends it by dropping the call.
        Poll::Pending
    }
}

/// Builds the session of a task: this database's functions, memory and connections to other
/// workers.
struct Sessions {
    member: Arc<Member>,
    exchange: Arc<dyn Exchange>,
}

#[async_trait]
impl WorkerSessionBuilder for Sessions {
    async fn build_session_state(
        &self,
        context: WorkerQueryContext,
    ) -> Result<SessionState, DataFusionError> {
        let mut builder = context.builder;
        let mut config = builder.config().take().unwrap_or_default();
        let exchange = Arc::clone(&self.exchange);
        let channels = Channels { exchange, failures: None, memory: None };
        config.set_distributed_channel_resolver(channels);
        config.set_distributed_user_codec(LeafCodec::reading(&self.member));
        let TaskContext { stop, memory } =
            BEGINNING.try_with(TaskContext::clone).unwrap_or_default();
        self.member.shards().state_for(config, memory, &stop)
    }
}
