//! The cluster of a database: the ways to its rows on other nodes, or a null object if there are
//! none.
//!
//! Callers ask the part that they need without knowing whether there is a cluster. The absent one
//! refuses nothing and informs nobody; only reads and writes of rows fail, which no caller asks of
//! it. Callers that take another way with a cluster ask [`Cluster::is_present`] or
//! [`Cluster::holds`].

use std::sync::{Arc, LazyLock};

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::error::Result as PlanResult;
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use thalweg_execution::row_forms::{EncodedStream, RowForm};
use thalweg_execution::semi_join_filters::ApplySemiJoinFilters;
use thalweg_txn::Durability;
use thalweg_types::{Error, Result, TableId, TableSchema};
use thalweg_values::errors::external;

use super::{
    AtomicScope, Definition, DefinitionQuorum, Gathering, Holders, KeySearch, KeyedWriter, Load,
    PhysicalRule, Rebound, RemoteDefinitions, RemoteLookups, RemoteScans, RemoteWrites, WorkerScan,
    Write, lies_on_workers,
};

/// The nodes that hold the rows of a database.
pub struct Cluster {
    pub(crate) scans: Arc<dyn RemoteScans>,
    pub(crate) writes: Arc<dyn RemoteWrites>,
    pub(crate) definitions: Arc<dyn RemoteDefinitions>,
    pub(crate) lookups: Arc<dyn RemoteLookups>,
    is_present: bool,
}

impl Cluster {
    /// The cluster behind a gateway.
    #[must_use]
    pub fn behind<G>(gateway: &Arc<G>) -> Arc<Cluster>
    where
        G: RemoteScans + RemoteWrites + RemoteDefinitions + RemoteLookups + 'static,
    {
        Arc::new(Cluster::of(gateway, true))
    }

    /// The absent cluster of a database that holds its rows itself.
    pub(crate) fn absent() -> &'static Arc<Cluster> {
        static ABSENT: LazyLock<Arc<Cluster>> =
            LazyLock::new(|| Arc::new(Cluster::of(&Arc::new(Absent), false)));
        &ABSENT
    }

    fn of<G>(node: &Arc<G>, is_present: bool) -> Cluster
    where
        G: RemoteScans + RemoteWrites + RemoteDefinitions + RemoteLookups + 'static,
    {
        Cluster {
            scans: Arc::clone(node) as _,
            writes: Arc::clone(node) as _,
            definitions: Arc::clone(node) as _,
            lookups: Arc::clone(node) as _,
            is_present,
        }
    }

    /// True if rows lie on workers, except those of the cluster's own tables.
    pub(crate) fn is_present(&self) -> bool {
        self.is_present
    }

    /// True if the rows of a table lie on workers.
    pub(crate) fn holds(&self, table: &TableSchema) -> bool {
        self.is_present && lies_on_workers(table)
    }

    /// Checks that rows lie on this node, for a feature that needs them here.
    ///
    /// # Errors
    /// 0A000 naming the feature, if there is a cluster.
    pub(crate) fn only_without(&self, feature: &str, hint: &'static str) -> Result<()> {
        match self.is_present {
            true => Err(Error::unsupported(feature).with_hint(hint)),
            false => Ok(()),
        }
    }
}

/// Stands for the cluster of a database without one: there are no other nodes to ask or to inform.
struct Absent;

fn no_cluster() -> Error {
    Error::internal("a database without a cluster asks no workers")
}

impl RemoteScans for Absent {
    fn gathering(&self) -> Gathering {
        Gathering::default()
    }

    fn partitions_min(&self) -> usize {
        1
    }

    fn scan(&self, _: WorkerScan) -> PlanResult<Arc<dyn ExecutionPlan>> {
        Err(external(no_cluster()))
    }

    fn rebound(&self, _: &Arc<dyn ExecutionPlan>, _: Gathering) -> PlanResult<Rebound> {
        Ok(Rebound::Other)
    }

    fn same_again(&self, _: &Arc<dyn ExecutionPlan>) -> PlanResult<Rebound> {
        Ok(Rebound::Other)
    }

    fn encoded(
        &self,
        _: &Arc<dyn ExecutionPlan>,
        _: &SchemaRef,
        _: &RowForm,
    ) -> Result<Option<EncodedStream>> {
        Ok(None)
    }

    fn row_count(&self, _: TableId) -> Option<usize> {
        None
    }

    fn physical_rule(&self) -> PhysicalRule {
        Arc::new(ApplySemiJoinFilters)
    }

    fn system_table<'a>(
        &'a self,
        _: &'a str,
    ) -> BoxFuture<'a, Option<PlanResult<Arc<dyn TableProvider>>>> {
        ready(None).boxed()
    }
}

impl RemoteWrites for Absent {
    fn write(&self, _: Vec<Write>, _: AtomicScope, _: Durability) -> BoxFuture<'_, Result<()>> {
        ready(Err(no_cluster())).boxed()
    }

    fn load(&self, _: Arc<TableSchema>) -> Option<Box<dyn Load>> {
        None
    }

    fn keyed_writer(&self) -> Option<Box<dyn KeyedWriter>> {
        None
    }
}

impl RemoteDefinitions for Absent {
    fn readiness(&self) -> Result<()> {
        Ok(())
    }

    fn may_number(&self) -> Result<()> {
        Ok(())
    }

    fn may_lock(&self) -> Result<()> {
        Ok(())
    }

    fn can_define<'a>(
        &'a self,
        _: &'a Definition,
        _: DefinitionQuorum,
    ) -> BoxFuture<'a, Result<()>> {
        ready(Ok(())).boxed()
    }

    fn define<'a>(&'a self, _: &'a Definition) -> BoxFuture<'a, ()> {
        ready(()).boxed()
    }
}

impl RemoteLookups for Absent {
    fn find(&self, _: KeySearch) -> BoxFuture<'_, Result<Holders>> {
        ready(Err(no_cluster())).boxed()
    }
}
