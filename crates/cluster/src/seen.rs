//! A node's record of how far the logs of other nodes had come.
//!
//! An older copy of a data directory is a valid database, so the directory alone does not show that
//! rows are missing. The other nodes of its cluster notice it: each remembers up to which group it
//! has seen the log of another node to be durable. A node whose log ends before that is refused.
//! `docs/decisions/0009-older-copies-in-a-cluster.md` has the reasons.
//!
//! A gateway remembers its workers, and workers remember their gateways.
//!
//! Invariants: a recorded position never exceeds one that the node has reported as durable, so a
//! node with its newest directory is always accepted. A process of several workers counts as
//! checked ([`SeenNodes::run_of`]) only once all of its workers are, because one of them answers
//! for all.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;

use parking_lot::Mutex;
use prost::Message as _;
use thalweg_env::Env;
use thalweg_protocol::cluster as wire;
use thalweg_types::{Error, Result, SqlState};

use crate::checked_file::{CheckedFile, FileKind};

const WORKERS: FileKind = FileKind {
    name: "seen-workers",
    magic: b"thwsee01",
    what: "record of workers",
    hint: "Start the gateway with --accept-restored to begin a new one.",
};

const GATEWAYS: FileKind = FileKind {
    name: "seen-gateways",
    magic: b"thwsee01",
    what: "record of gateways",
    hint: "Start the worker with --accept-restored to begin a new one.",
};

/// Which nodes are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenKind {
    /// By their numbers.
    Workers,
    /// By the ids of their databases.
    Gateways,
}

impl SeenKind {
    fn file(self) -> &'static FileKind {
        match self {
            SeenKind::Workers => &WORKERS,
            SeenKind::Gateways => &GATEWAYS,
        }
    }
}

/// The progress of a node's log, as the node reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The id of its database; 0 for one in memory, which has no log.
    pub database: u64,
    /// The last group that is durable.
    pub position: u64,
    /// Random for each start of the node. Within one run a log never goes back.
    pub run: u64,
}

impl Standing {
    #[must_use]
    pub fn to_wire(self) -> wire::Standing {
        let Standing { database, position, run } = self;
        wire::Standing { database, position, run }
    }

    #[must_use]
    pub fn from_wire(standing: &wire::Standing) -> Standing {
        let wire::Standing { database, position, run } = *standing;
        Standing { database, position, run }
    }
}

/// The nodes that a node has seen.
pub struct SeenNodes {
    kind: SeenKind,
    state: Mutex<State>,
    /// Held while the file is written: an older record never replaces a newer one.
    file: Option<Mutex<CheckedFile>>,
}

#[derive(Default)]
struct State {
    nodes: HashMap<u64, Seen>,
    /// Processes all of whose workers were checked in the runs that are known.
    admitted: HashSet<u64>,
    /// Workers that were refused, until they are accepted.
    refused: HashMap<u64, Error>,
    /// True if something has changed since the file was written.
    dirty: bool,
}

#[derive(Clone, Copy)]
struct Seen {
    database: u64,
    position: u64,
    /// The run that was checked; 0 for none since this node started.
    run: u64,
}

impl SeenNodes {
    /// In memory only.
    #[must_use]
    pub fn new(kind: SeenKind) -> SeenNodes {
        SeenNodes { kind, state: Mutex::default(), file: None }
    }

