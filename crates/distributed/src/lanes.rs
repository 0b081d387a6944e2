//! The pass that has few partitions read many workers.
//!
//! A partition costs the operator above it a task and a queue. Where thousands of workers send rows
//! whose order means nothing, that is more than to read them: then a partition reads its share of
//! the workers, whichever has sent something.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use thalweg_query::RECOMPUTED;

use crate::scan::RemoteScan;

/// Of so many each has a partition of its own.
const STREAMS_FEW: usize = 64;

/// The plan with so many partitions of scans of many workers, where what is above does not care.
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
