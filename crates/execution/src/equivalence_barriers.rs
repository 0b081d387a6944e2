//! A pass of the planner: hides properties of an operator's rows that do not hold above it.
//!
//! DataFusion applies known properties of the rows of a join's sides to the rows of the join, and
//! omits keys of sorts, windows and groupings because of them. This is wrong in these cases:
//!
//! - In an outer join, an unmatched row of one side has nulls in the columns of the other side, so
//!   that none of these columns is constant any more. Two columns are still equal, as both are
//!   null; a column and an expression need not be.
//! - A hash join returns the rows of its first side in their order for each row of the second side,
//!   but not for all rows of the second side with one value. This is true of a merge join, too.
//! - Grouping sets return nulls for the keys that are not in a set: keys that were constant, equal
//!   or ordered are so no more.
//! - A limit takes rows in the order of its input. DataFusion moves a sort from above the limit to
//!   below it, and gives the sort the limit's number of rows. The limit then skips some of these:
//!   too few rows are returned, or other ones. Upstream:
//!   <https://github.com/apache/datafusion/pull/24958> and
//!   <https://github.com/apache/datafusion/pull/25408>. A sort for the first rows above groups also
//!   moves below them, and counts rows instead of groups. No upstream issue found.
//! - A column that is constant in each part of a union may have another value in each part.
//!   DataFusion drops it from the keys of a sort for the first rows, which all parts share a
//!   threshold of, and from those of windows. Upstream:
//!   <https://github.com/apache/datafusion/pull/23528>.
//!
//! A [`EquivalenceBarrier`] passes on rows, with only the properties that hold above it.
//!
//! DataFusion also removes the sort below an `OFFSET` without a `LIMIT` where rows above it get
//! another order, so that other rows are skipped. A [`RequiredOrder`] asks for the sort. No
//! upstream issue found.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::equivalence::{EquivalenceClass, EquivalenceGroup};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    AcrossPartitions, Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements,
};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};

use crate::operator::RECOMPUTED;

type Plan = Arc<dyn ExecutionPlan>;

/// The pass. It runs before the one of DataFusion that adds sorts and repartitioning. The sides of
/// joins are final by then.
#[derive(Debug)]
pub struct InsertEquivalenceBarriers;

