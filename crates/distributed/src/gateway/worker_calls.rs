//! Requests to one worker, repeated until both sides agree on the map and on the catalog.
//!
//! Each request names the run of the worker that is meant. The gateway asks a run only after it has
//! checked that the worker's log is no older than before ([`Shared::run_of`]). A worker of another
//! run refuses the request, and the gateway checks it anew.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use futures::future::{join, join_all};
use prost::Message as _;
use thalweg_cluster::link::{
    Answer, DESCRIBE, NodeName, ReconnectingLink, UNREAD_BYTES, unavailable,
};
use thalweg_cluster::map::{ShardMap, SharedMap};
use thalweg_cluster::node::FETCH;
use thalweg_cluster::seen::Standing;
use thalweg_env::Clock;
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::work::Kind;
use thalweg_protocol::cluster::write::Stage;
use thalweg_types::{ColumnId, Error, Result, SqlState, TableId};
use tokio_util::task::AbortOnDropHandle;

use super::{Shared, definitions, in_one_message};
use crate::stages::Peers;
use crate::worker::storage_to_wire;

/// Number of times that a worker that disagrees is brought up to date before the request fails.
pub(crate) const TRIES: usize = 5;
pub(crate) const PUT_MAP: &str = "/thalweg.cluster.v1.Worker/PutMap";

