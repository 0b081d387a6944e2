//! `+`, `-`, `*`, `/` and `%` on numbers.

use arrow::datatypes::DataType;
use thalweg_scan::{Number, Operator, Width};

use super::expression::Value;

/// The width of whole numbers of a type.
pub(super) fn width(data_type: &DataType) -> Option<Width> {
    Some(match data_type {
        DataType::Int16 => Width::Int2,
        DataType::Int32 => Width::Int4,
        DataType::Int64 => Width::Int8,
        _ => return None,
    })
}

/// Ten to the power of `digits`.
pub(super) fn units(digits: u8) -> i128 {
    10_i128.pow(digits.into())
}

pub(super) fn integers(
    operator: Operator,
    left: &Value,
    right: &Value,
    data_type: DataType,
) -> Option<Value> {
    if left.data_type != data_type || right.data_type != data_type {
        return None;
    }
    let operands = Box::new((left.to_number()?, right.to_number()?));
    let number = Number::Integers { operator, width: width(&data_type)?, operands };
    Some(Value::number(number, data_type))
}

/// Floats and decimals.
pub(super) fn computed(
    operator: Operator,
    left: &Value,
    right: &Value,
    data_type: DataType,
) -> Option<Value> {
    let (first, second) = (left.to_number()?, right.to_number()?);
    match (&left.data_type, &right.data_type, &data_type) {
        (DataType::Float64, DataType::Float64, DataType::Float64) => {
            let operands = Box::new((first, second));
            Some(Value::number(Number::Floats { operator, operands }, data_type))
        }
        (
            DataType::Decimal128(_, left),
            DataType::Decimal128(_, right),
            DataType::Decimal128(_, scale),
        ) => {
            let operands = match operator {
                Operator::Multiply if left.checked_add(*right)? == *scale => (first, second),
                Operator::Add | Operator::Subtract => {
                    (rescaled(first, *left, *scale)?, rescaled(second, *right, *scale)?)
                }
                _ => return None,
            };
            let operands = Box::new(operands);
            Some(Value::number(Number::Decimals { operator, operands }, data_type))
        }
        _ => None,
    }
}

/// `-value` for floats and decimals, whose negation cannot overflow.
pub(super) fn negated(value: &Value) -> Option<Value> {
    let (operator, number) = (Operator::Multiply, value.to_number()?);
    let number = match value.data_type {
        // Multiplying by -1 also negates the sign of a zero.
        DataType::Float64 => {
            Number::Floats { operator, operands: Box::new((number, Number::Float(-1.0))) }
        }
        DataType::Decimal128(..) => {
            Number::Decimals { operator, operands: Box::new((number, Number::Decimal(-1))) }
        }
        _ => return None,
    };
    Some(Value::number(number, value.data_type.clone()))
}

/// A decimal rescaled from `from` to `to` digits after the point.
fn rescaled(number: Number, from: i8, to: i8) -> Option<Number> {
    let more = u8::try_from(to.checked_sub(from)?).ok()?;
    Some(match (more, number) {
        (0, number) => number,
        (more, Number::Decimal(value)) => Number::Decimal(value.checked_mul(units(more))?),
        (more, operand) => Number::Rescaled { operand: Box::new(operand), units: units(more) },
    })
}
