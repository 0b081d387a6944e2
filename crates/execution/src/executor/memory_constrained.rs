//! Memory-constrained plans, with which a statement restarts after it ran out of memory.
//!
//! A hash join holds its whole first side. In its place, both sides are sorted, which can spill,
//! and merged. Sorts get small batches in memory of their own, since a sort can only make room for
//! batches whose size it knows. All of this runs in one partition: few sorts get further with the
//! same memory than many.
//!
//! ```text
//!   HashJoin                Repartition, Sort   as the join's rows were dealt out and ordered
//!     first                   (Filter) SortMergeJoin
//!     second       ──►          Sort
//!                                 SmallBatches
//!                                   first
//!                               Sort …
//! ```
//!
//! A sort for only a few rows (top-k) holds these and does not spill. A sort for many rows becomes
//! a full sort below a limit, and so does any top-k if no other operator takes less.
//!
//! A nested-loop join goes through its first side in parts, which DataFusion implements. Here it
//! gets a first side that can be read twice, and a second side in one partition.
//!
//! A replacement has its rows in the same partitions and orders as the original operator, so that
//! the operators above it stay unchanged.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType, internal_err};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{Column, UnKnownColumn};
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, PhysicalExprRef, PhysicalSortExpr,
};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, PlanProperties};

use super::buffered_side::BufferedSide;
use super::yielding::SmallBatches;
use crate::operator::RECOMPUTED;
use crate::semi_join_filters::without_semi_join_filters;
use crate::staged::is_run_apart;

type Plan = Arc<dyn ExecutionPlan>;

/// Top-k sorts up to so many rows stay as they are, as long as other operators can take less
/// memory.
const FEW_ROWS: usize = 8192;

pub(super) struct MemoryConstrained {
    pub(super) plan: Plan,
    /// Number of sorts that share the memory.
    pub(super) sorts: usize,
}

/// A plan with the same rows that takes less memory and has not begun; `None` if there is none.
pub(super) fn memory_constrained(plan: Plan) -> Result<Option<MemoryConstrained>> {
    // Plans on workers and recursive plans cannot be restarted here.
    if plan.exists(|node| Ok(is_run_apart(node)))? {
        return Ok(None);
    }
    // A merge join reads both sides at once, so neither may wait for the other's semi-join filter.
    let plan = without_semi_join_filters(reset_plan_states(plan)?)?;
    let mut changed = with_less(plan, FEW_ROWS)?;
    if !changed.transformed {
        changed = with_less(changed.data, 0)?;
    }
    // Even without a change a restart may help: the values of one batch may have been too large.
    let sorts = sorts_of(&changed.data);
    Ok(Some(MemoryConstrained { plan: changed.data, sorts }))
}

/// Sorts that want up to `few` rows stay as they are.
fn with_less(plan: Plan, few: usize) -> Result<Transformed<Plan>> {
    plan.transform_up(|node| {
        let Some(memory_constrained) = in_place_of(&node, few)? else {
            return Ok(Transformed::no(node));
        };
        Ok(Transformed::yes(memory_constrained))
    })
}

/// Number of a plan's sorts that may spill. A top-k does not: it holds only its few rows.
fn sorts_of(plan: &Plan) -> usize {
    let own = match plan.downcast_ref::<SortExec>() {
        Some(sort) if sort.fetch().is_none() => {
            sort.input().properties().output_partitioning().partition_count()
        }
        _ => 0,
    };
    own + plan.children().into_iter().map(sorts_of).sum::<usize>()
}

/// Replacement of one operator; `None` if it stays.
fn in_place_of(node: &Plan, few: usize) -> Result<Option<Plan>> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return merged(join);
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        return in_parts(node, join);
    }
    if let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() {
        return Ok(in_one_sort(merge));
    }
    match node.downcast_ref::<SortExec>() {
        Some(sort) if sort.fetch().is_none_or(|fetch| fetch > few) => Ok(Some(of_all_rows(sort))),
        _ => Ok(None),
    }
}