impl Shared {
    pub(crate) fn map(&self) -> &SharedMap {
        &self.map
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The number of a fragment, by which workers find a cached one.
    pub(crate) fn number(&self, fragment: &[u8]) -> u64 {
        self.hasher.hash_one(fragment)
    }

    /// Estimated number of rows of a table.
    pub(crate) fn row_count(&self, table: TableId) -> Option<usize> {
        self.row_counts.read().get(&table).copied()
    }

    /// Estimated number of distinct values of a column on one worker.
    pub(crate) fn value_count(&self, table: TableId, column: ColumnId) -> Option<usize> {
        self.value_counts.read().get(&(table, column)).copied()
    }

    /// The gateways of the cluster, as far as this one knows them.
    pub(crate) fn gateways(&self) -> Vec<wire::GatewayEntry> {
        let own = wire::GatewayEntry {
            gateway: self.gateway,
            address: self.address.clone(),
            definitions: self.last_definition(),
            defines: self.following.is_none(),
            answers: true,
            storage: storage_to_wire(&self.storage),
        };
        match &self.following {
            None => std::iter::once(own).chain(self.followers.entries(&*self.clock)).collect(),
            Some(following) => following.entries(own),
        }
    }

    /// The definitions after number `known`, as many as fit into one message.
    pub(crate) fn definitions_after(&self, known: u64) -> Vec<wire::Definition> {
        let all = self.definitions.read();
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(all.len());
        definitions(in_one_message(&all[known..])).definitions
    }

    /// The standing of this gateway's own log, which each request carries.
    pub(crate) fn standing(&self) -> wire::Standing {
        (self.standing)().to_wire()
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Number of the last definition, which is also how many there are.
    pub(crate) fn last_definition(&self) -> u64 {
        self.definitions.read().len() as u64
    }

    /// Runs work on the threads that own the links. Dropping the handle aborts it.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> AbortOnDropHandle<T> {
        AbortOnDropHandle::new(self.threads.handle().spawn(work))
    }

    /// Sends an idempotent request to the worker at index `worker_index` of the map.
    pub(crate) async fn ask(&self, worker_index: usize, kind: Kind) -> Result<Answer> {
        let mut tries = TRIES;
        loop {
            let map = self.map.current();
            let worker = worker_at(&map, worker_index)?;
            let asked = match self.run_of(&map, worker_index).await {
                Ok(run) => {
                    let message = self.request(&map, worker, run, kind.clone());
                    self.link(worker).call(FETCH, &message).await
                }
                Err(error) => Err(error),
            };
            match asked {
                Err(error) if tries > 0 && self.agrees(worker_index, worker, &error).await? => {
                    tries -= 1
                }
                answer => return answer,
            }
        }
    }

    /// Like [`Self::ask`], for the rows of a fragment. A fragment with a number was probably sent
    /// before, so only the number is sent first.
    pub(crate) async fn ask_rows(
        &self,
        worker_index: usize,
        fragment: wire::Fragment,
    ) -> Result<Answer> {
        let wire::Fragment { number, place_base, .. } = fragment;
        if number > 0 {
            let (values, together) = (fragment.values.clone(), fragment.together.clone());
            let kept = wire::KeptFragment { number, place_base, values, together };
            match self.ask(worker_index, Kind::Kept(kept)).await {
                Err(error) if error.state() == SqlState::UNKNOWN_FRAGMENT => {}
                answer => return answer,
            }
        }
        self.ask(worker_index, Kind::Fragment(fragment)).await
    }

    /// Like [`Self::ask`], for requests with one message as the answer.
    pub(crate) async fn ask_one<A: prost::Message + Default>(
        &self,
        worker_index: usize,
        kind: Kind,
    ) -> Result<A> {
        let message = self.ask(worker_index, kind).await?.message().await?;
        A::decode(message).map_err(|error| no_answer(&error))
    }

    /// Sends a request that must not run twice.
    pub(crate) async fn ask_once<A: prost::Message + Default>(
        &self,
        worker_index: usize,
        kind: Kind,
    ) -> Result<A> {
        let mut tries = TRIES;
        loop {
            let map = self.map.current();
            let worker = worker_at(&map, worker_index)?;
            let asked = match self.run_of(&map, worker_index).await {
                Ok(run) => {
                    let message = self.request(&map, worker, run, kind.clone());
                    let kept = self.link(worker);
                    let (link, _) = match is_agreed(&kind) {
                        true => kept.link_anyway().await?,
                        false => kept.link().await?,
                    };
                    link.call(FETCH, &message).await
                }
                Err(error) if error.state() == SqlState::CONNECTION_FAILURE => return Err(error),
                Err(error) => Err(error),
            };
            let answer = match asked {
                Err(error) if tries > 0 && self.agrees(worker_index, worker, &error).await? => {
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

    /// Resolves a worker's refusal. Returns true if both sides agree now and the request can be
    /// repeated.
    async fn agrees(
        &self,
        worker_index: usize,
        worker: &NodeName,
        refused: &Error,
    ) -> Result<bool> {
        match refused.state() {
            SqlState::STALE_SHARD_MAP => {
                self.exchange_maps(worker).await?;
                Ok(true)
            }
            SqlState::OTHER_WORKER => {
                // The worker may have a new address in a newer map.
                self.exchange_maps(worker).await?;
                if self.map.current().workers().get(worker_index) != Some(worker) {
                    return Ok(true);
                }
                // The worker itself may have been started again.
                match self.check_run(worker_index).await {
                    Err(error) if error.state() == SqlState::OTHER_WORKER => {
                        Err(unavailable(worker, refused.message()))
                    }
                    checked => checked.map(|()| true),
                }
            }
            SqlState::STALE_DEFINITIONS => {
                Box::pin(self.bring_up(worker_index)).await?;
                Ok(true)
            }
            SqlState::STALE_GATEWAY => {
                Box::pin(self.learn(worker_index)).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Sends this gateway's map to a worker, and adopts the worker's if it is newer.
    async fn exchange_maps(&self, worker: &NodeName) -> Result<()> {
        let own = self.map.current().to_wire();
        let link = self.link(worker).link().await?.0;
        let newest: wire::ShardMap = link.ask(PUT_MAP, &own).await?;
        self.map.offer(ShardMap::from_wire(&newest)?).await.map(drop)
    }

    /// Checks that a request can be repeated unchanged once both sides agree.
    ///
    /// # Errors
    /// If this gateway was behind when it made and checked the rows of a write.
    fn may_repeat(&self, kind: &Kind, refused: &Error) -> Result<()> {
        let was_behind = refused.state() == SqlState::STALE_GATEWAY && self.following.is_some();
        if !was_behind || !matches!(kind, Kind::Write(_)) {
            return Ok(());
        }
        let message = "something was defined meanwhile that this gateway did not know of";
        Err(Error::new(SqlState::SERIALIZATION_FAILURE, message)
            .with_hint("Run the statement again."))
    }

    /// Sends a worker the definitions that it is missing.
    pub(crate) async fn bring_up(&self, worker_index: usize) -> Result<()> {
        let look = Kind::Look(wire::Look::default());
        let seen: wire::Sights = self.ask_one(worker_index, look).await?;
        let sight = seen.sights.first().ok_or_else(|| Error::internal("a worker saw nothing"))?;
        let known = usize::try_from(sight.definitions).unwrap_or(usize::MAX);
        let missing = {
            let all = self.definitions.read();
            if known > all.len() {
                return match self.following {
                    // The worker learned of more meanwhile. It says so when the request is
                    // repeated.
                    Some(_) => Ok(()),
                    None => {
                        Err(self.follows_another(worker_index, sight.definitions, all.len() as u64))
                    }
                };
            }
            definitions(&all[known..])
        };
        if missing.definitions.is_empty() {
            return Ok(());
        }
        self.ask_one::<wire::Done>(worker_index, Kind::Define(missing)).await.map(drop)
    }

    /// Adopts the definitions that a worker knows and this gateway does not.
    pub(crate) async fn learn(&self, worker_index: usize) -> Result<()> {
        loop {
            let after = self.last_definition();
            let recall = Kind::Recall(wire::Recall { after });
            let newer: wire::Definitions = self.ask_one(worker_index, recall).await?;
            let Some(last) = newer.definitions.last() else { return Ok(()) };
            match &self.following {
                Some(following) => following.follow_definitions(newer.definitions).await?,
                // It was defined here while the worker was asked.
                None if last.number <= self.last_definition() => {}
                None => return Err(self.follows_another(worker_index, last.number, after)),
            }
        }
    }

    fn follows_another(&self, worker_index: usize, known: u64, here: u64) -> Error {
        let map = self.map.current();
        let worker = match worker_at(&map, worker_index) {
            Ok(worker) => worker,
            Err(error) => return error,
        };
        let message = format!(
            "{worker} follows another gateway: it knows {known} definitions, of which there are \
             {here} here"
        );
        Error::new(SqlState::OBJECT_NOT_IN_STATE, message)
    }

    /// The run of a worker, once it is known that neither this worker nor another one of its
    /// process has an older copy of its directory.
    ///
    /// # Errors
    /// If the worker does not answer, or if one of them has an older copy.
    pub(crate) async fn run_of(&self, map: &ShardMap, worker_index: usize) -> Result<u64> {
        let (worker, process) = (worker_at(map, worker_index)?, map.processes()[worker_index]);
        if let Some(run) = self.seen.run_of(worker.id, process) {
            return Ok(run);
        }
        let others = map.workers().iter().zip(map.processes());
        let others = others.filter(|(other, its)| **its == process && *other != worker);
        let others = others.map(|(other, _)| self.describe(other, process));
        let (run, others) = join(self.describe(worker, process), join_all(others)).await;
        let run = match run {
            Err(error) if is_absence(&error) => {
                return Err(self.seen.refusal(worker.id).unwrap_or(error));
            }
            run => run?,
        };
        let mut is_complete = true;
        for other in others {
            match other {
                Ok(_) => {}
                // Requests to that worker report its absence.
                Err(error) if is_absence(&error) => is_complete = false,
                Err(error) => return Err(error),
            }
        }
        if is_complete {
            self.seen.admit(process);
        }
        Ok(run)
    }

    /// Checks a worker again that is another run than was asked for, and the workers of its
    /// process.
    pub(crate) async fn check_run(&self, worker_index: usize) -> Result<()> {
        let map = self.map.current();
        if let Some(process) = map.processes().get(worker_index) {
            self.seen.readmit(*process);
        }
        self.run_of(&map, worker_index).await.map(drop)
    }

    /// The run of a worker whose log has come as far as before.
    async fn describe(&self, worker: &NodeName, process: u64) -> Result<u64> {
        let link = self.link(worker).link().await?.0;
        let it: wire::NodeDescription = link.ask(DESCRIBE, &wire::DescribeNodeRequest {}).await?;
        if it.id != worker.id {
            let message = format!("worker {} answers at its address", it.id);
            return Err(Error::new(SqlState::OTHER_WORKER, message));
        }
        let standing = Standing::from_wire(&it.standing.unwrap_or_default());
        self.seen.check_worker(worker.id, process, standing)?;
        Ok(standing.run)
    }

    /// A worker reported, after a write, up to where its log is durable.
    pub(crate) fn note_position(&self, worker_index: usize, position: u64) {
        if position > 0
            && let Some(worker) = self.map.current().workers().get(worker_index)
        {
            self.seen.note(worker.id, position);
        }
    }

    fn request(&self, map: &ShardMap, worker: &NodeName, run: u64, kind: Kind) -> Vec<u8> {
        let definitions = self.last_definition();
        let question = wire::Work { definitions, kind: Some(kind) }.encode_to_vec().into();
        let request = wire::FetchRequest {
            map_version: map.version(),
            worker: worker.id,
            question,
            run,
            gateway: Some(self.standing()),
        };
        request.encode_to_vec()
    }

    /// The link to a worker. The budget of unread bytes is shared by all workers. A link keeps the
    /// share that it was made with. If workers join one after the other, the shares add up to a few
    /// budgets at most.
    fn link(&self, worker: &NodeName) -> ReconnectingLink {
        let mut links = self.links.lock();
        if let Some(link) = links.get(worker) {
            return link.clone();
        }
        let workers = self.map.current().workers().len();
        let options = self.options.clone().for_nodes(workers, UNREAD_BYTES).for_each_answer();
        let link = ReconnectingLink::new(worker.clone(), Arc::new(options));
        let link = link.with_unresponsive_nodes(self.silent.clone());
        links.insert(worker.clone(), link.clone());
        link
    }
}

fn worker_at(map: &ShardMap, worker_index: usize) -> Result<&NodeName> {
    map.workers().get(worker_index).ok_or_else(|| Error::internal("a worker is not in the map"))
}

/// True for a commit that other workers may have done already. It is sent even to a silent worker,
/// since leaving it out would certainly leave the write half done.
fn is_agreed(kind: &Kind) -> bool {
    matches!(kind, Kind::Write(write) if write.stage() == Stage::Commit && write.before > 0)
}

/// True if a worker could not be described because it, or the worker that is meant, is not there
/// now.
fn is_absence(error: &Error) -> bool {
    [SqlState::CONNECTION_FAILURE, SqlState::OTHER_WORKER].contains(&error.state())
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