    /// As it was stored in a directory.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub fn stored(env: &Env, directory: &Path, kind: SeenKind) -> Result<SeenNodes> {
        let file = CheckedFile::new(env, directory, kind.file())?;
        let mut state = State::default();
        if let Some(message) = file.load()? {
            let stored = wire::SeenNodes::decode(message.as_slice());
            let stored = stored.map_err(|error| file.damaged(&error.to_string()))?;
            state.nodes.extend(stored.nodes.into_iter().map(|it| {
                let wire::SeenNode { node, database, position } = it;
                (node, Seen { database, position, run: 0 })
            }));
        }
        Ok(SeenNodes { kind, state: Mutex::new(state), file: Some(Mutex::new(file)) })
    }

    /// Begins anew in a directory: whatever nodes have is accepted, and remembered from then on.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn forgotten(env: &Env, directory: &Path, kind: SeenKind) -> Result<SeenNodes> {
        let file = CheckedFile::new(env, directory, kind.file())?;
        file.store(&wire::SeenNodes::default().encode_to_vec())?;
        Ok(SeenNodes { kind, state: Mutex::default(), file: Some(Mutex::new(file)) })
    }

    /// Checks the standing of a worker against the record, and updates the record.
    ///
    /// # Errors
    /// If the log had come further before, or belongs to another database.
    pub fn check_worker(&self, worker: u64, process: u64, standing: Standing) -> Result<()> {
        let mut state = self.state.lock();
        match state.check(worker, standing, || format!("worker {worker}")) {
            Ok(is_new_run) => {
                state.refused.remove(&worker);
                if is_new_run {
                    // The whole process was started again, with its other workers.
                    state.admitted.remove(&process);
                }
                Ok(())
            }
            Err(error) => {
                state.admitted.remove(&process);
                state.refused.insert(worker, error.clone());
                Err(error)
            }
        }
    }

    /// Why a worker was refused last, if it was not accepted since. A worker that was refused keeps
    /// its old address in the map, where it may not be reached.
    #[must_use]
    pub fn refusal(&self, worker: u64) -> Option<Error> {
        self.state.lock().refused.get(&worker).cloned()
    }

    /// Checks the standing of a gateway against the record, and updates the record. A gateway
    /// without a directory is always accepted.
    ///
    /// # Errors
    /// If the log had come further before.
    pub fn check_gateway(&self, standing: Standing) -> Result<()> {
        if standing.database == 0 {
            return Ok(());
        }
        let mut state = self.state.lock();
        state.check(standing.database, standing, || "this gateway".to_owned()).map(drop)
    }

    /// Records that a worker, whose run was checked, has reported a durable position. Lower
    /// positions than the recorded one are ignored.
    pub fn note(&self, worker: u64, position: u64) {
        let mut state = self.state.lock();
        let Some(seen) = state.nodes.get_mut(&worker).filter(|seen| seen.position < position)
        else {
            return;
        };
        seen.position = position;
        state.dirty = true;
    }

    /// The run of a worker, if all workers of its process were checked.
    #[must_use]
    pub fn run_of(&self, worker: u64, process: u64) -> Option<u64> {
        let state = self.state.lock();
        let seen = state.nodes.get(&worker).filter(|seen| seen.run != 0)?;
        state.admitted.contains(&process).then_some(seen.run)
    }

    /// Records that all workers of a process were checked.
    pub fn admit(&self, process: u64) {
        self.state.lock().admitted.insert(process);
    }

    /// Withdraws the admission of a process, since one of its workers turned out to be another run.
    /// All of its workers must be checked again.
    pub fn readmit(&self, process: u64) {
        self.state.lock().admitted.remove(&process);
    }

    /// Removes a worker from the record, since it was removed from the cluster.
    pub fn forget(&self, worker: u64) {
        let mut state = self.state.lock();
        state.dirty |= state.nodes.remove(&worker).is_some();
        state.refused.remove(&worker);
    }

    /// Stores what changed: durable when this returns.
    ///
    /// # Errors
    /// If it cannot be written. The next call tries again.
    pub fn flush(&self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let file = file.lock();
        let stored = {
            let mut state = self.state.lock();
            if !std::mem::take(&mut state.dirty) {
                return Ok(());
            }
            let durable = state.nodes.iter().filter(|(_, seen)| seen.database != 0);
            let nodes = durable.map(|(node, Seen { database, position, .. })| wire::SeenNode {
                node: *node,
                database: *database,
                position: *position,
            });
            wire::SeenNodes { nodes: nodes.collect() }
        };
        let written = file.store(&stored.encode_to_vec());
        if written.is_err() {
            self.state.lock().dirty = true;
        }
        written
    }
}

impl fmt::Debug for SeenNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeenNodes").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl State {
    /// Returns true if it is another run than before.
    fn check(
        &mut self,
        node: u64,
        standing: Standing,
        name: impl FnOnce() -> String,
    ) -> Result<bool> {
        let Standing { database, position, run } = standing;
        let Some(seen) = self.nodes.get_mut(&node) else {
            self.nodes.insert(node, Seen { database, position, run });
            self.dirty = true;
            return Ok(true);
        };
        if seen.database != database {
            return Err(other_database(&name()));
        }
        if seen.run != run && position < seen.position {
            return Err(older(&name(), position, seen.position));
        }
        let is_new_run = seen.run != run;
        seen.run = run;
        if seen.position < position {
            seen.position = position;
            self.dirty = true;
        }
        Ok(is_new_run)
    }
}

const HINT: &str = "Put its newest directory back. If that is lost: to go on with this one, \
    restart the node that refuses it with --accept-restored; to go on without a worker, remove it \
    with `thalweg remove-worker`.";

