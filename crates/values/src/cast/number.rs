//! Numbers to numbers, with the rounding and the ranges that PostgreSQL has.

use std::io::Write as _;
use std::str::FromStr;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{
    DataType as ArrowType, Decimal128Type, Decimal256Type, DecimalType, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, i256,
};
use thalweg_types::{DataType, Error, Result, SqlState};

use super::{Manner, plain_cast};

pub(super) fn to_boolean(array: &ArrayRef, manner: Manner) -> Result<Option<ArrayRef>> {
    let allowed = manner == Manner::Explicit && array.data_type().is_integer();
    if allowed { plain_cast(array, &ArrowType::Boolean).map(Some) } else { Ok(None) }
}

pub(super) fn to_integer(
    array: &ArrayRef,
    to: &DataType,
    manner: Manner,
) -> Result<Option<ArrayRef>> {
    let whole = match array.data_type() {
        ArrowType::Boolean if manner == Manner::Explicit => plain_cast(array, &ArrowType::Int64)?,
        ArrowType::Boolean => return Ok(None),
        // Beyond the range of `bigint` in any case.
        ArrowType::UInt64 => plain_cast(array, &ArrowType::Decimal128(20, 0))?,
        integer if integer.is_integer() => plain_cast(array, &ArrowType::Int64)?,
        ArrowType::Float16 | ArrowType::Float32 | ArrowType::Float64 => {
            plain_cast(array, &ArrowType::Float64)?
        }
        ArrowType::Decimal32(_, scale)
        | ArrowType::Decimal64(_, scale)
        | ArrowType::Decimal128(_, scale) => plain_cast(array, &ArrowType::Decimal128(38, *scale))?,
        ArrowType::Decimal256(_, _) => array.clone(),
        _ => return Ok(None),
    };
    let out_of_range = || Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("{to} out of range"));
    match to {
        DataType::Int2 => narrow::<Int16Type>(&whole, out_of_range),
        DataType::Int4 => narrow::<Int32Type>(&whole, out_of_range),
        _ => narrow::<Int64Type>(&whole, out_of_range),
    }
    .map(Some)
}

/// From the widest type of each kind to an integer type.
fn narrow<T>(array: &ArrayRef, out_of_range: impl Fn() -> Error) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i64>,
{
    let fit = |value: Option<i64>| {
        value.and_then(|value| T::Native::try_from(value).ok()).ok_or_else(&out_of_range)
    };
    let narrowed: PrimitiveArray<T> = match array.data_type() {
        ArrowType::Int64 => {
            array.as_primitive::<Int64Type>().try_unary(|value| fit(Some(value)))?
        }
        ArrowType::Float64 => {
            array.as_primitive::<Float64Type>().try_unary(|value| fit(rounded_float(value)))?
        }
        ArrowType::Decimal128(_, scale) => {
            let unit = 10_i128.pow(u32::from(scale.unsigned_abs()));
            let negative = *scale < 0;
            array.as_primitive::<Decimal128Type>().try_unary(|value| {
                let whole =
                    if negative { value.checked_mul(unit) } else { Some(rounded(value, unit)) };
                fit(whole.and_then(|whole| i64::try_from(whole).ok()))
            })?
        }
        _ => {
            let whole = plain_cast(array, &ArrowType::Decimal256(76, 0))?;
            whole
                .as_primitive::<Decimal256Type>()
                .try_unary(|value| fit(value.to_i128().and_then(|v| i64::try_from(v).ok())))?
        }
    };
    Ok(std::sync::Arc::new(narrowed))
}

/// To the nearest whole number, halves to the even one.
fn rounded_float(value: f64) -> Option<i64> {
    let whole = value.round_ties_even();
    // 2^63 itself is the first value beyond the range.
    let bound = 9_223_372_036_854_775_808.0;
    (whole >= -bound && whole < bound).then_some(whole as i64)
}

/// `value / unit` to the nearest whole number, halves away from zero.
fn rounded(value: i128, unit: i128) -> i128 {
    let (whole, rest) = (value / unit, value % unit);
    if rest.unsigned_abs() >= unit.unsigned_abs().div_ceil(2) {
        whole + value.signum()
    } else {
        whole
    }
}

pub(super) fn to_float(array: &ArrayRef, to: &DataType) -> Result<Option<ArrayRef>> {
    let given = array.data_type();
    if !(given.is_numeric() || matches!(given, ArrowType::Float16)) {
        return Ok(None);
    }
    if let ArrowType::Decimal128(_, scale) = given {
        return decimal_to_float(array, *scale, to).map(Some);
    }
    let wide = plain_cast(array, &ArrowType::Float64)?;
    if *to == DataType::Float8 {
        return Ok(Some(wide));
    }
    let narrowed: PrimitiveArray<Float32Type> =
        wide.as_primitive::<Float64Type>().try_unary(|value| {
            let narrow = value as f32;
            if narrow.is_infinite() && value.is_finite() {
                return Err(Error::new(
                    SqlState::NUMERIC_OUT_OF_RANGE,
                    "value out of range: overflow",
                ));
            }
            Ok(narrow)
        })?;
    Ok(Some(std::sync::Arc::new(narrowed)))
}

/// To the nearest floating point number. Arrow rounds twice: the digits, and their quotient.
fn decimal_to_float(array: &ArrayRef, scale: i8, to: &DataType) -> Result<ArrayRef> {
    let decimals = array.as_primitive::<Decimal128Type>();
    if *to == DataType::Float8 {
        let floats: PrimitiveArray<Float64Type> = decimals.try_unary(|value| {
            nearest(value, scale, EXACT_DOUBLES, |value, power| value as f64 / 10_f64.powi(power))
        })?;
        return Ok(std::sync::Arc::new(floats));
    }
    let floats: PrimitiveArray<Float32Type> = decimals.try_unary(|value| {
        nearest(value, scale, EXACT_REALS, |value, power| value as f32 / 10_f32.powi(power))
    })?;
    Ok(std::sync::Arc::new(floats))
}

