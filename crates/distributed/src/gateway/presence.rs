//! Presence of workers at a gateway, and the gateway's readiness.
//!
//! Buckets do not move once a table exists. A gateway therefore makes no table before as many
//! workers have joined as it was told to expect. After a restart it reports itself as ready once
//! every worker that owns buckets has answered. If workers refuse this gateway, or are refused, for
//! an older copy of a directory, readiness names that reason.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use thalweg_cluster::link::NodeName;
use thalweg_cluster::map::ShardMap;
use thalweg_types::{Error, Result, SqlState};

use super::WorkerStatus;

pub(super) struct Presence {
    /// Number of workers that must have joined before tables are made; at least one.
    expected: usize,
    /// True once all owners of buckets answered the same status request since this gateway started.
    was_complete: AtomicBool,
    /// Number of owners of buckets that answered the last status request.
    answering: AtomicUsize,
    /// One owner of buckets that did not answer.
    missing: parking_lot::Mutex<Option<NodeName>>,
    /// The reason why a worker, or this gateway, is refused, by the last status request.
    refusal: parking_lot::Mutex<Option<String>>,
}

impl Presence {
    pub(super) fn new(expected: usize) -> Presence {
        Presence {
            expected: expected.max(1),
            was_complete: AtomicBool::new(false),
            answering: AtomicUsize::new(0),
            missing: parking_lot::Mutex::default(),
            refusal: parking_lot::Mutex::default(),
        }
    }

    /// Records the result of a status request to all workers.
    pub(super) fn note(&self, workers: &[WorkerStatus]) {
        let owners = || workers.iter().filter(|worker| worker.buckets > 0);
        let missing = owners().find(|worker| worker.seen.is_none());
        let answering = owners().filter(|worker| worker.seen.is_some()).count();
        self.answering.store(answering, Ordering::Relaxed);
        *self.missing.lock() = missing.map(|worker| worker.worker.clone());
        if missing.is_none() {
            *self.refusal.lock() = None;
        }
        if missing.is_none() && answering > 0 && workers.len() >= self.expected {
            self.was_complete.store(true, Ordering::Relaxed);
        }
    }

    /// Records why a worker could not be described, if the reason is an older copy of a directory:
    /// that does not pass by itself.
    pub(super) fn note_refusal(&self, error: &Error) {
        if error.state() == SqlState::OBJECT_NOT_IN_STATE {
            *self.refusal.lock() = Some(error.message().to_owned());
        }
    }

    /// True once all workers that this gateway begins with have answered.
    pub(super) fn was_complete(&self) -> bool {
        self.was_complete.load(Ordering::Relaxed)
    }

    /// Checks that tables may be made.
    ///
    /// # Errors
    /// 57P03 while fewer workers have joined than are expected.
    pub(super) fn check_joined(&self, map: &ShardMap) -> Result<()> {
        let (joined, expected) = (map.workers().len(), self.expected);
        if joined >= expected {
            return Ok(());
        }
        let message = match joined {
            0 => "no worker has joined yet".to_owned(),
            _ => format!("{joined} of {expected} expected workers have joined"),
        };
        Err(Error::new(SqlState::CANNOT_CONNECT_NOW, message).with_hint(
            "Tables are made once all expected workers are there: buckets do not move later. Start \
             them with: thalweg worker --join GATEWAY",
        ))
    }

    /// Checks that the gateway is ready for statements.
    ///
    /// # Errors
    /// 57P03 while expected workers have not joined, while a worker that owned buckets before a
    /// restart has not answered yet, and while no worker answers at all.
    pub(super) fn check(&self, map: &ShardMap) -> Result<()> {
        self.check_joined(map)?;
        let not_yet = |message: String| Err(Error::new(SqlState::CANNOT_CONNECT_NOW, message));
        let refusal = self.refusal.lock().clone();
        if self.answering.load(Ordering::Relaxed) == 0 {
            return not_yet(refusal.unwrap_or_else(|| "no worker answers".to_owned()));
        }
        match &*self.missing.lock() {
            Some(missing) if !self.was_complete() => {
                not_yet(refusal.unwrap_or_else(|| format!("{missing} does not answer yet")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use thalweg_cluster::map::Moving;
    use thalweg_protocol::cluster::Sight;

    use super::*;

    fn map(workers: u64) -> ShardMap {
        let name = |id| NodeName { id, address: SocketAddr::from(([127, 0, 0, 1], 1_000)) };
        (1..=workers).fold(ShardMap::default(), |map, id| map.with(name(id), id, Moving::Allowed))
    }

    /// The status of the workers of a map, of which those with numbers in `answering` answer.
    fn seen(map: &ShardMap, answering: &[u64]) -> Vec<WorkerStatus> {
        let workers = map.workers().iter().zip(map.shares());
        let status = |(worker, buckets): (&NodeName, &usize)| WorkerStatus {
            worker: worker.clone(),
            buckets: *buckets,
            seen: answering.contains(&worker.id).then(Sight::default),
        };
        workers.map(status).collect()
    }

    fn reason(presence: &Presence, map: &ShardMap) -> String {
        let error = presence.check(map).unwrap_err();
        assert_eq!(error.state(), SqlState::CANNOT_CONNECT_NOW);
        error.message().to_owned()
    }

    #[test]
    fn a_gateway_waits_for_as_many_workers_as_it_expects() {
        let presence = Presence::new(2);
        assert_eq!(reason(&presence, &map(0)), "no worker has joined yet");
        presence.note(&seen(&map(1), &[1]));
        assert_eq!(reason(&presence, &map(1)), "1 of 2 expected workers have joined");
        assert!(presence.check_joined(&map(1)).is_err());
        presence.note(&seen(&map(2), &[1, 2]));
        assert!(presence.check(&map(2)).is_ok());
        assert!(Presence::new(0).check_joined(&map(0)).is_err(), "one at least");
    }

    #[test]
    fn a_gateway_that_began_anew_waits_for_the_workers_that_it_knows() {
        let (presence, map) = (Presence::new(0), map(3));
        assert_eq!(reason(&presence, &map), "no worker answers");
        presence.note(&seen(&map, &[1, 3]));
        assert_eq!(reason(&presence, &map), "worker 2 at 127.0.0.1:1000 does not answer yet");
        assert!(presence.check_joined(&map).is_ok(), "they have joined");
        presence.note(&seen(&map, &[1, 2, 3]));
        assert!(presence.check(&map).is_ok());
        // Once complete, the gateway stays ready: a lost worker fails only the statements that need
        // it.
        presence.note(&seen(&map, &[2]));
        assert!(presence.check(&map).is_ok());
        presence.note(&seen(&map, &[]));
        assert_eq!(reason(&presence, &map), "no worker answers");
    }
}
