//! The engine starts and stops the stages, and is their interface.
//!
//! Opening reads the newest checkpoint and the log behind it, and then starts three threads: the
//! transaction stage, the disk stage and maintenance. Callers give write sets to the engine and
//! wait for their acknowledgement; snapshots need no stage.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use thalweg_env::{Env, MemoryWatch, ThreadHandle};
use thalweg_log::{
    CheckpointReader, Coverage, DataDirectory, DirectoryMode, LogOptions, LogWriter,
};
use thalweg_store::{ClosedChunk, Table, TableState, codec};
use thalweg_types::{Error, Lsn, Result, SqlState, TableId};

use crate::catalog::RoleId;
use crate::checkpoint::{Restored, StoredColumns};
use crate::disk_stage::{DiskCommand, DiskStage, StagedRecord};
use crate::foreign_keys::RecentReferences;
use crate::keyed::{AcknowledgeRows, RowGroup};
use crate::log_segments::LogSegments;
use crate::log_status::{CheckpointRun, CheckpointRuns, DurablePosition, LogStatus};
use crate::maintenance::{Chore, Maintenance};
use crate::memory_budget;
use crate::parallel::Threads;
use crate::pipeline_metrics::{Counters, PipelineTotals};
use crate::progress::{NoProgress, Progress};
use crate::published::{Publisher, Snapshot};
use crate::record::StageId;
use crate::recovery::{self, STAGE_HEAD};
use crate::row_locks::RowLocks;
use crate::sequence::{Position, Reservation, Sequence, SequenceChange, SequenceCounter};
use crate::stage::{Inlet, Stage, inlet};
use crate::stage_queues::{Receiver, Sender, channel};
use crate::staging::{Staged, StagingArea};
use crate::storage_health::StorageHealth;
use crate::transaction_stage::{Request, TransactionStage, Writer};
use crate::waiter::{Acknowledge, Waiter, closed};
use crate::write_set::WriteSet;

/// Durability of an acknowledged write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// It is synced to disk: it survives a crash of the machine.
    #[default]
    Fsync,
    /// The operating system has it: it survives a crash of the process.
    Write,
    /// It is on its way to the log: a crash of the process may lose it.
    None,
}

/// Options to open an engine with.
#[derive(Clone)]
pub struct Options {
    /// `None` for a database in memory only.
    pub directory: Option<PathBuf>,
    /// Threads for recovery and for bulk loads.
    pub threads: usize,
    pub segment_bytes: u64,
    /// A checkpoint is due when it would free so many bytes of the log.
    pub checkpoint_bytes: u64,
    /// Columns of closed chunks of at least so many rows go to a checkpoint's chunk files. Smaller
    /// chunks are written with every checkpoint.
    pub chunk_file_rows_min: usize,
    pub progress: Arc<dyn Progress>,
    /// Refuses rows when the process uses too much memory; `None` for no limit.
    pub memory: Option<Arc<MemoryWatch>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            directory: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            segment_bytes: LogOptions::default().segment_bytes,
            checkpoint_bytes: 1 << 30,
            chunk_file_rows_min: 1024,
            progress: Arc::new(NoProgress),
            memory: None,
        }
    }
}

/// State that the stages and their callers share.
pub(crate) struct Shared {
    pub(crate) env: Env,
    pub(crate) options: Options,
    /// Holds the directory's lock while the engine lives.
    pub(crate) directory: Option<DataDirectory>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) staging: Arc<StagingArea>,
    pub(crate) requests: Arc<Inlet<Request>>,
    pub(crate) log_bytes: Arc<AtomicU64>,
    pub(crate) segments: Arc<LogSegments>,
    /// The last group that is durable. Recovery makes durable what it finds.
    pub(crate) durable_lsn: Arc<AtomicU64>,
    pub(crate) checkpoint_due: AtomicU64,
    pub(crate) checkpoints: CheckpointRuns,
    /// Held while a checkpoint is written.
    pub(crate) stored: parking_lot::Mutex<StoredColumns>,
    pub(crate) storage: Arc<StorageHealth>,
    pub(crate) progress: Arc<dyn Progress>,
    pub(crate) counters: Arc<Counters>,
    /// Number of owners that have asked for row locks and not released all of them.
    pub(crate) row_lock_terms: AtomicUsize,
}

