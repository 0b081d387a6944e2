//! Arrays and texts that are aggregated in the order of a subquery.
//!
//! `array_agg(a)` over `(SELECT a FROM t ORDER BY a DESC)` takes the rows in that order in
//! PostgreSQL. DataFusion assumes that an aggregate does not depend on the order of its input, and
//! drops the sort. Here the order of the subquery becomes the aggregate's own.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result as PlanResult};
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, SubqueryAlias};

/// Aggregates whose result depends on the order of their rows.
const ORDERED: &[&str] =
    &["array_agg", "string_agg", "json_object_agg", "jsonb_object_agg", "json_agg", "jsonb_agg"];

/// Moves the order of a sorted subquery into the aggregates above it that depend on it.
///
/// # Errors
/// If the plan cannot be put together again.
pub(super) fn carried(plan: LogicalPlan) -> PlanResult<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
    if !aggregate.aggr_expr.iter().any(wants_order) {
        return Ok(Transformed::no(plan));
    }
    let Some(Ordered { plan: input, order }) = ordered(&aggregate.input)? else {
        return Ok(Transformed::no(plan));
    };
    let expressions = aggregate.aggr_expr.iter().map(|expr| with_order(expr.clone(), &order));
    let expressions = expressions.collect::<PlanResult<Vec<Expr>>>()?;
    let groups = aggregate.group_expr.clone();
    let schema = Arc::clone(&aggregate.schema);
    let aggregate = Aggregate::try_new_with_schema(Arc::new(input), groups, expressions, schema)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}

/// `array_agg(a ORDER BY b, b DESC)` without the second key, which decides nothing. DataFusion
/// drops it in one place only, and fails where it compares the keys with those of a state. No
/// upstream issue found.
pub(super) fn without_repeated_keys(expr: &Expr) -> Option<Expr> {
    let Expr::AggregateFunction(call) = expr else { return None };
    let order = &call.params.order_by;
    let is_first = |place: usize| order[..place].iter().all(|key| key.expr != order[place].expr);
    if (0..order.len()).all(is_first) {
        return None;
    }
    let mut call = call.clone();
    call.params.order_by = (0..order.len())
        .filter(|place| is_first(*place))
        .map(|place| order[place].clone())
        .collect();
    Some(Expr::AggregateFunction(call))
}

fn wants_order(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => wants_order(&alias.expr),
        Expr::AggregateFunction(call) => {
            ORDERED.contains(&call.func.name())
                && call.params.order_by.is_empty()
                && !call.params.distinct
        }
        _ => false,
    }
}

fn with_order(expr: Expr, order: &[SortExpr]) -> PlanResult<Expr> {
    if !wants_order(&expr) {
        return Ok(expr);
    }
    let (qualifier, name) = expr.qualified_name();
    let Expr::AggregateFunction(mut call) = expr.unalias() else {
        return datafusion::common::internal_err!("an aggregate is a call");
    };
    call.params.order_by = order.to_vec();
    let call = Expr::AggregateFunction(call);
    let call = without_repeated_keys(&call).unwrap_or(call);
    // Plan nodes above refer to the aggregate by the name that it had without an order.
    Ok(call.alias_qualified(qualifier, name))
}

/// A plan, and the order of its rows as keys over its own columns.
struct Ordered {
    plan: LogicalPlan,
    order: Vec<SortExpr>,
}

/// The order that a subquery asks for. Its plan may have more columns than before.
fn ordered(plan: &LogicalPlan) -> PlanResult<Option<Ordered>> {
    match plan {
        LogicalPlan::Sort(sort) => {
            let order = sort.expr.clone();
            Ok(Some(Ordered { plan: plan.clone(), order }))
        }
        LogicalPlan::Limit(limit) => {
            let Some(Ordered { plan: input, order }) = ordered(&limit.input)? else {
                return Ok(None);
            };
            let mut limit = limit.clone();
            limit.input = Arc::new(input);
            Ok(Some(Ordered { plan: LogicalPlan::Limit(limit), order }))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let Some(Ordered { plan: input, order }) = ordered(&alias.input)? else {
                return Ok(None);
            };
            let below = Arc::clone(input.schema());
            let above = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
            let above = LogicalPlan::SubqueryAlias(above);
            let order = mapped(order, |column| {
                let place = below.index_of_column(column).ok()?;
                Some(Column::from(above.schema().qualified_field(place)))
            })?;
            Ok(order.map(|order| Ordered { plan: above, order }))
        }
        LogicalPlan::Projection(projection) => through(projection),
        _ => Ok(None),
    }
}

/// Sort keys that a projection leaves out become columns of it.
fn through(projection: &Projection) -> PlanResult<Option<Ordered>> {
    let Some(Ordered { plan: input, order }) = ordered(&projection.input)? else {
        return Ok(None);
    };
    let mut columns = projection.expr.clone();
    let mut keys = Vec::with_capacity(order.len());
    for key in order {
        let place = columns.iter().position(|column| column.clone().unalias() == key.expr);
        let place = place.unwrap_or_else(|| {
            let name = format!("__key_{}", columns.len());
            columns.push(key.expr.clone().alias(name));
            columns.len() - 1
        });
        keys.push((place, key));
    }
    let above = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(input))?);
    let order = keys.into_iter().map(|(place, key)| {
        let column = Column::from(above.schema().qualified_field(place));
        SortExpr { expr: Expr::Column(column), ..key }
    });
    let order = order.collect();
    Ok(Some(Ordered { plan: above, order }))
}

fn mapped(
    order: Vec<SortExpr>,
    place: impl Fn(&Column) -> Option<Column>,
) -> PlanResult<Option<Vec<SortExpr>>> {
    let mut is_known = true;
    let keys = order.into_iter().map(|key| {
        let expr = key.expr.transform_up(|part| {
            let Expr::Column(column) = &part else { return Ok(Transformed::no(part)) };
            Ok(match place(column) {
                Some(column) => Transformed::yes(Expr::Column(column)),
                None => {
                    is_known = false;
                    Transformed::no(part)
                }
            })
        });
        Ok(SortExpr { expr: expr.data()?, ..key })
    });
    let keys = keys.collect::<PlanResult<Vec<SortExpr>>>()?;
    Ok(is_known.then_some(keys))
}
