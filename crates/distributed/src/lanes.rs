//! The optimizer pass that lets few partitions read many workers.
//!
//! Each partition costs the operator above it a task and a queue. If thousands of workers send rows
//! in any order, that costs more than reading the rows. Then a partition reads a share of the
//! workers, whichever has sent rows.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use thalweg_execution::operator::RECOMPUTED;

use crate::scan::RemoteScan;

/// Up to this number of streams, each has a partition of its own.
const STREAMS_FEW: usize = 64;

/// Limits the partitions of scans with many streams, below operators that do not depend on them.
pub(crate) fn in_lanes(
    plan: Arc<dyn ExecutionPlan>,
    lanes: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        if !plan.is::<RepartitionExec>() && !plan.is::<CoalescePartitionsExec>() {
            return Ok(Transformed::no(plan));
        }
        let input = Arc::clone(plan.children()[0]);
        let scan = input.downcast_ref::<RemoteScan>();
        let scan = scan.filter(|scan| scan.streams().len() > STREAMS_FEW);
        match scan.filter(|scan| scan.properties().output_ordering().is_none()) {
            None => Ok(Transformed::no(plan)),
            Some(scan) => {
                let few: Arc<dyn ExecutionPlan> = Arc::new(scan.in_lanes(lanes.max(1)));
                Ok(Transformed::yes(plan.replace_children(vec![few], RECOMPUTED)?))
            }
        }
    })
    .data()
}
