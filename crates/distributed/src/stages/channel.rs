//! Starting and reading tasks: the transport that `datafusion-distributed` asks for.
//!
//! A task lives as long as the call that started it, which ends with the query. Each partition is
//! read by a call of its own, so that HTTP/2's flow control applies to each of them separately. All
//! calls are made at once.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::error::Result as PlanResult;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest,
    GetWorkerInfoResponse, ProducerHead, SetPlanRequest, TaskKey, WorkerChannel,
    WorkerToCoordinatorMsg,
};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http::HeaderMap;
use thalweg_cluster::link::{Answer, NodeName};
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::task_rows::Head;
use thalweg_protocol::cluster::work::Kind;
use thalweg_types::{Error, Result};
use thalweg_values::errors::external;
use tokio::sync::mpsc;
use url::Url;

use super::{Exchange, peers};
use crate::scan::Opening;
use crate::scan::reading::Decoder;

/// Channels to all workers, for one query.
pub(super) struct Channels {
    pub(super) exchange: Arc<dyn Exchange>,
    /// Receives errors of tasks, even while no one reads the task.
    pub(super) failures: Option<mpsc::UnboundedSender<Error>>,
    /// Memory limit of each task in bytes, if the statement has one.
    pub(super) memory: Option<usize>,
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> PlanResult<Box<dyn WorkerChannel>> {
        let worker = peers::worker(url).map_err(external)?;
        let (exchange, failures) = (Arc::clone(&self.exchange), self.failures.clone());
        Ok(Box::new(Channel { worker, exchange, failures, memory: self.memory }))
    }
}

struct Channel {
    worker: NodeName,
    exchange: Arc<dyn Exchange>,
    failures: Option<mpsc::UnboundedSender<Error>>,
    memory: Option<usize>,
}

type ToWorker = BoxStream<'static, CoordinatorToWorkerMsg>;
type FromWorker = BoxStream<'static, PlanResult<WorkerToCoordinatorMsg>>;
type Rows = BoxStream<'static, PlanResult<RecordBatch>>;

#[async_trait]
impl WorkerChannel for Channel {
    async fn coordinator_channel(
        &mut self,
        _: HeaderMap,
        request: SetPlanRequest,
        messages: ToWorker,
        _: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> PlanResult<FromWorker> {
        let task = Kind::BeginTask(wire::BeginTask {
            key: Some(wire_key(request.task_key)),
            tasks: request.task_count as u64,
            plan: request.plan.encode(context)?.into(),
            worker: request.target_worker_url.to_string(),
            memory_limit: self.memory.map(|bytes| bytes as u64),
        });
        let begun = answered(self.exchange.ask(self.worker.clone(), task)).await;
        let failures = self.failures.clone();
        let failed = move |error: Error| {
            if let Some(failures) = &failures {
                // If the receiver is gone, the query is over.
                let _ = failures.send(error.clone());
            }
            external(error)
        };
        let answer = begun.map_err(&failed)?;
        let held = async move { held(answer, messages).await.map_err(failed).err().map(Err) };
        Ok(stream::once(held).filter_map(std::future::ready).boxed())
    }

    async fn execute_task(
        &mut self,
        _: HeaderMap,
        request: ExecuteTaskRequest,
        _: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> PlanResult<Vec<Rows>> {
        let key = wire_key(request.task_key);
        let head = match request.producer_head {
            ProducerHead::None => None,
            ProducerHead::BroadcastExec { output_partitions } => {
                Some(Head::Broadcast(output_partitions as u64))
            }
            ProducerHead::RepartitionExec { partitioning } => {
                Some(Head::Repartition(partitioning.encode(context)?.into()))
            }
        };
        let partitions = request.target_partition_start..request.target_partition_end;
        let rows = partitions.map(|partition| {
            let (key, head) = (Some(key.clone()), head.clone());
            let wanted = wire::TaskRows { key, partition: partition as u64, head };
            let opening = self.exchange.ask(self.worker.clone(), Kind::TaskRows(wanted));
            Reading::new(opening).rows()
        });
        Ok(rows.collect())
    }

    async fn get_worker_info(
        &mut self,
        _: GetWorkerInfoRequest,
    ) -> PlanResult<GetWorkerInfoResponse> {
        // All nodes of a cluster run one version, so there is nothing to compare.
        Ok(GetWorkerInfoResponse { version: String::new() })
    }
}

fn wire_key(key: TaskKey) -> wire::TaskKey {
    wire::TaskKey {
        query: key.query_id.as_bytes().to_vec().into(),
        stage: key.stage_id as u64,
        task: key.task_number as u64,
    }
}

async fn answered(opening: Opening) -> Result<Answer> {
    opening.await.map_err(|died| Error::internal(died.to_string()))?
}

/// Holds the call of a task until the query ends or the task fails.
async fn held(mut answer: Answer, mut messages: ToWorker) -> Result<()> {
    loop {
        tokio::select! {
            message = messages.next() => match message {
                // These messages do not concern our plans.
                Some(_) => {}
                None => return Ok(()),
            },
            piece = answer.piece() => {
                if piece?.is_none() {
                    return Ok(());
                }
            }
        }
    }
}

/// A partition of a task that is being read.
struct Reading {
    opening: Option<Opening>,
    answer: Option<Answer>,
    decoder: Decoder,
    ready: VecDeque<RecordBatch>,
}

impl Reading {
    fn new(opening: Opening) -> Reading {
        Reading {
            opening: Some(opening),
            answer: None,
            decoder: Decoder::new(None),
            ready: VecDeque::new(),
        }
    }

    fn rows(self) -> Rows {
        let rows = stream::try_unfold(self, |mut reading| async move {
            tokio::task::consume_budget().await;
            let rows = reading.next().await.map_err(external)?;
            Ok(rows.map(|rows| (rows, reading)))
        });
        rows.boxed()
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(opening) = self.opening.take() {
            self.answer = Some(answered(opening).await?);
        }
        loop {
            if let Some(rows) = self.ready.pop_front() {
                return Ok(Some(rows));
            }
            let Some(answer) = &mut self.answer else { return Ok(None) };
            match answer.piece().await? {
                Some(piece) => self.decoder.feed(&piece, &mut self.ready)?,
                None => {
                    self.decoder.check_end(answer)?;
                    self.answer = None;
                }
            }
        }
    }
}
