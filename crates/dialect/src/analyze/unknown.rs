//! Literals in quotes, which have no type of their own; numbers of several types that meet; and
//! comparisons that PostgreSQL refuses.
//!
//! The pass runs ahead of DataFusion's type coercion, which would compare text with numbers and
//! turn either into the other. Text columns are `Utf8View`, literals are `Utf8`: that tells them
//! apart. A literal gets the type of what it is compared to; a number beside one of floating point
//! becomes one (see [`common_type`](thalweg_values::common_type)); two known types that have
//! nothing in common are an error.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result as PlanResult, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{
    Between, Case, InList, InSubquery, ScalarFunction, SetComparison, WindowFunction,
};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, Operator, Projection, Subquery, cast,
};
use datafusion::optimizer::AnalyzerRule;
use thalweg_types::{Error, SqlState};
use thalweg_values::cast::{Manner, convert, is_text};
use thalweg_values::common_type::{self, is_without_digits, of_all, of_literal, wants_type};
use thalweg_values::errors::external;
use thalweg_values::types::{display_name, from_arrow};

use super::{rewrite_expressions, visible_columns};
use crate::clock_literal;

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

/// Applies the pass to an expression outside of a plan.
///
/// # Errors
/// If it compares types that cannot be compared, or has a literal that depends on the clock: a
/// table keeps its expressions, and PostgreSQL would keep the clock's value of the time of
/// definition.
pub fn with_operand_types(expr: Expr, schema: &DFSchema) -> PlanResult<Expr> {
    let expr = expr.transform_up(|expr| rewrite(expr, schema))?.data;
    if expr.exists(|expr| Ok(clock_literal::is_one(expr)))? {
        let refused = Error::unsupported("a word for a time in an expression that a table keeps");
        return Err(external(refused.with_hint("Write the time out, or use now().")));
    }
    Ok(expr)
}

fn rewrite_plan(plan: LogicalPlan) -> PlanResult<Transformed<LogicalPlan>> {
    let schema = visible_columns(&plan)?;
    let plan = match plan {
        LogicalPlan::Join(join) => LogicalPlan::Join(with_common_keys(join)?),
        plan => plan,
    };
    rewrite_expressions(plan, |expr| rewrite(expr, &schema))
}

/// The keys of `JOIN … USING`, in a type that both sides have.
fn with_common_keys(mut join: Join) -> PlanResult<Join> {
    for (left, right) in &mut join.on {
        let types = (left.get_type(join.left.schema()), right.get_type(join.right.schema()));
        if let (Ok(first), Ok(second)) = types
            && let Some(target) = common_type::compared(&[first, second])
        {
            *left = cast(std::mem::take(left), target.clone());
            *right = cast(std::mem::take(right), target);
        }
    }
    Ok(join)
}

