//! Asking one worker, until both agree on the map and on the catalog.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use prost::Message as _;
use thalweg_cluster::fan_in::UNREAD_BYTES;
use thalweg_cluster::link::{Answer, KeptLink, NodeName, unavailable};
use thalweg_cluster::map::{ShardMap, SharedMap};
use thalweg_cluster::node::FETCH;
use thalweg_env::Clock;
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::work::Kind;
use thalweg_protocol::cluster::write::Stage;
use thalweg_types::{ColumnId, Error, Result, SqlState, TableId};
use tokio_util::task::AbortOnDropHandle;

use super::{Shared, definitions, in_one_message};
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

    /// The gateways that there are, as far as this one knows.
    pub(crate) fn gateways(&self) -> Vec<wire::GatewayEntry> {
        let own = wire::GatewayEntry {
            gateway: self.gateway,
            address: self.address.clone(),
            definitions: self.last_definition(),
            defines: self.following.is_none(),
            answers: true,
        };
        match &self.following {
            None => std::iter::once(own).chain(self.followers.entries(&*self.clock)).collect(),
            Some(following) => following.entries(own),
        }
    }

    /// The definitions behind one, as far as one message takes them.
    pub(crate) fn definitions_after(&self, known: u64) -> Vec<wire::Definition> {
        let all = self.definitions.read();
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(all.len());
        definitions(in_one_message(&all[known..])).definitions
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
            let (values, together) = (fragment.values.clone(), fragment.together.clone());
            let kept = wire::KeptFragment { number, place_base, values, together };
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
            let kept = self.link(worker);
            let (link, _) = match is_agreed(&kind) {
                true => kept.link_anyway().await?,
                false => kept.link().await?,
            };
            let answer = match link.call(FETCH, &message).await {
                Err(error) if tries > 0 && self.agrees(place, worker, &error).await? => {
                    self.may_repeat(&kind, &error)?;
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
                self.exchange_maps(worker).await?;
                Ok(true)
            }
            SqlState::OTHER_WORKER => {
                // A newer map may have the worker's new address.
                self.exchange_maps(worker).await?;
                match self.map.current().workers().get(place) == Some(worker) {
                    false => Ok(true),
                    true => Err(unavailable(worker, refused.message())),
                }
            }
            SqlState::STALE_DEFINITIONS => {
                Box::pin(self.bring_up(place)).await?;
                Ok(true)
            }
            SqlState::STALE_GATEWAY => {
                Box::pin(self.learn(place)).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Gives the node at a worker's address this gateway's map, and takes a newer one over.
    async fn exchange_maps(&self, worker: &NodeName) -> Result<()> {
        let own = self.map.current().to_wire();
        let link = self.link(worker).link().await?.0;
        let newest: wire::ShardMap = link.ask(PUT_MAP, &own).await?;
        self.map.offer(ShardMap::from_wire(&newest)?).await.map(drop)
    }

    /// Whether something can be asked again as it is, once both sides know the same.
    ///
    /// # Errors
    /// Where this gateway was behind when it made rows, and checked them.
    fn may_repeat(&self, kind: &Kind, refused: &Error) -> Result<()> {
        let was_behind = refused.state() == SqlState::STALE_GATEWAY && self.following.is_some();
        if !was_behind || !matches!(kind, Kind::Write(_)) {
            return Ok(());
        }
        let message = "something was defined meanwhile that this gateway did not know of";
        Err(Error::new(SqlState::SERIALIZATION_FAILURE, message)
            .with_hint("Run the statement again."))
    }

    /// Tells a worker of the definitions that it does not know.
    pub(crate) async fn bring_up(&self, place: usize) -> Result<()> {
        let look = Kind::Look(wire::Look::default());
        let seen: wire::Sights = self.ask_one(place, look).await?;
        let sight = seen.sights.first().ok_or_else(|| Error::internal("a worker saw nothing"))?;
        let known = usize::try_from(sight.definitions).unwrap_or(usize::MAX);
        let missing = {
            let all = self.definitions.read();
            if known > all.len() {
                return match self.following {
                    // The worker heard of more meanwhile, and says so when it is asked again.
                    Some(_) => Ok(()),
                    None => Err(self.follows_another(place, sight.definitions, all.len() as u64)),
                };
            }
            definitions(&all[known..])
        };
        if missing.definitions.is_empty() {
            return Ok(());
        }
        self.ask_one::<wire::Done>(place, Kind::Define(missing)).await.map(drop)
    }

    /// Takes over the definitions that a worker knows and this gateway does not.
    pub(crate) async fn learn(&self, place: usize) -> Result<()> {
        loop {
            let after = self.last_definition();
            let recall = Kind::Recall(wire::Recall { after });
            let told: wire::Definitions = self.ask_one(place, recall).await?;
            let Some(last) = told.definitions.last() else { return Ok(()) };
            match &self.following {
                Some(following) => following.hear(told.definitions).await?,
                None => return Err(self.follows_another(place, last.number, after)),
            }
        }
    }

    fn follows_another(&self, place: usize, known: u64, here: u64) -> Error {
        let map = self.map.current();
        let worker = match worker_at(&map, place) {
            Ok(worker) => worker,
            Err(error) => return error,
        };
        let message = format!(
            "{worker} follows another gateway: it knows {known} definitions, of which there are \
             {here} here"
        );
        Error::new(SqlState::OBJECT_NOT_IN_STATE, message)
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
        let link = link.remembered_by(self.silent.clone());
        links.insert(worker.clone(), link.clone());
        link
    }
}

fn worker_at(map: &ShardMap, place: usize) -> Result<&NodeName> {
    map.workers().get(place).ok_or_else(|| Error::internal("a worker is not in the map"))
}

/// Whether other workers may have done their parts of it: it is better tried in vain than left.
fn is_agreed(kind: &Kind) -> bool {
    matches!(kind, Kind::Write(write) if write.stage() == Stage::Commit && write.before > 0)
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
