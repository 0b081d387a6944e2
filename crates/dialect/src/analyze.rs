//! The pass that gives operators and casts PostgreSQL's meaning, once the types are known.
//!
//! It runs behind DataFusion's type coercion and before any optimisation, so that constants are
//! folded with PostgreSQL's results. An expression that fails while it is folded stays in the plan
//! and fails when it runs.

mod float_equality;
mod input_order;
pub(crate) mod interval_order;
mod limits;
mod list_comparisons;
mod recursive_types;
mod scalar_subqueries;
mod timestamp_comparisons;
mod two_lists;
mod unions;
mod unknown;
mod uuid_literal;
mod varying_lists;
mod windows;

use std::cell::Cell;
use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;
use thalweg_functions::{concatenation, is_concatenation};
use thalweg_types::DataType;
use thalweg_values::arithmetic;
use thalweg_values::cast::is_text;
use thalweg_values::cast_function::CastFunction;
use thalweg_values::types::{self, TYPE_KEY, arrow_field};
use thalweg_values::zone::is_utc;

pub(crate) use self::interval_order::IntervalWindows;
pub(crate) use self::limits::ComputedLimits;
pub(crate) use self::unions::UnionTypes;
pub use self::unknown::with_operand_types;
pub(crate) use self::unknown::{UnknownLiterals, typed};
use crate::clock_literal;
use crate::guards::{filtered_arguments, joined};

#[derive(Debug, Default)]
pub(crate) struct PostgresOperators;

impl AnalyzerRule for PostgresOperators {
    fn name(&self) -> &str {
        "postgres_operators"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> PlanResult<LogicalPlan> {
        let volatile_count = Cell::new(0);
        let rewritten =
            plan.transform_up_with_subqueries(|plan| rewrite_plan(plan, &volatile_count));
        rewritten.map(|transformed| transformed.data)
    }
}

fn rewrite_plan(
    plan: LogicalPlan,
    volatile_count: &Cell<usize>,
) -> PlanResult<Transformed<LogicalPlan>> {
    let schema = visible_columns(&plan)?;
    let rewritten = rewrite_expressions(plan, |expr| {
        match scalar_subqueries::named_apart(&expr, volatile_count)? {
            Some(apart) => Ok(Transformed::yes(rewrite(apart, &schema)?.data)),
            None => rewrite(expr, &schema),
        }
    })?;
    let rewritten = rewritten.transform_data(input_order::carried)?;
    let rewritten = rewritten.transform_data(|plan| windows::rewritten(plan, &schema))?;
    let rewritten = rewritten.transform_data(|plan| Ok(float_equality::of_sorts(plan, &schema)))?;
    rewritten.map_data(|plan| interval_order::keyed(plan, &schema))
}

/// The columns that a node's expressions may name: those of its inputs, and of the table that it
/// scans.
pub(crate) fn visible_columns(plan: &LogicalPlan) -> PlanResult<DFSchema> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = plan {
        let source =
            DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        schema.merge(&source);
    }
    Ok(schema)
}

/// Rewrites the expressions of a node. They keep their names, because nodes above refer to them.
pub(crate) fn rewrite_expressions(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr) -> PlanResult<Transformed<Expr>>,
) -> PlanResult<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(&rewrite)?;
        // An expression that is not rewritten keeps its name without an alias.
        match rewritten.transformed {
            true => Ok(rewritten.update_data(|expr| name.restore(expr))),
            false => Ok(rewritten),
        }
    })?
    .map_data(LogicalPlan::recompute_schema)
}

/// The casts of an expression that is not part of a plan, by the clocks of the session's zone. In
/// UTC, DataFusion's own casts are right.
///
/// # Errors
/// If the types of the expression are unknown.
pub fn in_session_zone(expr: Expr, schema: &DFSchema) -> PlanResult<Expr> {
    if is_utc() {
        return Ok(expr);
    }
    expr.transform_up(|expr| rewrite(expr, schema)).map(|transformed| transformed.data)
}

