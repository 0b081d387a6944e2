//! Running nodes: the servers of gateways and workers, and how nodes find each other.
//!
//! A node has three kinds of tasks: its server, its reports to gateways (a worker) or to the first
//! gateway (a further gateway), and the storing of its [record of seen nodes](SeenNodes).
//!
//! The start functions return a boxed future, so that the code of a node is compiled in this crate
//! and not in each crate that starts one.

mod join_refusals;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use thalweg_cluster::link::{LinkOptions, NodeName, UnresponsiveNodes};
use thalweg_cluster::map::{Moving, SharedMap};
use thalweg_cluster::membership::{Gatekeeper, Joining, Making, keep_joining, maker};
use thalweg_cluster::node::{NodeServer, ServeOptions, Services};
use thalweg_cluster::security::Security;
use thalweg_cluster::seen::{SeenKind, SeenNodes};
use thalweg_cluster::worker::WorkerNode;
use thalweg_env::{Env, OpenMode, sync_with_ancestors};
use thalweg_query::{Database, Gathering};
use thalweg_runtime::{Network, interval, spawn, spawn_blocking};
use thalweg_types::{Error, Result, SqlState};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use tonic::service::Routes;

use self::join_refusals::Refusals;
use crate::gateway::following::{Follower, Following};
use crate::gateway::service::GatewayService;
use crate::gateway::{Gateway, GatewayOptions};
use crate::stages::Peers;
use crate::worker::{WorkerProcess, WorkerService};

/// Interval at which the record of other nodes' logs is stored, if it has changed.
const STORE_EVERY: Duration = Duration::from_secs(1);

/// A node that serves until this is dropped.
pub struct RunningNode {
    address: SocketAddr,
    listens_at: SocketAddr,
    map: SharedMap,
    joined: Joined,
    seen: Arc<SeenNodes>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl RunningNode {
    /// Address at which other nodes reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address on which it listens. It differs from [`Self::address`] if another one is advertised.
    #[must_use]
    pub fn listens_at(&self) -> SocketAddr {
        self.listens_at
    }

    /// The state of its attempts to join a gateway, if it is a worker.
    #[must_use]
    pub fn joined(&self) -> &Joined {
        &self.joined
    }

    /// The shard map, as far as the node knows it.
    #[must_use]
    pub fn map(&self) -> &SharedMap {
        &self.map
    }
}

/// State of a worker's attempts to join a gateway since it was started. Clones share it.
#[derive(Clone, Default)]
pub struct Joined(Arc<Mutex<JoinState>>);

impl Joined {
    /// # Errors
    /// If it has not joined, or a gateway refuses it.
    pub fn readiness(&self) -> Result<()> {
        match &*self.0.lock() {
            JoinState::NotYet => {
                let message = "the worker has not joined a gateway yet";
                Err(Error::new(SqlState::CANNOT_CONNECT_NOW, message))
            }
            JoinState::Refused(error) => Err(error.clone()),
            JoinState::Joined => Ok(()),
        }
    }

    /// Records the outcome of an attempt. A gateway that is unreachable changes nothing.
    fn note(&self, joined: Result<(), &Error>) {
        let mut state = self.0.lock();
        match joined {
            Ok(()) => *state = JoinState::Joined,
            Err(error) if error.state() == SqlState::CONNECTION_FAILURE => {}
            Err(error) => *state = JoinState::Refused(error.clone()),
        }
    }
}

#[derive(Default)]
enum JoinState {
    #[default]
    NotYet,
    Refused(Error),
    Joined,
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        // A record that is older costs a check, and nobody is left to report an error to.
        let _ = self.seen.flush();
    }
}

/// Stores the record of other nodes' logs periodically, and reports each new failure once.
async fn keep_storing(seen: Arc<SeenNodes>, reporter: Option<JoinReporter>) {
    let mut ticks = interval(STORE_EVERY);
    let mut said = None;
    loop {
        ticks.tick().await;
        let stored = Arc::clone(&seen);
        let Ok(stored) = spawn_blocking(move || stored.flush()).await else { return };
        let failure = stored.err().map(|error| error.message().to_owned());
        if let (Some(failure), Some(reporter)) = (&failure, &reporter)
            && said.as_ref() != Some(failure)
        {
            reporter(&format!("The positions of other nodes cannot be stored ({failure})."));
        }
        said = failure;
    }
}