/// A running database without SQL. Closes when dropped.
pub struct Engine {
    shared: Arc<Shared>,
    transactions: Arc<Stage<TransactionStage, Request>>,
    disk: Arc<Stage<DiskStage, DiskCommand>>,
    chores: Sender<Chore>,
    next_table_id: AtomicU32,
    next_role_id: AtomicU32,
    next_lock_owner: AtomicU64,
    threads: Mutex<Vec<Box<dyn ThreadHandle>>>,
}

impl Engine {
    /// Opens a directory, recovering what it holds, or starts empty in memory.
    ///
    /// # Errors
    /// If the directory is in use, of another version, damaged or unreadable.
    pub fn open(env: Env, options: Options) -> Result<Engine> {
        let (engine, stages) = Engine::prepare(env, options)?;
        let threads = stages.spawn(&engine.shared.env)?;
        *engine.threads.lock() = threads;
        Ok(engine)
    }

    /// Opens a directory, and leaves the stages to the caller to run.
    ///
    /// # Errors
    /// As [`Engine::open`].
    fn prepare(env: Env, options: Options) -> Result<(Engine, Stages)> {
        let directory = match &options.directory {
            Some(path) => Some(DataDirectory::open(&env, path, DirectoryMode::CreateOrOpen)?),
            None => None,
        };
        let checkpoint = match &directory {
            Some(directory) => CheckpointReader::open_newest(&env, directory)?,
            None => None,
        };
        let progress = Arc::clone(&options.progress);
        let threads = Threads(options.threads);
        let mut replay = recovery::load(checkpoint.as_ref(), threads, progress.as_ref())?;
        let log = match &directory {
            Some(directory) => {
                let coverage = checkpoint.as_ref().map(CheckpointReader::coverage);
                let coverage = coverage.unwrap_or_default();
                let log = replay_log(&env, directory, &options, coverage, &mut replay)?;
                CheckpointReader::remove_superfluous(&env, directory, checkpoint.as_ref())?;
                Some(log)
            }
            None => None,
        };
        let checkpoints = CheckpointRuns::default();
        if let Some(checkpoint) = &checkpoint {
            checkpoints.add(opened_from(checkpoint));
        }
        let restored = replay.finish();
        Ok(Engine::assemble(env, options, directory, log, checkpoints, restored))
    }

    /// Starts an engine without files for temporary tables and sequences, which get ids of their
    /// own range.
    ///
    /// # Errors
    /// If the system refuses threads.
    pub fn for_temporary_objects(env: Env, options: Options) -> Result<Engine> {
        let engine = Engine::open(env, Options { directory: None, ..options })?;
        engine.next_table_id.store(TableId::FIRST_TEMPORARY.0, Ordering::Relaxed);
        Ok(engine)
    }

