//! Binds a cached plan to the rows of an execution.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as PlanResult;
use datafusion::physical_plan::ExecutionPlan;
use thalweg_execution::fused::FusedAggregate;
use thalweg_execution::scan::{ShardScan, States};
use thalweg_types::TableId;

use crate::workers::Rebound;

/// The rows of an execution.
pub(crate) struct TemplateBinder<'a> {
    /// The rows of a table as the execution sees it.
    states: &'a mut dyn FnMut(TableId) -> PlanResult<States>,
    fits: bool,
    read: usize,
}

impl<'a> TemplateBinder<'a> {
    pub(crate) fn new(
        states: &'a mut dyn FnMut(TableId) -> PlanResult<States>,
    ) -> TemplateBinder<'a> {
        TemplateBinder { states, fits: true, read: 0 }
    }

    /// The plan over the rows; `elsewhere` rebinds operators whose rows come from workers. `None`
    /// if a table no longer fits the plan.
    pub(crate) fn plan(
        &mut self,
        template: &Arc<dyn ExecutionPlan>,
        elsewhere: &dyn Fn(&Arc<dyn ExecutionPlan>) -> PlanResult<Rebound>,
    ) -> PlanResult<Option<Arc<dyn ExecutionPlan>>> {
        (self.fits, self.read) = (true, 0);
        let plan = Arc::clone(template).transform_up(|plan| {
            if let Some(scan) = plan.downcast_ref::<ShardScan>() {
                return Ok(Transformed::yes(Arc::new(self.scan(scan)?) as _));
            }
            if let Some(fused) = plan.downcast_ref::<FusedAggregate>() {
                return Ok(Transformed::yes(fused.over(&mut |scan| self.scan(scan))?));
            }
            match elsewhere(&plan)? {
                Rebound::Scan(scan) => return Ok(Transformed::yes(scan)),
                Rebound::Outgrown => self.fits = false,
                Rebound::Other => {}
            }
            Ok(Transformed::yes(plan.reset_state()?))
        })?;
        Ok(self.fits.then_some(plan.data))
    }

    fn scan(&mut self, scan: &ShardScan) -> PlanResult<ShardScan> {
        let states = (self.states)(scan.table_id())?;
        self.fits &= scan.fits(&states);
        let scan = scan.over(&states)?;
        self.read += scan.rows_to_read();
        Ok(scan)
    }

    /// Number of rows that the last plan reads, after pruning by zones and indexes.
    pub(crate) fn read(&self) -> usize {
        self.read
    }
}

/// The plan without rows, so that it keeps no rows alive. `None` if it holds anything besides
/// tables and operators that are the same in every execution.
pub(crate) fn template(
    plan: Arc<dyn ExecutionPlan>,
    elsewhere: &dyn Fn(&Arc<dyn ExecutionPlan>) -> PlanResult<Rebound>,
) -> PlanResult<Option<Arc<dyn ExecutionPlan>>> {
    let mut known = true;
    let template = plan.transform_up(|plan| {
        if let Some(scan) = plan.downcast_ref::<ShardScan>() {
            return Ok(Transformed::yes(Arc::new(scan.without_rows()) as _));
        }
        if let Some(fused) = plan.downcast_ref::<FusedAggregate>() {
            return Ok(Transformed::yes(Arc::new(fused.without_rows()?) as _));
        }
        known &= match elsewhere(&plan)? {
            Rebound::Scan(_) | Rebound::Outgrown => true,
            Rebound::Other => OPERATORS.contains(&plan.name()),
        };
        Ok(Transformed::no(plan))
    })?;
    Ok(known.then_some(template.data))
}

/// Operators that are the same in every execution, except for their input.
const OPERATORS: [&str; 29] = [
    "AggregateExec",
    "BoundedWindowAggExec",
    "ByteSized",
    "CoalesceBatchesExec",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "CrossJoinExec",
    "EmptyExec",
    "FilterExec",
    "FirstOfGroups",
    "FirstSide",
    "GlobalLimitExec",
    "HashJoinExec",
    "LocalLimitExec",
    "MergedGroups",
    "NestedLoopJoinExec",
    "PartialSortExec",
    "PlaceholderRowExec",
    "ProjectionExec",
    "RepartitionExec",
    "RequiredOrder",
    "SmallBatches",
    "SortExec",
    "SortExec(TopK)",
    "SortMergeJoinExec",
    "SortPreservingMergeExec",
    "UnionExec",
    "Veil",
    "WindowAggExec",
];
