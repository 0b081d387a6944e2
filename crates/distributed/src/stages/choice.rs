//! Decides whether a plan runs in stages, by the estimated bytes that reach the busiest node.
//!
//! If a plan is gathered, all rows of the scans reach the gateway, except those that semi-join
//! filters remove. In stages, a worker gets its share of hash-partitioned rows and all broadcast
//! rows, and the gateway gets the result. Estimates are coarse: rows of tables are counted
//! periodically, and the selectivity of filters and groupings is assumed.

use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode, SortMergeJoinExec,
};
use datafusion::physical_plan::repartition::RepartitionExec;
use thalweg_execution::semi_join_filters::{
    ASSUMED_SELECTIVITY_DIVISOR, share, with_semi_join_filters,
};

use super::Plan;
use crate::scan::{REMOTE, RemoteScan};

/// Plans that gather fewer bytes do not repay the planning of stages.
const BYTES_MIN: f64 = (8 << 20) as f64;
/// Limit of workers in stages. Each task reads from all tasks below, so the streams grow with the
/// square.
const WORKERS_MAX: usize = 64;
/// Assumed size of a value of variable width, in bytes.
const VALUE_BYTES: usize = 24;

/// The way to run a plan, with the reason.
#[derive(Debug, PartialEq)]
pub(super) enum Choice {
    Gather(String),
    Stages(String),
}

/// Decides between gathering `plan` and running it in stages as `placed`, the plan in which
/// colocated joins stay on their workers. Returns `None` if no part of the plan could run between
/// workers.
///
/// # Errors
/// If an operator rejects scans that wait for semi-join filters.
pub(super) fn choice(plan: &Plan, placed: &Plan, workers: usize) -> Result<Option<Choice>> {
    let workers = workers.max(1) as f64;
    let mut moved = Moved::default();
    moved.look(placed, workers);
    if !moved.is_exchanged {
        return Ok(None);
    }
    moved.gateway = gathered(plan, workers)?;
    Ok(Some(moved.choice(placed, workers)))
}

