//! Arithmetic on the rows of a block.
//!
//! Unwanted rows (dead ones and those that the filter rejects) are computed too, so that loops have
//! no branches, but only wanted rows can fail.

use arrow::buffer::NullBuffer;
use thalweg_types::{Error, Result, SqlState};

use super::number::{Operator, Width};
use super::vector::{Mask, Values, Vector};
use crate::simd::widest;

pub(crate) fn union<A, B>(left: &Vector<'_, A>, right: &Vector<'_, B>) -> Option<NullBuffer> {
    NullBuffer::union(left.nulls.as_ref(), right.nulls.as_ref())
}

fn out_of_range(width: Width) -> Error {
    let error_text = format!("{} out of range", width.name());
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, error_text)
}

/// Integer arithmetic. Computes all rows, then checks once if any overflowed.
pub(crate) fn integers(
    operator: Operator,
    width: Width,
    left: &Vector<'_, i64>,
    right: &Vector<'_, i64>,
    wanted: Option<&Mask>,
) -> Result<Vector<'static, i64>> {
    let one = |a: i64, b: i64| -> (i64, i64) {
        let (value, overflow) = match operator {
            Operator::Divide => {
                let (quotient, overflow) = a.overflowing_div(if b == 0 { 1 } else { b });
                (quotient, -i64::from(overflow))
            }
            // The remainder by -1 is 0, even of the minimum, whose quotient overflows.
            Operator::Modulo => (a.wrapping_rem(if b == 0 { 1 } else { b }), 0),
            Operator::Add => {
                let sum = a.wrapping_add(b);
                (sum, (a ^ sum) & (b ^ sum))
            }
            Operator::Subtract => {
                let difference = a.wrapping_sub(b);
                (difference, (a ^ b) & (a ^ difference))
            }
            Operator::Multiply => {
                let product = i128::from(a) * i128::from(b);
                (product as i64, -i64::from(i128::from(product as i64) != product))
            }
        };
        (value, overflow | width.excess(value))
    };
    let nulls = union(left, right);
    if matches!(operator, Operator::Divide | Operator::Modulo) {
        refuse_zero(right, nulls.as_ref(), |divisor| divisor == 0, wanted)?;
    }
    let mut witness = 0;
    let values = widest(|| {
        left.values.zip(&right.values, |a, b| {
            let (value, overflow) = one(a, b);
            witness |= overflow;
            value
        })
    });
    let computed = Vector { values, nulls };
    let fails = |row| one(left.values.get(row), right.values.get(row)).1 < 0;
    if witness < 0 && any_wanted(&computed, wanted, fails) {
        return Err(out_of_range(width));
    }
    Ok(computed)
}

/// Arithmetic on decimals in 128 bits.
pub(crate) fn wide(
    operator: Operator,
    left: &Vector<'_, i128>,
    right: &Vector<'_, i128>,
    wanted: Option<&Mask>,
) -> Result<Vector<'static, i128>> {
    let nulls = union(left, right);
    if is_narrow(&left.values) && is_narrow(&right.values) {
        let narrow = |value: i128| i128::from(value as i64);
        let values = widest(|| match operator {
            Operator::Add => left.values.zip(&right.values, |a, b| narrow(a) + narrow(b)),
            Operator::Subtract => left.values.zip(&right.values, |a, b| narrow(a) - narrow(b)),
            Operator::Multiply => left.values.zip(&right.values, |a, b| narrow(a) * narrow(b)),
            other => unreachable!("{other:?} is not for decimals"),
        });
        return Ok(Vector { values, nulls });
    }
    let one = |a: i128, b: i128| match operator {
        Operator::Add => a.overflowing_add(b),
        Operator::Subtract => a.overflowing_sub(b),
        Operator::Multiply => a.overflowing_mul(b),
        other => unreachable!("{other:?} is not for decimals"),
    };
    let mut overflowed = false;
    let values = left.values.zip(&right.values, |a, b| {
        let (value, overflow) = one(a, b);
        overflowed |= overflow;
        value
    });
    let computed = Vector { values, nulls };
    let fails = |row| one(left.values.get(row), right.values.get(row)).1;
    if overflowed && any_wanted(&computed, wanted, fails) {
        return Err(numeric_overflow());
    }
    Ok(computed)
}

pub(crate) fn numeric_overflow() -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value overflows numeric format")
}

/// True if all decimals fit 64 bits, so that no result can exceed 128.
fn is_narrow(values: &Values<'_, i128>) -> bool {
    let excess = |value: i128| value ^ i128::from(value as i64);
    match values {
        Values::Constant(value) => excess(*value) == 0,
        values => {
            widest(|| values.slice(0).iter().fold(0, |found, value| found | excess(*value)) == 0)
        }
    }
}

/// Fails (`22012`) if the divisor is zero in a wanted row.
fn refuse_zero<T: Copy>(
    divisors: &Vector<'_, T>,
    nulls: Option<&NullBuffer>,
    is_zero: impl Fn(T) -> bool,
    wanted: Option<&Mask>,
) -> Result<()> {
    let refused = |row: usize| {
        let is_wanted = wanted.is_none_or(|wanted| wanted.is_wanted(row));
        is_wanted && nulls.is_none_or(|nulls| nulls.is_valid(row))
    };
    let found = match (&divisors.values, wanted, nulls) {
        (Values::Constant(divisor), Some(wanted), _) => {
            is_zero(*divisor) && (0..wanted.0.len()).any(refused)
        }
        (Values::Constant(divisor), None, Some(nulls)) => {
            is_zero(*divisor) && (0..nulls.len()).any(refused)
        }
        (Values::Constant(divisor), None, None) => is_zero(*divisor),
        (values, ..) => {
            let values = values.slice(0);
            values.iter().enumerate().any(|(row, divisor)| is_zero(*divisor) && refused(row))
        }
    };
    match found {
        true => Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")),
        false => Ok(()),
    }
}

