//! Places where DataFusion distinguishes 0.0 and -0.0, which are equal in SQL.

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, InList, ScalarFunction, Sort as SortExpr};
use datafusion::logical_expr::{
    BinaryExpr, Case, Cast, Expr, ExprSchemable, LogicalPlan, Operator, cast,
};
use thalweg_values::cast_function::CastFunction;

use crate::optimize::with_one_zero as with_unsigned_zero;

/// Rewrites an expression in which DataFusion distinguishes both zeros. The new one compares with
/// `=`, or adds zero to each value, which leaves one zero only.
pub(super) fn of_values(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    match expr {
        Expr::BinaryExpr(compared) if is_comparison(compared.op) => {
            let (left, right) = (&compared.left, &compared.right);
            let sides = (unsigned_zero(left, schema), unsigned_zero(right, schema));
            if sides.0.is_none() && sides.1.is_none() {
                return None;
            }
            let left = sides.0.unwrap_or_else(|| left.as_ref().clone());
            Some(binary(&left, compared.op, sides.1.unwrap_or_else(|| right.as_ref().clone())))
        }
        Expr::Case(case) => searched(case, schema),
        Expr::ScalarFunction(call) if call.func.name() == "nullif" => match call.args.as_slice() {
            [value, other] => nullif(value, other, schema),
            _ => None,
        },
        Expr::AggregateFunction(call) if call.params.distinct => count_distinct(call, schema),
        Expr::AggregateFunction(call) => {
            let mut call = call.clone();
            let changed = before_the_last(&mut call.params.order_by, schema);
            changed.then(|| Expr::AggregateFunction(call))
        }
        Expr::InList(list) => in_list(list, schema),
        _ => None,
    }
}

fn is_comparison(op: Operator) -> bool {
    op.supports_propagation() || op == Operator::NotEq
}

/// A constant that may be a zero with a sign, without the sign: DataFusion takes constants with
/// different bits for different values.
fn unsigned_zero(value: &Expr, schema: &DFSchema) -> Option<Expr> {
    match value {
        Expr::Literal(literal, metadata) => {
            Some(Expr::Literal(with_unsigned_zero(literal)?, metadata.clone()))
        }
        Expr::ScalarFunction(call) if is_signed_constant(call) => with_one_zero(value, schema),
        _ => None,
    }
}

/// True for `-constant`, and for a cast of a text with a minus.
fn is_signed_constant(call: &ScalarFunction) -> bool {
    let [operand] = call.args.as_slice() else { return false };
    let is_constant = |expr: &Expr| match expr {
        Expr::Literal(..) => true,
        Expr::Cast(cast) => matches!(cast.expr.as_ref(), Expr::Literal(..)),
        Expr::ScalarFunction(inner) => is_signed_constant(inner),
        _ => false,
    };
    match operand {
        Expr::Literal(literal, _) if call.func.inner().is::<CastFunction>() => {
            literal.try_as_str().flatten().is_some_and(|text| text.trim_start().starts_with('-'))
        }
        operand => call.func.name() == "float_negate" && is_constant(operand),
    }
}

fn float_type(expr: &Expr, schema: &DFSchema) -> Option<ArrowType> {
    let data_type = expr.get_type(schema).ok()?;
    let is_float = matches!(data_type, ArrowType::Float32 | ArrowType::Float64);
    // A rewritten expression is evaluated twice, so it must not be volatile.
    (is_float && !expr.is_volatile()).then_some(data_type)
}

/// Rewrites sorts by a floating point number and further keys, where the further keys must decide
/// the order of both zeros. Scans recognise such a column by its sum with zero.
pub(super) fn of_sorts(plan: LogicalPlan, schema: &DFSchema) -> Transformed<LogicalPlan> {
    let LogicalPlan::Sort(mut sort) = plan else { return Transformed::no(plan) };
    let changed = before_the_last(&mut sort.expr, schema);
    Transformed::new_transformed(LogicalPlan::Sort(sort), changed)
}

/// Adds zero to each key but the last one, so that it has only one zero.
fn before_the_last(keys: &mut [SortExpr], schema: &DFSchema) -> bool {
    let Some((_, before)) = keys.split_last_mut() else { return false };
    let mut changed = false;
    for key in before {
        if let Some(alike) = with_one_zero(&key.expr, schema) {
            (key.expr, changed) = (alike, true);
        }
    }
    changed
}

