//! The shard map: which worker owns which bucket.
//!
//! Each change of a map increases its version. A node that gets a request with an older version
//! than its own rejects it, and a node with an older map adopts the newer one. So two nodes agree
//! after one more round trip.
//!
//! Invariants: every bucket of a map with workers has exactly one owner. An acknowledged map
//! survives a crash. No part of a damaged map is used.

mod file;
mod shared;

use std::net::SocketAddr;

use thalweg_protocol::cluster::{self as wire, WorkerEntry};
use thalweg_types::{BUCKETS, Bucket, Error, Result, SqlState};

use crate::link::NodeName;

pub use file::MapFile;
pub use shared::SharedMap;

/// An assignment of all buckets to workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardMap {
    version: u64,
    workers: Vec<NodeName>,
    /// Process of each worker.
    processes: Vec<u64>,
    /// Owner of each bucket, as an index of `workers`. Empty if there are no workers.
    owners: Vec<u32>,
    /// Number of buckets of each worker.
    shares: Vec<usize>,
}

impl Default for ShardMap {
    /// The map of a cluster without workers.
    fn default() -> ShardMap {
        ShardMap {
            version: 0,
            workers: Vec::new(),
            processes: Vec::new(),
            owners: Vec::new(),
            shares: Vec::new(),
        }
    }
}

/// Permission to give buckets to another worker. Buckets with rows cannot move yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moving {
    Allowed,
    Forbidden,
}

impl ShardMap {
    /// A map that spreads the buckets evenly over workers, each in a process of its own.
    #[must_use]
    pub fn even(workers: Vec<NodeName>) -> ShardMap {
        let mut map = ShardMap::default();
        for worker in workers {
            let process = worker.id;
            map = map.with(worker, process, Moving::Allowed);
        }
        map
    }

    /// Version of the map; 0 means that no worker has ever joined.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// All workers, in the order in which they joined. Indexes of workers refer to this order.
    #[must_use]
    pub fn workers(&self) -> &[NodeName] {
        &self.workers
    }

    /// Process of each worker: a number that all workers of the process share.
    #[must_use]
    pub fn processes(&self) -> &[u64] {
        &self.processes
    }

    /// Index of the worker that owns a bucket.
    ///
    /// # Errors
    /// If there are no workers.
    pub fn owner(&self, bucket: Bucket) -> Result<usize> {
        let owner = self.owners.get(usize::from(bucket.0)).ok_or_else(|| {
            Error::new(SqlState::CANNOT_CONNECT_NOW, "the cluster has no workers yet")
                .with_hint("Start some with: thalweg worker --join GATEWAY")
        })?;
        Ok(*owner as usize)
    }

    /// Number of buckets of each worker.
    #[must_use]
    pub fn shares(&self) -> &[usize] {
        &self.shares
    }

    /// Indexes of the workers that own at least one bucket.
    ///
    /// # Errors
    /// If there are no workers.
    pub fn all_owners(&self) -> Result<Vec<usize>> {
        self.owner(Bucket(0))?;
        Ok((0..self.shares.len()).filter(|place| self.shares[*place] > 0).collect())
    }

    /// The worker with this number.
    #[must_use]
    pub fn worker(&self, id: u64) -> Option<&NodeName> {
        self.workers.iter().find(|known| known.id == id)
    }

    /// The map with a worker added. A known worker keeps its buckets, and only its address and
    /// process change. The version stays the same if nothing changes.
    #[must_use]
    pub fn with(&self, worker: NodeName, process: u64, moving: Moving) -> ShardMap {
        let mut map = self.clone();
        match map.workers.iter().position(|known| known.id == worker.id) {
            Some(at) if map.workers[at] == worker && map.processes[at] == process => return map,
            Some(at) => (map.workers[at], map.processes[at]) = (worker, process),
            None => {
                map.workers.push(worker);
                map.processes.push(process);
                map.shares.push(0);
                map.give_share(moving);
            }
        }
        map.version += 1;
        map
    }

