//! One table of one snapshot, as DataFusion's planner sees it.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use thalweg_execution::scan::{
    Purpose, ScanRequest, ShardScan, States, executable, scan_schema, table_statistics,
};
use thalweg_store::{TableState, arrow_schema};
use thalweg_types::TableSchema;

use super::view_binding;
use crate::plan_cache::PlansForCache;
use crate::workers::TableOnWorkers;

pub(crate) struct ShardTable {
    name: String,
    state: Arc<TableState>,
    schema: SchemaRef,
    key: Option<Vec<String>>,
}

impl fmt::Debug for ShardTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardTable({})", self.name)
    }
}

impl ShardTable {
    pub(crate) fn new(table: &TableSchema, state: Arc<TableState>, row_ids: bool) -> ShardTable {
        ShardTable {
            name: table.name.clone(),
            key: table.primary_key_names(),
            schema: scan_schema(&arrow_schema(table), row_ids),
            state,
        }
    }
}

/// The columns of a table's primary key, if the relation is a table that has one.
pub(crate) fn primary_key(provider: &dyn TableProvider) -> Option<Vec<String>> {
    if let Some(table) = provider.downcast_ref::<ShardTable>() {
        return table.key.clone();
    }
    if let Some(table) = provider.downcast_ref::<TableOnWorkers>() {
        return table.primary_key();
    }
    view_binding::primary_key(provider)
}

#[async_trait]
impl TableProvider for ShardTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    // Keys are not reported to DataFusion, because 55.2 derives wrong facts from them for groupings
    // over joins, and takes rows for unique that are not.

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
        let filter = executable(filters, &self.schema, session)?;
        let purpose = match session.config().get_extension::<PlansForCache>() {
            Some(_) => Purpose::Runs,
            None => Purpose::Run,
        };
        let request = ScanRequest {
            table: &self.name,
            schema: &self.schema,
            projection: projection.cloned().unwrap_or_else(all),
            filter: filter.as_ref(),
            limit,
            threads: session.config().target_partitions(),
            purpose,
        };
        Ok(Arc::new(ShardScan::new(&States::from(Arc::clone(&self.state)), request)?))
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        // Zones exclude only whole chunks, so the filter itself stays above the scan.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(table_statistics(&self.state))
    }
}