    fn assemble(
        env: Env,
        options: Options,
        directory: Option<DataDirectory>,
        log: Option<LogWriter>,
        checkpoints: CheckpointRuns,
        restored: Restored,
    ) -> (Engine, Stages) {
        let ((requests, request_inbox), (disk_inlet, disk_inbox)) = (inlet(), inlet());
        let (chores, chore_inbox) = channel();
        let (writers, states) = halves(restored.tables, restored.lsn);
        let catalog = Arc::clone(&restored.catalog);
        let (table_id, role_id) = (catalog.next_table_id(), catalog.roles().next_id().0);
        let publisher = Publisher::new(restored.lsn, catalog, states, options.memory.clone());
        let shared = Arc::new(Shared {
            publisher: Arc::new(publisher),
            staging: Arc::default(),
            counters: Arc::default(),
            row_lock_terms: AtomicUsize::new(0),
            requests,
            log_bytes: Arc::default(),
            segments: Arc::default(),
            durable_lsn: Arc::new(AtomicU64::new(restored.lsn.0)),
            checkpoint_due: AtomicU64::new(options.checkpoint_bytes),
            checkpoints,
            stored: parking_lot::Mutex::new(restored.stored),
            storage: Arc::new(StorageHealth::new(&env.clock)),
            progress: Arc::clone(&options.progress),
            env,
            options,
            directory,
        });
        let disk = Arc::new(Stage::new(disk_inlet, DiskStage::new(&shared, log, restored.lsn)));
        let transaction_stage = TransactionStage {
            tables: writers,
            catalog: restored.catalog,
            lsn: restored.lsn,
            disk: Arc::clone(&disk),
            chores: chores.clone(),
            threads: Threads(shared.options.threads),
            memory: shared.options.memory.clone(),
            stopped: None,
            counters: Arc::clone(&shared.counters),
            row_locks: RowLocks::default(),
            parked: Vec::new(),
            references: RecentReferences::default(),
            roll_back: None,
        };
        let transactions = Arc::new(Stage::new(Arc::clone(&shared.requests), transaction_stage));
        let maintenance = Maintenance::new(Arc::clone(&shared), chore_inbox, restored.lsn);
        let stages = Stages {
            maintenance,
            transactions: Arc::clone(&transactions),
            requests: request_inbox,
            disk: Arc::clone(&disk),
            disk_commands: disk_inbox,
            shared: Arc::clone(&shared),
        };
        let engine = Engine {
            shared,
            transactions,
            disk,
            chores,
            next_table_id: AtomicU32::new(table_id),
            next_role_id: AtomicU32::new(role_id),
            next_lock_owner: AtomicU64::new(1),
            threads: Mutex::default(),
        };
        (engine, stages)
    }