/// Bytes that reach the gateway if all rows are gathered, after semi-join filters.
fn gathered(plan: &Plan, workers: f64) -> Result<f64> {
    let mut all = 0.0;
    with_semi_join_filters(plan, REMOTE)?.apply(|node| {
        if let Some(scan) = node.downcast_ref::<RemoteScan>() {
            all += bytes(node, workers) * scan.share_of_keys();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(all)
}

/// The reason why a cluster with this number of workers has no stages, if so.
pub(super) fn no_stages(workers: usize) -> Option<String> {
    match workers {
        0 | 1 => Some("there is one worker".to_owned()),
        _ if workers > WORKERS_MAX => Some(format!("there are more than {WORKERS_MAX} workers")),
        _ => None,
    }
}

/// Bytes that reach nodes.
#[derive(Default)]
struct Moved {
    /// Bytes that reach the gateway if the rows are gathered.
    gateway: f64,
    /// Bytes that reach each worker in stages.
    worker: f64,
    is_unknown: bool,
    /// True if rows have to meet rows of other workers, or could be joined on their own worker.
    is_exchanged: bool,
}

impl Moved {
    fn choice(&self, plan: &Plan, workers: f64) -> Choice {
        let gather = |why: &str| Choice::Gather(why.to_owned());
        if self.is_unknown {
            return gather("nobody has counted the rows yet");
        }
        let result = rows(plan, workers) * width(&plan.schema());
        let staged = self.worker.max(result);
        if self.worker == 0.0 && self.gateway >= BYTES_MIN && result < self.gateway {
            return Choice::Stages("what belongs together lies together".to_owned());
        }
        if self.gateway < BYTES_MIN {
            return gather(&format!("{} are few", size(self.gateway)));
        }
        if staged >= self.gateway {
            let reason = format!("{} at one node, not {}", size(self.gateway), size(staged));
            return gather(&reason);
        }
        Choice::Stages(format!("{} at one node, not {}", size(staged), size(self.gateway)))
    }

    /// Adds up a node and the nodes below it.
    fn look(&mut self, node: &Plan, workers: f64) {
        if let Some(scan) = node.downcast_ref::<RemoteScan>() {
            self.is_unknown |= scan.sent().is_none();
        }
        if let Some(dealt) = node.downcast_ref::<RepartitionExec>()
            && matches!(dealt.partitioning(), Partitioning::Hash(..))
        {
            self.is_exchanged = true;
            self.worker += bytes(dealt.input(), workers) / workers;
        }
        // Colocated joins and aggregates: each worker has all rows that belong together.
        let joins = node.is::<HashJoinExec>() || node.is::<AggregateExec>();
        self.is_exchanged |= joins && node.children().iter().all(|child| child.is::<RemoteScan>());
        if let Some(built) = built(node) {
            self.is_exchanged = true;
            self.worker += bytes(built, workers);
        }
        node.children().into_iter().for_each(|child| self.look(child, workers));
    }
}

/// The side of a join that is broadcast to all workers.
fn built(node: &Plan) -> Option<&Plan> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let is_collected = *join.partition_mode() == PartitionMode::CollectLeft;
        return is_collected.then(|| join.left());
    }
    let is_collected = node.is::<CrossJoinExec>() || node.is::<NestedLoopJoinExec>();
    is_collected.then(|| node.children()[0])
}

fn bytes(node: &Plan, workers: f64) -> f64 {
    rows(node, workers) * width(&node.schema())
}

/// Estimated number of rows of a node.
fn rows(node: &Plan, workers: f64) -> f64 {
    let found = match node.downcast_ref::<RemoteScan>() {
        Some(scan) => scan.sent().unwrap_or_default() as f64,
        None => {
            let children: Vec<f64> =
                node.children().into_iter().map(|child| rows(child, workers)).collect();
            of_children(node, &children, workers)
        }
    };
    node.fetch().map_or(found, |fetch| found.min(fetch as f64))
}

fn of_children(node: &Plan, children: &[f64], workers: f64) -> f64 {
    let all: f64 = children.iter().sum();
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let is_one = aggregate.group_expr().is_true_no_grouping();
        return match aggregate.mode() {
            _ if is_one => 1.0,
            // Each worker has sent its own part of the same groups.
            AggregateMode::Final | AggregateMode::FinalPartitioned => all / workers,
            _ => all,
        };
    }
    if node.is::<FilterExec>() {
        return all / ASSUMED_SELECTIVITY_DIVISOR as f64;
    }
    if node.is::<CrossJoinExec>() {
        return children.iter().product();
    }
    // Most joins follow a foreign key, so each row of the larger side meets one row of the other
    // side, unless a filter removed that one.
    let joins = node.is::<HashJoinExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<NestedLoopJoinExec>();
    let sides: Vec<f64> = node.children().into_iter().map(|side| share(side, REMOTE)).collect();
    match (children, sides.as_slice()) {
        ([left, right], [_, kept]) if joins && left >= right => left * kept,
        ([_, right], [kept, _]) if joins => right * kept,
        _ => all,
    }
}

/// Estimated size of a row in bytes.
fn width(schema: &Schema) -> f64 {
    let width = |data_type: &DataType| data_type.primitive_width().unwrap_or(VALUE_BYTES);
    schema.fields().iter().map(|field| width(field.data_type())).sum::<usize>().max(1) as f64
}

fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= (1 << 20) as f64 => format!("{:.0} MiB", bytes / (1 << 20) as f64),
        bytes => format!("{:.0} KiB", (bytes / 1024.0).ceil()),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn streams_of_all_with_all_have_an_end() {
        assert_eq!(no_stages(2), None);
        assert_eq!(no_stages(WORKERS_MAX), None);
        assert!(no_stages(WORKERS_MAX + 1).is_some());
        assert!(no_stages(1).is_some());
    }

    #[test]
    fn rows_have_a_width() {
        let fields = [("a", DataType::Int64), ("b", DataType::Utf8View), ("c", DataType::Boolean)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        assert!(width(&Schema::new(fields.to_vec())) >= 8.0 + VALUE_BYTES as f64);
        assert!(width(&Schema::empty()) > 0.0);
    }
}
