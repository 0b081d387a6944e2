//! The seam to workers: machines that hold the rows of a database which has none of its own.
//!
//! A *gateway* is an ordinary database: its log and its catalog are here, and so are sessions,
//! roles and views. Only the rows of its tables lie elsewhere. Scans become operators that
//! [`Workers`] make, and what a transaction did to rows goes to them when it commits. Everything
//! between, which is every statement, is the same as on one machine.
//!
//! A *worker* is an ordinary database too, which does for gateways what [`Shards`] has.
//!
//! Promises: the catalog of a worker is that of its gateway as of some *definition*; definitions
//! are numbered, are kept by both in the same group as what they define, and come in their order.

mod commit;
mod journal;
mod keyed;
mod shards;
mod table;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::error::Result as PlanResult;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;
use thalweg_txn::{Durability, RowChanges};
use thalweg_types::{Error, Key, Result, RowId, TableId, TableSchema};

use crate::forms::{EncodedStream, RowForm};
pub(crate) use commit::{commit, commit_load};
pub(crate) use journal::raise_counters;
pub use journal::{Definition, NAMESPACE};
pub use keyed::KeyedWriter;
pub use shards::{PackedRows, ShardPlan, ShardRows, ShardSight, Shards};
pub(crate) use table::TableOnWorkers;

/// A pass over executable plans.
pub type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// What is to be read of one table.
#[derive(Clone)]
pub struct WorkerScan {
    pub table: Arc<TableSchema>,
    /// The table's columns, and perhaps the places of its rows behind them.
    pub schema: SchemaRef,
    /// Places in the schema.
    pub projection: Vec<usize>,
    /// What is going to be asked of the rows, over the schema: says which workers need not be
    /// asked.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    pub limit: Option<usize>,
    /// Rows that are left out, since the transaction took them away. Each must be alive.
    pub hidden: Arc<[RowId]>,
    pub gathering: Gathering,
    /// Whether it is for a plan that is kept: as far as the plan knows all workers are read, and
    /// each run asks those whom its values concern.
    pub is_kept: bool,
}

/// How a statement gathers rows from workers, which is the session's to say. Plans of a gateway
/// have it as an extension of their configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathering {
    pub fan_in: FanIn,
    /// Whether rows that workers have encoded are handed on as they came.
    pub relays: bool,
    /// Whether workers of one process are asked by one stream.
    pub together: bool,
    pub stages: Stages,
    /// How many bytes each worker may take for a statement, where that has a limit of its own.
    pub memory: Option<usize>,
}

impl Default for Gathering {
    fn default() -> Gathering {
        let (fan_in, stages) = (FanIn::default(), Stages::default());
        Gathering { fan_in, relays: true, together: true, stages, memory: None }
    }
}

/// Whether joins and large groupings run between workers, in stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stages {
    /// They gather their rows at the gateway.
    Off,
    /// Where fewer bytes come to one node by it.
    #[default]
    Auto,
    /// Wherever they can.
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

/// In which order workers are opened and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FanIn {
    /// One after the other.
    Sync,
    /// All at once, and what comes goes through one queue.
    Async,
    /// All at once, and each is read by itself.
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

/// What an operator of a plan that is kept is in another run.
pub enum Again {
    /// A scan of workers, for that run.
    Scan(Arc<dyn ExecutionPlan>),
    /// One whose table is not any more what the plan was made for.
    Outgrown,
    /// No scan of workers.
    Other,
}

/// Rows that are looked for by a key.
pub struct KeySearch {
    pub table: Arc<TableSchema>,
    pub key: Key,
    /// The values of the key's columns.
    pub values: Vec<ArrayRef>,
    /// The places of the columns that are wanted; `None` for all.
    pub columns: Option<Vec<usize>>,
    /// Rows that are left out, of which each must be alive.
    pub hidden: Arc<[RowId]>,
}

/// The rows that have the keys that were looked for.
pub struct Holders {
    /// For each key, the row that has it.
    pub rows: Vec<Option<RowId>>,
    /// Of those rows, in their order, what was wanted.
    pub values: RecordBatch,
    /// The keys by their places, ascending, of which nobody could tell, and why.
    pub failures: Vec<(usize, Error)>,
}

impl Holders {
    /// # Errors
    /// If nobody could tell of some key.
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

/// Whether what goes to several workers may happen on some of them alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unity {
    /// A statement: on each worker it happens whole or not at all.
    EachWorker,
    /// A transaction block: it is refused where it concerns several workers.
    Whole,
}