fn rewrite(expr: Expr, schema: &DFSchema) -> PlanResult<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            let (left, right, changed) = compared(*left, op, *right, schema)?;
            let compared = Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)));
            Ok(if changed { Transformed::yes(compared) } else { Transformed::no(compared) })
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let (mut values, numbers) =
                common_numbers(vec![*expr, *low, *high], schema, common_type::compared)?;
            let mut next = || Box::new(values.pop().unwrap_or_default());
            let (high, low, tested) = (next(), next(), next());
            let (tested, low, first) = compared(*tested, Operator::GtEq, *low, schema)?;
            let (tested, high, second) = compared(tested, Operator::LtEq, *high, schema)?;
            let between = Between::new(Box::new(tested), negated, Box::new(low), Box::new(high));
            let between = Expr::Between(between);
            let changed = numbers || first || second;
            Ok(if changed { Transformed::yes(between) } else { Transformed::no(between) })
        }
        Expr::InList(list) => listed(list, schema),
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let (expr, subquery, changed) = beside_subquery(*expr, subquery, schema)?;
            let tested = Expr::InSubquery(InSubquery::new(Box::new(expr), subquery, negated));
            Ok(if changed { Transformed::yes(tested) } else { Transformed::no(tested) })
        }
        Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
            let (expr, subquery, changed) = beside_subquery(*expr, subquery, schema)?;
            let compared = SetComparison::new(Box::new(expr), subquery, op, quantifier);
            let compared = Expr::SetComparison(compared);
            Ok(if changed { Transformed::yes(compared) } else { Transformed::no(compared) })
        }
        Expr::Case(case) => alternatives(case, schema),
        Expr::ScalarFunction(call) if call.func.name() == "array_has" => {
            let Transformed { data: call, transformed, .. } = beside_moments(call, schema)?;
            let rewritten = item_beside_list(call, schema)?;
            Ok(Transformed { transformed: transformed || rewritten.transformed, ..rewritten })
        }
        Expr::WindowFunction(call) => default_beside_moment(*call, schema),
        Expr::ScalarFunction(call) if takes_alternatives(&call) => {
            let ScalarFunction { func, args } = call;
            // `nullif` returns its first argument, whatever the type of the second one.
            let (args, changed) = match func.name() {
                "nullif" => with_typed_literals(args, schema)?,
                _ => unified(args, schema)?,
            };
            let call = Expr::ScalarFunction(ScalarFunction { func, args });
            Ok(if changed { Transformed::yes(call) } else { Transformed::no(call) })
        }
        Expr::ScalarFunction(call) => {
            beside_moments(call, schema)?.map_data(|call| Ok(Expr::ScalarFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Arguments of functions that are moments of one type. DataFusion would read literals among them
/// in UTC.
fn moments_of(call: &ScalarFunction, schema: &DFSchema) -> Option<(Range<usize>, ArrowType)> {
    let places = match call.func.name() {
        "date_bin" => 1..3,
        "array_append" | "array_has" | "array_position" | "array_positions" | "array_remove"
        | "array_replace" => 1..3,
        "array_prepend" => 0..1,
        _ => return None,
    };
    let found = call.args.iter().find_map(|arg| match arg.get_type(schema) {
        Ok(ArrowType::List(item)) => Some(item.data_type().clone()),
        Ok(moment @ ArrowType::Timestamp(..)) => Some(moment),
        _ => None,
    });
    let moment = found.filter(|found| matches!(found, ArrowType::Timestamp(..)))?;
    Some((places.start..places.end.min(call.args.len()), moment))
}

/// A call with moments in place of literals in quotes that are moments.
fn beside_moments(
    mut call: ScalarFunction,
    schema: &DFSchema,
) -> PlanResult<Transformed<ScalarFunction>> {
    let Some((places, moment)) = moments_of(&call, schema) else {
        return Ok(Transformed::no(call));
    };
    let mut changed = false;
    for arg in call.args.get_mut(places).into_iter().flatten() {
        if is_unknown(arg) {
            (*arg, changed) = (typed(std::mem::take(arg), &moment)?, true);
        }
    }
    Ok(if changed { Transformed::yes(call) } else { Transformed::no(call) })
}

/// `lag(moment, 1, 'literal')`
fn default_beside_moment(
    mut call: WindowFunction,
    schema: &DFSchema,
) -> PlanResult<Transformed<Expr>> {
    let mut changed = false;
    if matches!(call.fun.name(), "lag" | "lead")
        && let [value, _, default] = call.params.args.as_mut_slice()
        && is_unknown(default)
        && let Ok(moment @ ArrowType::Timestamp(..)) = value.get_type(schema)
    {
        (*default, changed) = (typed(std::mem::take(default), &moment)?, true);
    }
    let call = Expr::WindowFunction(Box::new(call));
    Ok(if changed { Transformed::yes(call) } else { Transformed::no(call) })
}

fn is_comparison(op: Operator) -> bool {
    op.supports_propagation()
        || matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom | Operator::NotEq)
}

/// `IN` compares with an array of its items, which have one type: the common type of all of them. A
/// single item keeps its type.
fn listed(list: InList, schema: &DFSchema) -> PlanResult<Transformed<Expr>> {
    let InList { expr, list, negated } = list;
    let common: CommonType =
        if list.len() > 1 { common_type::chosen } else { common_type::compared };
    let values = std::iter::once(*expr).chain(list).collect();
    let (values, mut changed) = common_numbers(values, schema, common)?;
    let mut values = values.into_iter();
    let mut tested = values.next().unwrap_or_default();
    let mut items = Vec::with_capacity(values.len());
    for item in values {
        let (same, item, typed) = compared(tested, Operator::Eq, item, schema)?;
        (tested, changed) = (same, changed || typed);
        items.push(item);
    }
    let list = Expr::InList(InList::new(Box::new(tested), items, negated));
    Ok(if changed { Transformed::yes(list) } else { Transformed::no(list) })
}

/// The tested value of a subquery comparison.
fn beside_subquery(
    tested: Expr,
    subquery: Subquery,
    schema: &DFSchema,
) -> PlanResult<(Expr, Subquery, bool)> {
    let Ok(given) = tested.get_type(schema) else { return Ok((tested, subquery, false)) };
    let rows = subquery.subquery.schema();
    let (relation, field) = rows.qualified_field(0);
    let Some(target) = common_type::compared(&[given, field.data_type().clone()]) else {
        return Ok((tested, subquery, false));
    };
    let column = Column::from((relation, field));
    let value = cast(Expr::Column(column), target.clone());
    let value = value.alias_qualified(relation.cloned(), field.name());
    let plan = Projection::try_new(vec![value], Arc::clone(&subquery.subquery))?;
    let plan = Arc::new(LogicalPlan::Projection(plan));
    Ok((cast(tested, target), subquery.with_plan(plan), true))
}

type CommonType = fn(&[ArrowType]) -> Option<ArrowType>;

/// Converts numbers of several types to a common one.
fn common_numbers(
    values: Vec<Expr>,
    schema: &DFSchema,
    common: CommonType,
) -> PlanResult<(Vec<Expr>, bool)> {
    let known = values.iter().filter(|value| !is_unknown(value));
    let Ok(types) = known.map(|value| value.get_type(schema)).collect::<PlanResult<Vec<_>>>()
    else {
        return Ok((values, false));
    };
    let Some(target) = common(&types) else { return Ok((values, false)) };
    let settle = |value: Expr| match is_unknown(&value) {
        true => typed(value, &target),
        false => common_type::cast_to(value, &target, schema),
    };
    Ok((values.into_iter().map(settle).collect::<PlanResult<_>>()?, true))
}

/// `x = ANY (array)`, which is this function by now.
fn item_beside_list(call: ScalarFunction, schema: &DFSchema) -> PlanResult<Transformed<Expr>> {
    let unchanged = |call| Ok(Transformed::no(Expr::ScalarFunction(call)));
    let [list, item] = call.args.as_slice() else { return unchanged(call) };
    let (Ok(ArrowType::List(items)), Ok(given)) = (list.get_type(schema), item.get_type(schema))
    else {
        return unchanged(call);
    };
    let types = [items.data_type().clone(), given];
    let Some(target) = common_type::of_compared(&types) else { return unchanged(call) };
    let items = Arc::new(items.as_ref().clone().with_data_type(target.clone()));
    let args = vec![cast(list.clone(), ArrowType::List(items)), cast(item.clone(), target)];
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: call.func, args })))
}

