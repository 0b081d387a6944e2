//! What a failing disk does to groups that are on their way.

use std::io::{self, IoSlice};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use thalweg_env::{Env, Fault, File, FileIdentity, FileSystem, OpenedThrough, SimulatedDisk};
use thalweg_store::ClosedChunk;
use thalweg_types::{Lsn, Result, SqlState, TableId};

use super::model::{Row, schema};
use super::session::{batch, image, read};
use super::world::options;
use crate::stage_queues::{Receiver, channel};
use crate::transaction_stage::Request;
use crate::{CatalogChange, Durability, Engine, Staged, Transaction, WriteSet};

/// Lets writes wait while it is shut.
#[derive(Default)]
struct Gate {
    shut: Mutex<bool>,
    /// True if the position of the last sync of the log is in the head records.
    is_recorded: Mutex<bool>,
    changed: Condvar,
    recorded: Condvar,
}

impl Gate {
    fn set(&self, shut: bool) {
        *self.shut.lock() = shut;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut shut = self.shut.lock();
        while *shut {
            self.changed.wait(&mut shut);
        }
    }

    fn record(&self, is_recorded: bool) {
        *self.is_recorded.lock() = is_recorded;
        self.recorded.notify_all();
    }

    /// Waits for the head record of the last group, which is written after its acknowledgement.
    fn wait_for_heads(&self) {
        let mut is_recorded = self.is_recorded.lock();
        while !*is_recorded {
            self.recorded.wait(&mut is_recorded);
        }
    }
}

struct GatedFile {
    file: Arc<dyn File>,
    gate: Arc<Gate>,
    holds_heads: bool,
}

impl File for GatedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_vectored_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.gate.pass();
        self.file.write_all_vectored_at(parts, offset)?;
        if self.holds_heads {
            self.gate.record(true);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if !self.holds_heads {
            self.gate.record(false);
        }
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        self.file.identity()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
}

/// A disk whose writes wait while the gate is shut.
fn gated(disk: SimulatedDisk, gate: Arc<Gate>) -> impl FileSystem + 'static {
    OpenedThrough::new(disk, move |disk, path, mode| {
        let file = disk.open(path, mode)?;
        let (gate, holds_heads) = (Arc::clone(&gate), path.ends_with("HEADS"));
        Ok(Arc::new(GatedFile { file, gate, holds_heads }))
    })
}

struct Bench {
    env: Env,
    disk: SimulatedDisk,
    gate: Arc<Gate>,
    engine: Engine,
    table: TableId,
}

type Answers = Vec<Receiver<Result<Lsn>>>;

impl Bench {
    /// An engine with one table of one row, whose key is 0.
    fn new() -> Bench {
        let (env, disk, _) = Env::simulated(7);
        let gate = Arc::new(Gate::default());
        let env = env.with_files(gated(disk.clone(), Arc::clone(&gate)));
        let engine = Engine::open(env.clone(), options()).unwrap();
        let table = engine.allocate_table_id();
        let mut transaction = Transaction::new(engine.snapshot());
        let change = CatalogChange::CreateTable { schema: schema(table, "t") };
        transaction.change_catalog(change).unwrap();
        let write_set = transaction.into_write_set().unwrap();
        engine.commit_and_wait(write_set, Durability::Fsync).unwrap();
        let bench = Bench { env, disk, gate, engine, table };
        bench.commit(&bench.insert(0)).unwrap();
        // Faults are placed by the number of operations, so none may be under way.
        bench.gate.wait_for_heads();
        bench
    }

    fn insert(&self, key: i64) -> Transaction {
        let mut transaction = Transaction::new(self.engine.snapshot());
        let row = Row { tag: Some(format!("tag {key}")), numbers: vec![Some(key)] };
        let rows = batch(&schema(self.table, "t"), &[(key, row)]);
        transaction.append(self.table, rows).unwrap();
        transaction
    }

    fn commit(&self, transaction: &Transaction) -> Result<Lsn> {
        let write_set = transaction.clone().into_write_set().unwrap();
        self.engine.commit_and_wait(write_set, Durability::Fsync)
    }

    /// Hands transactions over while the disk stands still, and waits until all are applied.
    fn queue(&self, transactions: &[Transaction]) -> Answers {
        self.gate.set(true);
        let answers = transactions.iter().map(|transaction| {
            let (sender, answer) = channel();
            let write_set = transaction.clone().into_write_set().unwrap();
            let tell = Box::new(move |outcomes| drop(sender.send(outcomes)));
            self.engine.commit(write_set, Durability::Fsync, tell);
            answer
        });
        let answers = answers.collect();
        // What can't be applied is answered at once, and after all that was applied before.
        let error = self.commit(&self.insert(0)).unwrap_err();
        assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION);
        answers
    }

    /// The keys that new snapshots show.
    fn keys(&self) -> Vec<i64> {
        let snapshot = self.engine.snapshot();
        image(&snapshot).unwrap();
        read(snapshot.table(self.table).unwrap()).unwrap().1.into_keys().collect()
    }

    fn reopen(self) -> Bench {
        let Bench { env, disk, gate, engine, table } = self;
        drop(engine);
        let engine = Engine::open(env.clone(), options()).unwrap();
        Bench { env, disk, gate, engine, table }
    }
}

