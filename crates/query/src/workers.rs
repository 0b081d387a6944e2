//! The interface to workers: nodes that hold the rows of a database which has no rows of its own.
//!
//! A *gateway* is an ordinary database with its own log, catalog, sessions, roles and views. Only
//! the rows of its tables lie elsewhere, in a [`Cluster`]. Its [`RemoteScans`] provide the
//! operators that read rows, and its [`RemoteWrites`] take a transaction's changes when it commits.
//! Everything in between works as on a single node, whose cluster is absent.
//!
//! A *worker* is an ordinary database too. It provides the functions of [`Shards`] to gateways.
//!
//! Promises: the catalog of a worker equals that of its gateway as of some *definition*.
//! Definitions are numbered and applied in order. Both nodes store each one in the same group as
//! the changes that it makes.

mod cluster;
mod commit;
mod journal;
mod keyed;
mod remote;
mod shards;
mod table;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;
use thalweg_txn::{Durability, RowChanges};
use thalweg_types::{Error, Key, Result, RowId, TableSchema};

pub use cluster::Cluster;
pub(crate) use commit::{commit, commit_load};
pub(crate) use journal::raise_counters;
pub use journal::{Definition, NAMESPACE};
pub use keyed::KeyedWriter;
pub use remote::{RemoteDefinitions, RemoteLookups, RemoteScans, RemoteWrites};
pub use shards::{PackedRows, ShardPlan, ShardRows, ShardStatistics, Shards};
pub(crate) use table::TableOnWorkers;

/// A pass over executable plans.
pub type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The request of a scan of one table.
#[derive(Clone)]
pub struct WorkerScan {
    pub table: Arc<TableSchema>,
    /// The table's columns, optionally followed by the row ids.
    pub schema: SchemaRef,
    /// Positions in the schema.
    pub projection: Vec<usize>,
    /// A filter over the schema that operators above apply. It shows which workers need not be
    /// asked.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    pub limit: Option<usize>,
    /// Rows that are left out because the transaction deleted them. Each must be alive.
    pub hidden: Arc<[RowId]>,
    pub gathering: Gathering,
    /// True for a scan of a kept plan: the plan covers all workers that it knows, and each run asks
    /// those that its values concern.
    pub is_cached: bool,
}

/// The way in which a statement gathers rows from workers, as set by its session. Plans of a
/// gateway have it as an extension of their configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathering {
    pub fan_in: FanIn,
    /// True if rows that workers have encoded are relayed to the client unchanged.
    pub relays: bool,
    /// True if the workers of one process share one stream.
    pub together: bool,
    pub stages: Stages,
    /// Memory limit of a statement on each worker, in bytes, if it has one.
    pub memory: Option<usize>,
}

impl Default for Gathering {
    fn default() -> Gathering {
        let (fan_in, stages) = (FanIn::default(), Stages::default());
        Gathering { fan_in, relays: true, together: true, stages, memory: None }
    }
}

/// The use of stages: joins and large groupings that run between workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stages {
    /// Joins and groupings gather their rows at the gateway.
    Off,
    /// Stages are used if fewer bytes then come to one node.
    #[default]
    Auto,
    /// Stages are used wherever possible.
    On,
}

const STAGES: [(&str, Stages); 3] =
    [("off", Stages::Off), ("auto", Stages::Auto), ("on", Stages::On)];

impl fmt::Display for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = STAGES.iter().find(|(_, stages)| stages == self);
        f.write_str(known.map_or("", |(name, _)| name))
    }
}

impl FromStr for Stages {
    type Err = ();

    fn from_str(name: &str) -> Result<Stages, ()> {
        let known = STAGES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map(|(_, stages)| *stages).ok_or(())
    }
}

/// The order in which workers are opened and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FanIn {
    /// One after the other.
    Sync,
    /// All at once, with one queue for all rows.
    Async,
    /// All at once, and each is read separately.
    #[default]
    Hybrid,
}

const FAN_INS: [(&str, FanIn); 3] =
    [("sync", FanIn::Sync), ("async", FanIn::Async), ("hybrid", FanIn::Hybrid)];

impl fmt::Display for FanIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = FAN_INS.iter().find(|(_, fan_in)| fan_in == self);
        f.write_str(known.map_or("", |(name, _)| name))
    }
}

impl FromStr for FanIn {
    type Err = ();

    fn from_str(name: &str) -> Result<FanIn, ()> {
        let known = FAN_INS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map(|(_, fan_in)| *fan_in).ok_or(())
    }
}

/// An operator of a kept plan in another run.
pub enum Rebound {
    /// A scan of workers, for that run.
    Scan(Arc<dyn ExecutionPlan>),
    /// A scan of workers whose table has changed too much since the plan was made.
    Outgrown,
    /// Not a scan of workers.
    Other,
}

/// A lookup of rows by a key.
pub struct KeySearch {
    pub table: Arc<TableSchema>,
    pub key: Key,
    /// The values of the key's columns.
    pub values: Vec<ArrayRef>,
    /// The positions of the wanted columns; `None` for all.
    pub columns: Option<Vec<usize>>,
    /// Rows that are left out. Each must be alive.
    pub hidden: Arc<[RowId]>,
}

/// The rows that were found by key.
pub struct Holders {
    /// For each key, the row that has it.
    pub rows: Vec<Option<RowId>>,
    /// The wanted columns of those rows, in the same order.
    pub values: RecordBatch,
    /// The indexes of keys that could not be looked up, ascending, with the errors.
    pub failures: Vec<(usize, Error)>,
}

impl Holders {
    /// # Errors
    /// If a key could not be looked up.
    pub(crate) fn all(self) -> Result<Holders> {
        match self.failures.first() {
            None => Ok(self),
            Some((_, error)) => Err(error.clone()),
        }
    }
}

/// Changes to the rows of one table.
pub struct Write {
    pub table: Arc<TableSchema>,
    pub changes: RowChanges,
}

/// The atomicity of changes that go to several workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicScope {
    /// A statement: it is atomic on each worker.
    EachWorker,
    /// A transaction block: it is refused if it concerns several workers.
    Whole,
}

/// The workers that must consent to a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionQuorum {
    /// All reachable workers: the others are always able to follow.
    Reachable,
    /// All workers that may have rows, since rows may conflict with the definition.
    Owners,
}

/// Rows of one statement that go to their workers before it ends. The workers keep them invisible
/// until [`Load::finish`], and discard them if the load is dropped.
pub trait Load: Send + Sync {
    /// Sends rows. The calling thread blocks meanwhile. After an error the load can only be
    /// dropped.
    ///
    /// # Errors
    /// If a worker could not take its part.
    fn send(&mut self, rows: Vec<RecordBatch>) -> Result<()>;

    /// Makes the remaining changes of the statement together with all rows that were sent. When
    /// this returns, they are as durable as asked.
    fn finish(
        self: Box<Self>,
        writes: Vec<Write>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<()>>;
}

/// The error with which this gateway refuses to number rows. Its plans have it as an extension of
/// their configuration.
pub(crate) struct NumberedElsewhere(pub(crate) Error);

/// True if the rows of a gateway's table lie on workers.
pub(crate) fn lies_on_workers(table: &TableSchema) -> bool {
    table.namespace != NAMESPACE && !table.id.is_temporary()
}
