//! Asking one worker, until both agree on the map and on the catalog.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use prost::Message as _;
use thalweg_cluster::fan_in::UNREAD_BYTES;
use thalweg_cluster::link::{Answer, KeptLink, NodeName};
use thalweg_cluster::map::{ShardMap, SharedMap};
use thalweg_cluster::node::FETCH;
use thalweg_env::Clock;
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::work::Kind;
use thalweg_types::{ColumnId, Error, Result, SqlState, TableId};
use tokio_util::task::AbortOnDropHandle;

use super::{Shared, definitions};
use crate::stages::Peers;

/// How often a worker that disagrees is told what it does not know.
pub(crate) const TRIES: usize = 5;
pub(crate) const PUT_MAP: &str = "/thalweg.cluster.v1.Worker/PutMap";

impl Shared {
    pub(crate) fn map(&self) -> &SharedMap {
        &self.map
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The number that a fragment goes by.
    pub(crate) fn number(&self, fragment: &[u8]) -> u64 {
        self.hasher.hash_one(fragment)
    }

    /// About how many rows a table has.
    pub(crate) fn row_count(&self, table: TableId) -> Option<usize> {
        self.row_counts.read().get(&table).copied()
    }

    /// About how many different values a column has on a worker.
    pub(crate) fn value_count(&self, table: TableId, column: ColumnId) -> Option<usize> {
        self.value_counts.read().get(&(table, column)).copied()
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// How many definitions there are.
    pub(crate) fn last_definition(&self) -> u64 {
        self.definitions.read().len() as u64
    }

    /// Runs on the threads that links live on. Dropping it ends it.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> AbortOnDropHandle<T> {
        let runtime = self.runtime.as_ref().expect("in place until this is dropped");
        AbortOnDropHandle::new(runtime.spawn(work))
    }

    /// Asks the worker at a place of the map something that may be asked twice.
    pub(crate) async fn ask(&self, place: usize, kind: Kind) -> Result<Answer> {
        let mut tries = TRIES;
        loop {
            let map = self.map.current();
            let worker = worker_at(&map, place)?;
            let message = self.request(&map, worker, kind.clone());
            match self.link(worker).call(FETCH, &message).await {
                Err(error) if tries > 0 && self.agrees(place, worker, &error).await? => tries -= 1,
                answer => return answer,
            }
        }
    }

    /// The same for the rows of a fragment. One with a number was probably asked for before.
    pub(crate) async fn ask_rows(&self, place: usize, fragment: wire::Fragment) -> Result<Answer> {
        let wire::Fragment { number, place_base, .. } = fragment;
        if number > 0 {
            let literals = fragment.literals.clone();
            let kept = wire::KeptFragment { number, place_base, literals };
            match self.ask(place, Kind::Kept(kept)).await {
                Err(error) if error.state() == SqlState::UNKNOWN_FRAGMENT => {}
                answer => return answer,
            }
        }
        self.ask(place, Kind::Fragment(fragment)).await
    }

    /// The same for what is answered with one message.
    pub(crate) async fn ask_one<A: prost::Message + Default>(
        &self,
        place: usize,
        kind: Kind,
    ) -> Result<A> {
        let message = self.ask(place, kind).await?.message().await?;
        A::decode(message).map_err(|error| no_answer(&error))
    }

    /// Asks something that must not be asked twice.
    pub(crate) async fn ask_once<A: prost::Message + Default>(
        &self,
        place: usize,
        kind: Kind,
    ) -> Result<A> {
        let mut tries = TRIES;
        loop {
            let map = self.map.current();
            let worker = worker_at(&map, place)?;
            let message = self.request(&map, worker, kind.clone());
            let (link, _) = self.link(worker).link().await?;
            let answer = match link.call(FETCH, &message).await {
                Err(error) if tries > 0 && self.agrees(place, worker, &error).await? => {
                    tries -= 1;
                    continue;
                }
                Err(error) if error.state() == SqlState::CONNECTION_FAILURE => {
                    return Err(unknown_outcome(&error));
                }
                answer => answer?,
            };
            let message = answer.message().await.map_err(|error| match error.state() {
                SqlState::CONNECTION_FAILURE => unknown_outcome(&error),
                _ => error,
            })?;
            return A::decode(message).map_err(|error| no_answer(&error));
        }
    }

    /// After a worker refused: whether both know the same now, and it may be asked again.
    async fn agrees(&self, place: usize, worker: &NodeName, refused: &Error) -> Result<bool> {
        match refused.state() {
            SqlState::STALE_SHARD_MAP => {
                let own = self.map.current().to_wire();
                let link = self.link(worker).link().await?.0;
                let newest: wire::ShardMap = link.ask(PUT_MAP, &own).await?;
                self.map.offer(ShardMap::from_wire(&newest)?)?;
                Ok(true)
            }
            SqlState::STALE_DEFINITIONS => {
                Box::pin(self.bring_up(place)).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Tells a worker of the definitions that it does not know.
    pub(crate) async fn bring_up(&self, place: usize) -> Result<()> {
        let sight: wire::Sight = self.ask_one(place, Kind::Look(wire::Look {})).await?;
        let known = usize::try_from(sight.definitions).unwrap_or(usize::MAX);
        let missing = {
            let all = self.definitions.read();
            if known > all.len() {
                let message = format!(
                    "{} follows another gateway: it knows {known} definitions, of which there are \
                     {} here",
                    worker_at(&self.map.current(), place)?,
                    all.len()
                );
                return Err(Error::new(SqlState::OBJECT_NOT_IN_STATE, message));
            }
            definitions(&all[known..])
        };
        if missing.definitions.is_empty() {
            return Ok(());
        }
        self.ask_one::<wire::Done>(place, Kind::Define(missing)).await.map(drop)
    }

    fn request(&self, map: &ShardMap, worker: &NodeName, kind: Kind) -> Vec<u8> {
        let definitions = self.last_definition();
        let question = wire::Work { definitions, kind: Some(kind) }.encode_to_vec().into();
        let request =
            wire::FetchRequest { map_version: map.version(), worker: worker.id, question };
        request.encode_to_vec()
    }

    /// What may lie unread is a budget of all workers. A link keeps the share that it was made
    /// with: of workers that come one after the other, all shares are a few budgets at most.
    fn link(&self, worker: &NodeName) -> KeptLink {
        let mut links = self.links.lock();
        if let Some(link) = links.get(worker) {
            return link.clone();
        }
        let workers = self.map.current().workers().len();
        let options = self.options.clone().for_nodes(workers, UNREAD_BYTES).for_each_answer();
        let link = KeptLink::new(worker.clone(), Arc::new(options));
        links.insert(worker.clone(), link.clone());
        link
    }
}

fn worker_at(map: &ShardMap, place: usize) -> Result<&NodeName> {
    map.workers().get(place).ok_or_else(|| Error::internal("a worker is not in the map"))
}

fn no_answer(error: &prost::DecodeError) -> Error {
    let message = format!("a worker answered what is no answer: {error}");
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
}

fn unknown_outcome(error: &Error) -> Error {
    Error::new(error.state(), error.message())
        .with_detail("Whether it has done what it was asked is not known.")
        .with_hint("Look at the rows once it is back.")
}
