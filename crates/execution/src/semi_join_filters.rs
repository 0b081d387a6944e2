//! Scans that leave out rows that a join would drop: semi-joins, as in Bernstein and Chiu, "Using
//! Semi-Joins to Solve Relational Queries" (1981).
//!
//! A join reads the whole of its first side before it begins with the second. If the first side is
//! filtered, an operator collects its keys on their way to the join. A scan below the second side
//! ([`Leaf`]) waits for these keys and reads, or asks workers for, only rows with one of them.
//!
//! ```text
//!   HashJoin                     HashJoin
//!     Filter …                     CollectKeys ── keys ──╮
//!     ShardScan         ──►          Filter …            │
//!                                  ShardScan among=[…] ◄─╯
//! ```
//!
//! Promises: only rows that the join would drop are left out. A scan that waits for keys holds no
//! thread. If the keys will not be complete, for example because their side is not read to its end,
//! the scan learns it at once. There is no deadlock: a second side waits only for first sides of
//! joins above it, and these never wait for a second side of these joins.

mod collect;
mod key_membership;
mod keys;
mod local;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;

use self::collect::CollectKeys;
pub use self::key_membership::KeyMembership;
pub use self::keys::Keys;
pub(crate) use self::local::WaitingFor;
pub use self::local::{ApplySemiJoinFilters, LOCAL, PASS, with_local_semi_join_filters};
use crate::equivalence_barriers::is_veil;
use crate::executor::is_byte_sized;
use crate::operator::RECOMPUTED;
use crate::staged::is_run_apart;

type Plan = Arc<dyn ExecutionPlan>;

/// With more keys than this, sending them is not worth it.
const KEYS_MAX: usize = 1 << 19;
/// Keys exclude few rows unless the scan has at least this many rows for each.
const ROWS_OF_KEY: usize = 4;

/// Assumed selectivity of a filter: one row in this many. DataFusion uses the same default.
pub const ASSUMED_SELECTIVITY_DIVISOR: usize = 5;

/// A scan that can wait for keys and leave out rows without them.
pub trait Leaf {
    /// Estimated number of rows that keys could exclude, if known.
    fn rows(&self) -> Option<usize>;

    /// Estimated share of its table's rows that remain after its conditions and keys.
    fn share(&self) -> f64;

    /// True if the scan can exclude rows by the values of this column.
    fn takes_keys(&self, column: usize) -> bool;

    /// Restricts the scan to rows with one of these keys in a column for which
    /// [`takes_keys`](Leaf::takes_keys) is true.
    fn among(&self, column: usize, keys: &Arc<Keys>) -> Plan;
}

/// Returns the [`Leaf`] of a plan's operator, if it is one.
pub type AsLeaf = fn(&Plan) -> Option<&dyn Leaf>;

/// Rewrites a plan so that its scans wait for the keys of joins.
///
/// # Errors
/// If an operator does not accept its new children.
pub fn with_semi_join_filters(plan: &Plan, as_leaf: AsLeaf) -> Result<Plan> {
    if is_run_apart(plan) {
        return Ok(Arc::clone(plan));
    }
    // Joins before those below them: a first side that waits for keys is filtered, too.
    let join = plan.downcast_ref::<HashJoinExec>();
    let of_join = join.map(|join| of_join(join, as_leaf)).transpose()?.flatten();
    let plan = of_join.as_ref().unwrap_or(plan);
    let children = plan.children();
    let with_semi_join_filters =
        children.iter().map(|child| with_semi_join_filters(child, as_leaf));
    let with_semi_join_filters = with_semi_join_filters.collect::<Result<Vec<_>>>()?;
    match children.iter().zip(&with_semi_join_filters).all(|(child, new)| Arc::ptr_eq(child, new)) {
        true => Ok(Arc::clone(plan)),
        false => Arc::clone(plan).replace_children(with_semi_join_filters, RECOMPUTED),
    }
}

/// Removes the collection of keys from a plan. Scans that wait for keys learn that there are none.
pub(crate) fn without_semi_join_filters(plan: Plan) -> Result<Plan> {
    let without_semi_join_filters =
        plan.transform_up(|node| match node.downcast_ref::<CollectKeys>() {
            Some(collect) => Ok(Transformed::yes(collect.given_up())),
            None => Ok(Transformed::no(node)),
        });
    without_semi_join_filters.map(|without_semi_join_filters| without_semi_join_filters.data)
}

/// A join whose second side waits for the keys of the first; `None` if it must not, or need not.
fn of_join(join: &HashJoinExec, as_leaf: AsLeaf) -> Result<Option<Plan>> {
    if !is_reducible(join, as_leaf) {
        return Ok(None);
    }
    let (mut wanted, share) = (Vec::new(), share(join.left(), as_leaf));
    let mut right = Arc::clone(join.right());
    for (first, column, data_type) in keys_of(join) {
        let keys = {
            let Some((leaf, _)) = leaf_below(&right, column, as_leaf) else { continue };
            let most = leaf.rows().map_or(KEYS_MAX, |rows| KEYS_MAX.min(rows / ROWS_OF_KEY));
            Arc::new(Keys::new(data_type, most, share))
        };
        right = with_keys(&right, column, &keys, as_leaf)?;
        wanted.push((first, keys));
    }
    if wanted.is_empty() {
        return Ok(None);
    }
    let left = match join.left().downcast_ref::<RepartitionExec>() {
        // Below the repartitioning, rows are produced whichever partition of the join is read.
        Some(dealt) => {
            let collect = CollectKeys::new(dealt.input(), wanted);
            Arc::clone(join.left()).replace_children(vec![Arc::new(collect)], RECOMPUTED)?
        }
        None => Arc::new(CollectKeys::new(join.left(), wanted)),
    };
    let with_semi_join_filters = join.builder().with_new_children(vec![left, right])?.build()?;
    Ok(Some(Arc::new(with_semi_join_filters)))
}

