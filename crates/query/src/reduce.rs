//! Scans that leave out what a join would leave out: semi-joins, as in Bernstein and Chiu, "Using
//! Semi-Joins to Solve Relational Queries" (1981).
//!
//! A join reads the whole of its first side before it begins with the second. Where the first one
//! is filtered, the keys that it has are collected on their way to the join, and a scan below the
//! second one ([`Leaf`]) waits for them: it reads, or asks workers for, rows with one of these keys
//! alone.
//!
//! ```text
//!   HashJoin                     HashJoin
//!     Filter …                     CollectKeys ── keys ──╮
//!     ShardScan         ──►          Filter …            │
//!                                  ShardScan among=[…] ◄─╯
//! ```
//!
//! Promises: only rows are left out that the join would drop; whoever waits for keys is told that
//! there are none to be had as soon as that is known, also where their side is not read to its end;
//! nobody who waits holds a thread. A second side waits for nothing but first sides of joins above
//! it, which wait for no second side of these: so all of them come to an end.

mod among;
mod collect;
mod keys;
mod local;
#[cfg(test)]
mod tests;

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

pub use self::among::Among;
use self::collect::CollectKeys;
pub use self::keys::Keys;
pub(crate) use self::local::{LOCAL, PASS, ReduceJoins, WaitingFor, reduced_here};
use crate::plan::RECOMPUTED;
use crate::veils::is_veil;

type Plan = Arc<dyn ExecutionPlan>;

/// More keys are not worth their way.
const KEYS_MAX: usize = 1 << 19;
/// Keys leave out little where there is not one for so many rows at most.
const ROWS_OF_KEY: usize = 4;

/// Of a condition nobody knows how many rows it leaves: one in so many, as DataFusion has it.
pub const KEPT_OF: usize = 5;

/// A scan that can wait for keys, and leave out rows that have none of them.
pub trait Leaf {
    /// About how many rows there are to be left out, where that is known.
    fn rows(&self) -> Option<usize>;

    /// About what part of its table's rows it has left, by its conditions and keys.
    fn share(&self) -> f64;

    /// Whether rows can be left out by the values of one of its columns.
    fn takes_keys(&self, column: usize) -> bool;

    /// The same, whose rows have one of these keys in a column that it takes keys of.
    fn among(&self, column: usize, keys: &Arc<Keys>) -> Plan;
}

/// What operators of a plan are such scans.
pub type AsLeaf = fn(&Plan) -> Option<&dyn Leaf>;

/// The same plan, in which scans wait for the keys of joins.
///
/// # Errors
/// If an operator does not take its new children.
pub fn reduced(plan: &Plan, as_leaf: AsLeaf) -> Result<Plan> {
    // What runs elsewhere, or more than once, has no keys to wait for.
    if plan.name() == "Stages" || plan.name() == "RecursiveQueryExec" {
        return Ok(Arc::clone(plan));
    }
    // Joins before those below them: a first side that waits for keys is filtered, too.
    let join = plan.downcast_ref::<HashJoinExec>();
    let of_join = join.map(|join| of_join(join, as_leaf)).transpose()?.flatten();
    let plan = of_join.as_ref().unwrap_or(plan);
    let children = plan.children();
    let reduced = children.iter().map(|child| reduced(child, as_leaf));
    let reduced = reduced.collect::<Result<Vec<_>>>()?;
    match children.iter().zip(&reduced).all(|(child, new)| Arc::ptr_eq(child, new)) {
        true => Ok(Arc::clone(plan)),
        false => Arc::clone(plan).replace_children(reduced, RECOMPUTED),
    }
}

/// The same plan, in which nobody collects keys, and whoever waits for them is told that there are
/// none.
pub(crate) fn unreduced(plan: Plan) -> Result<Plan> {
    let unreduced = plan.transform_up(|node| match node.downcast_ref::<CollectKeys>() {
        Some(collect) => Ok(Transformed::yes(collect.given_up())),
        None => Ok(Transformed::no(node)),
    });
    unreduced.map(|unreduced| unreduced.data)
}

/// A join whose second side waits for the keys of the first; `None` where it must not, or need not.
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
        // Below what deals them out, rows come whatever part of the join is read.
        Some(dealt) => {
            let collect = CollectKeys::new(dealt.input(), wanted);
            Arc::clone(join.left()).replace_children(vec![Arc::new(collect)], RECOMPUTED)?
        }
        None => Arc::new(CollectKeys::new(join.left(), wanted)),
    };
    let reduced = join.builder().with_new_children(vec![left, right])?.build()?;
    Ok(Some(Arc::new(reduced)))
}

/// The columns that a join is of and that keys can be of, in both sides, with their type.
fn keys_of(join: &HashJoinExec) -> impl Iterator<Item = (usize, usize, DataType)> {
    join.on().iter().filter_map(|(first, second)| {
        let (first, second) = (first.downcast_ref::<Column>()?, second.downcast_ref::<Column>()?);
        let data_type = join.left().schema().field(first.index()).data_type().clone();
        let is_same = join.right().schema().field(second.index()).data_type() == &data_type;
        (is_same && is_whole(&data_type)).then_some((first.index(), second.index(), data_type))
    })
}

/// Whether a join drops rows of its second side that meet none of the first, and may have few of
/// these.
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

/// About what part of its tables' rows a plan has left, by its filters.
#[must_use]
pub fn share(plan: &Plan, as_leaf: AsLeaf) -> f64 {
    if let Some(leaf) = as_leaf(plan) {
        return leaf.share();
    }
    let below: f64 = plan.children().into_iter().map(|child| share(child, as_leaf)).product();
    match plan.is::<FilterExec>() {
        true => below / KEPT_OF as f64,
        false => below,
    }
}

fn is_whole(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int16 | DataType::Int32 | DataType::Int64)
}

/// The scan of which a plan's column is one, and the column's place in it, where rows without a key
/// in it can be left out.
fn leaf_below(plan: &Plan, column: usize, as_leaf: AsLeaf) -> Option<(&dyn Leaf, usize)> {
    if let Some(leaf) = as_leaf(plan) {
        return leaf.takes_keys(column).then_some((leaf, column));
    }
    let (child, column) = column_below(plan, column)?;
    leaf_below(plan.children().get(child).copied()?, column, as_leaf)
}

/// The same plan, whose scan of a column waits for keys.
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

/// Of which input a column is, and its place there, where a node hands on all rows, or groups, with
/// a value in it together.
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
        || is_veil(node)
        || node.downcast_ref::<CoalescePartitionsExec>().is_some_and(|all| all.fetch().is_none());
    passes_on.then_some((0, column))
}

/// Of which side of a join a column is, and its place there, where rows of that side can be left
/// out and others stay what they are.
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