fn rewrite(expr: Expr, schema: &DFSchema) -> PlanResult<Transformed<Expr>> {
    if let Expr::InList(list) = &expr
        && let Some((operator, parts)) = varying_lists::comparisons(list)
    {
        let parts = parts.into_iter().map(|part| rewrite(part, schema).map(|part| part.data));
        let parts = parts.collect::<PlanResult<Vec<Expr>>>()?;
        return Ok(joined(operator, parts).map_or_else(|| Transformed::no(expr), Transformed::yes));
    }
    if let Expr::InList(list) = &expr
        && let Some(call) = varying_lists::one_call(list, schema)
    {
        return Ok(Transformed::yes(call));
    }
    let replacement = match &expr {
        Expr::BinaryExpr(binary) if binary.op == Operator::StringConcat => {
            concatenated(binary, schema)
        }
        Expr::BinaryExpr(binary) if takes_numbers(binary.op) => {
            match (binary.left.get_type(schema), binary.right.get_type(schema)) {
                (Ok(left), Ok(right)) => arithmetic::checked(binary, &left, &right),
                _ => None,
            }
        }
        Expr::Negative(operand) => match operand.get_type(schema) {
            Ok(data_type) => arithmetic::checked_negation(operand, &data_type)?,
            Err(_) => None,
        },
        Expr::Cast(cast) => postgres_cast(cast, schema),
        Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_) => truth_test(&expr),
        other => interval_order::compared(other, schema)?
            .or_else(|| uuid_literal::canonical(other, schema))
            .or_else(|| list_comparisons::of_lists(other, schema))
            .or_else(|| float_equality::of_values(other, schema))
            .or_else(|| timestamp_comparisons::in_micros(other, schema))
            .or_else(|| two_lists::apart(other, schema))
            .or_else(|| scalar_subqueries::nullable_subquery(other))
            .or_else(|| input_order::without_repeated_keys(other))
            .or_else(|| filtered_arguments(other)),
    };
    Ok(replacement.map_or_else(|| Transformed::no(expr), Transformed::yes))
}

/// True for operators that have a checked form on numbers.
fn takes_numbers(op: Operator) -> bool {
    op.is_numerical_operators() || op == Operator::BitwiseXor
}

/// `IS TRUE` and its like, in the form that DataFusion gives them when it runs the plan. The two
/// forms differ in whether they may be NULL, and DataFusion refuses plans in which both occur.
fn truth_test(expr: &Expr) -> Option<Expr> {
    let beside = |operand: &Expr, op, value| {
        let value = Expr::Literal(ScalarValue::Boolean(Some(value)), None);
        Expr::BinaryExpr(BinaryExpr::new(Box::new(operand.clone()), op, Box::new(value)))
    };
    Some(match expr {
        Expr::IsTrue(operand) => beside(operand, Operator::IsNotDistinctFrom, true),
        Expr::IsNotTrue(operand) => beside(operand, Operator::IsDistinctFrom, true),
        Expr::IsFalse(operand) => beside(operand, Operator::IsNotDistinctFrom, false),
        Expr::IsNotFalse(operand) => beside(operand, Operator::IsDistinctFrom, false),
        Expr::IsUnknown(operand) => Expr::IsNull(operand.clone()),
        Expr::IsNotUnknown(operand) => Expr::IsNotNull(operand.clone()),
        _ => return None,
    })
}

/// `text || text` as a function, which has limits. Both operands have one type by now. The type of
/// the right one decides: that of a long chain to the left would be computed again and again.
fn concatenated(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let wanted = binary.right.get_type(schema).ok()?;
    if !is_text(&wanted) {
        return None;
    }
    let view = |operand: &Expr| match wanted {
        ArrowType::Utf8View => operand.clone(),
        _ => datafusion::logical_expr::cast(operand.clone(), ArrowType::Utf8View),
    };
    let left = match chain_in(&binary.left) {
        Some(chain) => chain.clone(),
        None if is_text(&binary.left.get_type(schema).ok()?) => view(&binary.left),
        None => return None,
    };
    let both = concatenation(left, view(&binary.right));
    Some(match wanted {
        ArrowType::Utf8View => both,
        wanted => datafusion::logical_expr::cast(both, wanted),
    })
}

/// The chain under casts from one kind of text to another, which each of its links may have.
fn chain_in(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(call) if is_concatenation(&call.func) => Some(expr),
        Expr::Cast(cast) if is_text(cast.field.data_type()) && cast.field.metadata().is_empty() => {
            chain_in(&cast.expr)
        }
        _ => None,
    }
}

/// The most digits of a numeric whose digits and quotient by a power of ten a float has.
const EXACT_DIGITS: u8 = 15;

