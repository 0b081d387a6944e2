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
mod shards;
mod table;

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
use thalweg_types::{Key, Result, RowId, TableId, TableSchema};

pub(crate) use commit::commit;
pub(crate) use journal::raise_counters;
pub use journal::{Definition, NAMESPACE};
pub use shards::{ShardRows, Shards};
pub(crate) use table::TableOnWorkers;

/// A pass over executable plans.
pub type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// What is to be read of one table.
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
}

/// The rows that have the keys that were looked for.
pub struct Holders {
    /// For each key, the row that has it.
    pub rows: Vec<Option<RowId>>,
    /// Those rows, in their order.
    pub values: RecordBatch,
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

/// The machines that hold a gateway's rows.
pub trait Workers: Send + Sync {
    /// An operator that reads rows.
    ///
    /// # Errors
    /// Where there are no workers.
    fn scan(&self, scan: WorkerScan) -> PlanResult<Arc<dyn ExecutionPlan>>;

    /// About how many rows a table has, where that is known.
    fn row_count(&self, table: TableId) -> Option<usize>;

    /// The pass that gives work on the rows of one table to the workers, after all others.
    fn physical_rule(&self) -> PhysicalRule;

    /// What is told of the workers under a name in [`NAMESPACE`].
    fn system_table<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Option<PlanResult<Arc<dyn TableProvider>>>>;

    /// Asks all workers that can be reached whether they can follow a definition.
    fn can_define<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, Result<()>>;

    /// Tells all workers that can be reached of a definition. The others get it before they are
    /// asked anything else.
    fn define<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, ()>;

    /// Changes rows. They are as durable as was asked for when this is done.
    fn write(
        &self,
        writes: Vec<Write>,
        unity: Unity,
        durability: Durability,
    ) -> BoxFuture<'_, Result<()>>;

    /// The rows that have these values in a key's columns.
    fn find(
        &self,
        table: Arc<TableSchema>,
        key: Key,
        columns: Vec<ArrayRef>,
    ) -> BoxFuture<'_, Result<Holders>>;
}

/// Whether the rows of a gateway's table lie on workers.
pub(crate) fn lies_on_workers(table: &TableSchema) -> bool {
    table.namespace != NAMESPACE
}