    /// The database as of the last durable group.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.publisher.snapshot()
    }

    /// A new id for a table that is about to be created.
    pub fn allocate_table_id(&self) -> TableId {
        TableId(self.next_table_id.fetch_add(1, Ordering::Relaxed))
    }

    /// A new id for a role that is about to be created.
    pub fn allocate_role_id(&self) -> RoleId {
        RoleId(self.next_role_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Lets commits skip the check of foreign keys: a deliberate bug, which the checker of
    /// histories must find.
    #[doc(hidden)]
    pub fn skip_foreign_keys(&self) {
        let _ = self.shared.requests.send(Request::SkipForeignKeys);
    }

    /// Counters of the stages since the engine was opened.
    #[must_use]
    pub fn figures(&self) -> PipelineTotals {
        self.shared.counters.read()
    }

    /// The environment (files, clocks, threads) that the engine runs in.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.shared.env
    }

    /// Submits a write set. `acknowledge` is called once, from one of the engine's threads: with
    /// the group's number once it is as durable as requested and visible, or with the error for
    /// which none of it was applied.
    pub fn commit(&self, write_set: WriteSet, durability: Durability, acknowledge: Acknowledge) {
        let (write_set, acknowledge) = (Box::new(write_set), Waiter::new(acknowledge));
        self.shared.counters.transactions.queued();
        // A request that cannot be sent is dropped, which notifies its waiter.
        let _ = self.shared.requests.send(Request::Commit { write_set, durability, acknowledge });
    }

    /// Submits rows that are written by key. `acknowledge` is called once: with the rows that could
    /// not be written once the others are as durable as requested and visible, or with the error
    /// for which none was written. It is called from one of the engine's threads, or by this
    /// function if the stages are idle and the rows are few.
    pub fn write_rows(
        &self,
        group: RowGroup,
        durability: Durability,
        acknowledge: AcknowledgeRows,
    ) {
        let acknowledge = Waiter::new(acknowledge);
        self.shared.counters.transactions.queued();
        let request = Request::Rows { group, durability, acknowledge };
        let (is_quick, do_here) = (TransactionStage::is_quick, TransactionStage::do_here);
        if let Err(request) = self.transactions.do_here(request, is_quick, do_here) {
            // A request that cannot be sent is dropped, which notifies its waiter.
            let _ = self.shared.requests.send(request);
        }
    }

    /// Requests a record that reserves numbers of a sequence. `acknowledge` is called once it is as
    /// durable as requested, or with the error. A request that cannot be sent is returned; dropping
    /// it reports that.
    fn reserve(
        &self,
        (id, counter): (TableId, &Arc<SequenceCounter>),
        reservation: Reservation,
        durability: Durability,
        acknowledge: Acknowledge,
    ) -> std::result::Result<(), Request> {
        let reserved = Arc::clone(counter);
        let acknowledge = Waiter::new(Box::new(move |result: Result<Lsn>| {
            match &result {
                Ok(_) => reserved.reserved(reservation, durability == Durability::Fsync),
                Err(_) => reserved.refused(reservation),
            }
            acknowledge(result);
        }));
        let change = SequenceChange::reserve(id, counter, reservation);
        self.shared.requests.send(Request::Sequence { change, durability, acknowledge })
    }

    /// Takes numbers of a sequence, and blocks until they are durable: fewer only where the
    /// sequence ends. A thread that other work needs must not call this.
    ///
    /// # Errors
    /// If the log refuses the record, or the database is closed. No numbers are handed out then.
    pub fn take_numbers(&self, sequence: &Sequence, count: usize) -> Result<Vec<i64>> {
        let mut numbers = Vec::with_capacity(count);
        loop {
            let missing = count - numbers.len();
            let counter = &sequence.counter;
            let Some(reservation) = counter.take_durable(&sequence.options, missing, &mut numbers)
            else {
                return Ok(numbers);
            };
            let (sender, receiver) = channel();
            let told: Acknowledge = Box::new(move |result| {
                // The receiver outlives the call.
                let _ = sender.send(result);
            });
            drop(self.reserve((sequence.id, counter), reservation, Durability::Fsync, told));
            receiver.recv().map_err(|_| closed())??;
        }
    }

    /// Takes numbers of a sequence for rows that the caller commits afterwards: fewer only where
    /// the sequence ends. The log holds the numbers' record before the rows, so this does not wait.
    #[must_use]
    pub fn take_numbers_ahead(&self, sequence: &Sequence, count: usize) -> Vec<i64> {
        let mut numbers = Vec::with_capacity(count);
        let of = (sequence.id, &sequence.counter);
        let unsent =
            sequence.counter.take_ahead(&sequence.options, count, &mut numbers, |reservation| {
                self.reserve(of, reservation, Durability::Write, Box::new(drop))
            });
        drop(unsent);
        numbers
    }

    /// Sets the position of a sequence, and blocks until that is durable.
    ///
    /// # Errors
    /// If the log refuses the record, or the database is closed.
    pub fn set_position(&self, sequence: &Sequence, position: Position) -> Result<()> {
        if sequence.counter.set_private(position) {
            return Ok(());
        }
        let (sender, receiver) = channel();
        let acknowledge = Waiter::new(Box::new(move |result: Result<Lsn>| {
            // The receiver outlives the call.
            let _ = sender.send(result);
        }));
        let change = SequenceChange::set(sequence.id, &sequence.counter, position);
        let durability = Durability::Fsync;
        let _ = self.shared.requests.send(Request::Sequence { change, durability, acknowledge });
        receiver.recv().map_err(|_| closed())?.map(drop)
    }

    /// Commits and waits for the acknowledgement.
    ///
    /// # Errors
    /// If the write set was rejected or the log failed: none of it was applied.
    pub fn commit_and_wait(&self, write_set: WriteSet, durability: Durability) -> Result<Lsn> {
        let (sender, receiver) = channel();
        self.commit(
            write_set,
            durability,
            Box::new(move |result| {
                // The receiver outlives the call.
                let _ = sender.send(result);
            }),
        );
        receiver.recv().map_err(|_| closed())?
    }

    /// Checks that a write set can be applied. `acknowledge` is called once, with the error if not.
    /// Nothing is applied.
    pub fn check(&self, write_set: WriteSet, acknowledge: Acknowledge) {
        let (write_set, acknowledge) = (Box::new(write_set), Waiter::new(acknowledge));
        // A request that cannot be sent is dropped, which notifies its waiter.
        let _ = self.shared.requests.send(Request::Check { write_set, acknowledge });
    }

    /// Drops a namespace with everything in it, after all requests that were made before.
    pub fn drop_namespace(&self, namespace: String) {
        // A closed engine holds nothing.
        let _ = self.shared.requests.send(Request::DropNamespace(namespace));
    }

    /// Blocks while the disk is far behind the staged chunks.
    ///
    /// # Errors
    /// If the database is closed.
    pub fn wait_for_staging_room(&self) -> Result<()> {
        self.shared.staging.wait_for_room()
    }

    /// Resolves once the disk is no longer far behind the staged chunks.
    ///
    /// # Errors
    /// If the database is closed.
    pub fn staging_room(&self) -> impl Future<Output = Result<()>> + Send + use<> {
        let staging = Arc::clone(&self.shared.staging);
        std::future::poll_fn(move |context| staging.poll_room(context))
    }

    /// Encodes a bulk chunk on the caller's thread and writes it to the log ahead of its commit.
    /// Callers that stage many chunks wait for room before each.
    ///
    /// # Errors
    /// If the database is closed.
    pub fn stage(&self, chunk: Arc<ClosedChunk>) -> Result<Arc<Staged>> {
        self.make_room(chunk.memory_bytes())?;
        let id = StageId(self.shared.env.random.next_u64());
        let floor = self.snapshot().lsn();
        let staged = self.shared.staging.enter(id, chunk, floor);
        if self.shared.directory.is_none() {
            return Ok(Arc::new(staged));
        }
        let head: [u8; STAGE_HEAD] = id.0.to_le_bytes();
        let parts = vec![head.to_vec(), codec::encode_chunk(&staged.chunk)];
        self.shared.staging.reserve(parts.iter().map(Vec::len).sum());
        let record = StagedRecord { parts, lost: Arc::clone(&staged.lost) };
        self.disk.send(DiskCommand::Stage(record)).map_err(|_| closed())?;
        Ok(Arc::new(staged))
    }

    /// The watch that keeps the process below its memory limit, if it has one.
    #[must_use]
    pub fn memory(&self) -> Option<&Arc<MemoryWatch>> {
        self.shared.options.memory.as_ref()
    }

    /// Announces rows of so many bytes that are being collected for a commit.
    ///
    /// # Errors
    /// If the process has no memory for them.
    pub fn make_room(&self, bytes: usize) -> Result<()> {
        memory_budget::reserve(self.shared.options.memory.as_deref(), bytes)
    }

    /// Writes a checkpoint now and waits for it.
    ///
    /// # Errors
    /// If the checkpoint cannot be written. The database goes on without it.
    pub fn checkpoint(&self) -> Result<Lsn> {
        let (reply, done) = channel();
        self.chores.send(Chore::Checkpoint(reply)).map_err(|_| closed())?;
        done.recv().map_err(|_| closed())?
    }

    /// Runs the periodic maintenance now, and waits for it: chunks that are mostly dead are
    /// rewritten, and a checkpoint that is due is written.
    pub fn maintain(&self) {
        let (reply, done) = channel();
        // A closed engine has nothing to do.
        let _ = self.chores.send(Chore::LookAround(reply));
        let _ = done.recv();
    }

    /// Size of the log on disk, in bytes.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.shared.log_bytes.load(Ordering::Relaxed)
    }

    /// Position and size of the log, and when the next checkpoint is due.
    #[must_use]
    pub fn log_status(&self) -> LogStatus {
        let due = self.shared.checkpoint_due.load(Ordering::Relaxed);
        LogStatus {
            position: self.snapshot().lsn(),
            bytes: self.log_bytes(),
            checkpoint_due_bytes: self.shared.directory.is_some().then_some(due),
        }
    }

    /// The last durable group of the log; `None` for a database in memory.
    #[must_use]
    pub fn durable_position(&self) -> Option<DurablePosition> {
        self.position_reader()()
    }

    /// Reads [`Engine::durable_position`] without keeping the engine open.
    pub fn position_reader(&self) -> impl Fn() -> Option<DurablePosition> + Send + Sync + use<> {
        let database_id = self.shared.directory.as_ref().map(DataDirectory::database_id);
        let durable_lsn = Arc::clone(&self.shared.durable_lsn);
        move || {
            let lsn = Lsn(durable_lsn.load(Ordering::Acquire));
            Some(DurablePosition { database_id: database_id?, lsn })
        }
    }

    /// The health of the storage.
    #[must_use]
    pub fn storage(&self) -> &Arc<StorageHealth> {
        &self.shared.storage
    }

    /// The newest checkpoints, the one that the database was opened from included.
    #[must_use]
    pub fn checkpoints(&self) -> Vec<CheckpointRun> {
        self.shared.checkpoints.all()
    }

    /// Ends all stages once their queues are empty, and marks the log as closed.
    ///
    /// # Errors
    /// If the log could not be closed. Acknowledged writes are durable all the same.
    pub fn close(&self) -> Result<()> {
        let mut threads = self.threads.lock();
        if threads.is_empty() {
            return Ok(());
        }
        // Maintenance first: the other stages serve it.
        let _ = self.chores.send(Chore::Stop);
        threads.remove(0).join();
        let (reply, closed_log) = channel();
        let _ = self.shared.requests.send(Request::Close(reply));
        let result = closed_log.recv().unwrap_or_else(|_| self.close_disk_stage());
        for thread in threads.drain(..) {
            thread.join();
        }
        result
    }
}