pub(crate) fn floats(
    operator: Operator,
    left: &Vector<'_, f64>,
    right: &Vector<'_, f64>,
    wanted: Option<&Mask>,
) -> Result<Vector<'static, f64>> {
    let nulls = union(left, right);
    if operator == Operator::Divide {
        refuse_zero(right, nulls.as_ref(), |divisor| divisor == 0.0, wanted)?;
    }
    let values = widest(|| match operator {
        Operator::Add => left.values.zip(&right.values, |a, b| a + b),
        Operator::Subtract => left.values.zip(&right.values, |a, b| a - b),
        Operator::Multiply => left.values.zip(&right.values, |a, b| a * b),
        Operator::Divide => left.values.zip(&right.values, |a, b| a / b),
        Operator::Modulo => unreachable!("floats leave no rest"),
    });
    Ok(Vector { values, nulls })
}

/// Casts integers to a narrower type. Fails if a wanted one does not fit.
pub(crate) fn narrowed<'a>(
    given: Vector<'a, i64>,
    width: Width,
    wanted: Option<&Mask>,
) -> Result<Vector<'a, i64>> {
    let excess = |row| width.excess(given.values.get(row)) < 0;
    let witness = match &given.values {
        Values::Constant(value) => width.excess(*value),
        values => {
            widest(|| values.slice(0).iter().fold(0, |all, value| all | width.excess(*value)))
        }
    };
    match witness < 0 && any_wanted(&given, wanted, excess) {
        true => Err(out_of_range(width)),
        false => Ok(given),
    }
}

/// Casts floats to integers, rounding half to even.
pub(crate) fn rounded(
    given: &Vector<'_, f64>,
    width: Width,
    wanted: Option<&Mask>,
) -> Result<Vector<'static, i64>> {
    let limit = match width {
        Width::Int2 => 2_f64.powi(15),
        Width::Int4 => 2_f64.powi(31),
        Width::Int8 => 2_f64.powi(63),
    };
    // NaN is in no range.
    let fits = |value: f64| (-limit..limit).contains(&value.round_ties_even());
    let rounded = given.map(|value| value.round_ties_even() as i64);
    match any_wanted(&rounded, wanted, |row| !fits(given.values.get(row))) {
        true => Err(out_of_range(width)),
        false => Ok(rounded),
    }
}

/// Casts floats to `real`. Fails on overflow and underflow, as PostgreSQL does.
pub(crate) fn real(given: &Vector<'_, f64>, wanted: Option<&Mask>) -> Result<Vector<'static, f64>> {
    let rounded = given.map(|value| f64::from(value as f32));
    let is_lost = |row| {
        let (from, to): (f64, f64) = (given.values.get(row), rounded.values.get(row));
        (to.is_infinite() && !from.is_infinite(), to == 0.0 && from != 0.0)
    };
    let error_text = match () {
        () if any_wanted(&rounded, wanted, |row| is_lost(row).0) => "overflow",
        () if any_wanted(&rounded, wanted, |row| is_lost(row).1) => "underflow",
        () => return Ok(rounded),
    };
    let error_text = format!("value out of range: {error_text}");
    Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, error_text))
}

/// The starts of the buckets that contain the integers, as `date_bin` does.
pub(crate) fn buckets(
    given: &Vector<'_, i64>,
    unit: i64,
    origin: i64,
    wanted: Option<&Mask>,
) -> Result<Vector<'static, i64>> {
    let start = |value: i64| bucket(value, unit, origin).unwrap_or(value);
    let computed = given.map(start);
    let fails = |row| bucket(given.values.get(row), unit, origin).is_none();
    // Only numbers near the ends of the range have a bucket start or a distance that overflows 64
    // bits.
    let ends = |value: i64| value.unsigned_abs().checked_add(unit.unsigned_abs());
    let is_far = |value: i64| {
        let far = ends(value).and_then(|far| far.checked_add(origin.unsigned_abs()));
        far.is_none_or(|far| far > i64::MAX as u64)
    };
    let any_far = match &given.values {
        Values::Constant(value) => is_far(*value),
        values => values.slice(0).iter().any(|value| is_far(*value)),
    };
    match any_far && any_wanted(&computed, wanted, fails) {
        true => Err(out_of_range(Width::Int8)),
        false => Ok(computed),
    }
}

/// The start of the bucket that contains a number; `None` on overflow.
#[inline(always)]
pub(crate) fn bucket(value: i64, unit: i64, origin: i64) -> Option<i64> {
    let distance = value.checked_sub(origin)?.rem_euclid(unit);
    value.checked_sub(distance)
}

fn any_wanted<T: Copy>(
    computed: &Vector<'_, T>,
    wanted: Option<&Mask>,
    fails: impl Fn(usize) -> bool,
) -> bool {
    let rows = match &computed.values {
        Values::Slice(values) => values.len(),
        Values::Owned(values) => values.len(),
        Values::Shared(values) => values.len(),
        Values::Constant(_) => 1,
    };
    (0..rows).any(|row| {
        wanted.is_none_or(|wanted| wanted.is_wanted(row)) && !computed.is_null(row) && fails(row)
    })
}
