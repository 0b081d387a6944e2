//! Arithmetic that fails where PostgreSQL's fails, instead of wrapping around or giving infinity.
//!
//! DataFusion's operators on integers wrap around. After types are resolved, an analyzer rule
//! replaces them with the functions of this module. Their kernels look for overflow once a batch,
//! so that they stay vectorised. Arrow always checks decimals.

pub(crate) mod float;
pub(crate) mod integer;
pub mod numeric;
mod plan;
pub mod sum;
mod temporal;

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, ScalarUDF};

use self::float::{FloatDivision, FloatNegation};
use self::integer::{IntegerArithmetic, IntegerOperator};
pub use self::plan::TypedOperators;
pub use self::temporal::{add_to_moment, scale as scale_interval};

static INTEGER_OPERATORS: LazyLock<[Arc<ScalarUDF>; 6]> = LazyLock::new(|| {
    [
        IntegerOperator::Add,
        IntegerOperator::Subtract,
        IntegerOperator::Multiply,
        IntegerOperator::Divide,
        IntegerOperator::Modulo,
        IntegerOperator::Xor,
    ]
    .map(|operator| Arc::new(ScalarUDF::from(IntegerArithmetic::new(operator))))
});

static FLOAT_DIVISION: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(FloatDivision::default())));

static FLOAT_NEGATION: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(FloatNegation::default())));

/// The functions that stand for operators, for a registry that finds functions by name.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    INTEGER_OPERATORS.iter().chain([&*FLOAT_DIVISION, &*FLOAT_NEGATION]).cloned().collect()
}

/// The checked form of an operator on operands of these types; `None` if DataFusion's own is
/// right.
pub fn checked(binary: &BinaryExpr, left: &ArrowType, right: &ArrowType) -> Option<Expr> {
    if left != right {
        return None;
    }
    let function = match (left, binary.op) {
        (float, Operator::Divide) if is_float(float) => &*FLOAT_DIVISION,
        (integer, operator) if is_signed(integer) => {
            &INTEGER_OPERATORS[IntegerOperator::of(operator)? as usize]
        }
        _ => return None,
    };
    Some(function.call(vec![(*binary.left).clone(), (*binary.right).clone()]))
}

/// `-operand`: the least integer has no positive counterpart, and a NaN must keep its sign.
pub fn checked_negation(operand: &Expr, data_type: &ArrowType) -> PlanResult<Option<Expr>> {
    if is_float(data_type) {
        return Ok(Some(FLOAT_NEGATION.call(vec![operand.clone()])));
    }
    if !is_signed(data_type) {
        return Ok(None);
    }
    let zero = Expr::Literal(ScalarValue::new_zero(data_type)?, None);
    let subtract = &INTEGER_OPERATORS[IntegerOperator::Subtract as usize];
    Ok(Some(subtract.call(vec![zero, operand.clone()])))
}

fn is_signed(data_type: &ArrowType) -> bool {
    matches!(data_type, ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64)
}

fn is_float(data_type: &ArrowType) -> bool {
    matches!(data_type, ArrowType::Float32 | ArrowType::Float64)
}
