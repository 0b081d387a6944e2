//! Literals in quotes, which have no type of their own, and comparisons that PostgreSQL refuses.
//!
//! The pass runs ahead of DataFusion's type coercion, which would compare text with numbers and
//! turn either into the other. Text columns are `Utf8View`, literals are `Utf8`: that tells them
//! apart. A literal gets the type of what it is compared to; two known types that have nothing in
//! common are an error.

use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{Between, Case, InList, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast};
use datafusion::optimizer::AnalyzerRule;
use thalweg_types::{Error, SqlState};

use super::{rewrite_expressions, visible_columns};
use crate::cast::{Manner, convert, is_text};
use crate::types::{display_name, from_arrow};

#[derive(Debug, Default)]
pub(crate) struct UnknownLiterals;

impl AnalyzerRule for UnknownLiterals {
    fn name(&self) -> &str {
        "unknown_literals"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> PlanResult<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite_plan).map(|transformed| transformed.data)
    }
}

fn rewrite_plan(plan: LogicalPlan) -> PlanResult<Transformed<LogicalPlan>> {
    let schema = visible_columns(&plan)?;
    rewrite_expressions(plan, |expr| rewrite(expr, &schema))
}

fn rewrite(expr: Expr, schema: &DFSchema) -> PlanResult<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            let (left, right, changed) = compared(*left, op, *right, schema)?;
            let compared = Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)));
            Ok(if changed { Transformed::yes(compared) } else { Transformed::no(compared) })
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let (tested, low, first) = compared(*expr, Operator::GtEq, *low, schema)?;
            let (tested, high, second) = compared(tested, Operator::LtEq, *high, schema)?;
            let between = Between::new(Box::new(tested), negated, Box::new(low), Box::new(high));
            let between = Expr::Between(between);
            Ok(if first || second { Transformed::yes(between) } else { Transformed::no(between) })
        }
        Expr::InList(InList { expr, list, negated }) => {
            let (mut tested, mut changed) = (*expr, false);
            let mut items = Vec::with_capacity(list.len());
            for item in list {
                let (same, item, typed) = compared(tested, Operator::Eq, item, schema)?;
                (tested, changed) = (same, changed || typed);
                items.push(item);
            }
            let list = Expr::InList(InList::new(Box::new(tested), items, negated));
            Ok(if changed { Transformed::yes(list) } else { Transformed::no(list) })
        }
        Expr::Case(case) => alternatives(case, schema),
        Expr::ScalarFunction(call) if takes_alternatives(&call) => {
            let ScalarFunction { func, args } = call;
            let (args, changed) = unified(args, schema)?;
            let call = Expr::ScalarFunction(ScalarFunction { func, args });
            Ok(if changed { Transformed::yes(call) } else { Transformed::no(call) })
        }
        other => Ok(Transformed::no(other)),
    }
}

fn is_comparison(op: Operator) -> bool {
    op.supports_propagation()
        || matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom | Operator::NotEq)
}

/// Functions whose arguments are the values that they choose from.
fn takes_alternatives(call: &ScalarFunction) -> bool {
    matches!(call.func.name(), "coalesce" | "greatest" | "least" | "nullif")
}

/// The operands of a comparison, where a literal has got its type.
fn compared(
    left: Expr,
    op: Operator,
    right: Expr,
    schema: &DFSchema,
) -> PlanResult<(Expr, Expr, bool)> {
    let (Ok(first), Ok(second)) = (left.get_type(schema), right.get_type(schema)) else {
        return Ok((left, right, false));
    };
    match (is_unknown(&left), is_unknown(&right)) {
        (false, true) if wants_type(&first) => Ok((left, typed(right, &first)?, true)),
        (true, false) if wants_type(&second) => Ok((typed(left, &second)?, right, true)),
        (false, false) if !Family::of(&first).compares_with(Family::of(&second)) => {
            Err(no_operator(&left, op, &right, schema))
        }
        _ => Ok((left, right, false)),
    }
}

fn is_unknown(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), None))
}

