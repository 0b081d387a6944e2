//! The optimizer pass that merges groups of workers without an exchange of partial aggregates.
//!
//! It runs after the passes that give final aggregates to workers or to stages. The remaining final
//! aggregates run here, over the partial aggregates that workers send.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use thalweg_execution::fused::MergedGroups;

use crate::fold::{undealt, without_exchange};
use crate::scan::RemoteScan;

/// Replaces final aggregates over scans by operators that merge the groups in one place.
pub(crate) fn merged(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let merged = plan.transform_up(|plan| {
        let changed = match of_scan(&plan)? {
            Some(groups) => Some(groups),
            None => without_exchange(&plan)?,
        };
        Ok(match changed {
            Some(changed) => Transformed::yes(changed),
            None => Transformed::no(plan),
        })
    });
    let merged = merged.data()?;
    Ok(undealt(&merged)?.unwrap_or(merged))
}

/// The replacement of a final aggregate over the rows of a scan. It keeps the partitioning, on
/// which operators above may rely.
fn of_scan(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let input = aggregate.input().children();
    if !input.first().is_some_and(|input| input.is::<RemoteScan>()) {
        return Ok(None);
    }
    let Some(groups) = MergedGroups::in_place_of(aggregate)? else { return Ok(None) };
    let groups: Arc<dyn ExecutionPlan> = Arc::new(groups);
    match plan.properties().output_partitioning() {
        dealt @ Partitioning::Hash(..) => {
            Ok(Some(Arc::new(RepartitionExec::try_new(groups, dealt.clone())?)))
        }
        one if one.partition_count() == 1 => Ok(Some(groups)),
        _ => Ok(None),
    }
}