/// The bound of integers that a floating point type has exactly, and of powers of ten.
type Exact = (u128, i8);
const EXACT_DOUBLES: Exact = (1 << 53, 22);
const EXACT_REALS: Exact = (1 << 24, 10);

/// `value / 10^scale`, rounded once: by one division of exact numbers, or else by way of the text.
fn nearest<T: FromStr>(
    value: i128,
    scale: i8,
    (integers, powers): Exact,
    quotient: impl Fn(i128, i32) -> T,
) -> Result<T> {
    if value.unsigned_abs() <= integers && (0..=powers).contains(&scale) {
        return Ok(quotient(value, i32::from(scale)));
    }
    // A sign, 39 digits and an exponent.
    let mut text = [0_u8; 48];
    let mut rest = text.as_mut_slice();
    let written = write!(rest, "{value}e{}", -i32::from(scale)).is_ok();
    let length = 48 - rest.len();
    let number = str::from_utf8(&text[..length]).ok().filter(|_| written);
    let number = number.and_then(|number| number.parse().ok());
    number.ok_or_else(|| Error::internal("the digits of a numeric are a number"))
}

pub(super) fn to_decimal(array: &ArrayRef, target: &ArrowType) -> Result<Option<ArrayRef>> {
    let given = array.data_type();
    if !given.is_numeric() {
        return Ok(None);
    }
    let (precision, scale) = match target {
        ArrowType::Decimal128(precision, scale) | ArrowType::Decimal256(precision, scale) => {
            (*precision, *scale)
        }
        _ => return Ok(None),
    };
    if given.is_floating() {
        return float_to_decimal(array, target, precision, scale).map(Some);
    }
    // Arrow rounds halves away from zero, as PostgreSQL does, and refuses what doesn't fit.
    let converted = plain_cast(array, target).map_err(|_| field_overflow(precision, scale))?;
    Ok(Some(converted))
}

/// By way of the shortest text that stands for the float, so that 0.1 becomes 0.1.
fn float_to_decimal(
    array: &ArrayRef,
    target: &ArrowType,
    precision: u8,
    scale: i8,
) -> Result<ArrayRef> {
    let floats = plain_cast(array, &ArrowType::Float64)?;
    let single = matches!(array.data_type(), ArrowType::Float32 | ArrowType::Float16);
    let parse = |value: f64| {
        if !value.is_finite() {
            return Err(Error::new(
                SqlState::NUMERIC_OUT_OF_RANGE,
                "cannot convert infinity or NaN to numeric",
            ));
        }
        let text = if single { (value as f32).to_string() } else { value.to_string() };
        parse_decimal(&text, precision, scale)
            .ok_or_else(|| crate::errors::invalid_text("numeric", &text))?
            .ok_or_else(|| field_overflow(precision, scale))
    };
    let floats = floats.as_primitive::<Float64Type>();
    if let ArrowType::Decimal128(_, _) = target {
        let narrow = |value: i256| value.to_i128().ok_or_else(|| field_overflow(precision, scale));
        let decimals: PrimitiveArray<Decimal128Type> =
            floats.try_unary(|value| parse(value).and_then(narrow))?;
        return Ok(std::sync::Arc::new(decimals.with_data_type(target.clone())));
    }
    let decimals: PrimitiveArray<Decimal256Type> = floats.try_unary(parse)?;
    Ok(std::sync::Arc::new(decimals.with_data_type(target.clone())))
}

pub(super) fn field_overflow(precision: u8, scale: i8) -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "numeric field overflow").with_detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less \
         than 10^{}.",
        i16::from(precision) - i16::from(scale)
    ))
}

/// A number's digits at a scale, rounded half away from zero.
///
/// `None` when the text is no number, `Some(None)` when the number has too many digits.
pub(super) fn parse_decimal(text: &str, precision: u8, scale: i8) -> Option<Option<i256>> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.strip_prefix(['-', '+']) {
        Some(digits) => (mantissa.starts_with('-'), digits),
        None => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    if !all_digits || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    // Number of digits, counted from the left of both parts, that lie at or before the last place.
    let kept = whole.len() as i64 + exponent.saturating_add(i64::from(scale));
    let digits = whole.bytes().chain(fraction.bytes()).map(|byte| byte - b'0');
    Some(
        round_digits(digits, kept, precision)
            .map(|value| if negative { value.wrapping_neg() } else { value }),
    )
}

fn round_digits(digits: impl Iterator<Item = u8>, kept: i64, precision: u8) -> Option<i256> {
    let limit = Decimal256Type::MAX_FOR_EACH_PRECISION[usize::from(precision)];
    let ten = i256::from_i128(10);
    let mut value = i256::ZERO;
    let mut taken = 0_i64;
    for digit in digits {
        if taken == kept {
            value = value.checked_add(i256::from_i128(i128::from(digit >= 5)))?;
            taken = i64::MAX;
            break;
        }
        if taken > kept {
            break;
        }
        value = value.checked_mul(ten)?.checked_add(i256::from_i128(i128::from(digit)))?;
        if value > limit {
            return None;
        }
        taken += 1;
    }
    while taken < kept && value != i256::ZERO {
        value = value.checked_mul(ten)?;
        if value > limit {
            return None;
        }
        taken += 1;
    }
    (value <= limit).then_some(value)
}

/// True if a text is a whole number, whatever its size.
pub(super) fn is_whole_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
