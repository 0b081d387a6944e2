//! Operators that evaluate expressions over whole batches, and the expressions that may make large
//! values of them.
//!
//! An aggregate evaluates its arguments, and a filter its condition, for all rows of a batch at
//! once. Where these call functions with results of any length ([`makes_values`]), a projection
//! below the operator evaluates them piece by piece instead ([`super::byte_sized`]). A filter
//! gathers small batches into larger ones. Under a small limit it gathers fewer rows if they have
//! values of any length.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::{PhysicalExprRef, conjunction, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, PhysicalGroupBy};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::byte_sized::{has_any_length, is_byte_sized, makes_values, pieces_of, rows_max};

type Plan = Arc<dyn ExecutionPlan>;

/// An aggregate or a filter whose large values come piece by piece. Other operators stay as they
/// are.
pub(super) fn sized(plan: Plan) -> Result<Transformed<Plan>> {
    let changed = if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        of_aggregate(aggregate)?
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        of_filter(filter)?
    } else {
        None
    };
    Ok(changed.map_or_else(|| Transformed::no(plan), Transformed::yes))
}

/// The columns of an operator's input, and behind them its large values.
struct Columns<'i> {
    input: &'i Plan,
    computed: Vec<PhysicalExprRef>,
}

impl<'i> Columns<'i> {
    fn of(input: &'i Plan) -> Columns<'i> {
        Columns { input, computed: Vec::new() }
    }

    /// The expression, or the column of its values if it makes large ones on its way.
    fn column(&mut self, expression: &PhysicalExprRef) -> Result<PhysicalExprRef> {
        if !makes_values(expression)? {
            return Ok(Arc::clone(expression));
        }
        let known = self.computed.iter().position(|known| known.eq(expression));
        let place = known.unwrap_or_else(|| {
            self.computed.push(Arc::clone(expression));
            self.computed.len() - 1
        });
        let place = self.input.schema().fields().len() + place;
        Ok(Arc::new(Column::new(&name_of(place), place)))
    }

    /// The operator's new input; `None` if nothing is computed.
    fn projected(self) -> Result<Option<Plan>> {
        if self.computed.is_empty() {
            return Ok(None);
        }
        let schema = self.input.schema();
        let before = schema.fields().iter().enumerate().map(|(place, field)| {
            ProjectionExpr::new(Arc::new(Column::new(field.name(), place)), field.name())
        });
        let behind = self.computed.into_iter().enumerate().map(|(place, expression)| {
            ProjectionExpr::new(expression, name_of(schema.fields().len() + place))
        });
        let columns: Vec<ProjectionExpr> = before.chain(behind).collect();
        Ok(Some(pieces_of(ProjectionExec::try_new(columns, Arc::clone(self.input))?)))
    }
}

fn name_of(place: usize) -> String {
    format!("computed {place}")
}

fn of_aggregate(aggregate: &AggregateExec) -> Result<Option<Plan>> {
    if aggregate.mode().input_mode() != AggregateInputMode::Raw {
        return Ok(None);
    }
    let mut columns = Columns::of(aggregate.input());
    let mut keys = Vec::new();
    for (key, name) in aggregate.group_expr().expr() {
        keys.push((columns.column(key)?, name.clone()));
    }
    let mut aggregates = Vec::new();
    for function in aggregate.aggr_expr() {
        aggregates.push(with_columns(function, &mut columns)?);
    }
    let mut filters = Vec::new();
    for filter in aggregate.filter_expr() {
        filters.push(filter.as_ref().map(|filter| columns.column(filter)).transpose()?);
    }
    let Some(input) = columns.projected()? else { return Ok(None) };
    let group = aggregate.group_expr();
    let group = PhysicalGroupBy::new(
        keys,
        group.null_expr().to_vec(),
        group.groups().to_vec(),
        group.has_grouping_set(),
    );
    let mode = *aggregate.mode();
    let schema = aggregate.input_schema();
    let changed = AggregateExec::try_new(mode, group, aggregates, filters, input, schema)?;
    let changed = changed.with_limit_options(aggregate.limit_options());
    // A key whose order was known may be a computed column now; then all stays as it was.
    let is_same = changed.schema() == aggregate.schema()
        && changed.input_order_mode() == aggregate.input_order_mode();
    Ok(is_same.then(|| Arc::new(changed) as _))
}

/// The aggregate of columns. A reversed one stays as it is: DataFusion would forget that it is.
fn with_columns(
    function: &Arc<AggregateFunctionExpr>,
    columns: &mut Columns<'_>,
) -> Result<Arc<AggregateFunctionExpr>> {
    let unchanged = Ok(Arc::clone(function));
    if function.is_reversed() {
        return unchanged;
    }
    let mut arguments = Vec::new();
    for argument in function.expressions() {
        arguments.push(columns.column(&argument)?);
    }
    let order = function.order_bys().iter().map(|by| Arc::clone(&by.expr)).collect();
    match function.with_new_expressions(arguments, order) {
        Some(changed) => Ok(Arc::new(changed)),
        None => unchanged,
    }
}

fn of_filter(filter: &FilterExec) -> Result<Option<Plan>> {
    let mut columns = Columns::of(filter.input());
    let condition = columns.column(filter.predicate())?;
    let projected = columns.projected()?;
    let changed = match projected {
        None => None,
        Some(input) => {
            let places = match filter.projection() {
                Some(places) => places.to_vec(),
                None => (0..filter.schema().fields().len()).collect(),
            };
            let condition = with_equalities(condition, filter.predicate())?;
            let changed = FilterExecBuilder::new(condition, input)
                .with_default_selectivity(filter.default_selectivity())
                .with_batch_size(filter.batch_size())
                .with_fetch(filter.fetch())
                .apply_projection(Some(places))?;
            Some(Arc::new(changed.build()?) as Plan)
        }
    };
    let may_be_wide = gathers_wide_rows(filter)?;
    Ok(match (changed, may_be_wide) {
        (None, false) => None,
        (Some(changed), false) => Some(changed),
        (changed, true) => {
            let filter = changed.unwrap_or_else(|| Arc::new(filter.clone()));
            Some(Arc::new(FewRows { filter }))
        }
    })
}

/// A condition that was computed, and beside it the equalities that are a part of it: they make
/// columns constant, on which the orders of operators above may rely.
fn with_equalities(
    computed: PhysicalExprRef,
    condition: &PhysicalExprRef,
) -> Result<PhysicalExprRef> {
    let mut parts = vec![computed];
    for part in split_conjunction(condition) {
        let compared = part.downcast_ref::<BinaryExpr>();
        if compared.is_some_and(|compared| *compared.op() == Operator::Eq) && !makes_values(part)? {
            parts.push(Arc::clone(part));
        }
    }
    Ok(conjunction(parts))
}

/// True if a filter gathers rows whose values were made piece by piece.
fn gathers_wide_rows(filter: &FilterExec) -> Result<bool> {
    let schema = filter.schema();
    let has_any = schema.fields().iter().any(|field| has_any_length(field.data_type()));
    Ok(has_any && filter.input().exists(|below| Ok(is_byte_sized(below)))?)
}

/// A filter that gathers batches of fewer rows under a small limit.
struct FewRows {
    filter: Plan,
}

impl FewRows {
    fn over(&self, filter: Plan) -> Result<Plan> {
        Ok(Arc::new(FewRows { filter }))
    }
}

crate::shown_by_name!(FewRows);

impl ExecutionPlan for FewRows {
    crate::hands_on!(filter);

    fn name(&self) -> &'static str {
        "FewRows"
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let filter = self.filter.downcast_ref::<FilterExec>().zip(rows_max(&context));
        match filter {
            Some((filter, rows)) => {
                let rows = rows.min(filter.batch_size());
                filter.with_batch_size(rows)?.execute(partition, context)
            }
            None => self.filter.execute(partition, context),
        }
    }
}
