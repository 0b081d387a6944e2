//! Requests to several workers of a map, which are repeated until both sides agree on the map.
//!
//! A worker rejects a request made with an older map before it sends any row. The gateway then
//! adopts the newer map and asks again. A worker whose map is older gets the gateway's.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::iter;
use prost::Message as _;
use thalweg_protocol::cluster::{FetchRequest, ShardMap as WireMap};
use thalweg_types::{Bucket, Result, SqlState};

use crate::fan_in::{FanIn, Mode, Question, Reader, Times};
use crate::link::{LinkOptions, NodeName, ReconnectingLink};
use crate::map::{ShardMap, SharedMap};

const PUT_MAP: &str = "/thalweg.cluster.v1.Worker/PutMap";
/// Number of times that nodes look for the newer map before a disagreement fails the request. The
/// map may change meanwhile.
const TRIES: usize = 5;
/// Workers that are sent a map concurrently.
const TOLD_AT_ONCE: usize = 64;

/// The workers to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// All of them.
    All,
    /// The owners of these buckets: one for a key, a few for a list of keys.
    Owners(Vec<Bucket>),
}

impl Targets {
    /// The workers by this map, each once.
    ///
    /// # Errors
    /// If there are none.
    pub fn workers(&self, map: &ShardMap) -> Result<Vec<NodeName>> {
        match self {
            Targets::All => {
                map.owner(Bucket(0))?;
                Ok(map.workers().to_vec())
            }
            Targets::Owners(buckets) => {
                let owners = buckets.iter().map(|bucket| map.owner(*bucket));
                let mut places = owners.collect::<Result<Vec<usize>>>()?;
                places.sort_unstable();
                places.dedup();
                Ok(places.into_iter().map(|place| map.workers()[place].clone()).collect())
            }
        }
    }
}

/// Asks workers on behalf of a gateway.
#[derive(Clone)]
pub struct Scatter {
    fan_in: FanIn,
    map: SharedMap,
    options: Arc<LinkOptions>,
}

impl Scatter {
    /// `options` are those of the links that exchange maps; `fan_in` has links of its own.
    #[must_use]
    pub fn new(fan_in: FanIn, map: SharedMap, options: LinkOptions) -> Scatter {
        Scatter { fan_in, map, options: Arc::new(options) }
    }

    /// The map of the gateway.
    #[must_use]
    pub fn map(&self) -> &SharedMap {
        &self.map
    }

    /// Sends one request to all targets. If the map turns out to be stale, the readers are dropped
    /// and made anew, so `reader` may be called more than once for a lane.
    ///
    /// # Errors
    /// The first error of a worker or a reader.
    pub async fn gather<R: Reader>(
        &self,
        mode: Mode,
        targets: &Targets,
        question: &Bytes,
        mut reader: impl FnMut(usize) -> R,
    ) -> Result<(Vec<R>, Times)> {
        let mut tries = TRIES;
        loop {
            let map = self.map.current();
            let workers = targets.workers(&map)?;
            let questions = workers.iter().map(|worker| ask(&map, worker, question)).collect();
            match self.fan_in.gather(mode, questions, &mut reader).await {
                Err(error) if error.state() == SqlState::STALE_SHARD_MAP && tries > 0 => {
                    tries -= 1;
                    self.agree(&workers).await?;
                }
                gathered => return gathered,
            }
        }
    }

    /// Exchanges maps with these workers until all have the newest.
    async fn agree(&self, workers: &[NodeName]) -> Result<()> {
        let mut answers =
            iter(workers.iter().map(|worker| self.give_map(worker))).buffer_unordered(TOLD_AT_ONCE);
        while let Some(answer) = answers.next().await {
            self.map.offer(answer?).await?;
        }
        Ok(())
    }

    async fn give_map(&self, worker: &NodeName) -> Result<ShardMap> {
        // This is rare, so it uses a separate link on the current runtime.
        let link = ReconnectingLink::new(worker.clone(), Arc::clone(&self.options));
        let own = self.map.current().to_wire();
        let newest: WireMap = link.link().await?.0.ask(PUT_MAP, &own).await?;
        ShardMap::from_wire(&newest)
    }
}

fn ask(map: &ShardMap, worker: &NodeName, question: &Bytes) -> Question {
    let request =
        FetchRequest { map_version: map.version(), worker: worker.id, question: question.clone() };
    Question { worker: worker.clone(), message: request.encode_to_vec().into() }
}

#[cfg(test)]
mod tests;
