//! The stages of an engine on one thread, as the shards of a node share threads. A stage that waits
//! for another one would wait for ever.

use std::sync::Arc;

use thalweg_env::{Env, Fault, SimulatedDisk};
use thalweg_types::{Lsn, Result, SqlState, TableId};

use super::model::{Row, schema};
use super::session::{batch, image, read};
use super::world::options;
use crate::engine::Stages;
use crate::stage_queues::{Receiver, channel};
use crate::transaction_stage::Request;
use crate::{CatalogChange, Durability, Engine, Transaction, WriteSet};

impl Stages {
    /// Lets the transaction stage process what is ready. Returns false if nothing is, or if it has
    /// ended.
    pub(super) fn step_transactions(&self) -> bool {
        let Ok(first) = self.requests.try_recv() else { return false };
        self.transactions.work(|stage| stage.round(first, &self.requests)).is_some()
    }

    /// Lets the disk stage process what is ready. Returns false if nothing is, or if it has ended.
    pub(super) fn step_disk(&self) -> bool {
        let Ok(first) = self.disk_commands.try_recv() else { return false };
        self.disk.work(|stage| stage.round(first, &self.disk_commands)).is_some()
    }

    pub(super) fn run_until_idle(&self) {
        while self.step_transactions() | self.step_disk() {}
    }
}

/// An engine with one empty table whose stages run when a test lets them.
pub struct Bench {
    pub disk: SimulatedDisk,
    pub engine: Engine,
    pub stages: Stages,
    pub table: TableId,
}

pub type Answer = Receiver<Result<Lsn>>;

impl Bench {
    fn new() -> Bench {
        let (env, disk, _) = Env::simulated(5);
        let (engine, stages) = Engine::prepare(env, options()).unwrap();
        Bench::with(disk, engine, stages)
    }

    pub fn with(disk: SimulatedDisk, engine: Engine, stages: Stages) -> Bench {
        let table = engine.allocate_table_id();
        let mut transaction = Transaction::new(engine.snapshot());
        let change = CatalogChange::CreateTable { schema: schema(table, "t") };
        transaction.change_catalog(change).unwrap();
        let bench = Bench { disk, engine, stages, table };
        let created = bench.submit(transaction, Durability::Fsync);
        bench.stages.run_until_idle();
        created.recv().unwrap().unwrap();
        bench
    }

    /// Submits a transaction. It is answered once the stages have run.
    pub fn submit(&self, transaction: Transaction, durability: Durability) -> Answer {
        self.submit_write_set(transaction.into_write_set().unwrap(), durability)
    }

    pub fn submit_write_set(&self, write_set: WriteSet, durability: Durability) -> Answer {
        let (sender, answer) = channel();
        let acknowledge = Box::new(move |outcome| drop(sender.send(outcome)));
        self.engine.commit(write_set, durability, acknowledge);
        answer
    }

    pub fn insert(&self, key: i64, durability: Durability) -> Answer {
        let mut transaction = Transaction::new(self.engine.snapshot());
        let row = Row { tag: None, numbers: vec![Some(key)] };
        transaction.append(self.table, batch(&schema(self.table, "t"), &[(key, row)])).unwrap();
        self.submit(transaction, durability)
    }

    /// The keys that new snapshots show.
    pub fn keys(&self) -> Vec<i64> {
        let snapshot = self.engine.snapshot();
        image(&snapshot).unwrap();
        read(snapshot.table(self.table).unwrap()).unwrap().1.into_keys().collect()
    }

    /// Inserts keys, of which the disk refuses all with a fault of its operation `ahead`.
    fn refuse(&self, keys: std::ops::Range<i64>, ahead: u64, fault: Fault) -> Vec<Answer> {
        let answers = keys.map(|key| self.insert(key, Durability::Fsync)).collect();
        assert!(self.stages.step_transactions());
        self.disk.fault_at(self.disk.operations() + ahead, fault);
        assert!(self.stages.step_disk());
        answers
    }
}

/// The state of the error that an answer has.
pub fn error(answer: &Answer) -> SqlState {
    answer.recv().unwrap().unwrap_err().state()
}

#[test]
fn requests_during_a_roll_back_follow_it_and_no_stage_waits() {
    let bench = Bench::new();
    let refused = bench.refuse(1..6, 0, Fault::DiskFull);
    // The key is free again only once the refused groups are undone.
    let again = bench.insert(1, Durability::Fsync);
    assert!(bench.stages.step_transactions());
    let behind = bench.insert(7, Durability::Write);
    assert!(bench.stages.step_transactions());
    assert!(refused.iter().chain([&again, &behind]).all(|answer| answer.try_recv().is_err()));
    bench.stages.run_until_idle();
    assert!(refused.iter().all(|answer| error(answer) == SqlState::DISK_FULL));
    let numbers: Vec<Lsn> = [again, behind].map(|answer| answer.recv().unwrap().unwrap()).into();
    assert_eq!(numbers, [Lsn(2), Lsn(3)], "numbers of refused groups are used again");
    assert_eq!(bench.keys(), [1, 7]);
}

#[test]
fn requests_during_a_roll_back_are_refused_if_the_log_failed_for_good() {
    let bench = Bench::new();
    // A write, then the sync.
    let refused = bench.refuse(1..3, 1, Fault::InputOutput);
    let behind = bench.insert(4, Durability::Write);
    bench.stages.run_until_idle();
    assert!(refused.iter().chain([&behind]).all(|answer| error(answer) == SqlState::IO_ERROR));
    assert!(bench.keys().is_empty());
}

#[test]
fn a_close_during_a_roll_back_follows_it() {
    let bench = Bench::new();
    let refused = bench.refuse(1..3, 0, Fault::DiskFull);
    assert!(bench.stages.step_transactions());
    let (reply, closed) = channel();
    assert!(bench.engine.shared.requests.send(Request::Close(reply)).is_ok());
    bench.stages.run_until_idle();
    assert!(refused.iter().all(|answer| error(answer) == SqlState::DISK_FULL));
    closed.recv().unwrap().unwrap();
    let late = bench.insert(9, Durability::Fsync);
    bench.stages.run_until_idle();
    drop(bench);
    assert_eq!(error(&late), SqlState::SHUTTING_DOWN);
}

#[test]
fn a_roll_back_ends_with_the_disk_stage() {
    let bench = Bench::new();
    let refused = bench.refuse(1..2, 0, Fault::DiskFull);
    assert!(bench.stages.step_transactions());
    let deferred = bench.insert(2, Durability::Fsync);
    assert!(bench.stages.step_transactions());
    // The disk stage's thread dies of a panic.
    drop(crate::disk_stage::Ended(Arc::clone(&bench.engine.shared.requests)));
    assert!(!bench.stages.step_transactions());
    assert_eq!(error(&deferred), SqlState::SHUTTING_DOWN);
    drop(bench);
    assert_eq!(error(&refused[0]), SqlState::SHUTTING_DOWN);
}