/// A function for a cast whose result differs between Arrow and PostgreSQL.
fn postgres_cast(cast: &Cast, schema: &DFSchema) -> Option<Expr> {
    if let Some(value) = clock_literal::of_cast(cast) {
        return Some(value);
    }
    let (_, from) = cast.expr.to_field(schema).ok()?;
    let to = types::from_field(&cast.field).ok()?;
    if let Some(nested) = nested_like(&cast.expr, &from, &to) {
        let field = Arc::new(arrow_field(cast.field.name(), &nested, true));
        let function = ScalarUDF::from(CastFunction::new(nested, field));
        return Some(Arc::new(function).call(vec![(*cast.expr).clone()]));
    }
    let (given, target) = (from.data_type(), cast.field.data_type());
    // Casts that the planner adds itself, such as those to nanoseconds, have no SQL type here.
    if !types::arrow_type(&to).equals_datatype(target) && !is_text(target) {
        return None;
    }
    // Arrow's cast would keep the metadata of its argument, such as that its text is JSON. Another
    // function gives the text of numbers that are shown as names.
    let says_less = from.metadata().contains_key(TYPE_KEY)
        && cast.field.metadata().is_empty()
        && is_text(given) == is_text(target);
    let differs = match (given, &to) {
        (ArrowType::Null | ArrowType::Dictionary(_, _), _) => false,
        (given, DataType::Text { max_chars: None }) => {
            !is_text(given) && !given.is_integer() && *given != ArrowType::Boolean
        }
        (_, DataType::Uuid | DataType::Json | DataType::Jsonb | DataType::Text { .. }) => true,
        (given, _) if is_text(given) => true,
        (ArrowType::List(_), DataType::Array(_)) => {
            types::from_field(&from).ok() != Some(to.clone())
        }
        (given, DataType::Int2 | DataType::Int4 | DataType::Int8) => !given.is_integer(),
        // PostgreSQL has no such casts, although Arrow does.
        (_, DataType::Array(_)) => true,
        (number, to) if number.is_numeric() && is_temporal(to) => true,
        (ArrowType::Boolean, DataType::Float4 | DataType::Float8 | DataType::Decimal { .. }) => {
            true
        }
        // Arrow rounds more digits than a float has twice. Constants get the nearest float; columns
        // keep the cast that aggregates over chunks know.
        (ArrowType::Decimal128(digits, scale), DataType::Float4 | DataType::Float8) => {
            *scale < 0 || (*digits > EXACT_DIGITS && cast.expr.column_refs().is_empty())
        }
        (given, _) => given.is_temporal() && given != target,
    };
    if !differs && !says_less {
        return None;
    }
    let function = ScalarUDF::from(CastFunction::new(to, Arc::clone(&cast.field)));
    Some(Arc::new(function).call(vec![(*cast.expr).clone()]))
}

/// The array type that a value with another number of dimensions is cast to. To SQL `int[]` and
/// `int[][]` are one type, but a list of lists is another type than a list.
fn nested_like(value: &Expr, from: &Field, to: &DataType) -> Option<DataType> {
    let DataType::Array(item) = to else { return None };
    let literal = match value {
        Expr::Literal(literal, _) => literal.try_as_str().flatten(),
        _ => None,
    };
    let mut depth = literal.map_or(0, thalweg_values::cast::array_dimensions);
    if let DataType::Array(_) = item.as_ref() {
        // An array without items fits into any type.
        let has_items = literal.is_some_and(|text| !text.trim_end().ends_with("{}"));
        return with_fewer_dimensions(to, depth).filter(|_| has_items);
    }
    let mut given = from.data_type();
    while let ArrowType::List(item) = given {
        depth += 1;
        given = item.data_type();
    }
    // The conversion itself refuses more dimensions.
    let depth = depth.min(thalweg_values::cast::DIMENSIONS_MAX + 1);
    let nested = (1..depth).fold(to.clone(), |nested, _| DataType::Array(Box::new(nested)));
    (depth > 1).then_some(nested)
}

/// An array type with so many dimensions, if the given one has more of them.
fn with_fewer_dimensions(to: &DataType, dimensions: usize) -> Option<DataType> {
    let (mut item, mut declared) = (to, 0);
    while let DataType::Array(inner) = item {
        (item, declared) = (inner.as_ref(), declared + 1);
    }
    let nested = || (0..dimensions).fold(item.clone(), |of, _| DataType::Array(Box::new(of)));
    (0 < dimensions && dimensions < declared).then(nested)
}

fn is_temporal(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Date
            | DataType::Time
            | DataType::Timestamp
            | DataType::Timestamptz
            | DataType::Interval
    )
}
