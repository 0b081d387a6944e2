//! The gateway's side: connections to the workers of the map, and requests of its database.
//!
//! A [`Gateway`] implements the four traits of `thalweg_query` for a database with workers, each
//! beside the code that does its work: scans in `scanning`, changes of rows in `row_changes`,
//! definitions in `defining`, and look-ups in `key_lookups`. All of them ask workers through
//! [`worker_calls`]. Requests run on the threads that own the links, whichever thread asks.

mod bulk_load;
mod defining;
mod followers;
pub(crate) mod following;
mod key_lookups;
mod keyed_writes;
mod presence;
mod row_changes;
mod scanning;
pub(crate) mod service;
mod system_tables;
pub(crate) mod worker_calls;
mod worker_polling;

use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use thalweg_cluster::link::{LinkOptions, NodeName, ReconnectingLink, UnresponsiveNodes};
use thalweg_cluster::map::SharedMap;
use thalweg_cluster::seen::{SeenKind, SeenNodes, Standing};
use thalweg_env::Clock;
use thalweg_protocol::cluster as wire;
use thalweg_query::{Cluster, Database, Definition, Gathering, StorageHealth};
use thalweg_runtime::TaskThreads;
use thalweg_types::{ColumnId, Error, Result, TableId};
use tokio_util::task::AbortOnDropHandle;

use self::followers::Followers;
use self::following::Following;
use self::presence::Presence;
use self::worker_polling::{keep_looking, look};
use crate::stages::Peers;

/// Options of a gateway's links and statements.
#[derive(Clone, Default)]
pub struct GatewayOptions {
    pub link: LinkOptions,
    /// Default gather mode of statements, for sessions that set none.
    pub gathering: Gathering,
    /// Address at which other nodes reach this gateway.
    pub(crate) address: String,
    /// The gateway that makes the map and all definitions, if it is another one.
    pub(crate) following: Option<Following>,
    /// Number of workers that must have joined before tables are made; at least one.
    pub expected_workers: usize,
    /// The record of the workers' logs; in memory if not set.
    pub seen: Option<Arc<SeenNodes>>,
}

/// Limit of the definitions in one message, in bytes. A single definition may exceed it.
const MESSAGE_BYTES: usize = 8 << 20;

/// The node that asks the workers of a cluster for the rows of its database.
pub struct Gateway {
    shared: Arc<Shared>,
    gathering: Gathering,
    _looking: AbortOnDropHandle<()>,
}

/// Status of one worker.
#[derive(Clone, Debug)]
pub struct WorkerStatus {
    pub worker: NodeName,
    pub buckets: usize,
    /// Last status report; `None` if the worker does not answer.
    pub seen: Option<wire::Sight>,
}

/// State that scans, writes and definitions share.
pub(crate) struct Shared {
    map: SharedMap,
    clock: Arc<dyn Clock>,
    /// The health of this gateway's own storage.
    storage: Arc<StorageHealth>,
    options: LinkOptions,
    links: Mutex<HashMap<NodeName, ReconnectingLink>>,
    /// Workers that do not answer. Calls to them fail at once instead of waiting.
    silent: UnresponsiveNodes,
    /// Connections for tasks of stages.
    peers: Peers,
    /// All definitions, in their order.
    definitions: RwLock<Vec<Definition>>,
    /// True once a definition creates a table, or is about to.
    had_tables: AtomicBool,
    /// Random number that identifies this gateway while it runs.
    gateway: u64,
    /// Address at which other nodes reach this gateway.
    address: String,
    /// Workers seen so far, and the number expected.
    presence: Presence,
    /// The record of the workers' logs.
    seen: Arc<SeenNodes>,
    /// Returns the standing of this gateway's own log.
    standing: Box<dyn Fn() -> Standing + Send + Sync>,
    /// Other gateways that follow this one.
    followers: Followers,
    /// The gateway that this one follows, if there is one.
    following: Option<Following>,
    /// Estimated number of rows of each table.
    row_counts: RwLock<HashMap<TableId, usize>>,
    /// Estimated number of distinct values of columns on one worker, if known.
    value_counts: RwLock<HashMap<(TableId, ColumnId), usize>>,
    /// Counter for numbers of writes and write streams, and for turns of rows without a shard key.
    next: AtomicU64,
    /// Hashes fragments into numbers that outsiders cannot predict.
    hasher: RandomState,
    threads: TaskThreads,
}

