//! A database: an engine, and the state that its sessions share (planners, plan cache, advisory
//! locks, and the cluster behind a gateway).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use parking_lot::RwLock;
use thalweg_env::{Env, MemoryWatch, ReclaimableMemory};
use thalweg_execution::cancel::{Cancels, on_own_thread};
use thalweg_execution::fused::{LocalQueryScheduler, QueryScheduler};
use thalweg_execution::memory;
use thalweg_execution::planning::PlanningMetrics;
use thalweg_scan::{LocalScheduler, Shape};
use thalweg_txn::{
    Durability, DurablePosition, Engine, NoProgress, Options, PipelineTotals, Progress, Role,
    RoleId, StorageHealth, Transaction, WriteSet,
};
use thalweg_types::{Error, Result, TableId};
use thalweg_values::statement_control::StatementsMemory;

use crate::ad_hoc::AdHocStatements;
use crate::appender::Appender;
use crate::locks::AdvisoryLocks;
use crate::notifications::Channels;
use crate::plan_cache::{PlanCache, PlanCacheMetrics};
use crate::planner::Planners;
use crate::privileges::{self, Identity};
use crate::server_context::ServerContext;
use crate::session::Session;
use crate::statement::Defaults;
use crate::temporary_objects::TemporaryEngine;
use crate::workers::{self, AtomicScope, Cluster, Load};

/// An open database. Clones share it; it closes when the last clone and the last session are
/// dropped.
#[derive(Clone)]
pub struct Database {
    pub(crate) shared: Arc<DatabaseShared>,
}

pub(crate) struct DatabaseShared {
    pub(crate) engine: Engine,
    pub(crate) temporary: TemporaryEngine,
    pub(crate) planners: Planners,
    pub(crate) plans: PlanCache,
    pub(crate) ad_hoc: AdHocStatements,
    pub(crate) locks: Arc<AdvisoryLocks>,
    pub(crate) channels: Arc<Channels>,
    pub(crate) threads: usize,
    pub(crate) durability: Durability,
    pub(crate) progress: Arc<dyn Progress>,
    pub(crate) opened_micros: i64,
    /// `None` if no surrounding program was registered.
    pub(crate) server_context: RwLock<Option<Arc<dyn ServerContext>>>,
    /// The nodes that hold the rows, if this database does not hold them itself.
    pub(crate) cluster: OnceLock<Arc<Cluster>>,
    /// The last definition in the journal of a node of a cluster.
    pub(crate) definitions: AtomicU64,
    /// Held while a definition is added to the journal.
    pub(crate) defining: Arc<tokio::sync::Mutex<()>>,
}

impl Database {
    /// Opens the database in a directory, which is created if it is missing.
    ///
    /// # Errors
    /// If the directory is in use, of another version, damaged, or not a database's.
    pub fn open(directory: impl AsRef<Path>) -> Result<Database> {
        Database::builder().directory(directory).open()
    }

    /// A database without files, whose contents are lost when it closes.
    ///
    /// # Errors
    /// If the system refuses threads or memory.
    pub fn in_memory() -> Result<Database> {
        Database::builder().open()
    }

    /// Starts from default options: in memory, with one thread for each core.
    #[must_use]
    pub fn builder() -> DatabaseBuilder {
        DatabaseBuilder::default()
    }

    /// A session of the bootstrap role, which may do everything.
    #[must_use]
    pub fn session(&self) -> Session {
        Session::opened(self.clone(), RoleId::BOOTSTRAP)
    }

    /// A session of the bootstrap role for work of the program itself: no default of a setting for
    /// a role or the database applies.
    #[must_use]
    pub fn internal_session(&self) -> Session {
        Session::new(self.clone(), Identity::of(RoleId::BOOTSTRAP))
    }

    /// A session with a role's rights.
    ///
    /// # Errors
    /// If there is no such role, or it may not log in.
    pub fn session_as(&self, role: &str) -> Result<Session> {
        let snapshot = self.shared.engine.snapshot();
        let id = privileges::may_log_in(snapshot.catalog(), role)?;
        Ok(Session::opened(self.clone(), id))
    }

