//! Plans that are so short that a thread switch would take as long.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, LikeExpr};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use thalweg_execution::parameter_values::is_bound;
use thalweg_execution::semi_join_filters::LOCAL;

/// Operators that take their input's rows one batch after the other, on the same thread.
const PLAIN: [&str; 15] = [
    "AggregateExec",
    "ByteSized",
    "CoalesceBatchesExec",
    "CooperativeExec",
    "EmptyExec",
    "FilterExec",
    "FusedAggregate",
    "GlobalLimitExec",
    "LocalLimitExec",
    "PlaceholderRowExec",
    "ProjectionExec",
    "ShardScan",
    "SmallBatches",
    "SortExec",
    "SortExec(TopK)",
];

/// A plain plan that reads at most so many rows begins on the calling thread.
pub(super) const FEW_ROWS: usize = 256;

/// A plan with more parts of expressions than this is not plain.
const FEW_PARTS: usize = 100;

/// True if a plan has little to do over its present rows.
pub(crate) fn is_short(plan: &Arc<dyn ExecutionPlan>) -> PlanResult<bool> {
    let mut rows = 0;
    plan.apply(|plan| {
        rows += LOCAL(plan).and_then(|leaf| leaf.rows()).unwrap_or_default();
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(rows <= FEW_ROWS && is_plain(plan)?)
}

/// True if a plan has little to do over few rows: its operators are plain, and their expressions
/// are short and cheap for each row.
pub(super) fn is_plain(plan: &Arc<dyn ExecutionPlan>) -> PlanResult<bool> {
    let mut parts = 0;
    let is_other = plan.exists(|plan| {
        let mut calls = false;
        plan.apply_expressions(&mut |expression| {
            expression.apply(|part| {
                parts += 1;
                calls |= takes_any_time(part);
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        let is_alone = plan.children().len() < 2 && PLAIN.contains(&plan.name());
        Ok(calls || parts > FEW_PARTS || !is_alone)
    })?;
    Ok(!is_other)
}

/// True for functions and patterns, whose cost for a row has no bound.
fn takes_any_time(part: &Arc<dyn PhysicalExpr>) -> bool {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    let is_pattern = part.downcast_ref::<BinaryExpr>().is_some_and(|binary| {
        matches!(binary.op(), RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch)
    });
    let is_call = part.is::<ScalarFunctionExpr>() && !is_bound(part);
    is_call || is_pattern || part.is::<LikeExpr>()
}
