//! LIMIT and window functions under a domain: both work on the rows of one binding at a time.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Filter, Limit, LogicalPlan, Projection, SubqueryAlias, Window, cast, lit,
};

use super::dependent::{Dependent, Push};
use super::domain::{columns_of, project};

/// A limit becomes a condition on the row number within the binding.
pub(super) fn push_limit(push: &mut Push<'_>, limit: &Limit) -> Result<Dependent> {
    let below = |input: &Arc<LogicalPlan>| {
        let input = Arc::clone(input);
        Arc::new(LogicalPlan::Limit(Limit { input, ..limit.clone() }))
    };
    // Projections and aliases keep number and order of rows: step under them, to the sort.
    match limit.input.as_ref() {
        LogicalPlan::Projection(projection) => {
            let input = below(&projection.input);
            let expressions = projection.expr.clone();
            push.push(&LogicalPlan::Projection(Projection::try_new_with_schema(
                expressions,
                input,
                Arc::clone(&projection.schema),
            )?))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let alias = SubqueryAlias::try_new(below(&alias.input), alias.alias.clone())?;
            push.push(&LogicalPlan::SubqueryAlias(alias))
        }
        LogicalPlan::Sort(sort) => push_ranked(push, limit, &sort.input, &sort.expr),
        _ => push_ranked(push, limit, &limit.input, &[]),
    }
}

fn push_ranked(
    push: &mut Push<'_>,
    limit: &Limit,
    input: &LogicalPlan,
    order: &[datafusion::logical_expr::SortExpr],
) -> Result<Dependent> {
    let Dependent { plan, keys } = push.push(input)?;
    let number = Column::new_unqualified(push.names.fresh("row"));
    let function = row_number()
        .partition_by(keys.iter().cloned().map(Expr::Column).collect())
        .order_by(push.bind_sort(order, &keys)?)
        .build()?
        .alias(&number.name);
    let numbered = LogicalPlan::Window(Window::try_new(vec![function], Arc::new(plan))?);

    let number = cast(Expr::Column(number), DataType::Int64);
    let bound_or = |bound: &Option<Box<Expr>>, otherwise: Option<i64>| -> Result<Expr> {
        let otherwise = lit(ScalarValue::Int64(otherwise));
        let Some(bound) = bound else { return Ok(otherwise) };
        let bound = cast(push.bind(bound, &keys)?, DataType::Int64);
        Ok(datafusion::functions::core::expr_fn::coalesce(vec![bound, otherwise]))
    };
    let skip = bound_or(&limit.skip, Some(0))?;
    let mut condition = number.clone().gt(skip.clone());
    if limit.fetch.is_some() {
        let fetch = bound_or(&limit.fetch, None)?;
        let within = (number - skip).lt_eq(fetch.clone()).or(fetch.is_null());
        condition = condition.and(within);
    }
    let filtered = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(numbered))?);
    let columns = columns_of(input.schema());
    let plan = project(columns.chain(keys.iter().cloned().map(Expr::Column)), filtered)?;
    Ok(Dependent { plan, keys })
}

/// A window's partitions are divided further by binding.
pub(super) fn push_window(push: &mut Push<'_>, window: &Window) -> Result<Dependent> {
    let Dependent { plan, keys } = push.push(&window.input)?;
    let width = window.input.schema().fields().len();
    let mut functions = vec![];
    for (place, expression) in window.window_expr.iter().enumerate() {
        let bound = push.bind(expression, &keys)?.unalias();
        let Expr::WindowFunction(function) = bound else {
            unreachable!("a window computes window functions, not {bound}");
        };
        let WindowFunction { fun, mut params } = *function;
        params.partition_by.extend(keys.iter().cloned().map(Expr::Column));
        let (qualifier, field) = window.schema.qualified_field(width + place);
        let function = Expr::from(WindowFunction { fun, params });
        functions.push(function.alias_qualified(qualifier.cloned(), field.name()));
    }
    let plan = LogicalPlan::Window(Window::try_new(functions, Arc::new(plan))?);
    Ok(Dependent { plan, keys })
}