    /// A role's attributes, its password verifier included.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<Role> {
        self.shared.engine.snapshot().catalog().roles().named(name).cloned()
    }

    /// The environment (files, clocks, threads) that the database runs in.
    #[must_use]
    pub fn env(&self) -> &Env {
        self.shared.engine.env()
    }

    /// Registers a cache that frees its memory before rows or queries are refused.
    pub fn register_reclaimable(&self, spare: Weak<dyn ReclaimableMemory>) {
        if let Some(memory) = self.shared.engine.memory() {
            memory.register_reclaimable(spare);
        }
    }

    /// Bulk writer into a table: all rows or none.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn appender(&self, table: &str) -> Result<Appender> {
        Appender::new(self.clone(), RoleId::BOOTSTRAP, table)
    }

    /// Writes a checkpoint now, so that the next start reads less.
    ///
    /// # Errors
    /// If the checkpoint cannot be written. The database goes on without it.
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.engine.checkpoint().map(drop)
    }

    /// Registers the surrounding program, so that statements see who is connected.
    pub fn surround(&self, server_context: Arc<dyn ServerContext>) {
        *self.shared.server_context.write() = Some(server_context);
    }

    /// Size of the data in memory and of the log on disk, in bytes.
    #[must_use]
    pub fn size(&self) -> (u64, u64) {
        let engines = self.shared.engines();
        let bytes = engines.map(|engine| {
            let snapshot = engine.snapshot();
            snapshot.tables().map(|(_, state)| state.memory_bytes() as u64).sum::<u64>()
        });
        (bytes.sum(), self.shared.engine.log_bytes())
    }

    /// Counters of the write pipeline's stages since the database was opened.
    #[must_use]
    pub fn figures(&self) -> PipelineTotals {
        self.shared.engine.figures()
    }

    /// The last durable group of the log; `None` for a database in memory.
    #[must_use]
    pub fn durable_position(&self) -> Option<DurablePosition> {
        self.shared.engine.durable_position()
    }

    /// Reads [`Database::durable_position`] without keeping the database open.
    pub fn position_reader(&self) -> impl Fn() -> Option<DurablePosition> + Send + Sync + use<> {
        self.shared.engine.position_reader()
    }

    /// The health of the storage. A database in memory has no faults.
    #[must_use]
    pub fn storage(&self) -> &Arc<StorageHealth> {
        self.shared.engine.storage()
    }

    /// Counters of the plan cache since the database was opened.
    #[must_use]
    pub fn plan_figures(&self) -> PlanCacheMetrics {
        self.shared.plans.figures()
    }

    /// State of the threads that plan statements.
    #[must_use]
    pub fn planning_figures(&self) -> PlanningMetrics {
        self.shared.planners.planning().figures()
    }

    /// Ends all work and marks the log as closed.
    ///
    /// # Errors
    /// If the log could not be closed. Acknowledged writes are durable all the same.
    pub fn close(self) -> Result<()> {
        // The log first: what it has accepted of a transaction is then followed by the changes to
        // temporary objects.
        let closed = self.shared.engine.close();
        let temporary = self.shared.temporary.started().map_or(Ok(()), |engine| engine.close());
        closed.and(temporary)
    }
}

impl DatabaseShared {
    /// Initial settings of sessions.
    pub(crate) fn defaults(&self) -> Defaults {
        Defaults { durability: self.durability, gathering: self.cluster().scans.gathering() }
    }

    /// The engine that holds a table or sequence on this node.
    pub(crate) fn engine_of(&self, id: TableId) -> &Engine {
        match self.temporary.started() {
            Some(temporary) if id.is_temporary() => temporary,
            _ => &self.engine,
        }
    }

    /// The engine of the log, and that of temporary objects if it has started.
    pub(crate) fn engines(&self) -> impl Iterator<Item = &Engine> {
        std::iter::once(&self.engine).chain(self.temporary.started().map(AsRef::as_ref))
    }

