//! Membership of workers in a cluster.
//!
//! Workers report to their gateways periodically, and get the map. One gateway makes the map: it
//! adds new workers, and stores the map before anybody gets it. Other gateways forward the reports
//! to it, and adopt the map that it returns. While it is away no worker can join, and everything
//! else goes on.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thalweg_protocol::cluster::membership_server::{Membership, MembershipServer};
use thalweg_protocol::cluster::{
    DescribeNodeRequest, GetMapRequest, JoinReply, JoinRequest, NodeDescription, RemoveRequest,
    ShardMap as WireMap,
};
use thalweg_protocol::errors::status;
use thalweg_runtime::interval;
use thalweg_types::{Error, Result, SqlState};
use tonic::{Request, Response, Status};

use crate::link::{DESCRIBE, Link, LinkOptions, NodeName, ReconnectingLink};
use crate::map::{Moving, ShardMap, SharedMap, entry, name, process};
use crate::seen::{SeenKind, SeenNodes, Standing};

/// Interval of a worker's reports, in a small cluster.
pub const JOIN_EVERY: Duration = Duration::from_secs(1);
/// Limit of reports per second from all workers, which lengthens the interval in large clusters.
/// Thousands of reports per second would take a third of a gateway's core.
const JOINS_A_SECOND: u32 = 64;
const JOIN: &str = "/thalweg.cluster.v1.Membership/Join";
/// Path of the call that removes a worker from the map.
pub const REMOVE: &str = "/thalweg.cluster.v1.Membership/Remove";

/// A gateway's service for workers that join or are removed.
pub struct Gatekeeper {
    map: SharedMap,
    making: Making,
    /// The record of how far the logs of workers had come.
    seen: Arc<SeenNodes>,
}

/// The gateway that makes the map.
pub enum Making {
    /// This gateway makes it.
    Here {
        /// Called for each change: says if buckets may still move.
        moving: Box<dyn Fn() -> Moving + Send + Sync>,
        /// Options of connections to workers.
        link: LinkOptions,
    },
    /// Another gateway makes it.
    At(ReconnectingLink),
}

/// A worker that joins.
#[derive(Clone)]
pub struct Joining {
    pub worker: NodeName,
    /// Number of the process in which it runs.
    pub process: u64,
    /// Random number, drawn when the worker starts.
    pub run: u64,
    /// Returns the id of its database and its last durable group. Called for each report.
    pub durable: Arc<dyn Fn() -> (u64, u64) + Send + Sync>,
}

impl Joining {
    fn of(request: &JoinRequest) -> Result<Joining> {
        let Some(worker) = &request.worker else {
            return Err(Error::internal("somebody joins without a name"));
        };
        let standing = Standing::from_wire(&request.standing.unwrap_or_default());
        let durable = Arc::new(move || (standing.database, standing.position));
        Ok(Joining { process: process(worker), worker: name(worker)?, run: request.run, durable })
    }

    fn standing(&self) -> Standing {
        let (database, position) = (self.durable)();
        Standing { database, position, run: self.run }
    }

    fn request(&self, map_version: u64) -> JoinRequest {
        let worker = Some(entry(&self.worker, self.process));
        let standing = Some(self.standing().to_wire());
        JoinRequest { worker, map_version, run: self.run, standing }
    }

    /// Checks that no other worker uses the same number.
    ///
    /// # Errors
    /// If another process answers at the address that the map has for this number. Each of the two
    /// would hold a part of the rows.
    async fn is_alone(&self, map: &ShardMap, options: &LinkOptions) -> Result<()> {
        let Some(known) = map.worker(self.worker.id).filter(|known| **known != self.worker) else {
            return Ok(());
        };
        let is_another = |it: NodeDescription| it.id == known.id && it.run != self.run;
        match describe(known, options).await.is_ok_and(is_another) {
            false => Ok(()),
            true => Err(Error::new(SqlState::OBJECT_IN_USE, format!("{known} runs already"))
                .with_hint("One of the two has a copy of the other's directory: stop one.")),
        }
    }
}

impl Gatekeeper {
    /// A gatekeeper of `map`, which `making` changes.
    #[must_use]
    pub fn new(map: SharedMap, making: Making) -> Gatekeeper {
        Gatekeeper { map, making, seen: Arc::new(SeenNodes::new(SeenKind::Workers)) }
    }

    /// Makes the service check workers against this record, and update it.
    #[must_use]
    pub fn remembering(self, seen: Arc<SeenNodes>) -> Gatekeeper {
        Gatekeeper { seen, ..self }
    }

    /// The gRPC service of the gatekeeper.
    #[must_use]
    pub fn service(self) -> MembershipServer<Gatekeeper> {
        MembershipServer::new(self)
    }

    async fn take_in(&self, request: JoinRequest) -> Result<JoinReply> {
        let joining = Joining::of(&request)?;
        let map = match &self.making {
            Making::Here { moving, link } => {
                joining.is_alone(&self.map.current(), link).await?;
                self.check(&joining)?;
                let Joining { worker, process, .. } = joining;
                self.map.change(|map| map.with(worker, process, moving())).await?
            }
            Making::At(maker) => {
                self.check(&joining)?;
                let own = self.map.current().version();
                let handed_on = JoinRequest { map_version: own, ..request.clone() };
                let reply: JoinReply = maker.link().await?.0.ask(JOIN, &handed_on).await?;
                take_over(&self.map, &reply).await?
            }
        };
        let newer = map.version() > request.map_version;
        Ok(JoinReply { map: newer.then(|| map.to_wire()) })
    }

