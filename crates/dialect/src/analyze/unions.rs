//! The columns of UNION, INTERSECT and EXCEPT: their literals get types, numbers of several types a
//! common one, and types that do not match are refused.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality, Result as PlanResult, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{
    Distinct, Expr, Join, JoinType, LogicalPlan, Projection, Union, cast,
};
use datafusion::optimizer::AnalyzerRule;
use thalweg_types::{Error, SqlState};
use thalweg_values::common_type;
use thalweg_values::errors::external;
use thalweg_values::types::display_name;

use super::recursive_types;
use super::unknown::{self, Family};

#[derive(Debug, Default)]
pub(crate) struct UnionTypes;

impl AnalyzerRule for UnionTypes {
    fn name(&self) -> &str {
        "union_types"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> PlanResult<LogicalPlan> {
        // The columns of one operation may be those of another above it.
        let mut changed = false;
        let matched = plan.transform_up_with_subqueries(|plan| {
            let matched = match plan {
                LogicalPlan::Union(union) => match_union(union)?,
                LogicalPlan::Join(join) if is_set_operation(&join) => match_pair(join)?,
                LogicalPlan::RecursiveQuery(query) => {
                    recursive_types::check(&query)?;
                    Transformed::no(LogicalPlan::RecursiveQuery(query))
                }
                other => Transformed::no(other),
            };
            changed |= matched.transformed;
            if changed { matched.map_data(LogicalPlan::recompute_schema) } else { Ok(matched) }
        })?;
        Ok(matched.data)
    }
}

fn match_union(mut union: Union) -> PlanResult<Transformed<LogicalPlan>> {
    if !match_types("UNION", &mut union.inputs)? {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    // Its schema goes with it: that of a union is kept where others are computed again.
    let union = Union::try_new_with_loose_types(union.inputs)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

/// Only `INTERSECT` and `EXCEPT` join on all columns with NULL equal to NULL.
fn is_set_operation(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == join.left.schema().fields().len()
}

/// The columns of INTERSECT and EXCEPT are the left input's in DataFusion, unlike those of a union.
fn match_pair(mut join: Join) -> PlanResult<Transformed<LogicalPlan>> {
    let name = if join.join_type == JoinType::LeftSemi { "INTERSECT" } else { "EXCEPT" };
    let mut inputs = vec![Arc::clone(&join.left), Arc::clone(&join.right)];
    let mut changed = match_types(name, &mut inputs)?;
    for column in 0..join.on.len() {
        let types = inputs.iter().map(|input| input.schema().field(column).data_type().clone());
        if let Some(target) = common_type::of_numbers(&types.collect::<Vec<_>>()) {
            settle(&mut inputs, column, &target)?;
            changed = true;
        }
    }
    if let (true, [left, right]) = (changed, inputs.as_slice()) {
        (join.left, join.right) = (Arc::clone(left), Arc::clone(right));
    }
    let plan = LogicalPlan::Join(join);
    Ok(if changed { Transformed::yes(plan) } else { Transformed::no(plan) })
}

/// Gives the columns of the inputs their common types, as far as DataFusion does not.
fn match_types(operation: &str, inputs: &mut [Arc<LogicalPlan>]) -> PlanResult<bool> {
    let mut changed = false;
    for column in 0..inputs.first().map_or(0, |input| input.schema().fields().len()) {
        let Some(common) = common(operation, inputs, column)? else { continue };
        match common {
            Common::OfLiterals(target) => {
                for input in inputs.iter_mut().filter(|input| is_unknown(input, column)) {
                    *input = Arc::new(typed(input, column, &target)?);
                    changed = true;
                }
            }
            Common::OfAll(target) => {
                settle(inputs, column, &target)?;
                changed = true;
            }
        }
    }
    Ok(changed)
}

/// Casts a column of all inputs.
fn settle(inputs: &mut [Arc<LogicalPlan>], column: usize, target: &ArrowType) -> PlanResult<()> {
    for input in inputs {
        if is_unknown(input, column) {
            *input = Arc::new(typed(input, column, target)?);
        } else if input.schema().field(column).data_type() != target {
            *input = Arc::new(cast_column(input, column, target)?);
        }
    }
    Ok(())
}

enum Common {
    /// Only literals in quotes take on this type; DataFusion settles the rest.
    OfLiterals(ArrowType),
    OfAll(ArrowType),
}

fn common(
    operation: &str,
    inputs: &[Arc<LogicalPlan>],
    column: usize,
) -> PlanResult<Option<Common>> {
    let mut first: Option<&Field> = None;
    let mut types = Vec::with_capacity(inputs.len());
    for input in inputs {
        let field = input.schema().field(column);
        if is_unknown(input, column) || field.data_type() == &ArrowType::Null {
            continue;
        }
        types.push(field.data_type().clone());
        match first {
            None => first = Some(field),
            Some(first) => {
                let (left, right) = (Family::of(first.data_type()), Family::of(field.data_type()));
                if !left.compares_with(right) {
                    return Err(mismatch(operation, first, field));
                }
            }
        }
    }
    if let Some(target) = common_type::chosen(&types) {
        return Ok(Some(Common::OfAll(target)));
    }
    let target = first.map(|field| field.data_type().clone());
    Ok(target.filter(|target| Family::of(target) != Family::Text).map(Common::OfLiterals))
}

pub(super) fn mismatch(operation: &str, first: &Field, second: &Field) -> DataFusionError {
    let (first, second) = (display_name(first), display_name(second));
    let error_text = format!("{operation} types {first} and {second} cannot be matched");
    external(Error::new(SqlState::DATATYPE_MISMATCH, error_text))
}

/// True if the column is a literal in quotes.
fn is_unknown(input: &LogicalPlan, column: usize) -> bool {
    let projection = match input {
        LogicalPlan::Projection(projection) => projection,
        LogicalPlan::Distinct(Distinct::All(rows)) => return is_unknown(rows, column),
        _ => return false,
    };
    let expr = match projection.expr.get(column) {
        Some(Expr::Alias(alias)) => alias.expr.as_ref(),
        Some(expr) => expr,
        None => return false,
    };
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), None))
}

/// The input with a literal of another type.
fn typed(input: &LogicalPlan, column: usize, target: &ArrowType) -> PlanResult<LogicalPlan> {
    let projection = match input {
        LogicalPlan::Projection(projection) => projection,
        LogicalPlan::Distinct(Distinct::All(rows)) => {
            let rows = Arc::new(typed(rows, column, target)?);
            return Ok(LogicalPlan::Distinct(Distinct::All(rows)));
        }
        other => return Ok(other.clone()),
    };
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

/// Casts a column of the input. If the input has no duplicate rows, the result has none.
fn cast_column(
    input: &Arc<LogicalPlan>,
    column: usize,
    target: &ArrowType,
) -> PlanResult<LogicalPlan> {
    if let LogicalPlan::Distinct(Distinct::All(rows)) = input.as_ref() {
        let rows = Arc::new(cast_column(rows, column, target)?);
        return Ok(LogicalPlan::Distinct(Distinct::All(rows)));
    }
    let columns = input.schema().iter().enumerate().map(|(place, (relation, field))| {
        let shown = Expr::Column(Column::from((relation, field)));
        match place == column {
            true => {
                cast(shown, target.clone()).alias_qualified(relation.cloned(), field.name().clone())
            }
            false => shown,
        }
    });
    let columns = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::clone(input))?))
}