impl PhysicalOptimizerRule for InsertEquivalenceBarriers {
    fn name(&self) -> &'static str {
        "equivalence_barriers"
    }

    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let plan = limits_apart(plan, Above::Nothing)?;
        let plan = unions_apart(plan)?;
        // For each visited plan whose parent is not visited yet: true if its rows may have an
        // order.
        let mut ordered: Vec<bool> = Vec::new();
        let veiled = plan.transform_up(|plan| {
            let inputs = ordered.split_off(ordered.len() - plan.children().len());
            ordered.push(inputs.contains(&true) || has_order(&plan));
            veiled(plan, &inputs)
        });
        veiled.map(|veiled| veiled.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The operator above that depends on an order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Above {
    Nothing,
    Sort,
    /// A sort for this many rows.
    FirstRows,
}

/// The plan with a barrier between each limit and the sort of its rows, and between a sort for the
/// first rows and groups below it that may have an order.
fn limits_apart(plan: Plan, above: Above) -> Result<Plan> {
    let is_limit = plan.is::<GlobalLimitExec>() || plan.is::<LocalLimitExec>();
    let is_grouping = plan.is::<AggregateExec>();
    let below = match plan.downcast_ref::<SortExec>() {
        Some(sort) if sort.fetch().is_some() => Above::FirstRows,
        Some(_) => Above::Sort,
        None if plan.required_input_ordering().iter().any(Option::is_some) => Above::Sort,
        None if is_limit || is_grouping => Above::Nothing,
        None => above,
    };
    let mut is_changed = false;
    let mut inputs = Vec::with_capacity(plan.children().len());
    for input in plan.children() {
        let apart = limits_apart(Arc::clone(input), below)?;
        is_changed |= !Arc::ptr_eq(input, &apart);
        inputs.push(apart);
    }
    let plan = if is_changed { plan.replace_children(inputs, RECOMPUTED)? } else { plan };
    let plan = with_required_order(plan)?;
    let is_apart = match above {
        Above::Nothing => false,
        Above::Sort => is_limit,
        Above::FirstRows => is_limit || (is_grouping && plan.exists(|plan| Ok(has_order(plan)))?),
    };
    match is_apart {
        true => Ok(Arc::new(EquivalenceBarrier::new(plan, HiddenProperties::Orders)?)),
        false => Ok(plan),
    }
}

/// The plan with a barrier above each union whose parts may have different constants in one column,
/// if an operator of the plan depends on an order.
fn unions_apart(plan: Plan) -> Result<Plan> {
    if !plan.exists(|plan| Ok(plan.is::<SortExec>() || has_order(plan)))? {
        return Ok(plan);
    }
    let apart =
        plan.transform_up(|plan| match plan.is::<UnionExec>() && has_own_constants(&plan) {
            true => Ok(Transformed::yes(Arc::new(EquivalenceBarrier::new(
                plan,
                HiddenProperties::Constants,
            )?) as _)),
            false => Ok(Transformed::no(plan)),
        });
    apart.map(|apart| apart.data)
}

/// True if an expression is constant within each partition, but may differ between partitions.
fn has_own_constants(plan: &Plan) -> bool {
    let constants = plan.properties().equivalence_properties().constants();
    let mut values = constants.iter().map(|constant| &constant.across_partitions);
    values.any(|value| !matches!(value, AcrossPartitions::Uniform(Some(_))))
}

/// An `OFFSET` without a `LIMIT`, whose sort below it stays.
fn with_required_order(plan: Plan) -> Result<Plan> {
    match plan.downcast_ref::<GlobalLimitExec>() {
        Some(limit) if limit.fetch().is_none() => {
            let input = sort_required(Arc::clone(limit.input()))?;
            plan.replace_children(vec![input], RECOMPUTED)
        }
        _ => Ok(plan),
    }
}

fn sort_required(plan: Plan) -> Result<Plan> {
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        let order = sort.expr().clone();
        return Ok(Arc::new(RequiredOrder { input: plan, order }));
    }
    let children = plan.children();
    let input = match (children.as_slice(), plan.maintains_input_order().as_slice()) {
        ([input], [true]) => Some(Arc::clone(input)),
        _ => None,
    };
    let Some(input) = input else { return Ok(plan) };
    let required = sort_required(Arc::clone(&input))?;
    match Arc::ptr_eq(&input, &required) {
        true => Ok(plan),
        false => plan.replace_children(vec![required], RECOMPUTED),
    }
}

/// True if an operator's rows have an order, or it requires one of its inputs.
fn has_order(plan: &Plan) -> bool {
    let is_ordered = !plan.properties().equivalence_properties().oeq_class().is_empty();
    is_ordered || plan.required_input_ordering().iter().any(Option::is_some)
}

/// An operator with barriers where it needs them. `ordered` is true for the inputs that may have an
/// order.
fn veiled(plan: Plan, ordered: &[bool]) -> Result<Transformed<Plan>> {
    let aggregate = plan.downcast_ref::<AggregateExec>();
    if aggregate.is_some_and(|aggregate| !aggregate.group_expr().is_single()) {
        // Keys may be literals, which are constant regardless of the input.
        return Ok(Transformed::yes(
            Arc::new(EquivalenceBarrier::new(plan, HiddenProperties::All)?) as _,
        ));
    }
    let Some((joins, within)) = join(&plan) else { return Ok(Transformed::no(plan)) };
    let sides = [JoinSide::Left, JoinSide::Right].into_iter().zip(plan.children()).zip(ordered);
    let mut is_changed = false;
    let inputs = sides.map(|((side, input), is_ordered)| -> Result<Plan> {
        let known = input.properties().equivalence_properties();
        let hides = if gets_nulls(joins, side) && !holds_of_nulls(known) {
            HiddenProperties::Constants
        } else if within == Some(side) && *is_ordered {
            HiddenProperties::Orders
        } else {
            return Ok(Arc::clone(input));
        };
        is_changed = true;
        Ok(Arc::new(EquivalenceBarrier::new(Arc::clone(input), hides)?))
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    match is_changed {
        true => Ok(Transformed::yes(plan.replace_children(inputs, RECOMPUTED)?)),
        false => Ok(Transformed::no(plan)),
    }
}

/// The type of a join, and the side whose order DataFusion assumes to continue within the order of
/// the other.
fn join(plan: &Plan) -> Option<(JoinType, Option<JoinSide>)> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let joins = *join.join_type();
        let goes_on = matches!(joins, JoinType::Inner | JoinType::Right);
        return Some((joins, goes_on.then_some(JoinSide::Left)));
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        let joins = join.join_type();
        let within = match joins {
            JoinType::Inner | JoinType::Left => Some(JoinSide::Right),
            JoinType::Right => Some(JoinSide::Left),
            _ => None,
        };
        return Some((joins, within));
    }
    plan.downcast_ref::<NestedLoopJoinExec>().map(|join| (*join.join_type(), None))
}

