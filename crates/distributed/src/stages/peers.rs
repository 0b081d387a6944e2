//! Requests to workers for stages, over separate connections.
//!
//! Many streams share a connection here, and some of them are not read until others have ended,
//! since a join reads one side first. So the flow-control window is limited for each stream and not
//! for the connection. Streams that wait do not block others.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prost::Message as _;
use thalweg_cluster::link::{
    Answer, LinkOptions, NodeName, ReconnectingLink, UnresponsiveNodes, unavailable,
};
use thalweg_cluster::map::{ShardMap, SharedMap};
use thalweg_cluster::node::FETCH;
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::work::Kind;
use thalweg_types::{Error, Result, SqlState};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::Exchange;
use crate::gateway::Shared;
use crate::gateway::worker_calls::{PUT_MAP, TRIES};
use crate::scan::Opening;

/// Flow-control window of a stream, in bytes.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;

/// Connections to workers for stages.
pub(crate) struct Peers {
    map: SharedMap,
    options: Arc<LinkOptions>,
    links: Mutex<HashMap<NodeName, ReconnectingLink>>,
    silent: UnresponsiveNodes,
    /// Runtime of the connections.
    runtime: Handle,
}

impl Peers {
    pub(crate) fn new(
        map: SharedMap,
        options: &LinkOptions,
        silent: UnresponsiveNodes,
        runtime: Handle,
    ) -> Peers {
        let options = LinkOptions { stream_window_bytes: STREAM_WINDOW_BYTES, ..options.clone() };
        let options = Arc::new(options.for_each_answer());
        Peers { map, options, links: Mutex::default(), silent, runtime }
    }

    /// Asks a run of a worker; any run where it is 0.
    async fn ask(
        &self,
        worker: &NodeName,
        run: u64,
        gateway: Option<wire::Standing>,
        work: wire::Work,
    ) -> Result<Answer> {
        let question: bytes::Bytes = work.encode_to_vec().into();
        let link = self.link(worker);
        let mut tries = TRIES;
        loop {
            let map_version = self.map.current().version();
            let request = wire::FetchRequest {
                map_version,
                worker: worker.id,
                question: question.clone(),
                run,
                gateway,
            };
            match link.call(FETCH, &request.encode_to_vec()).await {
                Err(error) if error.state() == SqlState::STALE_SHARD_MAP && tries > 0 => {
                    tries -= 1;
                    let own = self.map.current().to_wire();
                    let newest: wire::ShardMap = link.link().await?.0.ask(PUT_MAP, &own).await?;
                    self.map.offer(ShardMap::from_wire(&newest)?).await?;
                }
                answer => return answer,
            }
        }
    }

    fn link(&self, worker: &NodeName) -> ReconnectingLink {
        let mut links = self.links.lock();
        let made = || {
            let link = ReconnectingLink::new(worker.clone(), Arc::clone(&self.options));
            link.with_unresponsive_nodes(self.silent.clone())
        };
        links.entry(worker.clone()).or_insert_with(made).clone()
    }
}

/// Requests between workers send definition number 0: the gateway that planned the tasks knew their
/// definitions.
impl Exchange for Arc<Peers> {
    fn ask(&self, worker: NodeName, kind: Kind) -> Opening {
        let peers = Arc::clone(self);
        let work = wire::Work { definitions: 0, kind: Some(kind) };
        let asked = async move {
            let asked = Peers::ask(&peers, &worker, 0, None, work).await;
            asked.map_err(|error| absent(&worker, error))
        };
        AbortOnDropHandle::new(self.runtime.spawn(asked))
    }
}

impl Exchange for Arc<Shared> {
    fn ask(&self, worker: NodeName, kind: Kind) -> Opening {
        let shared = Arc::clone(self);
        self.spawn(async move {
            let answer = match ask_checked(&shared, &worker, kind.clone()).await {
                Err(error) if error.state() == SqlState::STALE_DEFINITIONS => {
                    shared.bring_up(place(&shared, &worker)?).await?;
                    ask_checked(&shared, &worker, kind).await
                }
                Err(error) if error.state() == SqlState::STALE_GATEWAY => {
                    shared.learn(place(&shared, &worker)?).await?;
                    ask_checked(&shared, &worker, kind).await
                }
                Err(error) if error.state() == SqlState::OTHER_WORKER => {
                    let place = place(&shared, &worker)?;
                    shared.check_run(place).await.map_err(|error| absent(&worker, error))?;
                    ask_checked(&shared, &worker, kind).await
                }
                answer => answer,
            };
            answer.map_err(|error| absent(&worker, error))
        })
    }
}

/// Asks a worker in the run that a gateway has checked.
async fn ask_checked(shared: &Arc<Shared>, worker: &NodeName, kind: Kind) -> Result<Answer> {
    let run = shared.run_of(&shared.map().current(), place(shared, worker)?).await?;
    let work = wire::Work { definitions: shared.last_definition(), kind: Some(kind) };
    shared.peers().ask(worker, run, Some(shared.standing()), work).await
}

/// A worker at whose address another one answers is not there.
fn absent(worker: &NodeName, error: Error) -> Error {
    match error.state() {
        SqlState::OTHER_WORKER => unavailable(worker, error.message()),
        _ => error,
    }
}

fn place(shared: &Shared, worker: &NodeName) -> Result<usize> {
    let map = shared.map().current();
    let place = map.workers().iter().position(|known| known.id == worker.id);
    place.ok_or_else(|| Error::internal(format!("{worker} is not in the map")))
}

/// The URL by which plans name a worker.
pub(super) fn url(worker: &NodeName) -> Result<Url> {
    let url = format!("thalweg://{}/{}", worker.address, worker.id);
    Url::parse(&url).map_err(|error| Error::internal(format!("{url}: {error}")))
}

/// The worker that a URL names.
pub(super) fn worker(url: &Url) -> Result<NodeName> {
    let found = || {
        let address = format!("{}:{}", url.host_str()?, url.port()?).parse().ok()?;
        let id = url.path().strip_prefix('/')?.parse().ok()?;
        Some(NodeName { id, address })
    };
    found().ok_or_else(|| {
        Error::new(SqlState::PROTOCOL_VIOLATION, format!("{url} stands for no worker"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_come_back_from_their_urls() {
        for address in ["127.0.0.1:7480", "[::1]:1"] {
            let name = NodeName { id: 17, address: address.parse().unwrap() };
            assert_eq!(worker(&url(&name).unwrap()).unwrap(), name);
        }
        assert!(worker(&Url::parse("http://somewhere").unwrap()).is_err());
    }
}