/// The join columns that can have keys, as positions in both sides, with their type.
fn keys_of(join: &HashJoinExec) -> impl Iterator<Item = (usize, usize, DataType)> {
    join.on().iter().filter_map(|(first, second)| {
        let (first, second) = (first.downcast_ref::<Column>()?, second.downcast_ref::<Column>()?);
        let data_type = join.left().schema().field(first.index()).data_type().clone();
        let is_same = join.right().schema().field(second.index()).data_type() == &data_type;
        (is_same && is_whole(&data_type)).then_some((first.index(), second.index(), data_type))
    })
}

/// True if a join drops rows of its second side without a match, and its first side may have few
/// rows.
fn is_reducible(join: &HashJoinExec, as_leaf: AsLeaf) -> bool {
    let drops = matches!(
        join.join_type(),
        JoinType::Inner
            | JoinType::Left
            | JoinType::LeftSemi
            | JoinType::LeftAnti
            | JoinType::LeftMark
            | JoinType::RightSemi
    );
    let is_dealt = join.left().is::<RepartitionExec>();
    let comes_whole = match join.partition_mode() {
        PartitionMode::CollectLeft => true,
        PartitionMode::Partitioned => is_dealt,
        PartitionMode::Auto => false,
    };
    let is_plain = join.null_equality() == NullEquality::NullEqualsNothing && !join.null_aware;
    drops && comes_whole && is_plain && share(join.left(), as_leaf) < 1.0
}

/// Estimated share of its tables' rows that remain in a plan after its filters.
#[must_use]
pub fn share(plan: &Plan, as_leaf: AsLeaf) -> f64 {
    if let Some(leaf) = as_leaf(plan) {
        return leaf.share();
    }
    let below: f64 = plan.children().into_iter().map(|child| share(child, as_leaf)).product();
    match plan.is::<FilterExec>() {
        true => below / ASSUMED_SELECTIVITY_DIVISOR as f64,
        false => below,
    }
}

fn is_whole(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int16 | DataType::Int32 | DataType::Int64)
}

/// The scan that a plan's column comes from, and the column's position in it, if rows can be
/// excluded by their keys in it.
fn leaf_below(plan: &Plan, column: usize, as_leaf: AsLeaf) -> Option<(&dyn Leaf, usize)> {
    if let Some(leaf) = as_leaf(plan) {
        return leaf.takes_keys(column).then_some((leaf, column));
    }
    let (child, column) = column_below(plan, column)?;
    leaf_below(plan.children().get(child).copied()?, column, as_leaf)
}

/// Makes the scan of a column wait for keys.
fn with_keys(plan: &Plan, column: usize, keys: &Arc<Keys>, as_leaf: AsLeaf) -> Result<Plan> {
    if let Some(leaf) = as_leaf(plan) {
        return Ok(leaf.among(column, keys));
    }
    let mut children: Vec<Plan> = plan.children().into_iter().cloned().collect();
    if let Some((child, column)) = column_below(plan, column) {
        children[child] = with_keys(&children[child], column, keys, as_leaf)?;
    }
    Arc::clone(plan).replace_children(children, RECOMPUTED)
}

/// The input that a column comes from, and its position there, if a node passes on or drops all
/// rows, or groups, with one value of the column together.
pub(crate) fn column_below(node: &Plan, column: usize) -> Option<(usize, usize)> {
    let place = |below: &Arc<dyn PhysicalExpr>| {
        below.downcast_ref::<Column>().map(|column| (0, column.index()))
    };
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        return place(&projection.expr().get(column)?.expr);
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let keys = aggregate.group_expr();
        let is_plain = keys.is_single() && aggregate.limit_options().is_none();
        return place(&keys.expr().get(column).filter(|_| is_plain)?.0);
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>().filter(|all| all.fetch().is_none()) {
        return match filter.projection() {
            Some(projection) => projection.get(column).map(|column| (0, *column)),
            None => Some((0, column)),
        };
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return column_of_join(join, column);
    }
    let passes_on = node.is::<RepartitionExec>()
        || node.is::<CooperativeExec>()
        || node.is::<CollectKeys>()
        || is_byte_sized(node)
        || is_veil(node)
        || node.downcast_ref::<CoalescePartitionsExec>().is_some_and(|all| all.fetch().is_none());
    passes_on.then_some((0, column))
}

/// The side of a join that a column comes from, and its position there, if rows of that side can be
/// excluded without a change to the other results.
fn column_of_join(join: &HashJoinExec, column: usize) -> Option<(usize, usize)> {
    let column = match &join.projection {
        Some(projection) => *projection.get(column)?,
        None => column,
    };
    let (left, right) = (join.left().schema().fields().len(), join.right().schema().fields().len());
    let side = match join.join_type() {
        JoinType::Inner if column < left => JoinSide::Left,
        JoinType::Inner => JoinSide::Right,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti if column < left => JoinSide::Left,
        JoinType::RightSemi | JoinType::RightAnti if column < right => JoinSide::Right,
        _ => JoinSide::None,
    };
    match side {
        _ if join.null_aware || join.fetch().is_some() => None,
        JoinSide::Left => Some((0, column)),
        JoinSide::Right if *join.join_type() == JoinType::Inner => Some((1, column - left)),
        JoinSide::Right => Some((1, column)),
        JoinSide::None => None,
    }
}
