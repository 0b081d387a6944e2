//! Checks that a plan has the same meaning in stages, and can be sent to workers.
//!
//! For the plans rejected here, `datafusion-distributed` would give wrong results or fail:
//!
//! - A shuffle loses an order that a repartition would keep.
//! - An exchange loses constants. A window whose input counts as ordered by its partition, because
//!   that has a single value, would find its rows unordered.
//! - A window's `FILTER`, `IGNORE NULLS` and reversed direction are not serialized.
//! - A limit below a join would become one limit for each worker if the rows are broadcast, and
//!   each worker would choose other rows.
//! - Functions are serialized by name. They differ on a worker if they depend on more than their
//!   arguments, or exist in one session only.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, TryCastExpr};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, ScalarFunctionExpr,
};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

use super::Plan;
use crate::codec::{is_known_aggregate, is_known_call};
use crate::scan::RemoteScan;

/// The reason why a plan has to stay at the gateway; `None` if it can run in stages.
pub(super) fn reason_to_gather(plan: &Plan) -> Result<Option<String>> {
    let mut found = None;
    plan.apply(|node| {
        found = match of_operator(node) {
            Some(why) => Some(why.to_owned()),
            None if counts_on_constants(node)? => Some("a window's partition is constant".into()),
            None => of_expressions(node)?,
        };
        Ok(match found {
            Some(_) => TreeNodeRecursion::Stop,
            None => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

fn of_operator(node: &Plan) -> Option<&'static str> {
    if node.children().is_empty() {
        let is_known =
            node.is::<RemoteScan>() || node.is::<EmptyExec>() || node.is::<PlaceholderRowExec>();
        return (!is_known).then_some("some of the rows are the gateway's own");
    }
    if let Some(dealt) = node.downcast_ref::<RepartitionExec>() {
        let is_hashed = matches!(dealt.partitioning(), Partitioning::Hash(..));
        let is_ordered = dealt.properties().output_ordering().is_some();
        return (is_hashed && is_ordered).then_some("a shuffle would lose an order");
    }
    let collects =
        node.is::<HashJoinExec>() || node.is::<NestedLoopJoinExec>() || node.is::<CrossJoinExec>();
    let built = node.children().first().map(|child| child.fetch());
    if collects && built.flatten().is_some() {
        return Some("a limit lies below a join");
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let is_known = aggregate.aggr_expr().iter().all(|call| is_known_aggregate(call.fun()));
        return (!is_known).then_some("an aggregate is not known to workers");
    }
    let mut windows = windows(node).iter();
    windows.any(says_more_than_travels).then_some("a window has what does not travel")
}

/// DataFusion shows these properties only in a window's debug output. A window that is rejected by
/// mistake runs at the gateway, with the same answer.
fn says_more_than_travels(window: &Arc<dyn WindowExpr>) -> bool {
    let printed = format!("{window:?}");
    let kept_back = ["filter: Some(", "ignore_nulls: true", "is_reversed: true"];
    kept_back.iter().any(|said| printed.contains(said))
}

/// True if a window relies on more of its partition being ordered than the sorts of its input
/// ensure.
fn counts_on_constants(node: &Plan) -> Result<bool> {
    let Some(first) = windows(node).first() else { return Ok(false) };
    let known = node.children()[0].equivalence_properties();
    let orders = known.oeq_class().iter().cloned();
    let sorted = EquivalenceProperties::new_with_orderings(Arc::clone(known.schema()), orders);
    let ordered = |by: &EquivalenceProperties| by.find_longest_permutation(first.partition_by());
    Ok(ordered(known)?.1.len() > ordered(&sorted)?.1.len())
}

/// The window expressions of one operator, which all have the same partition.
fn windows(node: &Plan) -> &[Arc<dyn WindowExpr>] {
    if let Some(bounded) = node.downcast_ref::<BoundedWindowAggExec>() {
        return bounded.window_expr();
    }
    node.downcast_ref::<WindowAggExec>().map_or(&[], WindowAggExec::window_expr)
}

fn of_expressions(node: &Plan) -> Result<Option<String>> {
    let mut found = None;
    node.apply_expressions(&mut |expression| {
        expression.apply(|part| {
            if !travels(part) {
                found = Some(format!("{part} depends on the gateway"));
                return Ok(TreeNodeRecursion::Stop);
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// True if an expression has the same meaning on a worker, apart from its children. Expressions
/// that cannot be serialized are found later, when the stages are encoded.
fn travels(expression: &Arc<dyn PhysicalExpr>) -> bool {
    // Its value is known where its subquery runs, which is here.
    if expression.is::<ScalarSubqueryExpr>() {
        return false;
    }
    if let Some(call) = expression.downcast_ref::<ScalarFunctionExpr>() {
        return is_known_call(call);
    }
    if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
        let (left, right) = (Arc::clone(binary.left()), Arc::clone(binary.right()));
        return *binary == BinaryExpr::new(left, *binary.op(), right);
    }
    if let Some(cast) = expression.downcast_ref::<CastExpr>() {
        let plain = CastExpr::new(Arc::clone(cast.expr()), cast.cast_type().clone(), None);
        return *cast == plain;
    }
    if let Some(cast) = expression.downcast_ref::<TryCastExpr>() {
        return *cast == TryCastExpr::new(Arc::clone(cast.expr()), cast.cast_type().clone());
    }
    true
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::{JoinType, NullEquality};
    use datafusion::functions_aggregate::count::count_udaf;
    use datafusion::logical_expr::{WindowFrame, WindowFunctionDefinition};
    use datafusion::physical_expr::expressions::{Column, IsNotNullExpr};
    use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::joins::PartitionMode;
    use datafusion::physical_plan::sorts::sort::SortExec;
    use datafusion::physical_plan::windows::create_window_expr;

    use super::*;

    const ORDER: Option<&str> = Some("a shuffle would lose an order");
    const WINDOW: Option<&str> = Some("a window has what does not travel");
    const LIMIT: Option<&str> = Some("a limit lies below a join");

    fn why(plan: impl ExecutionPlan + 'static) -> Option<String> {
        reason_to_gather(&(Arc::new(plan) as Plan)).unwrap()
    }

    fn rows(partitions: usize) -> Plan {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
        Arc::new(EmptyExec::new(Arc::new(schema)).with_partitions(partitions))
    }

    fn column() -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new("a", 0))
    }

    fn sorted(rows: Plan) -> Plan {
        let order = LexOrdering::new([PhysicalSortExpr::new_default(column())]).unwrap();
        Arc::new(SortExec::new(order, rows).with_preserve_partitioning(true))
    }

    fn dealt(rows: Plan) -> RepartitionExec {
        RepartitionExec::try_new(rows, Partitioning::Hash(vec![column()], 2)).unwrap()
    }

    fn merged(fetch: Option<usize>) -> Plan {
        Arc::new(CoalescePartitionsExec::new(rows(2)).with_fetch(fetch))
    }

    fn joined(left: Plan, right: Plan) -> HashJoinExec {
        let (inner, on) = (JoinType::Inner, vec![(column(), column())]);
        let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
        HashJoinExec::try_new(left, right, on, None, &inner, None, mode, nulls, false).unwrap()
    }

    #[test]
    fn a_shuffle_that_keeps_an_order_stays() {
        assert_eq!(why(dealt(sorted(rows(2))).with_preserve_order()).as_deref(), ORDER);
        // With one partition it does so without a merge.
        assert_eq!(why(dealt(sorted(rows(1)))).as_deref(), ORDER);
        let below = CoalescePartitionsExec::new(Arc::new(dealt(sorted(rows(1)))));
        assert_eq!(why(below).as_deref(), ORDER);
    }

    #[test]
    fn a_shuffle_without_an_order_travels() {
        assert_eq!(why(dealt(sorted(rows(2)))), None);
        assert_eq!(why(dealt(rows(2)).with_preserve_order()), None);
        let in_turns = Partitioning::RoundRobinBatch(2);
        assert_eq!(why(RepartitionExec::try_new(sorted(rows(1)), in_turns).unwrap()), None);
    }

    #[test]
    fn a_join_over_the_first_rows_of_all_stays() {
        assert_eq!(why(joined(merged(Some(3)), rows(2))).as_deref(), LIMIT);
        assert_eq!(why(CrossJoinExec::new(merged(Some(3)), rows(2))).as_deref(), LIMIT);
        let inner = JoinType::Inner;
        let nested = NestedLoopJoinExec::try_new(merged(Some(3)), rows(2), None, &inner, None);
        assert_eq!(why(nested.unwrap()).as_deref(), LIMIT);
        let below = joined(merged(None), Arc::new(joined(merged(Some(3)), rows(2))));
        assert_eq!(why(below).as_deref(), LIMIT);
    }

    fn counted(filter: Option<Arc<dyn PhysicalExpr>>) -> WindowAggExec {
        let (counts, rows) = (WindowFunctionDefinition::AggregateUDF(count_udaf()), rows(1));
        let all = Arc::new(WindowFrame::new(None));
        let (name, schema) = ("n".to_owned(), rows.schema());
        let window = create_window_expr(
            &counts,
            name,
            &[column()],
            &[],
            &[],
            all,
            schema,
            false,
            false,
            filter,
        );
        WindowAggExec::try_new(vec![window.unwrap()], rows, false).unwrap()
    }

    #[test]
    fn a_window_over_some_of_its_rows_stays() {
        assert_eq!(why(counted(None)), None);
        let filter: Arc<dyn PhysicalExpr> = Arc::new(IsNotNullExpr::new(column()));
        assert_eq!(why(counted(Some(filter))).as_deref(), WINDOW);
    }

    #[test]
    fn a_join_over_all_rows_travels() {
        assert_eq!(why(joined(merged(None), rows(2))), None);
        // The side that is not broadcast is merged once.
        assert_eq!(why(joined(merged(None), merged(Some(3)))), None);
        assert_eq!(why(CrossJoinExec::new(merged(None), rows(2))), None);
    }
}