/// A full sort, which can spill, below the limit that the sort had.
fn of_all_rows(sort: &SortExec) -> Plan {
    let pieces = Arc::new(SmallBatches::copied(sort.input()));
    let all = SortExec::new(sort.expr().clone(), pieces)
        .with_preserve_partitioning(sort.preserve_partitioning());
    match sort.fetch() {
        None => Arc::new(all),
        Some(fetch) if sort.preserve_partitioning() => {
            Arc::new(LocalLimitExec::new(Arc::new(all), fetch))
        }
        fetch => Arc::new(GlobalLimitExec::new(Arc::new(all), 0, fetch)),
    }
}

/// One full sort in place of one for each partition; `None` if the merge's input is not sorts.
fn in_one_sort(merge: &SortPreservingMergeExec) -> Option<Plan> {
    let (sorted, most) = match merge.input().downcast_ref::<LocalLimitExec>() {
        Some(limit) => (limit.input(), Some(limit.fetch())),
        None => (merge.input(), None),
    };
    let sort = sorted.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none())?;
    let pieces = in_one_partition(sort.input());
    let all: Plan = Arc::new(SortExec::new(sort.expr().clone(), pieces));
    match (merge.fetch(), most) {
        (None, None) => Some(all),
        // Each partition keeps at least as many rows as the merge returns.
        (Some(fetch), most) if most.is_none_or(|most| most >= fetch) => {
            Some(Arc::new(GlobalLimitExec::new(all, 0, Some(fetch))))
        }
        _ => None,
    }
}

/// A sort-merge join in place of a hash join; `None` if its result might differ.
fn merged(join: &HashJoinExec) -> Result<Option<Plan>> {
    let schema = join.left().schema();
    let may_merge =
        |key: &PhysicalExprRef| key.data_type(&schema).is_ok_and(|of| is_mergeable(&of));
    // DataFusion's sort-merge join has been seen to lose matches of outer joins and semi-joins with
    // conditions beyond equal keys.
    let is_plain = join.filter().is_none() || *join.join_type() == JoinType::Inner;
    if join.null_aware || !is_plain || !join.on().iter().all(|(key, _)| may_merge(key)) {
        return Ok(None);
    }
    let (first, second): (Vec<_>, Vec<_>) = join.on().iter().cloned().unzip();
    let merge = SortMergeJoinExec::try_new(
        sorted(join.left(), first)?,
        sorted(join.right(), second)?,
        join.on().to_vec(),
        None,
        *join.join_type(),
        vec![SortOptions::default(); join.on().len()],
        join.null_equality(),
    )?;
    let merged: Plan = match join.filter() {
        Some(filter) => {
            let condition = over_both(filter, schema.fields().len())?;
            Arc::new(FilterExec::try_new(condition, Arc::new(merge))?)
        }
        None => Arc::new(merge),
    };
    let merged = match &join.projection {
        Some(places) => Arc::new(chosen(merged, places)?),
        None => merged,
    };
    as_before(join.properties(), merged, join.fetch())
}

/// Types that sorts, merges and DataFusion's comparison of keys across batches compare alike.
/// Floats are not among them: a sort distinguishes two zeros, which are equal to a join.
fn is_mergeable(data_type: &DataType) -> bool {
    use DataType::{
        BinaryView, Boolean, Date32, Decimal128, FixedSizeBinary, Int8, Int16, Int32, Int64,
        Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    matches!(
        data_type,
        Boolean
            | Int8
            | Int16
            | Int32
            | Int64
            | UInt8
            | UInt16
            | UInt32
            | UInt64
            | Utf8
            | Utf8View
            | BinaryView
            | FixedSizeBinary(_)
            | Decimal128(..)
            | Date32
            | Timestamp(_, None)
    )
}

/// All rows, sorted by their keys.
fn sorted(input: &Plan, keys: Vec<PhysicalExprRef>) -> Result<Plan> {
    let Some(order) = LexOrdering::new(keys.into_iter().map(PhysicalSortExpr::new_default)) else {
        return internal_err!("a join of equal keys has none");
    };
    let pieces = Arc::new(SmallBatches::copied(&in_one_partition(input)));
    Ok(Arc::new(SortExec::new(order, pieces)))
}

/// All rows in one partition, with a needless repartitioning removed.
fn in_one_partition(input: &Plan) -> Plan {
    if let Some(dealt) = input.downcast_ref::<RepartitionExec>() {
        return in_one_partition(dealt.input());
    }
    match input.properties().output_partitioning().partition_count() {
        1 => Arc::clone(input),
        _ => Arc::new(CoalescePartitionsExec::new(Arc::clone(input))),
    }
}

/// A join's filter, rewritten for a schema of the first side's columns followed by the second's.
fn over_both(filter: &JoinFilter, first: usize) -> Result<PhysicalExprRef> {
    let places = filter.column_indices();
    let moved = Arc::clone(filter.expression()).transform_up(|part| {
        let Some(column) = part.downcast_ref::<Column>() else { return Ok(Transformed::no(part)) };
        let ColumnIndex { index, side } = &places[column.index()];
        let index = match side {
            JoinSide::Right => first + index,
            _ => *index,
        };
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), index)) as _))
    });
    moved.map(|moved| moved.data)
}

