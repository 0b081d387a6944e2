//! `LIMIT` and `OFFSET` of values that are to be computed, and `FETCH FIRST … WITH TIES`.
//!
//! DataFusion's limits are whole numbers that are known when a statement is planned. Here a
//! constant of another type becomes a whole number, or is refused. If a subquery computes the
//! limit, or ties count as one row, a window function numbers the rows in the order of the sort
//! below, and a filter checks each number against the limit.
//!
//! ```text
//! Limit: fetch = (SELECT …)        Projection: all but the number
//!   Sort: a                          Sort: a
//!     t                                Filter: is_within_limit(number, …, (SELECT …))
//!                                        Window: row_number() in the order of a
//!                                          t
//! ```

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result as PlanResult, ScalarValue};
use datafusion::functions_window::expr_fn::{rank, row_number};
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, ExprSchemable, Filter, Limit, LogicalPlan, Projection, Sort,
    SortExpr, Window, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;
use thalweg_functions::{WITH_TIES, WITHIN_LIMIT};
use thalweg_types::{Error, SqlState};
use thalweg_values::errors::external;
use thalweg_values::types::display_name;

use super::unknown;

const ROW: &str = "__limited_row";
const RANK: &str = "__limited_rank";

#[derive(Debug, Default)]
pub(crate) struct ComputedLimits;

impl AnalyzerRule for ComputedLimits {
    fn name(&self) -> &str {
        "computed_limits"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> PlanResult<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite_plan).map(|transformed| transformed.data)
    }
}

/// The limit, the offset and the treatment of ties.
struct Wanted {
    skip: Option<Expr>,
    count: Option<Expr>,
    /// True for `WITH TIES`: rows that tie in the order count together.
    with_ties: bool,
}

fn rewrite_plan(plan: LogicalPlan) -> PlanResult<Transformed<LogicalPlan>> {
    let LogicalPlan::Limit(Limit { skip, fetch, input }) = plan else {
        return Ok(Transformed::no(plan));
    };
    let (fetch, with_ties) = match fetch.map(|fetch| without_ties(*fetch)) {
        Some((count, with_ties)) => (Some(count), with_ties),
        None => (None, false),
    };
    let skip = skip.map(|skip| counted(*skip, "OFFSET")).transpose()?;
    let count = fetch.map(|count| counted(count, "LIMIT")).transpose()?;
    let is_computed = |count: &Option<Expr>| count.as_ref().is_some_and(has_subquery);
    let plan = match with_ties || is_computed(&skip) || is_computed(&count) {
        true => wanted(&Wanted { skip, count, with_ties }, &input)?,
        false => {
            let (skip, fetch) = (skip.map(Box::new), count.map(Box::new));
            LogicalPlan::Limit(Limit { skip, fetch, input })
        }
    };
    Ok(Transformed::yes(plan))
}

fn without_ties(fetch: Expr) -> (Expr, bool) {
    match fetch {
        Expr::ScalarFunction(mut call) if call.func.name() == WITH_TIES && call.args.len() == 1 => {
            (call.args.swap_remove(0), true)
        }
        other => (other, false),
    }
}

/// The number of rows that a clause asks for, as a whole number.
fn counted(count: Expr, clause: &str) -> PlanResult<Expr> {
    if count.exists(|expr| Ok(matches!(expr, Expr::AggregateFunction(_))))? {
        let error_text = format!("aggregate functions are not allowed in {clause}");
        return Err(external(Error::new(SqlState::GROUPING_ERROR, error_text)));
    }
    // The type may be unknown so far, as that of a parameter is: then nothing is refused here.
    let Ok(given) = count.get_type(&DFSchema::empty()) else { return Ok(count) };
    match given {
        ArrowType::Null => Ok(count),
        given if given.is_integer() => Ok(count),
        given if given.is_numeric() => Ok(cast(count, ArrowType::Int64)),
        _ if unknown::is_unknown(&count) => unknown::typed(count, &ArrowType::Int64),
        given => {
            let given = display_name(&Field::new("", given, true));
            let error_text = format!("argument of {clause} must be type bigint, not type {given}");
            Err(external(Error::new(SqlState::DATATYPE_MISMATCH, error_text)))
        }
    }
}

fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| {
        matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        )
    };
    expr.exists(|expr| Ok(is_one(expr))).unwrap_or(false)
}

/// The wanted rows of a plan, in the order that it gives them.
fn wanted(limit: &Wanted, input: &Arc<LogicalPlan>) -> PlanResult<LogicalPlan> {
    match input.as_ref() {
        // The sort keys need not be among the projected columns.
        LogicalPlan::Projection(projection)
            if matches!(projection.input.as_ref(), LogicalPlan::Sort(_)) =>
        {
            let input = Arc::new(wanted(limit, &projection.input)?);
            let (expressions, schema) = (projection.expr.clone(), Arc::clone(&projection.schema));
            Ok(LogicalPlan::Projection(Projection::try_new_with_schema(
                expressions,
                input,
                schema,
            )?))
        }
        LogicalPlan::Sort(sort) => {
            let input = Arc::new(filtered(limit, &sort.input, &sort.expr)?);
            let sorted = LogicalPlan::Sort(Sort { input, ..sort.clone() });
            with_columns_of(&sort.input, sorted)
        }
        // Its order is internal: a window above cannot use it.
        LogicalPlan::Distinct(Distinct::On(_)) => {
            Err(external(Error::unsupported("DISTINCT ON with a limit that is computed")))
        }
        _ if limit.with_ties => {
            let error_text = "WITH TIES cannot be specified without ORDER BY clause";
            Err(external(Error::new(SqlState::SYNTAX_ERROR, error_text)))
        }
        _ => with_columns_of(input, filtered(limit, input, &[])?),
    }
}

/// The wanted rows in no order, with their numbers.
fn filtered(
    limit: &Wanted,
    input: &Arc<LogicalPlan>,
    order: &[SortExpr],
) -> PlanResult<LogicalPlan> {
    // Without keys there is no order: the frame would consist of peers.
    let numbers = match order {
        [] => row_number(),
        order => row_number().order_by(order.to_vec()).build()?,
    };
    let mut functions = vec![numbers.alias(ROW)];
    if limit.with_ties {
        functions.push(rank().order_by(order.to_vec()).build()?.alias(RANK));
    }
    let numbered = LogicalPlan::Window(Window::try_new(functions, Arc::clone(input))?);
    let number = |name: &str| cast(Expr::Column(Column::new_unqualified(name)), ArrowType::Int64);
    let rank = if limit.with_ties { number(RANK) } else { number(ROW) };
    let count = |count: &Option<Expr>| match count {
        Some(count) => cast(count.clone(), ArrowType::Int64),
        None => lit(ScalarValue::Int64(None)),
    };
    let arguments = vec![number(ROW), rank, count(&limit.skip), count(&limit.count)];
    let condition = WITHIN_LIMIT.call(arguments);
    Ok(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(numbered))?))
}

fn with_columns_of(model: &LogicalPlan, plan: LogicalPlan) -> PlanResult<LogicalPlan> {
    let columns = model.schema().columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}
