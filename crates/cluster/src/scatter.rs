//! Questions to the workers of a map, and what they answer.
//!
//! A gateway whose map is older than a worker's is told so by the worker before any row, takes the
//! newer map over and asks again; a worker whose map is older is given the gateway's.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::iter;
use prost::Message as _;
use thalweg_protocol::cluster::{FetchRequest, ShardMap as WireMap};
use thalweg_types::{Bucket, Result, SqlState};

use crate::fan_in::{FanIn, Mode, Question, Reader, Times};
use crate::link::{KeptLink, LinkOptions, NodeName};
use crate::map::{ShardMap, SharedMap};

const PUT_MAP: &str = "/thalweg.cluster.v1.Worker/PutMap";
/// How often two nodes that disagree look for the newer map, before that counts as an error: the
/// map may change meanwhile.
const TRIES: usize = 5;
/// Workers that are given a map at once.
const TOLD_AT_ONCE: usize = 64;

/// Which workers are asked.
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
    /// Where there are none.
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
    #[must_use]
    pub fn new(fan_in: FanIn, map: SharedMap, options: LinkOptions) -> Scatter {
        Scatter { fan_in, map, options: Arc::new(options) }
    }

    #[must_use]
    pub fn map(&self) -> &SharedMap {
        &self.map
    }

    /// Asks the same of all targets. Readers may be dropped and made anew, before any of them came
    /// back: that is when the map turns out to be another one.
    ///
    /// # Errors
    /// The first that a worker or a reader meets.
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

    /// Makes this gateway and these workers have the same map.
    async fn agree(&self, workers: &[NodeName]) -> Result<()> {
        let mut answers =
            iter(workers.iter().map(|worker| self.give_map(worker))).buffer_unordered(TOLD_AT_ONCE);
        while let Some(answer) = answers.next().await {
            self.map.offer(answer?).await?;
        }
        Ok(())
    }

    async fn give_map(&self, worker: &NodeName) -> Result<ShardMap> {
        // It happens seldom: a link of its own, on whatever runtime this is.
        let link = KeptLink::new(worker.clone(), Arc::clone(&self.options));
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