impl Engine {
    /// Ends the disk stage if the transaction stage died before it could do so.
    fn close_disk_stage(&self) -> Result<()> {
        let (reply, closed_log) = channel();
        let _ = self.disk.send(DiskCommand::Close(reply));
        closed_log.recv().unwrap_or_else(|_| Err(closed()))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A failure cannot be reported here. A log without the mark of a clean close is recovered
        // at the next start.
        let _ = self.close();
    }
}

mod row_lock_term;

pub use row_lock_term::RowLockTerm;

type Writers = HashMap<TableId, Writer>;
type States = HashMap<TableId, Arc<TableState>>;

/// The writing and the reading halves of tables.
fn halves(tables: HashMap<TableId, (Table, Arc<TableState>)>, lsn: Lsn) -> (Writers, States) {
    let halves = tables
        .into_iter()
        .map(|(id, (table, state))| ((id, Writer { table, changed: lsn }), (id, state)));
    halves.unzip()
}

fn opened_from(checkpoint: &CheckpointReader) -> CheckpointRun {
    CheckpointRun {
        position: checkpoint.lsn(),
        bytes: checkpoint.bytes(),
        began_micros: None,
        took: None,
        failure: None,
    }
}

/// The stages of an engine with their queues, before their threads begin.
struct Stages {
    maintenance: Maintenance,
    transactions: Arc<Stage<TransactionStage, Request>>,
    requests: Receiver<Request>,
    disk: Arc<Stage<DiskStage, DiskCommand>>,
    disk_commands: Receiver<DiskCommand>,
    shared: Arc<Shared>,
}

