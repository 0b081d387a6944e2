//! An engine on a simulated disk, and everything that it may be found to hold.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_env::{Env, FileSystem, OpenMode, SimulatedDisk};
use thalweg_store::CompactionPolicy;
use thalweg_types::{Error, Lsn, Result, SqlState};

use super::model::{Changes, Image, Model, schema};
use super::session::{Outcome, Session, check, image};
use crate::maintenance::Maintenance;
use crate::stage_queues::channel;
use crate::{Durability, Engine, Options, Snapshot};

/// How an engine ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Close,
    /// The process dies; what the operating system has survives.
    Kill,
    /// The machine dies; what is synced survives.
    Crash,
}

pub struct World {
    pub env: Env,
    pub disk: SimulatedDisk,
    engine: Option<Engine>,
    /// What snapshots show.
    pub committed: Model,
    /// What may be found after a crash, by the number of groups.
    allowed: Vec<Model>,
    /// Whether a write failed in a way that leaves open whether it took place.
    uncertain: bool,
    /// Whether the engine refuses writes.
    pub broken: bool,
    /// Whether a fault is planned: only then may the disk be to blame.
    pub faulty: bool,
    pub held: Vec<(Snapshot, Image)>,
    stamp: u64,
}

pub fn options() -> Options {
    Options {
        directory: Some(PathBuf::from("/data/database")),
        threads: 2,
        // Several segments even in small tests.
        segment_bytes: 4096,
        // Checkpoints come when a test wants them.
        checkpoint_bytes: u64::MAX,
        // Small chunks of both kinds: in the manifest, and in chunk files.
        chunk_file_rows_min: 20,
        ..Options::default()
    }
}

impl World {
    pub fn new(seed: u64) -> World {
        let (env, disk, _) = Env::simulated(seed);
        World {
            env,
            disk,
            engine: None,
            committed: Model::default(),
            allowed: vec![Model::default()],
            uncertain: false,
            broken: false,
            faulty: false,
            held: Vec::new(),
            stamp: 0,
        }
    }

