//! The types of a query's columns that Arrow holds as something else: `uuid[]`, `oid[]`, and the
//! text that a cast made of `json`.
//!
//! The metadata of fields names these types, also in the fields of a list's items. DataFusion
//! infers the type of `array_agg(x)` and of `ARRAY[x, y]` from Arrow's types alone and drops the
//! metadata; many of its operators drop it while a query runs. A cast, in contrast, keeps the
//! metadata of its argument. Here the types of a query's columns are found once more, from a copy
//! of its plan in which casts name the types that they make. The copy is never run.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result as PlanResult};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use crate::analyze::rewrite_expressions;

/// The columns of a plan, with the types that casts name, and with arrays whose items have the
/// types of the values they were made of.
///
/// # Errors
/// Only those of the plan itself.
pub fn complete_columns(plan: &LogicalPlan) -> PlanResult<DFSchemaRef> {
    if !may_say_otherwise(plan)? {
        return Ok(Arc::clone(plan.schema()));
    }
    let named = plan.clone().transform_up_with_subqueries(rewrite_plan)?;
    Ok(Arc::clone(named.data.schema()))
}

/// Gives `pg_typeof` the name of its argument's type where SQL knows more of it than Arrow.
#[derive(Debug, Default)]
pub(crate) struct TypesOfArguments;

impl AnalyzerRule for TypesOfArguments {
    fn name(&self) -> &str {
        "types_of_arguments"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> PlanResult<LogicalPlan> {
        plan.transform_up_with_subqueries(name_arguments).map(|transformed| transformed.data)
    }
}

fn is_type_name(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == "pg_typeof")
}

fn name_arguments(plan: LogicalPlan) -> PlanResult<Transformed<LogicalPlan>> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= expr.exists(|expr| Ok(is_type_name(expr)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(Transformed::no(plan));
    }
    let mut schema = DFSchema::empty();
    for input in plan.inputs() {
        schema.merge(complete_columns(input)?.as_ref());
    }
    let plain = merge_schema(&plan.inputs());
    rewrite_expressions(plan, |expr| {
        let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        let ("pg_typeof", [argument]) = (call.func.name(), call.args.as_slice()) else {
            return Ok(Transformed::no(Expr::ScalarFunction(call)));
        };
        let complete = match list_of_values(argument, &schema) {
            Some(list) => list,
            None => argument.get_type(&schema)?,
        };
        let plain = argument.get_type(&plain)?;
        // A constant array loses the metadata of its items when it is computed, and the function
        // would see no more than Arrow's type. No upstream issue found.
        let is_constant = matches!(plain, ArrowType::List(_)) && !argument.any_column_refs();
        if !is_alike(&complete, &plain) || (complete == plain && !is_constant) {
            return Ok(Transformed::no(Expr::ScalarFunction(call)));
        }
        call.func = thalweg_functions::pg_typeof_known(&Field::new("", complete.clone(), true));
        // Workers know the function by its name alone, and see the type of the cast.
        call.args =
            call.args.into_iter().map(|argument| named(argument, complete.clone())).collect();
        Ok(Transformed::yes(Expr::ScalarFunction(call)))
    })
}

fn may_say_otherwise(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                found |= gathered_value(expr).is_some() || matches!(expr, Expr::Cast(_));
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(found)
}

/// The first of the values that an expression collects into an array.
fn gathered_value(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::AggregateFunction(call) if call.func.name() == "array_agg" => {
            call.params.args.first()
        }
        Expr::ScalarFunction(call) if call.func.name() == "make_array" => call.args.first(),
        _ => None,
    }
}

/// The list type of an array whose items have metadata beside their Arrow type.
fn list_of_values(expr: &Expr, schema: &DFSchema) -> Option<ArrowType> {
    let (_, value) = gathered_value(expr)?.to_field(schema).ok()?;
    let is_list = matches!(value.data_type(), ArrowType::List(_));
    if value.metadata().is_empty() && !is_list {
        return None;
    }
    let item = value.as_ref().clone().with_name(Field::LIST_FIELD_DEFAULT_NAME);
    let list = ArrowType::List(Arc::new(item.with_nullable(true)));
    // Values of several types are converted to a common type, which is none of the types they name.
    let (_, made) = expr.to_field(schema).ok()?;
    (is_alike(made.data_type(), &list) && *made.data_type() != list).then_some(list)
}

/// True if two types differ in the metadata of fields at most.
fn is_alike(left: &ArrowType, right: &ArrowType) -> bool {
    match (left, right) {
        (ArrowType::List(left), ArrowType::List(right)) => {
            is_alike(left.data_type(), right.data_type())
        }
        (left, right) => left == right,
    }
}

fn named(expr: Expr, list: ArrowType) -> Expr {
    let field: FieldRef = Arc::new(Field::new("", list, true));
    Expr::Cast(Cast { expr: Box::new(expr), field })
}

/// A cast to a type without metadata, in a form that drops the metadata of its argument: DataFusion
/// keeps that metadata unless the field of the cast has a name.
fn explicit(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::Cast(Cast { expr, field }) = expr else { return None };
    let (_, from) = expr.to_field(schema).ok()?;
    if !field.metadata().is_empty() || from.metadata().is_empty() {
        return None;
    }
    let field = Arc::new(Field::new("cast", field.data_type().clone(), from.is_nullable()));
    Some(Expr::Cast(Cast { expr: expr.clone(), field }))
}

fn rewrite_plan(plan: LogicalPlan) -> PlanResult<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let plan = rewrite_expressions(plan, |expr| {
        let explicit = explicit(&expr, &schema);
        Ok(explicit.map_or_else(|| Transformed::no(expr), Transformed::yes))
    })?
    .data;
    if let LogicalPlan::Aggregate(aggregate) = plan {
        return name_gathered(aggregate);
    }
    rewrite_expressions(plan, |expr| {
        Ok(match list_of_values(&expr, &schema) {
            Some(list) => Transformed::yes(named(expr, list)),
            None => Transformed::no(expr),
        })
    })
}

/// Gathered arrays get their casts in a projection above, under the names that they had.
fn name_gathered(aggregate: Aggregate) -> PlanResult<Transformed<LogicalPlan>> {
    let schema = Arc::clone(aggregate.input.schema());
    let lists: Vec<Option<ArrowType>> =
        aggregate.aggr_expr.iter().map(|expr| list_of_values(expr, &schema)).collect();
    let plan = LogicalPlan::Aggregate(aggregate).recompute_schema()?;
    if lists.iter().all(Option::is_none) {
        return Ok(Transformed::no(plan));
    }
    let groups = plan.schema().fields().len() - lists.len();
    let columns = plan.schema().iter().enumerate().map(|(place, (qualifier, field))| {
        let column = Expr::Column(Column::from((qualifier, field)));
        let list = place.checked_sub(groups).and_then(|place| lists[place].clone());
        match list {
            Some(list) => named(column, list).alias_qualified(qualifier.cloned(), field.name()),
            None => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    Ok(Transformed::yes(LogicalPlanBuilder::from(plan).project(columns)?.build()?))
}