/// A floating point number with only one zero; `None` for other values.
pub(super) fn with_one_zero(value: &Expr, schema: &DFSchema) -> Option<Expr> {
    let zero = ScalarValue::new_zero(&float_type(value, schema)?).ok()?;
    Some(binary(value, Operator::Plus, Expr::Literal(zero, None)))
}

fn binary(left: &Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left.clone()), op, Box::new(right)))
}

/// `CASE base WHEN value …` as `CASE WHEN base = value …`.
fn searched(case: &Case, schema: &DFSchema) -> Option<Expr> {
    let base = case.expr.as_deref()?;
    let data_type = float_type(base, schema)?;
    let mut values = case.when_then_expr.iter().map(|(when, _)| when.get_type(schema).ok());
    if !values.all(|value| value.as_ref() == Some(&data_type)) {
        return None;
    }
    let compared = case.when_then_expr.iter().map(|(when, then)| {
        (Box::new(binary(base, Operator::Eq, when.as_ref().clone())), then.clone())
    });
    Some(Expr::Case(Case::new(None, compared.collect(), case.else_expr.clone())))
}

fn nullif(value: &Expr, other: &Expr, schema: &DFSchema) -> Option<Expr> {
    let data_type = float_type(value, schema)?;
    let other = match (other.get_type(schema).ok()?, &data_type) {
        (other_type, data_type) if other_type == *data_type => other.clone(),
        (ArrowType::Int16 | ArrowType::Int32, ArrowType::Float64) => {
            cast(other.clone(), data_type.clone())
        }
        // For arguments of other types the function itself compares as PostgreSQL does.
        _ => return None,
    };
    let null = Expr::Literal(ScalarValue::try_from(&data_type).ok()?, None);
    let same = binary(value, Operator::Eq, other);
    let cases = vec![(Box::new(same), Box::new(null))];
    Some(Expr::Case(Case::new(None, cases, Some(Box::new(value.clone())))))
}

/// An `IN` list that contains a zero, or may contain one.
fn in_list(InList { expr, list, negated }: &InList, schema: &DFSchema) -> Option<Expr> {
    let data_type = float_type(expr, schema)?;
    if let Some(known) = list.iter().map(|value| known(value, &data_type)).collect() {
        return with_both_zeros(expr, known, *negated);
    }
    let is_alike = |value: &Expr| value.get_type(schema).ok().as_ref() == Some(&data_type);
    if !list.iter().all(is_alike) {
        return None;
    }
    let zero = ScalarValue::new_zero(&data_type).ok()?;
    let sum = |value: &Expr| binary(value, Operator::Plus, Expr::Literal(zero.clone(), None));
    let list = list.iter().map(sum).collect();
    Some(Expr::InList(InList::new(Box::new(sum(expr)), list, *negated)))
}

/// A constant value, converted to a type.
fn known(value: &Expr, data_type: &ArrowType) -> Option<ScalarValue> {
    match value {
        Expr::Literal(value, _) if value.data_type() == *data_type || value.is_null() => {
            value.cast_to(data_type).ok()
        }
        Expr::Cast(Cast { expr, field }) if field.data_type() == data_type => {
            let Expr::Literal(value, _) = expr.as_ref() else { return None };
            value.data_type().is_numeric().then(|| value.cast_to(data_type).ok())?
        }
        _ => None,
    }
}

/// Adds the other zero to a list with only one of them, so that the tested value stays a plain
/// column.
fn with_both_zeros(expr: &Expr, mut known: Vec<ScalarValue>, negated: bool) -> Option<Expr> {
    let zeros = match known.first()?.data_type() {
        ArrowType::Float32 => [0.0, -0.0].map(|zero| ScalarValue::Float32(Some(zero))),
        _ => [0.0, -0.0].map(|zero| ScalarValue::Float64(Some(zero))),
    };
    let has = zeros.each_ref().map(|zero| known.contains(zero));
    if has[0] == has[1] {
        return None;
    }
    known.push(zeros[usize::from(has[0])].clone());
    let list = known.into_iter().map(|value| Expr::Literal(value, None)).collect();
    Some(Expr::InList(InList::new(Box::new(expr.clone()), list, negated)))
}

fn count_distinct(call: &AggregateFunction, schema: &DFSchema) -> Option<Expr> {
    let [value] = call.params.args.as_slice() else { return None };
    if call.func.name() != "count" {
        return None;
    }
    let value = with_one_zero(value, schema)?;
    let mut call = call.clone();
    call.params.args = vec![value];
    Some(Expr::AggregateFunction(call))
}