/// Applies the hash join's built-in projection.
fn chosen(merge: Plan, places: &[usize]) -> Result<ProjectionExec> {
    let schema = merge.schema();
    let column = |place: &usize| {
        let name = schema.field(*place).name();
        ProjectionExpr::new(Arc::new(Column::new(name, *place)), name)
    };
    let columns: Vec<ProjectionExpr> = places.iter().map(column).collect();
    ProjectionExec::try_new(columns, merge)
}

/// A join without equal keys that goes through its first side in parts.
fn in_parts(node: &Plan, join: &NestedLoopJoinExec) -> Result<Option<Plan>> {
    let first = match join.left().downcast_ref::<BufferedSide>() {
        Some(side) => side.input(),
        None => join.left(),
    };
    let first = BufferedSide::replayable(Arc::new(SmallBatches::copied(first)));
    let children: Vec<Plan> = vec![Arc::new(first), in_one_partition(join.right())];
    let plan = Arc::clone(node).replace_children(children, RECOMPUTED)?;
    as_before(node.properties(), plan, None)
}

/// The rows of one partition, ordered, limited and partitioned like those of the replaced operator;
/// `None` if that is impossible.
fn as_before(before: &PlanProperties, plan: Plan, fetch: Option<usize>) -> Result<Option<Plan>> {
    let Some(plan) = ordered(before, plan)? else { return Ok(None) };
    let plan: Plan = match fetch {
        Some(_) => Arc::new(GlobalLimitExec::new(plan, 0, fetch)),
        None => plan,
    };
    dealt(before.output_partitioning(), plan)
}

fn ordered(before: &PlanProperties, plan: Plan) -> Result<Option<Plan>> {
    let orders = before.equivalence_properties().oeq_class();
    if has_orders(plan.properties().equivalence_properties(), orders)? {
        return Ok(Some(plan));
    }
    let Some(order) = before.output_ordering() else { return Ok(None) };
    let sorted: Plan = Arc::new(SortExec::new(order.clone(), plan));
    // If the operator had two independent orders, one sort would lose one of them.
    let has_all = has_orders(sorted.properties().equivalence_properties(), orders)?;
    Ok(has_all.then_some(sorted))
}

fn has_orders(properties: &EquivalenceProperties, orders: &[LexOrdering]) -> Result<bool> {
    for order in orders {
        if !properties.ordering_satisfy(order.clone())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Repartitioning from one partition keeps the order.
fn dealt(before: &Partitioning, plan: Plan) -> Result<Option<Plan>> {
    let partitions = before.partition_count();
    let dealt = match before {
        _ if partitions == 1 => return Ok(Some(plan)),
        Partitioning::Hash(keys, _) if are_known(keys)? => before.clone(),
        Partitioning::Range(_) => return Ok(None),
        // No operator above relies on the partitioning.
        _ => Partitioning::RoundRobinBatch(partitions),
    };
    Ok(Some(Arc::new(RepartitionExec::try_new(plan, dealt)?)))
}

/// True if all keys are still among the columns.
fn are_known(keys: &[PhysicalExprRef]) -> Result<bool> {
    for key in keys {
        if key.exists(|part| Ok(part.downcast_ref::<UnKnownColumn>().is_some()))? {
            return Ok(false);
        }
    }
    Ok(true)
}
