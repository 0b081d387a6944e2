//! Plans that compare rows by intervals: sorts, groups, distinct rows and joins.

use std::sync::Arc;

use datafusion::common::{DFSchema, JoinConstraint, Result as PlanResult};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, GroupingSet, LogicalPlan, Projection, Sort, Union,
    ident, when,
};

use super::{extremes, is_interval, length_of, sort_by_length};

/// Replaces intervals that rows are compared by with their lengths. The plan's columns stay as they
/// are.
pub(in super::super) fn keyed(plan: LogicalPlan, schema: &DFSchema) -> PlanResult<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Sort(Sort { mut expr, input, fetch }) => {
            sort_by_length(&mut expr, schema);
            LogicalPlan::Sort(Sort { expr, input, fetch })
        }
        LogicalPlan::Aggregate(aggregate) => grouped(aggregate, schema)?,
        LogicalPlan::Distinct(Distinct::All(input)) if has_interval(input.schema()) => {
            let keys = input.schema().columns().into_iter().map(Expr::Column).collect();
            let schema = Arc::clone(input.schema());
            grouped(Aggregate::try_new(input, keys, vec![])?, &schema)?
        }
        LogicalPlan::Distinct(Distinct::On(mut distinct)) => {
            first_of_lengths(&mut distinct, schema);
            LogicalPlan::Distinct(Distinct::On(distinct))
        }
        LogicalPlan::Join(mut join) => {
            for (left, right) in &mut join.on {
                if is_interval(left, schema) && is_interval(right, schema) {
                    (*left, *right) = (length_of(left), length_of(right));
                    join.join_constraint = JoinConstraint::On;
                }
            }
            LogicalPlan::Join(join)
        }
        LogicalPlan::Union(union) => LogicalPlan::Union(with_nulls(union)?),
        other => other,
    })
}

/// A union takes the nullability of its columns from its inputs, which may be NULL where they were
/// not before.
fn with_nulls(mut union: Union) -> PlanResult<Union> {
    let schema = &union.schema;
    let fields = schema.iter().enumerate().map(|(place, (qualifier, field))| {
        let nullable = union.inputs.iter().any(|input| input.schema().field(place).is_nullable());
        let field = field.as_ref().clone().with_nullable(nullable || field.is_nullable());
        (qualifier.cloned(), Arc::new(field))
    });
    let fields = fields.collect::<Vec<_>>();
    let schema = DFSchema::new_with_metadata(fields, schema.metadata().clone())?;
    union.schema = Arc::new(schema);
    Ok(union)
}

fn has_interval(schema: &DFSchema) -> bool {
    schema.columns().into_iter().any(|column| is_interval(&Expr::Column(column), schema))
}

fn first_of_lengths(distinct: &mut DistinctOn, schema: &DFSchema) {
    for key in &mut distinct.on_expr {
        if is_interval(key, schema) {
            *key = length_of(key);
        }
    }
    sort_by_length(distinct.sort_expr.as_deref_mut().unwrap_or_default(), schema);
}

/// Groups by lengths. All intervals of a group are equal; the first one is shown.
fn grouped(aggregate: Aggregate, schema: &DFSchema) -> PlanResult<LogicalPlan> {
    let keys = grouping_set_to_exprlist(&aggregate.group_expr)?;
    let keys: Vec<Expr> = keys.into_iter().cloned().collect();
    let places: Vec<usize> =
        (0..keys.len()).filter(|place| is_interval(&keys[*place], schema)).collect();
    if places.is_empty() {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let group_expr = aggregate.group_expr.into_iter().map(|key| by_length(key, schema)).collect();
    let name_of = |place: usize| format!("__interval_{place}");
    let mut aggr_expr = aggregate.aggr_expr;
    for place in &places {
        let key = keys[*place].clone().unalias();
        aggr_expr.push(extremes::first_of_equal(key).alias(name_of(*place)));
    }
    let lengths = Aggregate::try_new(aggregate.input, group_expr, aggr_expr)?;
    let columns = aggregate.schema.columns().into_iter().zip(lengths.schema.columns());
    let columns = columns.enumerate().map(|(place, (column, found))| {
        let value = match places.contains(&place) {
            // A grouping set without the key leaves its length NULL.
            true => when(Expr::Column(found).is_not_null(), ident(name_of(place))).end()?,
            false => Expr::Column(found),
        };
        Ok(value.alias_qualified(column.relation, column.name))
    });
    let columns = columns.collect::<PlanResult<Vec<Expr>>>()?;
    let lengths = Arc::new(LogicalPlan::Aggregate(lengths));
    Ok(LogicalPlan::Projection(Projection::try_new(columns, lengths)?))
}

fn by_length(key: Expr, schema: &DFSchema) -> Expr {
    let all = |keys: Vec<Expr>| keys.into_iter().map(|key| by_length(key, schema)).collect();
    match key {
        Expr::GroupingSet(GroupingSet::Rollup(keys)) => {
            Expr::GroupingSet(GroupingSet::Rollup(all(keys)))
        }
        Expr::GroupingSet(GroupingSet::Cube(keys)) => {
            Expr::GroupingSet(GroupingSet::Cube(all(keys)))
        }
        Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => {
            let sets = sets.into_iter().map(all).collect();
            Expr::GroupingSet(GroupingSet::GroupingSets(sets))
        }
        key if is_interval(&key, schema) => length_of(&key.unalias()),
        key => key,
    }
}
