//! Scans that leave out what a join would leave out: semi-joins, as in Bernstein and Chiu, "Using
//! Semi-Joins to Solve Relational Queries" (1981).
//!
//! A join reads the whole of its first side before it begins with the second. Where the first one
//! is filtered, the keys that it has are collected on their way to the join, and go to the workers
//! along with the question for the second one: only rows with one of these keys come back.
//!
//! ```text
//!   HashJoin                     HashJoin
//!     Filter …                     CollectKeys ── keys ──╮
//!     RemoteScan        ──►          Filter …            │
//!                                  RemoteScan among=[…] ◄╯
//! ```
//!
//! Promises: only rows are left out that the join would drop; whoever waits for keys is told that
//! there are none to be had as soon as that is known, also where their side is not read to its end.

mod collect;
mod keys;

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{JoinType, NullEquality};
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
pub(crate) use self::keys::Keys;
use crate::fold::RECOMPUTED;
use crate::scan::{KEPT_OF, RemoteScan};

type Plan = Arc<dyn ExecutionPlan>;

/// More keys are not worth their way.
const KEYS_MAX: usize = 1 << 19;
/// Keys leave out little where there is not one for so many rows at most.
const ROWS_OF_KEY: usize = 4;

/// The same plan, in which scans wait for the keys of joins.
pub(crate) fn reduced(plan: &Plan) -> Result<Plan> {
    // What runs elsewhere, or more than once, has no keys to wait for.
    if plan.name() == "Stages" || plan.name() == "RecursiveQueryExec" {
        return Ok(Arc::clone(plan));
    }
    let children = plan.children();
    if children.is_empty() {
        return Ok(Arc::clone(plan));
    }
    let reduced = children.iter().copied().map(reduced).collect::<Result<Vec<_>>>()?;
    let is_same = children.iter().zip(&reduced).all(|(child, new)| Arc::ptr_eq(child, new));
    let plan = match is_same {
        true => Arc::clone(plan),
        false => Arc::clone(plan).replace_children(reduced, RECOMPUTED)?,
    };
    match plan.downcast_ref::<HashJoinExec>() {
        Some(join) => Ok(of_join(join)?.unwrap_or(plan)),
        None => Ok(plan),
    }
}

/// A join whose second side waits for the keys of the first; `None` where it must not, or need not.
fn of_join(join: &HashJoinExec) -> Result<Option<Plan>> {
    if !is_reducible(join) {
        return Ok(None);
    }
    let schema = join.left().schema();
    let mut wanted = Vec::new();
    let mut right = Arc::clone(join.right());
    for (first, second) in join.on() {
        let columns = first.downcast_ref::<Column>().zip(second.downcast_ref::<Column>());
        let Some((first, second)) = columns else { continue };
        let Some((scan, column)) = scan_below(&right, second.index()) else { continue };
        let data_type = schema.field(first.index()).data_type();
        if is_whole(data_type) && data_type == scan.schema().field(column).data_type() {
            let keys_max = scan.sent().map_or(KEYS_MAX, |rows| KEYS_MAX.min(rows / ROWS_OF_KEY));
            let keys = Arc::new(Keys::new(data_type.clone(), keys_max));
            let reduced = scan.among(column, &keys);
            right = with_scan(&right, &reduced)?;
            wanted.push((first.index(), keys));
        }
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

/// Whether a join drops rows of its second side that meet none of the first, and may have few of
/// these.
fn is_reducible(join: &HashJoinExec) -> bool {
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
    drops && comes_whole && is_plain && share(join.left()) < 1.0
}

/// About what part of its tables' rows a plan has left, by its filters.
pub(crate) fn share(plan: &Plan) -> f64 {
    if let Some(scan) = plan.downcast_ref::<RemoteScan>() {
        return scan.share();
    }
    let below: f64 = plan.children().into_iter().map(share).product();
    match plan.is::<FilterExec>() {
        true => below / KEPT_OF as f64,
        false => below,
    }
}

/// What part of a join's second side comes to it.
pub(crate) fn share_of_second(join: &HashJoinExec) -> f64 {
    let meets = |(_, second): &(_, Arc<dyn PhysicalExpr>)| {
        let column = second.downcast_ref::<Column>().map(Column::index);
        column.is_some_and(|column| scan_below(join.right(), column).is_some())
    };
    match is_reducible(join) && join.on().iter().any(meets) {
        true => share(join.left()),
        false => 1.0,
    }
}

fn is_whole(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int16 | DataType::Int32 | DataType::Int64)
}

/// The scan of which a plan's column is one, and the column's place in it, where rows without a key
/// in it can be left out.
fn scan_below(plan: &Plan, column: usize) -> Option<(&RemoteScan, usize)> {
    if let Some(scan) = plan.downcast_ref::<RemoteScan>() {
        return (!scan.is_limited() && scan.fetch().is_none()).then_some((scan, column));
    }
    scan_below(plan.children().first()?, column_below(plan, column)?)
}

/// The place of a column in the rows below, where a node hands on all rows, or groups, with a value
/// in it together.
fn column_below(node: &Plan, column: usize) -> Option<usize> {
    let place = |below: &Arc<dyn PhysicalExpr>| below.downcast_ref::<Column>().map(Column::index);
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        return place(&projection.expr().get(column)?.expr);
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let keys = aggregate.group_expr();
        return place(&keys.expr().get(column).filter(|_| keys.is_single())?.0);
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let is_plain = filter.projection().is_none() && filter.fetch().is_none();
        return is_plain.then_some(column);
    }
    let passes_on = node.is::<RepartitionExec>()
        || node.is::<CooperativeExec>()
        || node.downcast_ref::<CoalescePartitionsExec>().is_some_and(|all| all.fetch().is_none());
    passes_on.then_some(column)
}

/// The same plan with another scan.
fn with_scan(plan: &Plan, scan: &RemoteScan) -> Result<Plan> {
    if plan.is::<RemoteScan>() {
        return Ok(Arc::new(scan.clone()));
    }
    let children = plan.children().into_iter().map(|child| with_scan(child, scan));
    Arc::clone(plan).replace_children(children.collect::<Result<Vec<_>>>()?, RECOMPUTED)
}