    /// The nodes that hold the rows. The cluster is absent if this database holds them itself.
    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        self.cluster.get().unwrap_or_else(|| Cluster::absent())
    }

    /// Commits a transaction without blocking the thread.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        transaction: Transaction,
        atomic_scope: AtomicScope,
        durability: Durability,
    ) -> Result<()> {
        if transaction.is_empty() {
            return Ok(());
        }
        match self.cluster.get() {
            None => self.commit_here(transaction, durability).await,
            Some(cluster) => {
                workers::commit(self, cluster, transaction, atomic_scope, durability).await
            }
        }
    }

    /// Like [`commit`](Self::commit), for a bulk load whose rows were mostly sent to the workers
    /// already.
    pub(crate) async fn commit_load(
        self: &Arc<Self>,
        load: Box<dyn Load>,
        transaction: Transaction,
        durability: Durability,
    ) -> Result<()> {
        workers::commit_load(self, load, transaction, durability).await
    }

    /// Like [`commit`](Self::commit), for many rows of this database. They are encoded on a thread
    /// of their own, and the commit can be canceled until that is done.
    pub(crate) async fn commit_bulks(
        &self,
        transaction: Transaction,
        mut cancels: Cancels,
        durability: Durability,
    ) -> Result<()> {
        let encoding = on_own_thread(move |is_unwanted| {
            transaction.into_write_set_while(|| !is_unwanted.load(Ordering::Relaxed))
        });
        let write_set = cancels.unless_any(encoding).await???;
        self.commit_write_set(write_set, durability).await
    }

    /// Like [`commit`](Self::commit), always in this database, even if workers hold the rows.
    pub(crate) async fn commit_here(
        &self,
        transaction: Transaction,
        durability: Durability,
    ) -> Result<()> {
        self.commit_write_set(transaction.into_write_set()?, durability).await
    }

    pub(crate) async fn commit_write_set(
        &self,
        write_set: WriteSet,
        durability: Durability,
    ) -> Result<()> {
        if write_set.is_empty() {
            return Ok(());
        }
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.engine.commit(
            write_set,
            durability,
            Box::new(move |result| {
                // The waiting task may be gone; the group is committed all the same.
                let _ = sender.send(result);
            }),
        );
        receiver.await.map_err(|_| Error::internal("the engine gave no answer"))?.map(drop)
    }
}

const SPILL_BYTES_MAX: u64 = 100 << 30;

/// Options to open a database with.
#[derive(Clone)]
pub struct DatabaseBuilder {
    env: Env,
    options: Options,
    memory_limit: Option<usize>,
    process_memory_limit: Option<u64>,
    spill_directory: Option<PathBuf>,
    spill_bytes_max: u64,
    durability: Durability,
    beside: Option<Database>,
    serial_rows: usize,
    scheduler: Option<Arc<dyn QueryScheduler>>,
}

impl Default for DatabaseBuilder {
    fn default() -> DatabaseBuilder {
        DatabaseBuilder {
            env: Env::real(),
            options: Options::default(),
            memory_limit: None,
            process_memory_limit: None,
            spill_directory: None,
            spill_bytes_max: SPILL_BYTES_MAX,
            durability: Durability::default(),
            beside: None,
            serial_rows: Shape::SERIAL_ROWS,
            scheduler: None,
        }
    }
}

