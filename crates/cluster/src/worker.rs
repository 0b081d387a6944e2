//! A worker's services: it checks that a caller has the same map before it answers.

use bytes::Bytes;
use futures::future::BoxFuture;
use hyper::Response;
use prost::Message as _;
use std::sync::Arc;
use thalweg_protocol::cluster::worker_server::{Worker, WorkerServer};
use thalweg_protocol::cluster::{
    DescribeNodeRequest, FetchRequest, NodeDescription, ShardMap as WireMap, StorageFault,
};
use thalweg_protocol::errors::status;
use thalweg_types::{Error, Result, SqlState};
use tonic::body::Body;
use tonic::{Request, Status};

use crate::map::{ShardMap, SharedMap};
use crate::node::Chunks;
use crate::seen::{SeenKind, SeenNodes, Standing};

/// The contents and the health of a worker, for status requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holdings {
    pub rows: u64,
    pub bytes: u64,
    pub streams: u64,
    /// The faults of its storage.
    pub storage: Vec<StorageFault>,
    /// The id of its database, and its last durable group.
    pub durable: (u64, u64),
}

/// A worker: its number, its map, and the handler of requests.
#[derive(Clone)]
pub struct WorkerNode {
    id: u64,
    run: u64,
    map: SharedMap,
    chunks: Arc<dyn Chunks>,
    holdings: Arc<dyn Fn() -> Holdings + Send + Sync>,
    /// The record of how far the logs of gateways had come.
    gateways: Arc<SeenNodes>,
}

impl WorkerNode {
    /// `run` is the random number with which the worker joins. `holdings` is called for each status
    /// request.
    #[must_use]
    pub fn new(
        (id, run): (u64, u64),
        map: SharedMap,
        chunks: Arc<dyn Chunks>,
        holdings: impl Fn() -> Holdings + Send + Sync + 'static,
    ) -> WorkerNode {
        let gateways = Arc::new(SeenNodes::new(SeenKind::Gateways));
        WorkerNode { id, run, map, chunks, holdings: Arc::new(holdings), gateways }
    }

    /// Makes the worker check gateways against this record, and update it.
    #[must_use]
    pub fn remembering(self, gateways: Arc<SeenNodes>) -> WorkerNode {
        WorkerNode { gateways, ..self }
    }

    /// The gRPC service of the worker.
    #[must_use]
    pub fn service(self) -> WorkerServer<WorkerNode> {
        WorkerServer::new(self)
    }

    fn meant(&self, request: &FetchRequest) -> Result<()> {
        if request.worker != self.id {
            let message = format!("worker {} answers at its address", self.id);
            return Err(Error::new(SqlState::OTHER_WORKER, message));
        }
        if request.run != 0 && request.run != self.run {
            // The gateway must look first at what this run holds.
            let message = format!("worker {} was started again", self.id);
            return Err(Error::new(SqlState::OTHER_WORKER, message));
        }
        if let Some(gateway) = &request.gateway {
            self.gateways.check_gateway(Standing::from_wire(gateway))?;
        }
        self.map.agrees(request.map_version)
    }
}

impl Chunks for WorkerNode {
    fn fetch(&self, question: Bytes) -> BoxFuture<'_, Result<Response<Body>>> {
        Box::pin(async move {
            let request = FetchRequest::decode(question).map_err(|error| {
                Error::new(SqlState::PROTOCOL_VIOLATION, format!("no request: {error}"))
            })?;
            self.meant(&request)?;
            self.chunks.fetch(request.question).await
        })
    }
}

#[tonic::async_trait]
impl Worker for WorkerNode {
    async fn put_map(&self, request: Request<WireMap>) -> Result<tonic::Response<WireMap>, Status> {
        let map = ShardMap::from_wire(request.get_ref()).map_err(|error| status(&error))?;
        let newest = self.map.offer(map).await.map_err(|error| status(&error))?;
        Ok(tonic::Response::new(newest.to_wire()))
    }

    async fn describe(
        &self,
        _: Request<DescribeNodeRequest>,
    ) -> Result<tonic::Response<NodeDescription>, Status> {
        let map = self.map.current();
        let place = map.workers().iter().position(|worker| worker.id == self.id);
        let buckets = place.map_or(0, |place| map.shares()[place] as u64);
        let Holdings { rows, bytes, streams, storage, durable: (database, position) } =
            (self.holdings)();
        Ok(tonic::Response::new(NodeDescription {
            id: self.id,
            map_version: map.version(),
            buckets,
            rows,
            bytes,
            streams,
            run: self.run,
            storage,
            standing: Some(Standing { database, position, run: self.run }.to_wire()),
        }))
    }
}
