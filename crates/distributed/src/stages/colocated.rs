//! Colocated joins and groupings, which need no exchange of rows.
//!
//! Rows with equal shard keys lie on one worker, in all tables. So a join on the shard keys of both
//! sides, and a grouping by a shard key, need no rows of other workers. This pass replaces the
//! exchanges below them by the scans, with a partition for each worker on both sides.
//!
//! Operators above may rely on hash partitioning, to match rows with others that are partitioned
//! the same way. So a node is changed only if the next operator that depends on it is another
//! exchange.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::ExecutionPlan as _;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use thalweg_execution::operator::RECOMPUTED;

use super::Plan;
use crate::scan::RemoteScan;

/// Removes the exchanges of rows that are on the right worker already.
pub(super) fn colocated(plan: &Plan) -> Result<Plan> {
    changed(plan, true)
}

fn changed(node: &Plan, is_free: bool) -> Result<Plan> {
    if let Some(placed) = in_place(node, is_free)? {
        return Ok(placed);
    }
    if node.children().is_empty() {
        return Ok(Arc::clone(node));
    }
    let is_free = leaves_free(node, is_free);
    let children = node.children().into_iter().map(|child| changed(child, is_free));
    Arc::clone(node).replace_children(children.collect::<Result<Vec<_>>>()?, RECOMPUTED)
}

/// True if no operator above the children of a node relies on how their rows are partitioned.
fn leaves_free(node: &Plan, is_free: bool) -> bool {
    let is_exchange = node.is::<RepartitionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<SortPreservingMergeExec>();
    let is_partial = node
        .downcast_ref::<AggregateExec>()
        .is_some_and(|aggregate| *aggregate.mode() == AggregateMode::Partial);
    let passes_on = node.is::<FilterExec>()
        || node.is::<ProjectionExec>()
        || node.is::<CooperativeExec>()
        || is_partial;
    is_exchange || (passes_on && is_free)
}

/// Replaces a node over scans if each worker has all rows that belong together.
fn in_place(node: &Plan, is_free: bool) -> Result<Option<Plan>> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return joined(join, is_free);
    }
    let aggregate = node.downcast_ref::<AggregateExec>().filter(|_| is_free);
    let Some(aggregate) = aggregate else { return Ok(None) };
    let keys = aggregate.group_expr();
    if *aggregate.mode() != AggregateMode::FinalPartitioned || !keys.is_single() {
        return Ok(None);
    }
    let Some(scan) = dealt(aggregate.input()) else { return Ok(None) };
    let is_key = |expression: &Arc<dyn PhysicalExpr>| {
        column(expression).is_some_and(|column| shard_key(scan) == Some(column))
    };
    if !keys.expr().iter().any(|(expression, _)| is_key(expression)) {
        return Ok(None);
    }
    Arc::clone(node).replace_children(vec![Arc::clone(scan)], RECOMPUTED).map(Some)
}

fn joined(join: &HashJoinExec, is_free: bool) -> Result<Option<Plan>> {
    let sides = match join.partition_mode() {
        PartitionMode::Partitioned if is_free => dealt(join.left()).zip(dealt(join.right())),
        // If one side is collected, no operator relies on the partitioning of the rows.
        PartitionMode::CollectLeft if !join.null_aware => {
            collected(join.left()).zip(join.right().is::<RemoteScan>().then(|| join.right()))
        }
        _ => None,
    };
    let Some((left, right)) = sides.filter(|(left, right)| lie_together(join, left, right)) else {
        return Ok(None);
    };
    let placed = join
        .builder()
        .with_partition_mode(PartitionMode::Partitioned)
        .with_new_children(vec![Arc::clone(left), Arc::clone(right)])?
        .build()?;
    Ok(Some(Arc::new(placed)))
}

/// True if matching rows of two scans always lie on one worker.
fn lie_together(join: &HashJoinExec, left: &Plan, right: &Plan) -> bool {
    let (Some(one), Some(other)) = (shard_key(left), shard_key(right)) else { return false };
    let is_on = join
        .on()
        .iter()
        .any(|(left, right)| column(left) == Some(one) && column(right) == Some(other));
    let data_type = |scan: &Plan, key: usize| scan.schema().field(key).data_type().clone();
    let streams =
        |scan: &Plan| scan.downcast_ref::<RemoteScan>().map(|scan| scan.streams().to_vec());
    is_on && data_type(left, one) == data_type(right, other) && streams(left) == streams(right)
}

fn column(expression: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expression.downcast_ref::<Column>().map(Column::index)
}

/// Index of a scan's shard key, if it has one and several streams. Floating-point keys do not
/// count: equal numbers may have different bytes.
fn shard_key(scan: &Plan) -> Option<usize> {
    let remote = scan.downcast_ref::<RemoteScan>().filter(|scan| scan.streams().len() > 1)?;
    let key = remote.shard_key()?;
    (!scan.schema().field(key).data_type().is_floating()).then_some(key)
}

/// The scan below an operator that hash-partitions its rows.
fn dealt(node: &Plan) -> Option<&Plan> {
    let dealt = node.downcast_ref::<RepartitionExec>()?;
    let is_hashed = matches!(dealt.partitioning(), Partitioning::Hash(..));
    (is_hashed && dealt.input().is::<RemoteScan>()).then(|| dealt.input())
}

/// The scan below an operator that collects all of its rows.
fn collected(node: &Plan) -> Option<&Plan> {
    let merge = node.downcast_ref::<CoalescePartitionsExec>()?;
    (merge.fetch().is_none() && merge.input().is::<RemoteScan>()).then(|| merge.input())
}
