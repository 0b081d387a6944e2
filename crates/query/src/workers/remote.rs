//! The interfaces to the nodes that hold a gateway's rows, one for each kind of request.
//!
//! `thalweg-distributed` implements them for a gateway. [`Cluster`](super::Cluster) holds one of
//! each, and has the implementation for a database without workers.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::error::Result as PlanResult;
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;
use thalweg_execution::row_forms::{EncodedStream, RowForm};
use thalweg_txn::Durability;
use thalweg_types::{Result, TableId, TableSchema};

use super::{
    AtomicScope, Definition, DefinitionQuorum, Gathering, Holders, KeySearch, KeyedWriter, Load,
    PhysicalRule, Rebound, WorkerScan, Write,
};

/// Reads of rows by plans.
pub trait RemoteScans: Send + Sync {
    /// The default for sessions without a setting.
    fn gathering(&self) -> Gathering;

    /// The least number of partitions of a plan.
    fn partitions_min(&self) -> usize;

    /// An operator that reads rows.
    ///
    /// # Errors
    /// If there are no workers.
    fn scan(&self, scan: WorkerScan) -> PlanResult<Arc<dyn ExecutionPlan>>;

    /// An operator of [`RemoteScans::scan`], for a run with the current parameter values.
    ///
    /// # Errors
    /// If there are no workers.
    fn rebound(
        &self,
        operator: &Arc<dyn ExecutionPlan>,
        gathering: Gathering,
    ) -> PlanResult<Rebound>;

    /// An operator of [`RemoteScans::physical_rule`], for a run with other values in which its
    /// workers do the same. [`Rebound::Outgrown`] if other workers would be asked, or the work
    /// differs.
    ///
    /// # Errors
    /// If there are no workers.
    fn same_again(&self, operator: &Arc<dyn ExecutionPlan>) -> PlanResult<Rebound>;

    /// The rows of a plan as workers encode them, if they need no further processing here; `None`
    /// if the plan must run. `described` has the columns as the client sees them.
    ///
    /// # Errors
    /// If the workers could not be asked.
    fn encoded(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        described: &SchemaRef,
        form: &RowForm,
    ) -> Result<Option<EncodedStream>>;

    /// Estimated number of rows of a table, if known.
    fn row_count(&self, table: TableId) -> Option<usize>;

    /// The pass that assigns work to the nodes that hold the rows. It runs after all others, and in
    /// each run of a cached plan.
    fn physical_rule(&self) -> PhysicalRule;

    /// The table with information on the cluster of this name in
    /// [`CLUSTER_NAMESPACE`](crate::CLUSTER_NAMESPACE).
    fn system_table<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Option<PlanResult<Arc<dyn TableProvider>>>>;
}

/// Changes of rows.
pub trait RemoteWrites: Send + Sync {
    /// Changes rows. When this returns, the changes are as durable as asked.
    fn write(
        &self,
        writes: Vec<Write>,
        atomic_scope: AtomicScope,
        durability: Durability,
    ) -> BoxFuture<'_, Result<()>>;

    /// Begins a load into a table, for one statement that is a transaction of its own. `None` if
    /// rows go to this node with the commit.
    fn load(&self, table: Arc<TableSchema>) -> Option<Box<dyn Load>>;

    /// Writes rows by their keys, for one client. `None` if this node writes them.
    fn keyed_writer(&self) -> Option<Box<dyn KeyedWriter>>;
}

/// Changes of the catalog, and the numbers and locks of which a cluster has one owner.
pub trait RemoteDefinitions: Send + Sync {
    /// Checks that statements can reach the rows of tables.
    ///
    /// # Errors
    /// 57P03 while workers are missing that were expected, or that were known before a restart.
    fn readiness(&self) -> Result<()>;

    /// Checks that this node may number rows: two gateways would assign the same numbers.
    ///
    /// # Errors
    /// If another gateway numbers rows.
    fn may_number(&self) -> Result<()>;

    /// Checks that this node manages advisory locks: locks of two gateways would not exclude each
    /// other.
    ///
    /// # Errors
    /// If another gateway manages them.
    fn may_lock(&self) -> Result<()>;

    /// Asks all reachable workers whether they can follow a definition. Fails if a worker whose
    /// consent is needed is unreachable, or if another gateway makes definitions.
    fn can_define<'a>(
        &'a self,
        definition: &'a Definition,
        quorum: DefinitionQuorum,
    ) -> BoxFuture<'a, Result<()>>;

    /// Sends a definition to all reachable workers and gateways. Other workers get it before their
    /// next request, other gateways before workers answer them.
    fn define<'a>(&'a self, definition: &'a Definition) -> BoxFuture<'a, ()>;
}

/// Reads of single rows, without a plan.
pub trait RemoteLookups: Send + Sync {
    /// Looks up rows by key.
    fn find(&self, search: KeySearch) -> BoxFuture<'_, Result<Holders>>;
}
