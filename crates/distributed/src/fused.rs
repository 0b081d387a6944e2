//! Aggregates of fragments, fused into the scan of a worker's rows.
//!
//! A worker sends the states of a partial aggregate. The state of `count`, `sum`, `min` and `max`
//! is the function's value over the worker's rows; the state of `avg` is a count and a sum. So the
//! states are the columns of a whole aggregate over these rows, which can be fused into the scan.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::Result;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, binary, case, cast, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::projection::ProjectionExec;
use thalweg_query::Shards;

use crate::codec::Reader;

type Plan = Arc<dyn ExecutionPlan>;
type Call = Arc<AggregateFunctionExpr>;
type Known = Arc<dyn PhysicalExpr>;

/// Fuses an aggregate into its scan; `None` if that is not possible.
pub(crate) fn fused(aggregate: &AggregateExec, shards: &Shards) -> Result<Option<Plan>> {
    if aggregate.mode() != &AggregateMode::Partial {
        return shards.fused(Arc::new(aggregate.clone()));
    }
    let Some(calls) = of_states(aggregate)? else { return Ok(None) };
    let (calls, forms): (Vec<Call>, Vec<Form>) = calls.into_iter().unzip();
    let filters = vec![None; calls.len()];
    let whole = AggregateExec::try_new(
        AggregateMode::Single,
        aggregate.group_expr().clone(),
        calls,
        filters,
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    match shards.fused(Arc::new(whole))? {
        Some(fused) => as_states(fused, &forms, &aggregate.schema()).map(Some),
        None => Ok(None),
    }
}

/// The conversion of a function's value into a state.
#[derive(Clone, Copy)]
enum Form {
    Itself,
    /// A count that becomes NULL instead of zero. When such counts are merged, a group counts as
    /// non-empty if any of them is not NULL.
    OfSome,
}

/// Functions whose values are the states of an aggregate, one for each state. Returns `None` if a
/// state is not the value of a function.
fn of_states(aggregate: &AggregateExec) -> Result<Option<Vec<(Call, Form)>>> {
    let mut calls = Vec::new();
    if aggregate.filter_expr().iter().any(Option::is_some) {
        return Ok(None);
    }
    for call in aggregate.aggr_expr() {
        let states = call.state_fields()?;
        let found = match (call.fun().name(), states.as_slice()) {
            ("count" | "sum" | "min" | "max", [state]) => value(call, state),
            ("avg", [count, sum]) => average(call, count, sum, &aggregate.input_schema())?,
            _ => None,
        };
        let Some(found) = found else { return Ok(None) };
        calls.extend(found);
    }
    Ok(Some(calls))
}

/// A function whose state is its value.
fn value(call: &Call, state: &FieldRef) -> Option<Vec<(Call, Form)>> {
    let is_alike = call.field().data_type() == state.data_type() && !call.is_distinct();
    is_alike.then(|| vec![(Arc::clone(call), Form::Itself)])
}

fn average(
    call: &Call,
    count: &FieldRef,
    sum: &FieldRef,
    over: &SchemaRef,
) -> Result<Option<Vec<(Call, Form)>>> {
    if call.is_distinct() || count.data_type() != &DataType::UInt64 {
        return Ok(None);
    }
    let build = |function, arguments, name: &FieldRef| {
        AggregateExprBuilder::new(function, arguments)
            .schema(Arc::clone(over))
            .alias(name.name())
            .build()
            .map(Arc::new)
    };
    let of_count = build(count_udaf(), call.expressions(), count)?;
    let values = values_of_sum(call, sum, over)?;
    // Some types have an average but no sum.
    let Ok(of_sum) = build(Reader::aggregate("sum")?, values, sum) else { return Ok(None) };
    // A sum of another type overflows at other values, except for numerics of the same scale.
    let is_alike = match (of_sum.field().data_type(), sum.data_type()) {
        (DataType::Decimal128(_, scale), DataType::Decimal128(_, wanted)) => scale == wanted,
        (found, wanted) => found == wanted,
    };
    // Averages of floats use DataFusion's own function.
    let count_form = match sum.data_type() {
        DataType::Float64 => Form::OfSome,
        _ => Form::Itself,
    };
    Ok(is_alike.then(|| vec![(of_count, count_form), (of_sum, Form::Itself)]))
}

/// The expressions that an average adds up. Integers whose sum is numeric are cast to numeric
/// first.
fn values_of_sum(call: &Call, sum: &FieldRef, over: &SchemaRef) -> Result<Vec<Known>> {
    let values = call.expressions();
    let digits = match values.first().map(|value| value.data_type(over)).transpose()? {
        Some(DataType::Int16) => 5,
        Some(DataType::Int32) => 10,
        Some(DataType::Int64) => 19,
        _ => return Ok(values),
    };
    let DataType::Decimal128(_, 0) = sum.data_type() else { return Ok(values) };
    let numeric = DataType::Decimal128(digits, 0);
    values.into_iter().map(|value| cast(value, over, numeric.clone())).collect()
}

/// Converts the columns of the fused aggregate to the types of the states. The keys come first,
/// followed by one column for each form.
fn as_states(fused: Plan, forms: &[Form], states: &SchemaRef) -> Result<Plan> {
    let schema = fused.schema();
    let keys = schema.fields().len() - forms.len();
    let columns = schema.fields().iter().zip(states.fields()).enumerate();
    let columns = columns.map(|(place, (field, state))| {
        let mut column: Known = Arc::new(Column::new(field.name(), place));
        if let Some(Form::OfSome) = place.checked_sub(keys).map(|place| forms[place]) {
            let is_some = binary(Arc::clone(&column), Operator::Gt, lit(0_i64), &schema)?;
            column = case(None, vec![(is_some, column)], None)?;
        }
        Ok((cast(column, &schema, state.data_type().clone())?, state.name().clone()))
    });
    Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Result<Vec<_>>>()?, fused)?))
}
