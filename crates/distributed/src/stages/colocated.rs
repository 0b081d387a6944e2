//! Joins and groupings that stay where their rows are.
//!
//! Rows whose shard keys are equal lie on one worker, whatever table they are of. So a join on the
//! shard keys of both sides, and a grouping by a shard key, need nothing from other workers: the
//! scans come in place of what would deal their rows out, a partition for each worker on both
//! sides.
//!
//! Operators above may rely on it that rows were dealt out by a hash, to put them together with
//! others that were. So only where the next exchange follows is anything changed.

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
use thalweg_query::RECOMPUTED;

use super::Plan;
use crate::scan::RemoteScan;

/// The same plan, in which nothing is dealt out that lies in its place.
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

/// Whether nothing above a node's children relies on how their rows were dealt out.
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

/// A node over scans, where each worker has all that belongs together.
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
        // Where one side is collected, nobody relies on where the rows are.
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

/// Whether rows of two scans that a join puts together lie on one worker.
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

/// The place of a scan's shard key, where it has one and several streams. Floating point numbers
/// that are equal need not have the same bytes.
fn shard_key(scan: &Plan) -> Option<usize> {
    let remote = scan.downcast_ref::<RemoteScan>().filter(|scan| scan.streams().len() > 1)?;
    let key = remote.shard_key()?;
    (!scan.schema().field(key).data_type().is_floating()).then_some(key)
}

/// The scan whose rows a node deals out by a hash.
fn dealt(node: &Plan) -> Option<&Plan> {
    let dealt = node.downcast_ref::<RepartitionExec>()?;
    let is_hashed = matches!(dealt.partitioning(), Partitioning::Hash(..));
    (is_hashed && dealt.input().is::<RemoteScan>()).then(|| dealt.input())
}

/// The scan whose rows a node collects, all of them.
fn collected(node: &Plan) -> Option<&Plan> {
    let merge = node.downcast_ref::<CoalescePartitionsExec>()?;
    (merge.fetch().is_none() && merge.input().is::<RemoteScan>()).then(|| merge.input())
}