    /// Gives the last worker its share, taken from workers with more than the new average.
    fn give_share(&mut self, moving: Moving) {
        let newest = self.workers.len() - 1;
        if newest == 0 {
            self.owners = vec![0; usize::from(BUCKETS)];
            self.shares[0] = self.owners.len();
            return;
        }
        if moving == Moving::Forbidden {
            return;
        }
        let shares = &mut self.shares;
        let least = usize::from(BUCKETS) / self.workers.len();
        // Taken from the end, so that runs of buckets stay long.
        for bucket in (0..self.owners.len()).rev() {
            let owner = self.owners[bucket] as usize;
            if shares[newest] < least && shares[owner] > least {
                shares[owner] -= 1;
                shares[newest] += 1;
                self.owners[bucket] =
                    u32::try_from(newest).expect("workers are counted in 32 bits");
            }
        }
    }

    /// The map without a worker. Each of its buckets goes to the worker that has the fewest; a map
    /// without workers has no owners. The version stays the same if there is no such worker.
    #[must_use]
    pub fn without(&self, id: u64) -> ShardMap {
        let mut map = self.clone();
        let Some(removed) = map.workers.iter().position(|known| known.id == id) else { return map };
        map.workers.remove(removed);
        map.processes.remove(removed);
        map.shares.remove(removed);
        map.version += 1;
        if map.workers.is_empty() {
            map.owners.clear();
            return map;
        }
        for owner in &mut map.owners {
            let place = *owner as usize;
            if place > removed {
                *owner -= 1;
            } else if place == removed {
                let shares = map.shares.iter_mut().enumerate();
                let (fewest, share) =
                    shares.min_by_key(|(_, share)| **share).expect("there are workers");
                *share += 1;
                *owner = u32::try_from(fewest).expect("workers are counted in 32 bits");
            }
        }
        map
    }

    /// The map's wire form.
    #[must_use]
    pub fn to_wire(&self) -> wire::ShardMap {
        let workers = self.workers.iter().zip(&self.processes);
        let mut map = wire::ShardMap {
            version: self.version,
            workers: workers.map(|(worker, process)| entry(worker, *process)).collect(),
            ..wire::ShardMap::default()
        };
        for run in self.owners.chunk_by(|left, right| left == right) {
            map.run_owners.push(run[0]);
            map.run_buckets.push(u32::try_from(run.len()).expect("there are 16,384 buckets"));
        }
        map
    }

    /// Decodes a map.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn from_wire(map: &wire::ShardMap) -> Result<ShardMap> {
        let workers: Vec<NodeName> = map.workers.iter().map(name).collect::<Result<_>>()?;
        let mut owners = Vec::with_capacity(usize::from(BUCKETS));
        if map.run_buckets.len() != map.run_owners.len() {
            return Err(damaged("its runs have no owners"));
        }
        for (buckets, owner) in map.run_buckets.iter().zip(&map.run_owners) {
            if *owner as usize >= workers.len() {
                return Err(damaged("a bucket belongs to nobody"));
            }
            let buckets = *buckets as usize;
            if owners.len() + buckets > usize::from(BUCKETS) {
                return Err(damaged("it has too many buckets"));
            }
            owners.resize(owners.len() + buckets, *owner);
        }
        if owners.len() != usize::from(BUCKETS) && !(owners.is_empty() && workers.is_empty()) {
            return Err(damaged("buckets are missing"));
        }
        let processes = map.workers.iter().map(process).collect();
        let mut shares = vec![0; workers.len()];
        owners.iter().for_each(|owner| shares[*owner as usize] += 1);
        Ok(ShardMap { version: map.version, workers, processes, owners, shares })
    }
}

/// The wire form of a worker.
#[must_use]
pub fn entry(worker: &NodeName, process: u64) -> WorkerEntry {
    WorkerEntry { id: worker.id, address: worker.address.to_string(), process }
}

/// The process of a worker in wire form. Older entries have none: then it is the worker's number.
#[must_use]
pub fn process(entry: &WorkerEntry) -> u64 {
    match entry.process {
        0 => entry.id,
        process => process,
    }
}

/// Decodes the name of a worker.
///
/// # Errors
/// If its address is malformed.
pub fn name(entry: &WorkerEntry) -> Result<NodeName> {
    let address: Result<SocketAddr, _> = entry.address.parse();
    let address = address.map_err(|_| damaged("a worker has no address"))?;
    Ok(NodeName { id: entry.id, address })
}

fn damaged(why: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, format!("this is no shard map: {why}"))
}

#[cfg(test)]
mod tests;
