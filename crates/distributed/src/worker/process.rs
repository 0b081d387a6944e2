//! The workers of one process, which answer for each other.
//!
//! A machine with many cores runs many workers. Each has its own buckets, log and port. A gateway
//! that needs rows of several workers of a process asks only one of them, which reads the rows
//! of all as one table and aggregates them together. So the cost of a request depends on the
//! number of processes, not on the number of workers.

use std::collections::HashMap;
use std::iter;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use thalweg_cluster::link::{LinkOptions, ReconnectingLink};
use thalweg_cluster::map::SharedMap;
use thalweg_cluster::membership::gateway;
use thalweg_env::Clock;
use thalweg_protocol::cluster as wire;
use thalweg_query::{ShardStatistics, Shards};
use thalweg_types::{ColumnId, Error, Result, SqlState};

use super::encoding_cache::EncodingCache;

/// The workers of this process. Clones share them.
#[derive(Clone)]
pub struct WorkerProcess {
    map: SharedMap,
    shared: Arc<Members>,
}

struct Members {
    /// Number by which gateways know the process: that of its first worker.
    number: OnceLock<u64>,
    workers: RwLock<HashMap<u64, Worker>>,
    /// Links to gateways, which all workers share.
    gateways: Mutex<HashMap<SocketAddr, ReconnectingLink>>,
    encodings: Arc<EncodingCache>,
}

/// One worker of the process, as the others see it.
#[derive(Clone)]
struct Worker {
    shards: Shards,
    /// Number of streams that it serves at the moment.
    streams: Arc<AtomicU64>,
}

impl WorkerProcess {
    /// A process without workers. Its workers share this map, and a cache of encoded chunks of this
    /// many bytes.
    #[must_use]
    pub fn new(map: SharedMap, clock: &Arc<dyn Clock>, encodings_bytes: usize) -> WorkerProcess {
        let members = Members {
            number: OnceLock::new(),
            workers: RwLock::default(),
            gateways: Mutex::default(),
            encodings: Arc::new(EncodingCache::new(clock, encodings_bytes)),
        };
        WorkerProcess { map, shared: Arc::new(members) }
    }

    pub(crate) fn map(&self) -> &SharedMap {
        &self.map
    }

    /// The link to a gateway, which all workers share.
    pub(crate) fn gateway(
        &self,
        address: SocketAddr,
        options: &Arc<LinkOptions>,
    ) -> ReconnectingLink {
        let mut gateways = self.shared.gateways.lock();
        let link = gateways.entry(address).or_insert_with(|| gateway(address, options));
        link.clone()
    }

    /// Adds a worker.
    pub(crate) fn join(&self, worker: u64, shards: &Shards, streams: &Arc<AtomicU64>) -> Member {
        self.shared.number.get_or_init(|| worker);
        let known = Worker { shards: shards.clone(), streams: Arc::clone(streams) };
        self.shared.workers.write().insert(worker, known);
        Member { worker, shards: shards.clone(), process: Arc::clone(&self.shared) }
    }
}

/// The membership of a worker in its process, until this is dropped.
pub(crate) struct Member {
    worker: u64,
    shards: Shards,
    process: Arc<Members>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.process.workers.write().remove(&self.worker);
    }
}

impl Member {
    /// Number by which gateways know the process.
    pub(crate) fn number(&self) -> u64 {
        *self.process.number.get().unwrap_or(&self.worker)
    }

    /// The encoding cache of the process.
    pub(super) fn encodings(&self) -> &Arc<EncodingCache> {
        &self.process.encodings
    }

    /// The rows of this worker alone.
    pub(crate) fn shards(&self) -> &Shards {
        &self.shards
    }

    /// The rows of this worker together with those of others.
    ///
    /// # Errors
    /// If one of them is not in this process.
    pub(crate) fn together(&self, others: &[u64]) -> Result<Shards> {
        if others.is_empty() {
            return Ok(self.shards.clone());
        }
        let workers = self.process.workers.read();
        let others = others.iter().map(|other| {
            let known = workers.get(other).map(|other| other.shards.clone());
            known.ok_or_else(|| elsewhere(*other, self.worker))
        });
        Ok(self.shards.together(others.collect::<Result<Vec<_>>>()?))
    }

    /// The status of this worker, and of those of `others` that are in its process.
    pub(crate) fn shard_statistics(&self, others: &[u64]) -> wire::Sights {
        let workers = self.process.workers.read();
        let asked = iter::once(&self.worker).chain(others);
        let known =
            asked.filter_map(|id| Some((*id, workers.get(id)?.clone()))).collect::<Vec<_>>();
        drop(workers);
        wire::Sights { sights: known.iter().map(|(id, worker)| sight(*id, worker)).collect() }
    }

    /// Brings all workers of the process to the definitions of the newest one, before a request
    /// that concerns several of them.
    ///
    /// # Errors
    /// If one of them cannot apply a definition.
    pub(crate) async fn agree(&self) -> Result<()> {
        let mut behind = Vec::new();
        let newest = {
            let workers = self.process.workers.read();
            let all = || workers.values().map(|worker| &worker.shards);
            let Some(newest) = all().max_by_key(|one| one.last_definition()) else {
                return Ok(());
            };
            let is_behind = |one: &&Shards| one.last_definition() < newest.last_definition();
            behind.extend(all().filter(is_behind).cloned());
            newest.clone()
        };
        for one in behind {
            one.follow(&newest).await?;
        }
        Ok(())
    }
}

fn sight(worker: u64, known: &Worker) -> wire::Sight {
    let Worker { shards, streams } = known;
    wire::Sight {
        worker,
        definitions: shards.last_definition(),
        tables: shards.shard_statistics().into_iter().map(table_sight).collect(),
        bytes: shards.bytes(),
        streams: streams.load(Ordering::Relaxed),
    }
}

fn table_sight(sight: ShardStatistics) -> wire::TableSight {
    let columns = sight.values.into_iter();
    let column = |(column, values): (ColumnId, u64)| wire::ColumnSight { column: column.0, values };
    let ShardStatistics { table, rows, .. } = sight;
    wire::TableSight { table: table.0, rows, columns: columns.map(column).collect() }
}

fn elsewhere(other: u64, asked: u64) -> Error {
    let message = format!("worker {other} is not in the process of worker {asked}, or not yet");
    Error::new(SqlState::CONNECTION_FAILURE, message)
        .with_hint("Run the statement again when all workers have started.")
}