    /// # Errors
    /// If the worker has an older copy of its directory.
    fn check(&self, joining: &Joining) -> Result<()> {
        self.seen.check_worker(joining.worker.id, joining.process, joining.standing())
    }
}

impl Gatekeeper {
    /// Removes a worker that is gone for good.
    ///
    /// # Errors
    /// If the map has no such worker, if the worker still answers, or if it owns buckets that may
    /// have rows and `lose_rows` is not set.
    async fn remove(&self, request: RemoveRequest) -> Result<Arc<ShardMap>> {
        let (moving, link) = match &self.making {
            Making::Here { moving, link } => (moving(), link),
            Making::At(maker) => {
                let map: WireMap = maker.link().await?.0.ask(REMOVE, &request).await?;
                self.seen.forget(request.worker);
                return self.map.offer(ShardMap::from_wire(&map)?).await;
            }
        };
        let map = self.map.current();
        let Some(place) = map.workers().iter().position(|known| known.id == request.worker) else {
            let message = format!("the cluster has no worker {}", request.worker);
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, message)
                .with_hint("thalweg status shows the workers."));
        };
        let worker = &map.workers()[place];
        if answers(worker, link).await {
            return Err(Error::new(SqlState::OBJECT_IN_USE, format!("{worker} still runs"))
                .with_hint("Stop it first: a worker that runs joins again."));
        }
        let may_have_rows = moving == Moving::Forbidden && map.shares()[place] > 0;
        if may_have_rows && !request.lose_rows {
            let message =
                format!("{worker} owns {} buckets, whose rows would be lost", map.shares()[place]);
            return Err(Error::new(SqlState::OBJECT_NOT_IN_STATE, message)
                .with_hint("Start it again on its directory, or remove it with --lose-rows."));
        }
        let map = self.map.change(|map| map.without(request.worker)).await?;
        self.seen.forget(request.worker);
        Ok(map)
    }
}

/// True if a worker answers at its address, with its own number.
async fn answers(worker: &NodeName, options: &LinkOptions) -> bool {
    describe(worker, options).await.is_ok_and(|it| it.id == worker.id)
}

async fn describe(worker: &NodeName, options: &LinkOptions) -> Result<NodeDescription> {
    let link = Link::connect(worker.clone(), options).await?;
    link.ask::<_, NodeDescription>(DESCRIBE, &DescribeNodeRequest {}).await
}

#[tonic::async_trait]
impl Membership for Gatekeeper {
    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinReply>, Status> {
        let reply = self.take_in(request.into_inner()).await;
        reply.map(Response::new).map_err(|error| status(&error))
    }

    async fn remove(&self, request: Request<RemoveRequest>) -> Result<Response<WireMap>, Status> {
        let map = self.remove(request.into_inner()).await;
        map.map(|map| Response::new(map.to_wire())).map_err(|error| status(&error))
    }

    async fn get_map(&self, _: Request<GetMapRequest>) -> Result<Response<WireMap>, Status> {
        Ok(Response::new(self.map.current().to_wire()))
    }
}

async fn take_over(map: &SharedMap, reply: &JoinReply) -> Result<Arc<ShardMap>> {
    match &reply.map {
        Some(newer) => map.offer(ShardMap::from_wire(newer)?).await,
        None => Ok(map.current()),
    }
}

/// A link to a gateway.
#[must_use]
pub fn gateway(address: SocketAddr, options: &Arc<LinkOptions>) -> ReconnectingLink {
    // Gateways have no numbers. The address identifies the gateway.
    ReconnectingLink::new(NodeName { id: 0, address }, Arc::clone(options))
}

/// The membership role of a gateway that forwards to the one at an address.
#[must_use]
pub fn maker(address: SocketAddr, options: &Arc<LinkOptions>) -> Making {
    Making::At(gateway(address, options))
}

/// Reports a worker to all gateways, again and again, without end. `each` gets the result of each
/// report.
pub async fn keep_joining(
    joining: Joining,
    gateways: Vec<ReconnectingLink>,
    map: SharedMap,
    mut each: impl FnMut(SocketAddr, Result<Arc<ShardMap>>),
) {
    let mut ticks = interval(JOIN_EVERY);
    loop {
        ticks.tick().await;
        let mut has_failed = false;
        for link in &gateways {
            let joined = join(&joining, link, &map).await;
            has_failed |= joined.is_err();
            each(link.name().address, joined);
        }
        // If a gateway was away, reports are frequent, so that it soon knows all workers.
        ticks.reset_after(match has_failed {
            true => JOIN_EVERY,
            false => join_again_after(map.current().workers().len()),
        });
    }
}

/// Interval of the reports of one worker, in a cluster of so many.
fn join_again_after(workers: usize) -> Duration {
    let workers = u32::try_from(workers).unwrap_or(u32::MAX);
    (JOIN_EVERY * workers / JOINS_A_SECOND).max(JOIN_EVERY)
}

async fn join(
    joining: &Joining,
    gateway: &ReconnectingLink,
    map: &SharedMap,
) -> Result<Arc<ShardMap>> {
    let request = joining.request(map.current().version());
    let reply: JoinReply = gateway.link().await?.0.ask(JOIN, &request).await?;
    take_over(map, &reply).await
}

#[cfg(test)]
mod tests;