fn errors(answers: Answers) -> Vec<Option<SqlState>> {
    answers
        .into_iter()
        .map(|outcomes| outcomes.recv().unwrap().err().map(|error| error.state()))
        .collect()
}

#[test]
fn what_is_queued_behind_a_refused_group_is_rolled_back_with_it() {
    for fault in [Fault::DiskFull, Fault::ShortWrite] {
        let bench = Bench::new();
        let transactions: Vec<Transaction> = (1..6).map(|key| bench.insert(key)).collect();
        bench.disk.fault_at(bench.disk.operations(), fault);
        let answers = bench.queue(&transactions);
        assert_eq!(bench.keys(), [0], "nothing is visible before it is durable");
        bench.gate.set(false);
        assert_eq!(errors(answers), [Some(SqlState::DISK_FULL); 5], "{fault:?}");
        assert_eq!(bench.keys(), [0]);
        // There is room again: the same transactions go through.
        for transaction in &transactions {
            bench.commit(transaction).unwrap();
        }
        assert_eq!(bench.keys(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(bench.reopen().keys(), [0, 1, 2, 3, 4, 5]);
    }
}

#[test]
fn after_a_failed_sync_writes_are_refused_and_reads_go_on() {
    let bench = Bench::new();
    let snapshot = bench.engine.snapshot();
    let before = image(&snapshot).unwrap();
    // A write, then the sync.
    bench.disk.fault_at(bench.disk.operations() + 1, Fault::InputOutput);
    let answers = bench.queue(&[bench.insert(1)]);
    bench.gate.set(false);
    assert_eq!(errors(answers), [Some(SqlState::IO_ERROR)]);
    for key in 2..5 {
        let error = bench.commit(&bench.insert(key)).unwrap_err();
        assert_eq!(error.state(), SqlState::IO_ERROR);
        assert!(error.hint().is_some(), "{error:?}");
        assert_eq!(bench.keys(), [0]);
    }
    assert_eq!(image(&snapshot).unwrap(), before);
    let bench = bench.reopen();
    let keys = bench.keys();
    assert!(keys == [0] || keys == [0, 1], "{keys:?}");
    bench.commit(&bench.insert(9)).unwrap();
}

#[test]
fn a_commit_is_answered_even_when_the_engine_ends_over_a_failure() {
    let bench = Bench::new();
    let transactions: Vec<Transaction> = (1..4).map(|key| bench.insert(key)).collect();
    bench.disk.fault_at(bench.disk.operations(), Fault::DiskFull);
    let answers = bench.queue(&transactions);
    // The transaction stage ends before it can hear of the failure.
    let (reply, closed) = channel();
    assert!(bench.engine.shared.requests.send(Request::Close(reply)).is_ok());
    while bench.engine.shared.requests.send(Request::RemoveBefore(Lsn(0))).is_ok() {
        std::thread::yield_now();
    }
    bench.gate.set(false);
    assert_eq!(errors(answers), [Some(SqlState::DISK_FULL); 3]);
    closed.recv().unwrap().unwrap();
    let (sender, answer) = channel();
    let tell = Box::new(move |outcomes: Result<Lsn>| drop(sender.send(outcomes)));
    bench.engine.commit(WriteSet::default(), Durability::Fsync, tell);
    assert_eq!(errors(vec![answer]), [Some(SqlState::SHUTTING_DOWN)]);
    assert_eq!(bench.reopen().keys(), [0]);
}

/// The transaction that takes a staged chunk in is gone once it is applied, but its group is not
/// durable yet, and a checkpoint may come before it.
#[test]
fn a_checkpoint_leaves_staged_chunks_that_a_later_group_takes_in() {
    let bench = Bench::new();
    let staged = bench.stage(100);
    // Other groups fill the segment with the staged chunk, and begin new ones.
    for key in 1..60 {
        bench.commit(&bench.insert(key)).unwrap();
    }
    let mut transaction = Transaction::new(bench.engine.snapshot());
    transaction.append_staged(bench.table, staged).unwrap();
    let answers = bench.queue(&[transaction]);
    let engine = &bench.engine;
    std::thread::scope(|scope| {
        // Its own writes pass the gate, too; it takes its snapshot before that.
        let checkpoint = scope.spawn(|| engine.checkpoint());
        let name = "checkpoint";
        while bench.disk.list(&options().directory.unwrap().join(name)).unwrap().is_empty() {
            std::thread::yield_now();
        }
        bench.gate.set(false);
        checkpoint.join().unwrap().unwrap();
    });
    assert_eq!(errors(answers), [None]);
    bench.commit(&bench.insert(99)).unwrap();
    let keys = bench.keys();
    assert_eq!(bench.reopen().keys(), keys);
}

impl Bench {
    fn stage(&self, count: i64) -> Arc<Staged> {
        let schema = schema(self.table, "t");
        let row = |key: i64| (key, Row { tag: None, numbers: vec![Some(key)] });
        let rows: Vec<_> = (1000..1000 + count).map(row).collect();
        let chunk = ClosedChunk::build(&schema, &batch(&schema, &rows));
        self.engine.stage(Arc::new(chunk)).unwrap()
    }
}
