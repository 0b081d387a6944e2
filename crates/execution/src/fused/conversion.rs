//! Casts that give the same results as DataFusion's.

use arrow::datatypes::{DataType, TimeUnit};
use thalweg_scan::{Number, Operator, Width};
use thalweg_values::zone::is_utc;

use super::arithmetic::{units, width};
use super::expression::Value;

/// Number of digits of integers of 16, 32 and 64 bits.
const INT_DIGITS: [u8; 3] = [5, 10, 19];

/// Powers of ten up to this exponent are exact floats.
const FLOAT_DIGITS: i8 = 22;

const NANOS_PER_MICRO: i64 = 1_000;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// A cast that DataFusion would compute.
pub(super) fn cast(value: Value, to: DataType) -> Option<Value> {
    if value.data_type == to {
        return Some(value);
    }
    let number = value.to_number()?;
    let from_rank = int_rank(&value.data_type);
    let number = match (&value.data_type, &to) {
        (DataType::Float32, DataType::Float64) => number,
        (_, DataType::Float64) if from_rank.is_some() => Number::FloatOfInt(Box::new(number)),
        (DataType::Decimal128(_, scale @ 0..=FLOAT_DIGITS), DataType::Float64) => {
            let units = units(scale.unsigned_abs());
            Number::FloatOfDecimal { operand: Box::new(number), units }
        }
        (DataType::Decimal128(digits, scale), DataType::Decimal128(to_digits, to_scale)) => {
            let more = u8::try_from(to_scale.checked_sub(*scale)?).ok()?;
            if *to_digits < digits.checked_add(more)? {
                return None;
            }
            match more {
                0 => number,
                more => Number::Rescaled { operand: Box::new(number), units: units(more) },
            }
        }
        (_, DataType::Decimal128(to_digits, to_scale)) => {
            let scale = u8::try_from(*to_scale).ok()?;
            if *to_digits < INT_DIGITS[from_rank?].checked_add(scale)? {
                return None;
            }
            Number::DecimalOfInt { operand: Box::new(number), units: units(scale) }
        }
        (
            DataType::Timestamp(TimeUnit::Microsecond, from),
            DataType::Timestamp(TimeUnit::Nanosecond, to),
        ) if from == to => {
            let operands = Box::new((number, Number::Int(NANOS_PER_MICRO)));
            Number::Integers { operator: Operator::Multiply, width: Width::Int8, operands }
        }
        (_, to) if int_rank(to)? > from_rank? => number,
        (_, to) => Number::Narrowed { operand: Box::new(number), width: width(to)? },
    };
    Some(Value::number(number, to))
}

/// A cast with PostgreSQL's rules.
pub(super) fn postgres(value: &Value, to: DataType) -> Option<Value> {
    let number = value.to_number()?;
    let number = match (&value.data_type, &to) {
        (DataType::Float32 | DataType::Float64, to) if int_rank(to).is_some() => {
            Number::IntOfFloat { operand: Box::new(number), width: width(to)? }
        }
        (DataType::Boolean, to) if int_rank(to).is_some() => number,
        (
            DataType::Timestamp(TimeUnit::Microsecond, from),
            DataType::Timestamp(TimeUnit::Microsecond, to),
        ) if from.is_some() == to.is_some() || is_utc() => number,
        (DataType::Timestamp(TimeUnit::Microsecond, zone), DataType::Date32)
            if zone.is_none() || is_utc() =>
        {
            days(number)
        }
        _ => return None,
    };
    Some(Value::number(number, to))
}

/// Converts timestamps to days. The day number of every timestamp fits into 32 bits.
fn days(moment: Number) -> Number {
    let midnight = Number::Bucket { operand: Box::new(moment), unit: MICROS_PER_DAY, origin: 0 };
    let operands = Box::new((midnight, Number::Int(MICROS_PER_DAY)));
    Number::Integers { operator: Operator::Divide, width: Width::Int4, operands }
}

fn int_rank(data_type: &DataType) -> Option<usize> {
    [DataType::Int16, DataType::Int32, DataType::Int64].iter().position(|int| int == data_type)
}
