//! The order of intervals: a month is 30 days and a day 24 hours, whatever they are written as.
//!
//! Arrow orders intervals field by field, and tells `1 mon` from `30 days`. Comparisons, sorts,
//! groups and joins go by the length in microseconds instead; a group shows one of its intervals.

mod extremes;
mod keys;

use std::sync::{Arc, LazyLock};

use arrow::array::ArrayRef;
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue};
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, InList, InSubquery, Sort as SortExpr, WindowFunction,
};
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ScalarUDF, Subquery,
    WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};
use datafusion::optimizer::AnalyzerRule;
use thalweg_types::{DataType, Result};
use thalweg_values::interval_length::{LENGTH, lengths};
use thalweg_values::scalar_function::Function;
use thalweg_values::types::arrow_type;

use super::{rewrite_expressions, visible_columns};
pub(super) use keys::keyed;

static LENGTH_OF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let interval = arrow_type(&DataType::Interval);
    Function::new("interval_length", &[&[interval]], LENGTH, length).into_udf()
});

fn length(columns: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(lengths(&columns[0]))
}

fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|given| matches!(given, ArrowType::Interval(_)))
}

fn length_of(expr: &Expr) -> Expr {
    LENGTH_OF.call(vec![expr.clone()])
}

/// The value by which an interval is compared; other values as they are.
pub(super) fn comparable(expr: &Expr, schema: &DFSchema) -> Expr {
    if is_interval(expr, schema) { length_of(expr) } else { expr.clone() }
}

/// Rewrites an expression that compares intervals so that it compares their lengths.
///
/// # Errors
/// If a subquery's plan cannot be extended.
pub(super) fn compared(expr: &Expr, schema: &DFSchema) -> PlanResult<Option<Expr>> {
    Ok(Some(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if op.supports_propagation()
                && is_interval(left, schema)
                && is_interval(right, schema) =>
        {
            let (left, right) = (Box::new(length_of(left)), Box::new(length_of(right)));
            Expr::BinaryExpr(BinaryExpr::new(left, *op, right))
        }
        Expr::Between(Between { expr, negated, low, high }) if is_interval(expr, schema) => {
            let [expr, low, high] = [expr, low, high].map(|expr| Box::new(length_of(expr)));
            Expr::Between(Between::new(expr, *negated, low, high))
        }
        Expr::InList(InList { expr, list, negated }) if is_interval(expr, schema) => {
            let list = list.iter().map(length_of).collect();
            Expr::InList(InList::new(Box::new(length_of(expr)), list, *negated))
        }
        Expr::InSubquery(tested) if is_interval(&tested.expr, schema) => {
            let subquery = lengths_of_rows(&tested.subquery)?;
            let expr = Box::new(length_of(&tested.expr));
            Expr::InSubquery(InSubquery::new(expr, subquery, tested.negated))
        }
        Expr::Case(Case { expr: Some(expr), when_then_expr, else_expr })
            if is_interval(expr, schema) =>
        {
            let whens = when_then_expr.iter();
            let whens = whens.map(|(when, then)| (Box::new(length_of(when)), then.clone()));
            let expr = Some(Box::new(length_of(expr)));
            Expr::Case(Case::new(expr, whens.collect(), else_expr.clone()))
        }
        Expr::ScalarFunction(call) if call.args.iter().all(|arg| is_interval(arg, schema)) => {
            match (call.name(), call.args.as_slice()) {
                ("nullif", [value, other]) => {
                    let equal = length_of(value).eq(length_of(other));
                    let none = Expr::Literal(ScalarValue::IntervalMonthDayNano(None), None);
                    let whens = vec![(Box::new(equal), Box::new(none))];
                    Expr::Case(Case::new(None, whens, Some(Box::new(value.clone()))))
                }
                ("greatest", arguments) => extremes::greatest(arguments.to_vec()),
                ("least", arguments) => extremes::least(arguments.to_vec()),
                _ => return Ok(None),
            }
        }
        Expr::AggregateFunction(call) => return Ok(aggregated(call, schema)),
        Expr::WindowFunction(call) => return Ok(windowed(call, schema)),
        _ => return Ok(None),
    }))
}

fn lengths_of_rows(subquery: &Subquery) -> PlanResult<Subquery> {
    let column = Expr::Column(subquery.subquery.schema().columns()[0].clone());
    let plan = LogicalPlanBuilder::new_from_arc(Arc::clone(&subquery.subquery))
        .project([length_of(&column)])?
        .build()?;
    Ok(subquery.with_plan(Arc::new(plan)))
}

fn aggregated(call: &AggregateFunction, schema: &DFSchema) -> Option<Expr> {
    let mut call = call.clone();
    let mut changed = sort_by_length(&mut call.params.order_by, schema);
    if let [argument] = call.params.args.as_slice()
        && is_interval(argument, schema)
    {
        if let Some(extreme) = extremes::of_name(call.func.name()) {
            (call.func, changed) = (extreme, true);
        } else if call.params.distinct && call.func.name() == "count" {
            (call.params.args, changed) = (vec![length_of(argument)], true);
        }
    }
    changed.then(|| Expr::AggregateFunction(call))
}

fn windowed(call: &WindowFunction, schema: &DFSchema) -> Option<Expr> {
    let mut call = call.clone();
    let mut changed = false;
    for key in &mut call.params.partition_by {
        if is_interval(key, schema) {
            (*key, changed) = (length_of(key), true);
        }
    }
    let frame = &call.params.window_frame;
    let is_offset = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => {
            !distance.is_null()
        }
        WindowFrameBound::CurrentRow => false,
    };
    // A RANGE frame has distances that are intervals. Lengths have no such distances.
    let has_distance = frame.units == WindowFrameUnits::Range
        && (is_offset(&frame.start_bound) || is_offset(&frame.end_bound));
    changed |= !has_distance && sort_by_length(&mut call.params.order_by, schema);
    if let (WindowFunctionDefinition::AggregateUDF(function), [argument]) =
        (&call.fun, call.params.args.as_slice())
        && is_interval(argument, schema)
        && let Some(extreme) = extremes::of_name(function.name())
    {
        (call.fun, changed) = (WindowFunctionDefinition::AggregateUDF(extreme), true);
    }
    changed.then(|| Expr::WindowFunction(Box::new(call)))
}

/// Windows in the order of intervals. The rule runs before DataFusion's coercion, which would
/// refuse them.
#[derive(Debug, Default)]
pub(crate) struct IntervalWindows;

impl AnalyzerRule for IntervalWindows {
    fn name(&self) -> &str {
        "interval_windows"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> PlanResult<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            let LogicalPlan::Window(_) = &plan else { return Ok(Transformed::no(plan)) };
            let schema = visible_columns(&plan)?;
            rewrite_expressions(plan, |expr| {
                let by_length = match &expr {
                    Expr::WindowFunction(call) => windowed(call, &schema),
                    _ => None,
                };
                Ok(by_length.map_or_else(|| Transformed::no(expr), Transformed::yes))
            })
        })?;
        Ok(rewritten.data)
    }
}

/// Replaces intervals among the sort keys by their lengths; true if there were any.
fn sort_by_length(orders: &mut [SortExpr], schema: &DFSchema) -> bool {
    let mut changed = false;
    for order in orders {
        if is_interval(&order.expr, schema) {
            (order.expr, changed) = (length_of(&order.expr), true);
        }
    }
    changed
}