/// Options of a node: security, links to other nodes, and membership.
#[derive(Clone, Default)]
pub struct NodeOptions {
    pub security: Security,
    pub network: Network,
    /// Options of connections to other nodes. The fields above replace theirs.
    pub link: LinkOptions,
    /// Default gather mode of a gateway's statements, for sessions that set none.
    pub gathering: Gathering,
    /// Address at which gateways reach a worker, if it differs from the listening address.
    pub advertised: Option<SocketAddr>,
    /// The first gateway, which makes the map and all definitions. Set for further gateways only.
    pub first: Option<SocketAddr>,
    /// Number of workers that must have joined a gateway before it makes tables; at least one.
    pub expected_workers: usize,
    /// The record of other nodes' logs: of a gateway's workers, or of a worker's gateways. In
    /// memory if not set.
    pub seen: Option<Arc<SeenNodes>>,
    /// Called with a sentence for each new reason that keeps a worker from joining, or a further
    /// gateway from following the first one.
    pub reporter: Option<JoinReporter>,
}

/// A callback that receives messages for the operator of the cluster.
pub type JoinReporter = Arc<dyn Fn(&str) + Send + Sync>;

impl NodeOptions {
    fn link(&self) -> LinkOptions {
        let (security, network) = (self.security.clone(), self.network.clone());
        LinkOptions { security, network, ..self.link.clone() }
    }

    fn seen(&self, kind: SeenKind) -> Arc<SeenNodes> {
        self.seen.clone().unwrap_or_else(|| Arc::new(SeenNodes::new(kind)))
    }

    fn serve(&self) -> ServeOptions {
        let (security, network) = (self.security.clone(), self.network.clone());
        ServeOptions { security, network, ..ServeOptions::default() }
    }
}

/// Starts a gateway over a database. The first gateway makes the map and admits workers. A further
/// gateway forwards workers that join to the first one, and follows its definitions.
///
/// # Errors
/// If its port is taken, it would be open to everybody, or its journal cannot be kept. A further
/// gateway also fails if it cannot follow, or knows no definitions yet and the first one is away.
pub fn start_gateway<'a>(
    database: &'a Database,
    listen: SocketAddr,
    map: SharedMap,
    options: &'a NodeOptions,
) -> BoxFuture<'a, Result<(Arc<Gateway>, RunningNode)>> {
    Box::pin(async move {
        let server = NodeServer::bind(listen, options.serve())?;
        let address = server.address()?;
        let seen = options.seen(SeenKind::Workers);
        let (following, heard) = options.first.map(Following::new).unzip();
        let gateway_options = GatewayOptions {
            link: options.link(),
            gathering: options.gathering,
            address: address.to_string(),
            following: following.clone(),
            expected_workers: options.expected_workers,
            seen: Some(Arc::clone(&seen)),
        };
        let gateway = Gateway::attach(database, map.clone(), gateway_options).await?;
        let mut tasks = Vec::new();
        let making = match following.zip(heard) {
            None => makes(&gateway, options.link()),
            Some((following, heard)) => {
                let (link, reporter) = (Arc::new(options.link()), options.reporter.clone());
                let making = maker(following.first(), &link);
                let hears = (following, heard);
                let mut follower = Follower::new(&gateway, database, hears, &link, reporter);
                follower.catch_up().await?;
                tasks.push(AbortOnDropHandle::new(spawn(follower.run())));
                making
            }
        };
        let keeper = Gatekeeper::new(map.clone(), making).remembering(Arc::clone(&seen));
        let storing = keep_storing(Arc::clone(&seen), options.reporter.clone());
        tasks.push(AbortOnDropHandle::new(spawn(storing)));
        let service = Arc::new(GatewayService::new(&gateway));
        let services = Services::new(service, Routes::new(keeper.service()));
        tasks.push(AbortOnDropHandle::new(spawn(server.serve(services))));
        let joined = Joined::default();
        let node = RunningNode { address, listens_at: address, map, joined, seen, _tasks: tasks };
        Ok((gateway, node))
    })
}