/// The literal as a value of the type; what is no such value is told at once.
pub(super) fn typed(literal: Expr, target: &ArrowType) -> PlanResult<Expr> {
    let Expr::Literal(value, None) = &literal else { return Ok(cast(literal, target.clone())) };
    let from = Field::new("", value.data_type(), true);
    let told = |error| DataFusionError::External(Box::new(error));
    let to = from_arrow(target).map_err(told)?;
    match convert(&value.to_array()?, &from, &to, Manner::Explicit).map_err(told)? {
        Some(converted) if converted.data_type() == target => {
            Ok(Expr::Literal(ScalarValue::try_from_array(&converted, 0)?, None))
        }
        _ => Ok(cast(literal, target.clone())),
    }
}

/// Numerics are left out: their columns' scale would round what the literal says.
fn wants_type(data_type: &ArrowType) -> bool {
    !is_text(data_type)
        && !data_type.is_decimal()
        && !matches!(
            data_type,
            ArrowType::Null
                | ArrowType::Dictionary(_, _)
                | ArrowType::Struct(_)
                | ArrowType::Union(_, _)
                | ArrowType::Map(_, _)
        )
}

/// Types that can be compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Number,
    Text,
    Boolean,
    /// Dates and moments.
    Moment,
    Time,
    Interval,
    Bytes,
    List,
    /// NULL, and types that PostgreSQL does not have.
    Any,
}

impl Family {
    pub(super) fn of(data_type: &ArrowType) -> Family {
        match data_type {
            number if number.is_numeric() => Family::Number,
            text if is_text(text) => Family::Text,
            ArrowType::Boolean => Family::Boolean,
            ArrowType::Date32 | ArrowType::Date64 | ArrowType::Timestamp(_, _) => Family::Moment,
            ArrowType::Time32(_) | ArrowType::Time64(_) => Family::Time,
            ArrowType::Interval(_) | ArrowType::Duration(_) => Family::Interval,
            ArrowType::Binary
            | ArrowType::LargeBinary
            | ArrowType::BinaryView
            | ArrowType::FixedSizeBinary(_) => Family::Bytes,
            ArrowType::List(_) | ArrowType::LargeList(_) | ArrowType::FixedSizeList(_, _) => {
                Family::List
            }
            _ => Family::Any,
        }
    }

    pub(super) fn compares_with(self, other: Family) -> bool {
        self == other || self == Family::Any || other == Family::Any
    }
}

fn no_operator(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> DataFusionError {
    let name = |expr: &Expr| match expr.to_field(schema) {
        Ok((_, field)) => display_name(&field),
        Err(_) => "unknown".to_owned(),
    };
    // `IS DISTINCT FROM` compares by equality.
    let symbol = match op {
        Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => "=".to_owned(),
        Operator::NotEq => "<>".to_owned(),
        op => op.to_string(),
    };
    let told = format!("operator does not exist: {} {symbol} {}", name(left), name(right));
    let error = Error::new(SqlState::UNDEFINED_FUNCTION, told).with_hint(
        "No operator matches the given name and argument types. You might need to add explicit \
         type casts.",
    );
    DataFusionError::External(Box::new(error))
}

/// `CASE`: its literals get the type of its other results.
fn alternatives(case: Case, schema: &DFSchema) -> PlanResult<Transformed<Expr>> {
    let Case { expr, when_then_expr, else_expr } = case;
    let (conditions, results): (Vec<_>, Vec<_>) = when_then_expr.into_iter().unzip();
    let has_else = else_expr.is_some();
    let results = results.into_iter().chain(else_expr).map(|result| *result).collect();
    let (mut results, changed) = unified(results, schema)?;
    let else_expr = if has_else { results.pop().map(Box::new) } else { None };
    let when_then_expr = conditions.into_iter().zip(results.into_iter().map(Box::new)).collect();
    let case = Expr::Case(Case { expr, when_then_expr, else_expr });
    Ok(if changed { Transformed::yes(case) } else { Transformed::no(case) })
}

/// Literals get the type of the first value that has one.
fn unified(values: Vec<Expr>, schema: &DFSchema) -> PlanResult<(Vec<Expr>, bool)> {
    let known = values.iter().filter(|value| !is_unknown(value));
    let mut types = known.filter_map(|value| value.get_type(schema).ok());
    let Some(target) = types.find(|known| *known != ArrowType::Null).filter(wants_type) else {
        return Ok((values, false));
    };
    let changed = values.iter().any(is_unknown);
    let unify = |value: Expr| match is_unknown(&value) {
        true => typed(value, &target),
        false => Ok(value),
    };
    Ok((values.into_iter().map(unify).collect::<PlanResult<_>>()?, changed))
}
