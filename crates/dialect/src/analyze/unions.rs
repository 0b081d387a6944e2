//! The columns of a UNION: their literals get types, and types that do not match are refused.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::AnalyzerRule;
use thalweg_types::{Error, SqlState};

use super::unknown::{self, Family};
use crate::types::display_name;

#[derive(Debug, Default)]
pub(crate) struct UnionTypes;

impl AnalyzerRule for UnionTypes {
    fn name(&self) -> &str {
        "union_types"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> PlanResult<LogicalPlan> {
        let matched = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Union(union) => match_types(union),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(matched.data)
    }
}

fn match_types(mut union: Union) -> PlanResult<Transformed<LogicalPlan>> {
    let mut changed = false;
    for column in 0..union.schema.fields().len() {
        let Some(target) = common_type(&union, column)? else { continue };
        for input in &mut union.inputs {
            if is_unknown(input, column) {
                *input = Arc::new(typed(input, column, &target)?);
                changed = true;
            }
        }
    }
    let plan = LogicalPlan::Union(union);
    match changed {
        true => Ok(Transformed::yes(plan.recompute_schema()?)),
        false => Ok(Transformed::no(plan)),
    }
}

/// The type that literals in quotes take on in a column, if they must.
fn common_type(union: &Union, column: usize) -> PlanResult<Option<ArrowType>> {
    let mut first: Option<&Field> = None;
    for input in &union.inputs {
        let field = input.schema().field(column);
        if is_unknown(input, column) || field.data_type() == &ArrowType::Null {
            continue;
        }
        match first {
            None => first = Some(field),
            Some(first) => {
                let (left, right) = (Family::of(first.data_type()), Family::of(field.data_type()));
                if !left.compares_with(right) {
                    return Err(mismatch(first, field));
                }
            }
        }
    }
    let target = first.map(|field| field.data_type().clone());
    Ok(target.filter(|target| Family::of(target) != Family::Text))
}

fn mismatch(first: &Field, second: &Field) -> DataFusionError {
    let (first, second) = (display_name(first), display_name(second));
    let told = format!("UNION types {first} and {second} cannot be matched");
    DataFusionError::External(Box::new(Error::new(SqlState::DATATYPE_MISMATCH, told)))
}

/// Whether the column is a literal in quotes.
fn is_unknown(input: &LogicalPlan, column: usize) -> bool {
    let LogicalPlan::Projection(projection) = input else { return false };
    let expr = match projection.expr.get(column) {
        Some(Expr::Alias(alias)) => alias.expr.as_ref(),
        Some(expr) => expr,
        None => return false,
    };
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), None))
}

/// The input with a literal of another type.
fn typed(input: &LogicalPlan, column: usize, target: &ArrowType) -> PlanResult<LogicalPlan> {
    let LogicalPlan::Projection(projection) = input else { return Ok(input.clone()) };
    let mut exprs = projection.expr.clone();
    if let Some(expr) = exprs.get_mut(column) {
        let name = expr.schema_name().to_string();
        *expr = match expr.clone() {
            Expr::Alias(Alias { expr, relation, name, .. }) => {
                unknown::typed(*expr, target)?.alias_qualified(relation, name)
            }
            literal => unknown::typed(literal, target)?.alias(name),
        };
    }
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, projection.input.clone())?))
}