impl Gateway {
    /// Makes a gateway of a database, which must hold no rows of its own.
    ///
    /// # Errors
    /// If its journal cannot be kept or read, or the system refuses threads.
    pub async fn attach(
        database: &Database,
        map: SharedMap,
        options: GatewayOptions,
    ) -> Result<Arc<Gateway>> {
        database.keep_journal().await?;
        let definitions = database.definitions_after(0).await?;
        let GatewayOptions { link, gathering, address, following, expected_workers, seen } =
            options;
        let threads = TaskThreads::start("thalweg-links", 2, None)
            .map_err(|error| Error::internal("no threads for links").with_source(error))?;
        let seed = database.env().random.next_u64() << 16;
        let number = database.env().random.next_u64();
        let silent = UnresponsiveNodes::new(map.clone(), &link);
        let shared = Arc::new(Shared {
            peers: Peers::new(map.clone(), &link, silent.clone(), threads.handle().clone()),
            silent,
            map,
            clock: Arc::clone(&database.env().clock),
            storage: Arc::clone(database.storage()),
            options: link,
            links: Mutex::default(),
            presence: Presence::new(expected_workers),
            followers: Followers::new(definitions.len() as u64),
            had_tables: AtomicBool::new(definitions.iter().any(Definition::creates_tables)),
            definitions: RwLock::new(definitions),
            standing: standing(database, number),
            gateway: number,
            seen: seen.unwrap_or_else(|| Arc::new(SeenNodes::new(SeenKind::Workers))),
            address,
            following,
            row_counts: RwLock::default(),
            value_counts: RwLock::default(),
            next: AtomicU64::new(seed),
            hasher: RandomState::default(),
            threads,
        });
        let looking = shared.spawn(keep_looking(Arc::downgrade(&shared)));
        let gateway = Arc::new(Gateway { shared, gathering, _looking: looking });
        database.attach(Cluster::behind(&gateway));
        Ok(gateway)
    }

    /// Asks all workers for their status.
    pub async fn status(&self) -> Vec<WorkerStatus> {
        let shared = Arc::clone(&self.shared);
        let looked = self.shared.spawn(async move { look(&shared).await }).await;
        looked.unwrap_or_default()
    }

    /// True if a table was ever created. Buckets do not move from then on.
    #[must_use]
    pub fn had_tables(&self) -> bool {
        self.shared.had_tables.load(Ordering::Acquire)
    }
}

impl Gateway {
    /// Runs work on the threads that own the links. Dropping the future aborts it.
    fn on_links<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        let running = self.shared.spawn(work);
        async move { running.await.map_err(|died| Error::internal(died.to_string()))? }.boxed()
    }
}

/// Reads the standing of the log of a gateway's database. The database owns its gateway, so the
/// gateway shares only its health and its position.
fn standing(database: &Database, run: u64) -> Box<dyn Fn() -> Standing + Send + Sync> {
    let position = database.position_reader();
    Box::new(move || {
        let (database, position) = position().map_or((0, 0), |it| (it.database_id, it.lsn.0));
        Standing { database, position, run }
    })
}

/// The longest prefix of definitions that fits into one message: at least one, if there is any.
pub(crate) fn in_one_message(all: &[Definition]) -> &[Definition] {
    let mut bytes = 0;
    let fits = all.iter().take_while(|definition| {
        bytes += definition.changes.len();
        bytes <= MESSAGE_BYTES
    });
    let count = fits.count().max(1).min(all.len());
    &all[..count]
}

pub(crate) fn definitions(all: &[Definition]) -> wire::Definitions {
    let definitions = all.iter().map(|definition| wire::Definition {
        number: definition.number,
        changes: definition.changes.clone().into(),
    });
    wire::Definitions { definitions: definitions.collect() }
}