/// The membership role of a gateway that makes the map. Buckets that may have rows do not move.
fn makes(gateway: &Arc<Gateway>, link: LinkOptions) -> Making {
    let asked = Arc::clone(gateway);
    let moving = Box::new(move || match asked.had_tables() {
        true => Moving::Forbidden,
        false => Moving::Allowed,
    });
    Making::Here { moving, link }
}

/// Starts a worker over a database in a process, and lets it join its gateways.
///
/// # Errors
/// If its port is taken, it would be open to everybody, its address is unspecified, or its journal
/// cannot be kept.
pub fn start_worker<'a>(
    database: Database,
    id: u64,
    listen: SocketAddr,
    gateways: Vec<SocketAddr>,
    process: &'a WorkerProcess,
    options: &'a NodeOptions,
) -> BoxFuture<'a, Result<RunningNode>> {
    Box::pin(async move {
        let map = process.map().clone();
        let server = NodeServer::bind(listen, options.serve())?;
        let listens_at = server.address()?;
        let address = options.advertised.unwrap_or(listens_at);
        if address.ip().is_unspecified() {
            return Err(nowhere(address));
        }
        let link = options.link();
        let silent = UnresponsiveNodes::new(map.clone(), &link);
        let peers = Peers::new(map.clone(), &link, silent, Handle::current());
        let run = database.env().random.next_u64();
        let service = WorkerService::new(database, id, process, Arc::new(peers)).await?;
        let seen = options.seen(SeenKind::Gateways);
        let standing = service.clone();
        let durable = Arc::new(move || standing.durable());
        let (holding, number) = (service.clone(), service.process());
        let holdings = move || holding.holdings();
        let node = WorkerNode::new((id, run), map.clone(), Arc::new(service), holdings)
            .remembering(Arc::clone(&seen));
        let services = Services::new(Arc::new(node.clone()), Routes::new(node.service()));
        let serving = AbortOnDropHandle::new(spawn(server.serve(services)));
        let name = NodeName { id, address };
        let joining = Joining { worker: name, process: number, run, durable };
        let link = Arc::new(link);
        let (reporter, mut refusals) = (options.reporter.clone(), Refusals::new(id));
        let joined = Joined::default();
        let notes = joined.clone();
        let each = move |gateway, joined: Result<_>| {
            notes.note(joined.as_ref().map(|_| ()));
            let refusal = refusals.note(gateway, joined.err().as_ref());
            if let (Some(reporter), Some(refusal)) = (&reporter, refusal) {
                reporter(&refusal);
            }
        };
        // A gateway that is away is called again until it answers.
        let gateways =
            gateways.into_iter().map(|address| process.gateway(address, &link)).collect();
        let joining = keep_joining(joining, gateways, map.clone(), each);
        let joining = AbortOnDropHandle::new(spawn(joining));
        let storing = keep_storing(Arc::clone(&seen), options.reporter.clone());
        let storing = AbortOnDropHandle::new(spawn(storing));
        let tasks = vec![serving, joining, storing];
        Ok(RunningNode { address, listens_at, map, joined, seen, _tasks: tasks })
    })
}

fn nowhere(address: SocketAddr) -> Error {
    let message = format!("{address} is where a worker listens, and not where gateways find it");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
        .with_hint("Say with --advertise at which address gateways reach this worker.")
}

const ID_NAME: &str = "node-id";

/// The number of a node. It is generated on the first call and stored in the directory.
///
/// # Errors
/// If it cannot be read or stored.
pub fn node_id(env: &Env, directory: &Path) -> Result<u64> {
    let path = directory.join(ID_NAME);
    let failed = |error: std::io::Error| {
        Error::new(SqlState::IO_ERROR, format!("{}: {error}", path.display()))
    };
    env.files.create_dir_all(directory).map_err(failed)?;
    if env.files.exists(&path).map_err(failed)? {
        let file = env.files.open(&path, OpenMode::Read).map_err(failed)?;
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        return Ok(u64::from_le_bytes(bytes));
    }
    // People read and type this number, so it is short. No worker has number 0.
    let id = 1 + env.random.next_u64() % 999_999_999;
    let file = env.files.open(&path, OpenMode::CreateNew).map_err(failed)?;
    file.write_all_at(&id.to_le_bytes(), 0).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    sync_with_ancestors(&*env.files, directory).map_err(failed)?;
    Ok(id)
}
