//! The gateway as [`RemoteScans`]: scans become operators that ask the workers, and their rows are
//! relayed if nothing is left to compute.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::error::Result as PlanResult;
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use thalweg_execution::row_forms::{EncodedStream, RowForm};
use thalweg_query::{Gathering, PhysicalRule, Rebound, RemoteScans, WorkerScan};
use thalweg_types::{Result, TableId};

use super::{Gateway, system_tables};
use crate::fold::FoldIntoScans;
use crate::relayed::{self, only_scan};
use crate::scan::RemoteScan;
use crate::stages::RunAsStages;

impl RemoteScans for Gateway {
    fn gathering(&self) -> Gathering {
        self.gathering
    }

    /// With one partition, joins and groupings would have no stages.
    fn partitions_min(&self) -> usize {
        2
    }

    fn scan(&self, scan: WorkerScan) -> PlanResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(RemoteScan::new(&self.shared, scan)?))
    }

    fn rebound(
        &self,
        operator: &Arc<dyn ExecutionPlan>,
        gathering: Gathering,
    ) -> PlanResult<Rebound> {
        let Some(scan) = operator.downcast_ref::<RemoteScan>() else { return Ok(Rebound::Other) };
        Ok(match scan.rebound(gathering)? {
            Some(scan) => Rebound::Scan(Arc::new(scan)),
            None => Rebound::Outgrown,
        })
    }

    fn same_again(&self, operator: &Arc<dyn ExecutionPlan>) -> PlanResult<Rebound> {
        let Some(scan) = operator.downcast_ref::<RemoteScan>() else { return Ok(Rebound::Other) };
        Ok(match scan.same_again()? {
            Some(scan) => Rebound::Scan(Arc::new(scan)),
            None => Rebound::Outgrown,
        })
    }

    fn encoded(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        described: &SchemaRef,
        form: &RowForm,
    ) -> Result<Option<EncodedStream>> {
        match only_scan(plan).filter(|(scan, _)| scan.is_relayed()) {
            Some((scan, window)) => relayed::encoded(scan, window, described, form),
            None => Ok(None),
        }
    }

    fn row_count(&self, table: TableId) -> Option<usize> {
        self.shared.row_count(table)
    }

    fn physical_rule(&self) -> PhysicalRule {
        Arc::new(FoldIntoScans::new(RunAsStages::new(&self.shared)))
    }

    fn system_table<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Option<PlanResult<Arc<dyn TableProvider>>>> {
        async move {
            match name {
                "nodes" => Some(system_tables::nodes(&self.status().await)),
                "gateways" => Some(system_tables::gateways(&self.shared.gateways())),
                "buckets" => Some(system_tables::buckets(&self.shared.map().current())),
                _ => None,
            }
        }
        .boxed()
    }
}