/// True if unmatched rows have nulls in the columns of a side.
fn gets_nulls(joins: JoinType, side: JoinSide) -> bool {
    match joins {
        JoinType::Left => side == JoinSide::Right,
        JoinType::Right => side == JoinSide::Left,
        JoinType::Full => true,
        _ => false,
    }
}

/// True if the known properties of rows, apart from their order, also hold for a row of nulls.
fn holds_of_nulls(known: &EquivalenceProperties) -> bool {
    let mut parts = known.eq_group().iter().flat_map(|class| class.iter());
    parts.all(|part| part.is::<Column>()) && known.constants().is_empty()
}

/// The properties of its rows that a barrier hides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HiddenProperties {
    /// Their order.
    Orders,
    /// Their order, and properties that do not hold for nulls.
    Constants,
    /// All properties of their values.
    All,
}

/// An equivalence barrier: passes on the rows of its input and hides some of their properties.
pub struct EquivalenceBarrier {
    input: Plan,
    hides: HiddenProperties,
    properties: Arc<PlanProperties>,
}

impl EquivalenceBarrier {
    /// # Errors
    /// If a property of the input refers to other columns.
    pub fn new(input: Plan, hides: HiddenProperties) -> Result<EquivalenceBarrier> {
        let known = input.properties().equivalence_properties();
        let mut left = EquivalenceProperties::new(input.schema());
        match hides {
            HiddenProperties::Orders => left.add_equivalence_group(known.eq_group().clone())?,
            HiddenProperties::Constants => {
                left.add_equivalence_group(of_columns(known.eq_group()))?
            }
            HiddenProperties::All => {}
        }
        let properties = PlanProperties::clone(input.properties()).with_eq_properties(left);
        Ok(EquivalenceBarrier { input, hides, properties: Arc::new(properties) })
    }

    /// The facts that this barrier hides from the operators above it.
    #[must_use]
    pub fn hides(&self) -> HiddenProperties {
        self.hides
    }

    fn over(&self, input: Plan) -> Result<Plan> {
        Ok(Arc::new(EquivalenceBarrier::new(input, self.hides)?))
    }
}

/// The equalities between columns.
fn of_columns(known: &EquivalenceGroup) -> EquivalenceGroup {
    let columns = known.iter().map(|class| {
        EquivalenceClass::new(class.iter().filter(|part| part.is::<Column>()).cloned())
    });
    EquivalenceGroup::new(columns)
}

impl fmt::Debug for EquivalenceBarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for EquivalenceBarrier {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.hides {
            HiddenProperties::Orders => "Veil: orders",
            HiddenProperties::Constants => "Veil: constants",
            HiddenProperties::All => "Veil: all",
        })
    }
}

/// True if an operator only passes on its input's rows and hides properties of them.
pub(crate) fn is_veil(plan: &Plan) -> bool {
    plan.is::<EquivalenceBarrier>()
}

impl ExecutionPlan for EquivalenceBarrier {
    crate::over_one_input!(input);

    fn name(&self) -> &'static str {
        "Veil"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    // Sorts are not pushed below it.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&input_stats[0]))
    }
}

/// Passes on all rows in the order that it requires of them.
#[derive(Debug)]
struct RequiredOrder {
    input: Plan,
    order: LexOrdering,
}

impl RequiredOrder {
    fn over(&self, input: Plan) -> Result<Plan> {
        Ok(Arc::new(RequiredOrder { input, order: self.order.clone() }))
    }
}

impl DisplayAs for RequiredOrder {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequiredOrder: [{}]", self.order)
    }
}

impl ExecutionPlan for RequiredOrder {
    crate::hands_on!(input);

    fn name(&self) -> &'static str {
        "RequiredOrder"
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![Some(OrderingRequirements::from(self.order.clone()))]
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&input_stats[0]))
    }
}