    pub fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("the engine was started")
    }

    /// A number that was not there before.
    pub fn stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    pub fn begin(&self) -> Session {
        Session::new(self.engine().snapshot(), self.committed.clone())
    }

    /// Opens the database, and checks that it holds what it must. At most one try fails.
    pub fn start(&mut self) -> Outcome {
        for _ in 0..3 {
            match Engine::open(self.env.clone(), options()) {
                Ok(engine) => {
                    self.engine = Some(engine);
                    return self.check_recovered();
                }
                Err(_) if self.disk.crashed() => self.change_disk(),
                Err(error) if self.faulty && is_from_disk(&error) => {}
                Err(error) => return Err(format!("the database does not open: {error:?}")),
            }
        }
        Err("the database does not open after one failure".into())
    }

    fn change_disk(&mut self) {
        self.disk = self.disk.crash();
        self.env = self.env.with_files(self.disk.clone());
        self.faulty = false;
    }

    fn check_recovered(&mut self) -> Outcome {
        let found = image(&self.engine().snapshot())?;
        let known = self.allowed.iter().rev().find(|model| model.image() == found).cloned();
        let Some(model) = known else {
            let last = self.allowed.last().map(Model::image);
            return Err(format!("recovered {found:?}\n  not {last:?} or what was before"));
        };
        self.committed = model;
        self.settle();
        (self.uncertain, self.broken) = (false, false);
        Ok(())
    }

    /// The content of a file.
    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        let file = self.disk.open(path, OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    /// Ends the engine properly, so that a test may look at its files and change them.
    pub fn stop(&mut self) {
        self.engine().close().unwrap();
        self.engine = None;
        self.settle();
    }

    /// Ends the engine and starts it again.
    pub fn restart(&mut self, end: End) -> Outcome {
        match end {
            End::Close => {
                let closed = self.engine().close();
                if let Err(error) = &closed {
                    self.blame(error)?;
                }
                if closed.is_ok() && !self.uncertain {
                    self.settle();
                }
            }
            End::Kill => {
                if !self.uncertain {
                    self.settle();
                }
                let seed = self.stamp();
                self.disk = self.disk.fork(seed);
                self.env = self.env.with_files(self.disk.clone());
                self.faulty = false;
            }
            End::Crash => self.change_disk(),
        }
        self.engine = None;
        if self.disk.crashed() {
            self.change_disk();
        }
        self.start()?;
        self.check_held()
    }

    /// Everything so far is durable.
    fn settle(&mut self) {
        self.allowed = vec![self.committed.clone()];
    }

    /// Commits a session, alone.
    pub fn commit(&mut self, session: Session, durability: Durability) -> Outcome {
        self.commit_all(vec![session], durability)
    }

    /// Hands sessions over, one after the other, and then waits for all of them.
    pub fn commit_all(&mut self, sessions: Vec<Session>, durability: Durability) -> Outcome {
        let (sender, answers) = channel();
        let mut chain = self.committed.clone();
        let mut expected = Vec::new();
        let count = sessions.len();
        for (place, session) in sessions.into_iter().enumerate() {
            let stamp = self.stamp();
            let after = chain.after(&session.changes, stamp);
            if let Ok(model) = &after {
                chain = model.clone();
            }
            expected.push((after, session.changes, stamp));
            let sender = sender.clone();
            let write_set = session.transaction.into_write_set().unwrap();
            let tell = Box::new(move |answer| drop(sender.send((place, answer))));
            self.engine().commit(write_set, durability, tell);
        }
        drop(sender);
        let mut outcomes: Vec<Option<Result<Lsn>>> = vec![None; count];
        while let Ok((place, answer)) = answers.recv() {
            let before = outcomes[place].replace(answer);
            check(before.is_none(), || format!("commit {place} was answered twice"))?;
        }
        let outcomes: Option<Vec<_>> = outcomes.into_iter().collect();
        let outcomes = outcomes.ok_or("a commit was never answered")?;
        self.conclude(expected, outcomes, durability)
    }

    fn conclude(
        &mut self,
        expected: Vec<(Result<Model, SqlState>, Changes, u64)>,
        outcomes: Vec<Result<Lsn>>,
        durability: Durability,
    ) -> Outcome {
        let disk_failed =
            outcomes.iter().filter_map(|outcomes| outcomes.as_ref().err()).any(is_from_disk);
        for ((predicted, changes, stamp), outcomes) in expected.into_iter().zip(outcomes) {
            match (predicted, outcomes) {
                (predicted, Ok(_)) => {
                    // Behind a refused group, what counts is what really happened.
                    let after = self.committed.after(&changes, stamp);
                    check(disk_failed || predicted.is_ok(), || "a conflict was missed".into())?;
                    self.committed = after.map_err(|state| format!("{state:?} was missed"))?;
                    self.allowed.push(self.committed.clone());
                    if durability == Durability::Fsync {
                        self.settle();
                    }
                }
                (Err(state), Err(error)) if error.state() == state => {}
                (predicted, Err(error)) if is_from_disk(&error) => {
                    self.blame(&error)?;
                    if let (Ok(model), false) = (predicted, error.state() == SqlState::DISK_FULL) {
                        self.allowed.push(model);
                        self.uncertain = true;
                    }
                }
                (_, Err(_)) if disk_failed => {}
                (predicted, Err(error)) => {
                    let predicted = predicted.map(drop);
                    return Err(format!("{error:?} where {predicted:?} was expected"));
                }
            }
        }
        self.check_visible()
    }

    /// An error of the disk is all right where the disk was told to fail.
    fn blame(&self, error: &Error) -> Outcome {
        let blamed = (self.faulty || self.disk.crashed()) && is_from_disk(error);
        check(blamed, || format!("failed for no reason: {error:?}"))
    }

    pub fn check_visible(&self) -> Outcome {
        let (seen, expected) = (image(&self.engine().snapshot())?, self.committed.image());
        check(seen == expected, || format!("snapshots show {seen:?}\n  not {expected:?}"))
    }

    pub fn hold_snapshot(&mut self) -> Outcome {
        let snapshot = self.engine().snapshot();
        let seen = image(&snapshot)?;
        self.held.push((snapshot, seen));
        Ok(())
    }

    pub fn check_held(&self) -> Outcome {
        for (snapshot, before) in &self.held {
            let now = image(snapshot)?;
            check(now == *before, || format!("a snapshot changed to {now:?} from {before:?}"))?;
        }
        Ok(())
    }

    pub fn checkpoint(&mut self) -> Outcome {
        match self.engine().checkpoint() {
            // What a checkpoint holds is durable, and what comes after it was uncertain before.
            Ok(_) if !self.uncertain => self.settle(),
            Ok(_) => {}
            Err(error) => self.blame(&error)?,
        }
        Ok(())
    }

    /// Does what the maintenance thread does from time to time, now.
    pub fn compact(&self) {
        maintenance(self.engine()).compact(CompactionPolicy::Idle);
    }

    /// Finds out whether writes are refused for good, and restarts the engine if so.
    pub fn restart_if_broken(&mut self) -> Outcome {
        if self.disk.crashed() {
            return self.restart(End::Crash);
        }
        let stamp = self.stamp();
        let mut session = self.begin();
        let id = self.engine().allocate_table_id();
        session.create(schema(id, &format!("probe_{stamp}")), stamp);
        session.drop_table(id, stamp);
        let write_set = session.transaction.into_write_set().unwrap();
        match self.engine().commit_and_wait(write_set, Durability::Fsync) {
            Ok(_) => self.settle(),
            // The fault struck just now; it is over.
            Err(error) if error.state() == SqlState::DISK_FULL && !self.broken => {
                self.blame(&error)?;
                self.broken = true;
                return self.restart_if_broken();
            }
            Err(error) => {
                self.blame(&error)?;
                let refused = error.state() == SqlState::IO_ERROR;
                check(refused, || format!("refused for good with {error:?}"))?;
                self.broken = true;
                self.check_visible()?;
                self.restart(End::Close)?;
            }
        }
        Ok(())
    }
}

/// The work of the maintenance thread for a test to do at a moment of its choice.
pub fn maintenance(engine: &Engine) -> Maintenance {
    let seen = engine.snapshot().lsn();
    let shared = Arc::clone(&engine.shared);
    Maintenance::new(shared, channel().1, seen)
}

/// Whether the disk is why something failed.
pub fn is_from_disk(error: &Error) -> bool {
    [SqlState::IO_ERROR, SqlState::DISK_FULL].contains(&error.state())
}