/// Functions whose arguments are the values that they choose from.
fn takes_alternatives(call: &ScalarFunction) -> bool {
    matches!(call.func.name(), "coalesce" | "greatest" | "least" | "nullif")
}

/// The operands of a comparison, with types for literals in quotes.
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
        (false, true) if wants_type(&first) => {
            let (left, right, _) = with_all_digits(left, typed(right, &first)?, schema)?;
            Ok((left, right, true))
        }
        (true, false) if wants_type(&second) => {
            let (left, right, _) = with_all_digits(typed(left, &second)?, right, schema)?;
            Ok((left, right, true))
        }
        (false, false) if !Family::of(&first).compares_with(Family::of(&second)) => {
            Err(no_operator(&left, op, &right, schema))
        }
        (false, false) => match common_type::compared(&[first, second]) {
            Some(target) => {
                let left = common_type::cast_to(left, &target, schema)?;
                Ok((left, common_type::cast_to(right, &target, schema)?, true))
            }
            None => with_all_digits(left, right, schema),
        },
        _ => Ok((left, right, false)),
    }
}

/// Numerics with a constant among them, in a type that has the digits of both. Columns are compared
/// with each other in 128 bits, as joins by keys want it.
fn with_all_digits(left: Expr, right: Expr, schema: &DFSchema) -> PlanResult<(Expr, Expr, bool)> {
    let has_constant = left.column_refs().is_empty() || right.column_refs().is_empty();
    let types = [left.get_type(schema)?, right.get_type(schema)?];
    match common_type::wide_numeric(&types).filter(|_| has_constant) {
        Some(target) => {
            let left = common_type::cast_to(left, &target, schema)?;
            Ok((left, common_type::cast_to(right, &target, schema)?, true))
        }
        None => Ok((left, right, false)),
    }
}

