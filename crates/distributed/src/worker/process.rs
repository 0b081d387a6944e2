//! The workers of one process, which answer for each other.
//!
//! A machine with many cores is many workers. Each has its own buckets, log and port; but a gateway
//! that asks for the rows of several of them asks one, which reads the rows of all as those of one
//! table, and adds them up together. So what a question costs depends on how many processes there
//! are, and not on how many workers.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use thalweg_cluster::map::SharedMap;
use thalweg_query::Shards;
use thalweg_types::{Error, Result, SqlState};

/// The workers of this process. Clones share them.
#[derive(Clone)]
pub struct WorkerProcess {
    map: SharedMap,
    shared: Arc<Members>,
}

#[derive(Default)]
struct Members {
    /// What gateways know the process by: the number of the first of its workers.
    number: OnceLock<u64>,
    workers: RwLock<HashMap<u64, Shards>>,
}

impl WorkerProcess {
    /// A process without workers, whose workers have this map.
    #[must_use]
    pub fn new(map: SharedMap) -> WorkerProcess {
        WorkerProcess { map, shared: Arc::default() }
    }

    pub(crate) fn map(&self) -> &SharedMap {
        &self.map
    }

    /// Takes in a worker.
    pub(crate) fn join(&self, worker: u64, shards: &Shards) -> Member {
        self.shared.number.get_or_init(|| worker);
        self.shared.workers.write().insert(worker, shards.clone());
        Member { worker, shards: shards.clone(), process: Arc::clone(&self.shared) }
    }
}

/// A worker among those of its process, until this is dropped.
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
    /// What gateways know the process by.
    pub(crate) fn number(&self) -> u64 {
        *self.process.number.get().unwrap_or(&self.worker)
    }

    /// Those of this worker alone.
    pub(crate) fn shards(&self) -> &Shards {
        &self.shards
    }

    /// The rows of this worker together with those of others.
    ///
    /// # Errors
    /// Where one of them is not in this process.
    pub(crate) fn together(&self, others: &[u64]) -> Result<Shards> {
        if others.is_empty() {
            return Ok(self.shards.clone());
        }
        let workers = self.process.workers.read();
        let others = others.iter().map(|other| {
            let known = workers.get(other).cloned();
            known.ok_or_else(|| elsewhere(*other, self.worker))
        });
        Ok(self.shards.together(others.collect::<Result<Vec<_>>>()?))
    }

    /// Has all workers of the process follow the definitions that one of them knows: what is asked
    /// of one concerns all.
    ///
    /// # Errors
    /// Where one cannot follow.
    pub(crate) async fn agree(&self) -> Result<()> {
        let mut behind = Vec::new();
        let newest = {
            let workers = self.process.workers.read();
            let Some(newest) = workers.values().max_by_key(|one| one.last_definition()) else {
                return Ok(());
            };
            let is_behind = |one: &&Shards| one.last_definition() < newest.last_definition();
            behind.extend(workers.values().filter(is_behind).cloned());
            newest.clone()
        };
        for one in behind {
            one.follow(&newest).await?;
        }
        Ok(())
    }
}

fn elsewhere(other: u64, asked: u64) -> Error {
    let message = format!("worker {other} is not in the process of worker {asked}, or not yet");
    Error::new(SqlState::CONNECTION_FAILURE, message)
        .with_hint("Run the statement again when all workers have started.")
}
