//! A table with rows on workers, as a table provider for DataFusion's planner.
//!
//! The transaction's own new rows are here, in private chunks of an empty table. Workers leave out
//! the rows that the transaction deleted: they know where compaction has moved these since they
//! were read.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use datafusion::prelude::SessionConfig;
use thalweg_execution::scan::{Purpose, ScanRequest, ShardScan, States, executable, scan_schema};
use thalweg_store::{TableState, arrow_schema};
use thalweg_types::{RowId, TableSchema};

use super::{Gathering, RemoteScans, WorkerScan};
use crate::plan_cache::PlansForCache;

pub(crate) struct TableOnWorkers {
    scans: Arc<dyn RemoteScans>,
    table: Arc<TableSchema>,
    schema: SchemaRef,
    /// The transaction's own rows.
    own: Arc<TableState>,
    /// True if the transaction deleted all rows on workers. Otherwise `killed` names the deleted
    /// ones.
    truncated: bool,
    killed: Arc<[RowId]>,
}

impl fmt::Debug for TableOnWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableOnWorkers({})", self.table.name)
    }
}

impl TableOnWorkers {
    pub(crate) fn new(
        scans: Arc<dyn RemoteScans>,
        table: &Arc<TableSchema>,
        own: Arc<TableState>,
        (truncated, killed): (bool, Arc<[RowId]>),
        row_ids: bool,
    ) -> TableOnWorkers {
        let schema = scan_schema(&arrow_schema(table), row_ids);
        TableOnWorkers { scans, table: Arc::clone(table), schema, own, truncated, killed }
    }

    pub(crate) fn primary_key(&self) -> Option<Vec<String>> {
        self.table.primary_key_names()
    }

    fn on_workers(
        &self,
        projection: Vec<usize>,
        filter: Option<Arc<dyn PhysicalExpr>>,
        limit: Option<usize>,
        config: &SessionConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let gathering = config.get_extension::<Gathering>();
        self.scans.scan(WorkerScan {
            table: Arc::clone(&self.table),
            schema: Arc::clone(&self.schema),
            projection,
            filter,
            limit,
            hidden: Arc::clone(&self.killed),
            gathering: gathering.map_or_else(Gathering::default, |gathering| *gathering),
            is_cached: config.get_extension::<PlansForCache>().is_some(),
        })
    }
}

#[async_trait]
impl TableProvider for TableOnWorkers {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let filter = executable(filters, &self.schema, session)?;
        let mut parts = Vec::with_capacity(2);
        if self.own.rows() > 0 || self.truncated {
            let request = ScanRequest {
                table: &self.table.name,
                schema: &self.schema,
                projection: projection.clone(),
                filter: filter.as_ref(),
                limit,
                threads: session.config().target_partitions(),
                purpose: Purpose::Run,
            };
            let own = ShardScan::new(&States::from(Arc::clone(&self.own)), request)?;
            parts.push(Arc::new(own) as Arc<dyn ExecutionPlan>);
        }
        if !self.truncated {
            parts.push(self.on_workers(projection, filter, limit, session.config())?);
        }
        match parts.len() {
            1 => Ok(parts.remove(0)),
            _ => UnionExec::try_new(parts),
        }
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        // Scans only exclude workers and chunks: the filter itself stays above them.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    fn statistics(&self) -> Option<Statistics> {
        let rows = self.scans.row_count(self.table.id)?;
        let mut statistics = Statistics::new_unknown(&self.schema);
        statistics.num_rows = Precision::Inexact(rows);
        Some(statistics)
    }
}