/// Whose consent a definition needs before it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// That of the workers which can be reached: the others are able to follow.
    Reachable,
    /// That of all workers which may have rows, since these may stand against it.
    Owners,
}

/// Rows of one statement that go to their workers before it ends. These keep them aside: nobody
/// sees them before [`Load::finish`], and where it is dropped instead they are forgotten.
pub trait Load: Send + Sync {
    /// Hands rows over, which takes its time: the calling thread waits. After an error there is
    /// nothing to do but to drop the load.
    ///
    /// # Errors
    /// If a worker could not take its part.
    fn send(&mut self, rows: Vec<RecordBatch>) -> Result<()>;

    /// Makes the last changes of the statement, and with them adds all rows that were sent. They
    /// are as durable as was asked for when this is done.
    fn finish(
        self: Box<Self>,
        writes: Vec<Write>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<()>>;
}

/// The machines that hold a gateway's rows.
pub trait Workers: Send + Sync {
    /// How rows are gathered where a session says nothing else.
    fn gathering(&self) -> Gathering;

    /// An operator that reads rows.
    ///
    /// # Errors
    /// If there are no workers.
    fn scan(&self, scan: WorkerScan) -> PlanResult<Arc<dyn ExecutionPlan>>;

    /// An operator as [`Workers::scan`] made it, for a run with the values that parameters have
    /// now.
    ///
    /// # Errors
    /// If there are no workers.
    fn again(&self, operator: &Arc<dyn ExecutionPlan>, gathering: Gathering) -> PlanResult<Again>;

    /// An operator as [`Workers::physical_rule`] left it, for a run with other values in which its
    /// workers do the same; outgrown where others would be asked, or something else done.
    ///
    /// # Errors
    /// If there are no workers.
    fn same_again(&self, operator: &Arc<dyn ExecutionPlan>) -> PlanResult<Again>;

    /// The rows of a plan in a form that workers give them, where nothing is left to be done with
    /// them here; `None` where the plan has to be run. `told` is what is said of the columns.
    ///
    /// # Errors
    /// If the workers could not be asked.
    fn encoded(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        told: &SchemaRef,
        form: &RowForm,
    ) -> Result<Option<EncodedStream>>;

    /// Whether statements can reach the rows of tables.
    ///
    /// # Errors
    /// 57P03 while workers are missing that were expected, or that were known before a restart.
    fn readiness(&self) -> Result<()>;

    /// About how many rows a table has, where that is known.
    fn row_count(&self, table: TableId) -> Option<usize>;

    /// Whether rows may be numbered here: two gateways would give the same numbers.
    ///
    /// # Errors
    /// If another gateway does that.
    fn may_number(&self) -> Result<()>;

    /// Whether advisory locks are taken here: they are one gateway's, or would exclude nobody.
    ///
    /// # Errors
    /// If another gateway has them.
    fn may_lock(&self) -> Result<()>;

    /// The pass that gives work to the workers, after all others.
    fn physical_rule(&self) -> PhysicalRule;

    /// What is told of the workers under a name in [`NAMESPACE`].
    fn system_table<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Option<PlanResult<Arc<dyn TableProvider>>>>;

    /// Asks all workers that can be reached whether they can follow a definition, and fails where
    /// one cannot be reached whose consent is needed, or where another gateway defines.
    fn can_define<'a>(
        &'a self,
        definition: &'a Definition,
        consent: Consent,
    ) -> BoxFuture<'a, Result<()>>;

    /// Tells all workers and gateways that can be reached of a definition. Other workers get it
    /// before they are asked anything else, other gateways before workers answer them.
    fn define<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, ()>;

    /// Changes rows. They are as durable as was asked for when this is done.
    fn write(
        &self,
        writes: Vec<Write>,
        unity: Unity,
        durability: Durability,
    ) -> BoxFuture<'_, Result<()>>;

    /// Begins to add rows to a table, for one statement that is a transaction of its own.
    fn load(&self, table: Arc<TableSchema>) -> Box<dyn Load>;

    /// Writes rows by their keys, for one client.
    fn keyed_writer(&self) -> Box<dyn KeyedWriter>;

    /// The rows of keys.
    fn find(&self, search: KeySearch) -> BoxFuture<'_, Result<Holders>>;
}

/// Why rows are not numbered here. Plans of such a gateway have it as an extension of their
/// configuration.
pub(crate) struct NumberedElsewhere(pub(crate) Error);

/// Whether the rows of a gateway's table lie on workers.
pub(crate) fn lies_on_workers(table: &TableSchema) -> bool {
    table.namespace != NAMESPACE
}