pub(super) fn is_unknown(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), None))
}

/// The literal as a value of the type, or as a number with its own digits beside a numeric; any
/// other text is an error at once.
pub(crate) fn typed(literal: Expr, target: &ArrowType) -> PlanResult<Expr> {
    if let Some(value) = clock_literal::of_literal(&literal, target) {
        return Ok(value);
    }
    let Expr::Literal(value, None) = &literal else { return Ok(cast(literal, target.clone())) };
    let text = value.try_as_str().flatten();
    // Numerics have no such value, but what the whole expression is assigned to may have it.
    if target.is_decimal() && text.is_some_and(is_without_digits) {
        return Ok(literal);
    }
    let target = &text.map_or_else(|| target.clone(), |text| of_literal(text, target));
    let from = Field::new("", value.data_type(), true);
    let to = from_arrow(target).map_err(external)?;
    match convert(&value.to_array()?, &from, &to, Manner::Explicit).map_err(external)? {
        Some(converted) if converted.data_type() == target => {
            Ok(Expr::Literal(ScalarValue::try_from_array(&converted, 0)?, None))
        }
        _ => Ok(cast(literal, target.clone())),
    }
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
    let error_text = format!("operator does not exist: {} {symbol} {}", name(left), name(right));
    let error = Error::new(SqlState::UNDEFINED_FUNCTION, error_text).with_hint(
        "No operator matches the given name and argument types. You might need to add explicit \
         type casts.",
    );
    external(error)
}

/// `CASE`: its literals get the type of its other results.
fn alternatives(case: Case, schema: &DFSchema) -> PlanResult<Transformed<Expr>> {
    let Case { expr, when_then_expr, else_expr } = case;
    let (conditions, results): (Vec<_>, Vec<_>) = when_then_expr.into_iter().unzip();
    let (expr, conditions, compares) = match expr {
        Some(expr) => {
            let values = std::iter::once(expr).chain(conditions).map(|value| *value).collect();
            let (values, changed) = match common_numbers(values, schema, common_type::compared)? {
                (values, true) => (values, true),
                (values, false) => with_typed_literals(values, schema)?,
            };
            let mut values = values.into_iter().map(Box::new);
            (values.next(), values.collect(), changed)
        }
        None => (None, conditions, false),
    };
    let has_else = else_expr.is_some();
    let results = results.into_iter().chain(else_expr).map(|result| *result).collect();
    let (mut results, changed) = unified(results, schema)?;
    let changed = changed || compares;
    let else_expr = if has_else { results.pop().map(Box::new) } else { None };
    let when_then_expr = conditions.into_iter().zip(results.into_iter().map(Box::new)).collect();
    let case = Expr::Case(Case { expr, when_then_expr, else_expr });
    Ok(if changed { Transformed::yes(case) } else { Transformed::no(case) })
}

/// Numbers and moments get their common type, literals that of the values that have one.
fn unified(values: Vec<Expr>, schema: &DFSchema) -> PlanResult<(Vec<Expr>, bool)> {
    let common =
        |types: &[ArrowType]| common_type::chosen(types).or_else(|| common_type::of_moments(types));
    match common_numbers(values, schema, common)? {
        (values, true) => Ok((values, true)),
        (values, false) => with_typed_literals(values, schema),
    }
}

fn with_typed_literals(values: Vec<Expr>, schema: &DFSchema) -> PlanResult<(Vec<Expr>, bool)> {
    let known = values.iter().filter(|value| !is_unknown(value));
    let types: Vec<ArrowType> = known.filter_map(|value| value.get_type(schema).ok()).collect();
    // Another pass refuses types that do not fit together.
    let first = || types.iter().find(|known| !known.is_null()).cloned();
    let is_word = |value: &Expr| {
        matches!(value, Expr::Literal(ScalarValue::Utf8(Some(text)), None)
            if is_without_digits(text))
    };
    let takes_type = |target: &ArrowType| {
        wants_type(target) && (!target.is_decimal() || !values.iter().any(is_word))
    };
    let Some(target) = of_all(&types).or_else(first).filter(takes_type) else {
        return Ok((values, false));
    };
    let changed = values.iter().any(is_unknown);
    let unify = |value: Expr| match is_unknown(&value) {
        true => typed(value, &target),
        false => Ok(value),
    };
    Ok((values.into_iter().map(unify).collect::<PlanResult<_>>()?, changed))
}