type Body = Box<dyn FnOnce() + Send>;

impl Stages {
    /// Gives each stage a thread, maintenance first.
    fn spawn(self, env: &Env) -> Result<Vec<Box<dyn ThreadHandle>>> {
        let Stages { maintenance, transactions, requests, disk, disk_commands, shared } = self;
        let (staging, inlet) = (Arc::clone(&shared.staging), Arc::clone(&shared.requests));
        let bodies: [(&str, Body); 3] = [
            ("maintenance", Box::new(move || maintenance.run())),
            ("transactions", Box::new(move || TransactionStage::run(&transactions, &requests))),
            ("disk", Box::new(move || DiskStage::run(&disk, &disk_commands, (staging, inlet)))),
        ];
        let mut threads = Vec::with_capacity(bodies.len());
        for (name, body) in bodies {
            threads.push(env.threads.spawn(name, body).map_err(|error| {
                Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, "the system refused a thread")
                    .with_detail(error.to_string())
            })?);
        }
        Ok(threads)
    }
}

fn replay_log(
    env: &Env,
    directory: &DataDirectory,
    options: &Options,
    coverage: Coverage,
    replay: &mut recovery::Replay,
) -> Result<LogWriter> {
    let progress = options.progress.as_ref();
    let mut begun = false;
    let log_options = LogOptions { segment_bytes: options.segment_bytes, ..LogOptions::default() };
    let (writer, _) = thalweg_log::open(
        env,
        directory,
        log_options,
        coverage,
        &mut |record| replay.record(record),
        &mut |done, total| {
            if !begun {
                progress.begin("replaying the log", Some(total), crate::Unit::Bytes);
                begun = true;
            }
            progress.advance(done);
        },
    )?;
    if begun {
        progress.end();
    }
    Ok(writer)
}

#[cfg(test)]
mod tests;
