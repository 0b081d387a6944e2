//! A table whose rows lie on workers, as DataFusion's planner sees it.
//!
//! What the transaction itself added lies here, in private chunks of an empty table, and what it
//! took away is left out of what the workers send.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{DFSchema, ScalarValue, Statistics};
use datafusion::error::Result;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, in_list, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::prelude::SessionConfig;
use thalweg_store::{TableState, arrow_schema};
use thalweg_types::{RowId, TableSchema};

use super::{Gathering, WorkerScan, Workers};
use crate::kept::Reusable;
use crate::scan::{ROW_ID, ShardScan, scan_schema};

pub(crate) struct TableOnWorkers {
    workers: Arc<dyn Workers>,
    table: Arc<TableSchema>,
    schema: SchemaRef,
    /// The rows of the transaction's own.
    own: Arc<TableState>,
    /// Whether the transaction took away all others, and else which.
    truncated: bool,
    killed: Vec<RowId>,
}

impl fmt::Debug for TableOnWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableOnWorkers({})", self.table.name)
    }
}

impl TableOnWorkers {
    pub(crate) fn new(
        workers: Arc<dyn Workers>,
        table: &Arc<TableSchema>,
        own: Arc<TableState>,
        (truncated, killed): (bool, Vec<RowId>),
        row_ids: bool,
    ) -> TableOnWorkers {
        let schema = scan_schema(&arrow_schema(table), row_ids);
        TableOnWorkers { workers, table: Arc::clone(table), schema, own, truncated, killed }
    }

    fn on_workers(
        &self,
        projection: Vec<usize>,
        filter: Option<Arc<dyn PhysicalExpr>>,
        limit: Option<usize>,
        config: &SessionConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let gathering = config.get_extension::<Gathering>();
        let mut scan = WorkerScan {
            table: Arc::clone(&self.table),
            schema: Arc::clone(&self.schema),
            projection,
            filter,
            limit,
            gathering: gathering.map_or_else(Gathering::default, |gathering| *gathering),
            is_kept: config.get_extension::<Reusable>().is_some(),
        };
        if self.killed.is_empty() {
            return self.workers.scan(scan);
        }
        // Rows that were taken away are known by their places.
        scan.schema = scan_schema(&arrow_schema(&self.table), true);
        scan.limit = None;
        let wanted = scan.projection.len();
        let places = self.table.columns.len();
        let place = scan.projection.iter().position(|column| *column == places);
        let place = place.unwrap_or_else(|| {
            scan.projection.push(places);
            wanted
        });
        let scan = self.workers.scan(scan)?;
        let gone = self.killed.iter().map(|row| lit(ScalarValue::UInt64(Some(row.0))));
        let row: Arc<dyn PhysicalExpr> = Arc::new(Column::new(ROW_ID, place));
        let left = in_list(row, gone.collect(), &true, &scan.schema())?;
        let left = Arc::new(FilterExec::try_new(left, scan)?);
        let schema = left.schema();
        let columns = (0..wanted).map(|place| {
            let name = schema.field(place).name().clone();
            (Arc::new(Column::new(&name, place)) as Arc<dyn PhysicalExpr>, name)
        });
        Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), left)?))
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
        let filter = match conjunction(filters.iter().cloned()) {
            Some(filter) => {
                let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
                Some(session.create_physical_expr(filter, &schema)?)
            }
            None => None,
        };
        let mut parts = Vec::with_capacity(2);
        if self.own.rows() > 0 || self.truncated {
            let own = ShardScan::new(
                &self.table.name,
                &self.own,
                &self.schema,
                projection.clone(),
                filter.as_ref(),
                limit,
                session.config().target_partitions(),
                false,
            )?;
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
        // Scans ask fewer workers and leave out chunks: the filter itself stays above them.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    fn statistics(&self) -> Option<Statistics> {
        let rows = self.workers.row_count(self.table.id)?;
        let mut statistics = Statistics::new_unknown(&self.schema);
        statistics.num_rows = Precision::Inexact(rows);
        Some(statistics)
    }
}