fn older(name: &str, position: u64, seen: u64) -> Error {
    let message = format!(
        "the data directory of {name} is an older copy: its log ends at group {position}, and it \
         had come to group {seen} before"
    );
    Error::new(SqlState::OBJECT_NOT_IN_STATE, message).with_hint(HINT)
}

fn other_database(name: &str) -> Error {
    let message = format!("the data directory of {name} holds another database than before");
    Error::new(SqlState::OBJECT_NOT_IN_STATE, message).with_hint(HINT)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn standing(position: u64, run: u64) -> Standing {
        Standing { database: 9, position, run }
    }

    #[test]
    fn a_log_that_went_back_is_refused_until_it_is_the_newest_again() {
        let (env, _, _) = Env::simulated(1);
        let directory = PathBuf::from("/cluster");
        let stored = || SeenNodes::stored(&env, &directory, SeenKind::Workers).unwrap();
        let seen = stored();
        seen.check_worker(5, 5, standing(10, 1)).unwrap();
        seen.note(5, 20);
        // Reports of one run may arrive out of order.
        seen.check_worker(5, 5, standing(15, 1)).unwrap();
        let refused = |seen: &SeenNodes, standing| {
            let error = seen.check_worker(5, 5, standing).unwrap_err();
            assert_eq!(error.state(), SqlState::OBJECT_NOT_IN_STATE);
            assert!(error.hint().unwrap().contains("--accept-restored"));
            error.message().to_owned()
        };
        assert!(seen.refusal(5).is_none());
        let told = refused(&seen, standing(19, 2));
        assert_eq!(seen.refusal(5).unwrap().message(), told);
        assert!(told.contains("worker 5 is an older copy: its log ends at group 19"), "{told}");
        seen.flush().unwrap();
        drop(seen);
        // The gateway was started again.
        let seen = stored();
        refused(&seen, standing(19, 3));
        refused(&seen, Standing { database: 8, ..standing(50, 3) });
        seen.check_worker(6, 6, standing(1, 3)).unwrap();
        seen.check_worker(5, 5, standing(20, 3)).unwrap();
        assert!(seen.refusal(5).is_none());
        seen.forget(5);
        seen.check_worker(5, 5, standing(1, 4)).unwrap();
        seen.flush().unwrap();
        let seen = SeenNodes::forgotten(&env, &directory, SeenKind::Workers).unwrap();
        seen.check_worker(6, 6, standing(0, 5)).unwrap();
    }

    #[test]
    fn what_was_seen_survives_a_crash_at_any_operation() {
        for fault_at in 0.. {
            let (env, disk, _) = Env::simulated(fault_at);
            let directory = PathBuf::from("/cluster");
            let seen = SeenNodes::stored(&env, &directory, SeenKind::Gateways).unwrap();
            seen.check_gateway(standing(10, 1)).unwrap();
            seen.flush().unwrap();
            seen.check_gateway(standing(20, 1)).unwrap();
            let begun = disk.operations();
            disk.fault_at(begun + fault_at, thalweg_env::Fault::CrashBefore);
            let is_stored = seen.flush().is_ok();
            let disk = disk.crash();
            let env = env.with_files(disk);
            let seen = SeenNodes::stored(&env, &directory, SeenKind::Gateways).unwrap();
            seen.check_gateway(standing(9, 2)).unwrap_err();
            if is_stored {
                seen.check_gateway(standing(19, 2)).unwrap_err();
                return;
            }
        }
    }

    #[test]
    fn a_process_is_checked_again_once_one_of_its_workers_is_another_run() {
        let seen = SeenNodes::new(SeenKind::Workers);
        seen.check_worker(1, 1, standing(10, 7)).unwrap();
        seen.check_worker(2, 1, standing(10, 8)).unwrap();
        assert_eq!(seen.run_of(1, 1), None);
        seen.admit(1);
        assert_eq!((seen.run_of(1, 1), seen.run_of(2, 1)), (Some(7), Some(8)));
        seen.check_worker(1, 1, standing(10, 7)).unwrap();
        assert_eq!(seen.run_of(1, 1), Some(7), "it is the same run");
        seen.check_worker(1, 1, standing(10, 17)).unwrap();
        assert_eq!((seen.run_of(1, 1), seen.run_of(2, 1)), (None, None));
        // Workers in memory have no log, and are told apart all the same.
        let in_memory = |run| Standing { database: 0, position: 0, run };
        seen.check_worker(3, 3, in_memory(1)).unwrap();
        seen.check_worker(3, 3, in_memory(2)).unwrap();
    }
}
