//! Classifies expressions that may fail for some rows.
//!
//! The list holds those that cannot fail: every other expression may.

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator};
use thalweg_values::cast::is_text;
use thalweg_values::cast_function::CastFunction;

/// Functions that have a value for all arguments of their types.
const SAFE: &[&str] = &[
    "array_eq",
    "array_ge",
    "array_gt",
    "array_has",
    "array_has_items",
    "array_has_unknown",
    "array_le",
    "array_length",
    "array_lt",
    "array_ne",
    "arraycontains",
    "arrayoverlap",
    "ascii",
    "btrim",
    "cardinality",
    "character_length",
    "char_length",
    "coalesce",
    "concat",
    "current_schema",
    "date_part",
    "date_trunc",
    "greatest",
    "initcap",
    "integer_xor",
    "isnan",
    "least",
    "left",
    "length",
    "lower",
    "ltrim",
    "make_array",
    "md5",
    "now",
    "nullif",
    "octet_length",
    "position",
    "reverse",
    "right",
    "rtrim",
    "starts_with",
    "statement_timestamp",
    "strpos",
    "struct",
    "named_struct",
    "thalweg_parameter",
    "trim",
    "upper",
];

/// Functions that have a value for all first arguments if their other arguments are valid
/// constants. Invalid constants fail for all rows.
const SAFE_WITH_CONSTANTS: &[&str] = &[
    "regexp_like",
    "regexp_match",
    "regexp_replace",
    "split_part",
    "substr",
    "substring",
    "to_char",
];

/// True if the evaluation of an expression may fail for some rows.
pub(super) fn may_fail(expr: &Expr, schema: &DFSchema) -> bool {
    expr.exists(|part| Ok(fails(part, schema))).unwrap_or(true)
}

/// True if an expression may fail for another reason than an overflow of its type.
pub(super) fn may_refuse(expr: &Expr) -> bool {
    let refuses = |part: &Expr| match part {
        Expr::ScalarFunction(call) => {
            let name = call.func.name();
            !matches!(name, "integer_add" | "integer_subtract" | "integer_multiply")
                && call_fails(call)
        }
        Expr::BinaryExpr(binary) => matches!(binary.op, Operator::Divide | Operator::Modulo),
        _ => false,
    };
    expr.exists(|part| Ok(refuses(part))).unwrap_or(true)
}

fn fails(part: &Expr, schema: &DFSchema) -> bool {
    match part {
        Expr::BinaryExpr(binary) => {
            binary.op.is_numerical_operators()
                || (takes_pattern(binary.op) && !is_constant(&binary.right))
        }
        Expr::Like(like) | Expr::SimilarTo(like) => !is_constant(&like.pattern),
        Expr::Cast(cast) => cast_fails(cast, schema),
        Expr::Negative(_) => true,
        Expr::ScalarFunction(call) => call_fails(call),
        _ => false,
    }
}

fn takes_pattern(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::RegexMatch
            | Operator::RegexIMatch
            | Operator::RegexNotMatch
            | Operator::RegexNotIMatch
            | Operator::LikeMatch
            | Operator::ILikeMatch
            | Operator::NotLikeMatch
            | Operator::NotILikeMatch
    )
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) => true,
        Expr::Cast(cast) => is_constant(&cast.expr),
        Expr::Alias(alias) => is_constant(&alias.expr),
        _ => false,
    }
}

fn call_fails(call: &ScalarFunction) -> bool {
    let name = call.func.name();
    if let Some(cast) = call.func.inner().downcast_ref::<CastFunction>() {
        return !is_text(cast.target());
    }
    // A literal divisor is zero for all rows or for none, but the least integer divided by -1
    // overflows.
    if matches!(name, "integer_divide" | "integer_modulo" | "float_divide") {
        return !call.args.get(1).is_some_and(is_plain_divisor);
    }
    if SAFE_WITH_CONSTANTS.contains(&name) {
        return !call.args.iter().skip(1).all(is_constant);
    }
    !SAFE.contains(&name)
}

fn is_plain_divisor(expr: &Expr) -> bool {
    let Expr::Literal(value, _) = expr else { return false };
    match value {
        ScalarValue::Int16(Some(number)) => !matches!(number, 0 | -1),
        ScalarValue::Int32(Some(number)) => !matches!(number, 0 | -1),
        ScalarValue::Int64(Some(number)) => !matches!(number, 0 | -1),
        value => value.is_null(),
    }
}

/// True if a cast of Arrow's may meet a value that does not fit into the target type.
fn cast_fails(cast: &Cast, schema: &DFSchema) -> bool {
    let to = cast.field.data_type();
    let Ok(from) = cast.expr.get_type(schema) else { return true };
    if &from == to || is_text(to) || from == ArrowType::Null {
        return false;
    }
    let integers = from.is_integer() && to.is_integer();
    match (&from, to) {
        _ if integers => from.primitive_width() > to.primitive_width(),
        (from, to) if from.is_integer() && to.is_floating() => false,
        (ArrowType::Float32, ArrowType::Float64) | (ArrowType::Boolean, _) => false,
        (ArrowType::Decimal128(..), ArrowType::Float64) => false,
        (from, ArrowType::Decimal128(digits, scale)) if from.is_integer() => {
            let most = match from {
                ArrowType::Int8 => 3,
                ArrowType::Int16 => 5,
                ArrowType::Int32 => 10,
                _ => 19,
            };
            i16::from(*digits) - i16::from(*scale) < most
        }
        (ArrowType::Decimal128(own, own_scale), ArrowType::Decimal128(digits, scale)) => {
            let whole = |digits: u8, scale: i8| i16::from(digits) - i16::from(scale);
            scale < own_scale || whole(*digits, *scale) < whole(*own, *own_scale)
        }
        (ArrowType::Date32, ArrowType::Timestamp(..)) => false,
        (ArrowType::Timestamp(..), ArrowType::Date32 | ArrowType::Timestamp(..)) => false,
        _ => true,
    }
}