impl DatabaseBuilder {
    /// Keeps the data in a directory.
    #[must_use]
    pub fn directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.options.directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Number of threads that execute queries; the number of cores by default.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.options.threads = threads.max(1);
        self
    }

    /// Aggregates over fewer rows run on one thread; 100,000 by default.
    #[must_use]
    pub fn serial_rows(mut self, rows: usize) -> Self {
        self.serial_rows = rows;
        self
    }

    /// Memory of all queries for sorting, joining and grouping, in bytes, beyond which they spill
    /// to disk.
    #[must_use]
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// Memory limit of the process in bytes, as the operating system counts them. Writes are
    /// refused once seven eighths are used; queries spill or fail at the limit.
    #[must_use]
    pub fn process_memory_limit(mut self, bytes: u64) -> Self {
        self.process_memory_limit = Some(bytes);
        self
    }

    /// Directory for spilled data; the system's directory for temporary files by default.
    #[must_use]
    pub fn spill_directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.spill_directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Limit of all spilled data together, in bytes; 100 GiB by default.
    #[must_use]
    pub fn spill_limit(mut self, bytes: u64) -> Self {
        self.spill_bytes_max = bytes;
        self
    }

    /// Executes queries on the threads and in the memory of another database, so that one process
    /// can hold many. This builder's options for threads, memory and spilling of queries are
    /// ignored.
    #[must_use]
    pub fn beside(mut self, other: &Database) -> Self {
        self.beside = Some(other.clone());
        self
    }

    /// Scheduler of fused aggregates, in place of threads of this process.
    #[doc(hidden)]
    #[must_use]
    pub fn scheduler(mut self, scheduler: Arc<dyn QueryScheduler>) -> Self {
        self.scheduler = Some(scheduler);
        self
    }

    /// Default durability of acknowledged writes.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Size of the log, in bytes, at which a checkpoint is written.
    #[must_use]
    pub fn checkpoint_bytes(mut self, bytes: u64) -> Self {
        self.options.checkpoint_bytes = bytes;
        self
    }

    /// Does nothing: statements are always planned on threads of their own, whatever runtime their
    /// sessions are used in.
    #[must_use]
    pub fn hands_over(self) -> Self {
        self
    }

    /// Receiver of progress reports of long work.
    #[must_use]
    pub fn progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.options.progress = progress;
        self
    }

    /// The environment (files, clocks, threads) to run in; the real one by default.
    #[must_use]
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// # Errors
    /// See [`Database::open`].
    pub fn open(mut self) -> Result<Database> {
        let watch = |limit| Arc::new(MemoryWatch::new(Arc::clone(&self.env.memory), limit));
        self.options.memory = self.process_memory_limit.map(watch);
        let planners = match &self.beside {
            Some(other) => other.shared.planners.beside(),
            None => self.planners()?,
        };
        let threads = self.options.threads;
        let progress = match &self.options.directory {
            Some(_) => Arc::clone(&self.options.progress),
            None => Arc::new(NoProgress),
        };
        let opened_micros = self.env.clock.now_micros();
        let temporary = TemporaryEngine::new(self.env.clone(), self.options.clone());
        let engine = Engine::open(self.env, self.options)?;
        let shared = DatabaseShared {
            engine,
            temporary,
            planners,
            plans: PlanCache::default(),
            ad_hoc: AdHocStatements::default(),
            locks: Arc::default(),
            channels: Arc::default(),
            threads,
            durability: self.durability,
            progress,
            opened_micros,
            server_context: RwLock::new(None),
            cluster: OnceLock::new(),
            definitions: AtomicU64::new(0),
            defining: Arc::default(),
        };
        Ok(Database { shared: Arc::new(shared) })
    }

    /// Planners with threads and memory of their own.
    fn planners(&self) -> Result<Planners> {
        let memory = memory::of_all(self.memory_limit, self.options.memory.clone());
        let mut runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(memory)
            .with_max_temp_directory_size(self.spill_bytes_max)
            .with_max_spill_merge_fan_in(memory::MERGED_AT_ONCE);
        if let Some(directory) = &self.spill_directory {
            runtime = runtime.with_temp_file_path(directory);
        }
        let runtime = runtime.build_arc().map_err(|error| {
            Error::internal("the query runtime could not be set up").with_source(error)
        })?;
        let starter = Arc::clone(&self.env.threads);
        let allocated = StatementsMemory::new(self.options.memory.clone());
        Planners::new(runtime, self.options.threads, self.aggregating()?, starter, allocated)
    }

    /// Scheduler of fused aggregates: threads of this process unless [`scheduler`](Self::scheduler)
    /// set another one.
    fn aggregating(&self) -> Result<Arc<dyn QueryScheduler>> {
        if let Some(given) = &self.scheduler {
            return Ok(Arc::clone(given));
        }
        let threads = LocalScheduler::start(self.options.threads, self.env.threads.as_ref())?;
        Ok(Arc::new(LocalQueryScheduler::new(threads, self.serial_rows)))
    }
}
