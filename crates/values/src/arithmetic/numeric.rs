//! Division of numerics: enough digits behind the point, and the last one rounded.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, Decimal128Type, i256};
use datafusion::common::{Result as PlanResult, exec_err};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{Error, Result, SqlState};

use crate::scalar_function::Function;

/// Minimum number of digits that a quotient has behind the point. PostgreSQL gives 16 significant
/// digits, which is as many for quotients from 1 to 9,999.
pub const QUOTIENT_SCALE: i8 = 16;

const PRECISION_MAX: u8 = 38;

static DIVISION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Function::signed("numeric_divide", TypeSignature::Any(2), ArrowType::Null, divide)
        .returning(quotient_type)
        .into_udf()
});

pub(super) fn division() -> &'static Arc<ScalarUDF> {
    &DIVISION
}

/// Precision and scale of a number that has no fraction beyond its scale.
pub fn decimal_of(data_type: &ArrowType) -> Option<(u8, i8)> {
    match data_type {
        ArrowType::Decimal128(precision, scale) => Some((*precision, *scale)),
        ArrowType::Int8 | ArrowType::UInt8 => Some((3, 0)),
        ArrowType::Int16 | ArrowType::UInt16 => Some((5, 0)),
        ArrowType::Int32 | ArrowType::UInt32 => Some((10, 0)),
        ArrowType::Int64 => Some((19, 0)),
        ArrowType::UInt64 => Some((20, 0)),
        _ => None,
    }
}

fn quotient_type(arguments: &[ArrowType]) -> PlanResult<ArrowType> {
    let [left, right] = arguments else { return exec_err!("a division has two operands") };
    let (Some((digits, scale)), Some((_, divisor_scale))) = (decimal_of(left), decimal_of(right))
    else {
        return exec_err!("cannot divide {left} by {right} as numerics");
    };
    let quotient_scale = QUOTIENT_SCALE.max(scale).max(divisor_scale);
    let whole = i16::from(digits) - i16::from(scale) + i16::from(divisor_scale);
    let precision = (whole.max(1) + i16::from(quotient_scale)).min(i16::from(PRECISION_MAX));
    Ok(ArrowType::Decimal128(precision as u8, quotient_scale))
}

fn divide(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let types: Vec<ArrowType> = columns.iter().map(|column| column.data_type().clone()).collect();
    let target = quotient_type(&types).map_err(|error| Error::internal(error.to_string()))?;
    let (Some((_, scale)), Some(left)) = (decimal_of(&target), decimal_of(&types[0])) else {
        return Err(Error::internal("a quotient is a decimal"));
    };
    let right = decimal_of(&types[1]).unwrap_or((PRECISION_MAX, 0));
    let (dividends, divisors) = (decimals(&columns[0], left)?, decimals(&columns[1], right)?);
    let shift = i32::from(scale) - i32::from(left.1) + i32::from(right.1);
    let quotients = dividends.iter().zip(&divisors).map(|(dividend, divisor)| {
        let (Some(dividend), Some(divisor)) = (dividend, divisor) else { return Ok(None) };
        if divisor == 0 {
            return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        quotient(dividend, divisor, shift).map(Some).ok_or_else(overflow)
    });
    let quotients = quotients.collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(quotients.with_data_type(target)))
}

fn overflow() -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value overflows numeric format")
}

fn decimals(column: &ArrayRef, (precision, scale): (u8, i8)) -> Result<Decimal128Array> {
    let decimals = cast(column, &ArrowType::Decimal128(precision, scale))
        .map_err(|error| crate::errors::from_arrow_error(&error))?;
    Ok(decimals.as_primitive::<Decimal128Type>().clone())
}

/// `dividend * 10^shift / divisor`, halves rounded away from zero.
pub fn quotient(dividend: i128, divisor: i128, shift: i32) -> Option<i128> {
    let power = 10_i128.checked_pow(shift.unsigned_abs())?;
    let narrow = match shift {
        0.. => dividend.checked_mul(power).map(|dividend| (dividend, divisor)),
        _ => divisor.checked_mul(power).map(|divisor| (dividend, divisor)),
    };
    if let Some((dividend, divisor)) = narrow {
        let (whole, rest) = (dividend.checked_div(divisor)?, dividend % divisor);
        let negative = (dividend < 0) != (divisor < 0);
        let rounds = rest.unsigned_abs() >= divisor.unsigned_abs().div_ceil(2);
        return whole.checked_add(if !rounds {
            0
        } else if negative {
            -1
        } else {
            1
        });
    }
    let (mut dividend, mut divisor) = (i256::from_i128(dividend), i256::from_i128(divisor));
    match shift {
        0.. => dividend = dividend.checked_mul(i256::from_i128(power))?,
        _ => divisor = divisor.checked_mul(i256::from_i128(power))?,
    }
    let negative = (dividend < i256::ZERO) != (divisor < i256::ZERO);
    let (dividend, divisor) = (dividend.checked_abs()?, divisor.checked_abs()?);
    let (whole, rest) = (dividend.checked_div(divisor)?, dividend.checked_rem(divisor)?);
    let rounds = rest.checked_mul(i256::from_i128(2))? >= divisor;
    let whole = if rounds { whole.checked_add(i256::ONE)? } else { whole };
    let whole = whole.to_i128()?;
    Some(if negative { -whole } else { whole })
}

/// `value / 10^places`, halves rounded away from zero.
pub fn scaled_down(value: i128, places: u32) -> i128 {
    match 10_i128.checked_pow(places) {
        Some(unit) => quotient(value, unit, 0).unwrap_or_default(),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::quotient;

    #[test]
    fn halves_are_rounded_away_from_zero() {
        assert_eq!(quotient(1, 8, 2), Some(13));
        assert_eq!(quotient(-1, 8, 2), Some(-13));
        assert_eq!(quotient(1, -8, 2), Some(-13));
        assert_eq!(quotient(2, 3, 4), Some(6_667));
        assert_eq!(quotient(25, 1, -1), Some(3));
    }

    #[test]
    fn wide_and_narrow_quotients_agree() {
        let large = 10_i128.pow(37);
        assert_eq!(quotient(large, large, 16), Some(10_i128.pow(16)));
        assert_eq!(quotient(-2 * large, 3 * large, 4), Some(-6_667));
        assert_eq!(quotient(large, 1, 16), None);
    }
}
