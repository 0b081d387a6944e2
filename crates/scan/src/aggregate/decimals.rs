//! Decimals of a block, in 64 bits wherever they fit.
//!
//! A column's values have 128 bits and are narrowed to 64 when a block of them is read, which also
//! measures their largest magnitude. From then on results are computed in 64 bits as long as the
//! operands' bounds prove that they fit, and in 128 bits otherwise.
//!
//! Invariants: values are the same in both forms; an operation in 64 bits cannot fail, whichever
//! rows are wanted.

use std::rc::Rc;

use arrow::buffer::NullBuffer;
use thalweg_types::Result;

use super::arithmetic::{union, wide};
use super::number::Operator;
use super::vector::{Mask, Values, Vector};
use crate::simd::widest;

/// Decimals as integers in units of their last digit.
pub(crate) enum Decimals<'a> {
    Narrow(Narrow<'a>),
    Wide(Vector<'a, i128>),
}

#[derive(Clone)]
pub(crate) struct Narrow<'a> {
    pub vector: Vector<'a, i64>,
    /// Upper bound of the absolute values, including those under NULLs.
    pub bound: u64,
}

impl<'a> Decimals<'a> {
    /// Narrows 128-bit values if all of them fit 64 bits.
    pub fn of(vector: Vector<'a, i128>) -> Decimals<'a> {
        let narrow = match &vector.values {
            Values::Constant(value) => {
                let narrow = i64::try_from(*value).ok();
                narrow.map(|value| (Values::Constant(value), value.unsigned_abs()))
            }
            values => {
                let narrow = narrowed(&values.slice(0));
                narrow.map(|(values, bound)| (Values::Shared(Rc::new(values)), bound))
            }
        };
        match narrow {
            Some((values, bound)) => {
                let vector = Vector { values, nulls: vector.nulls };
                Decimals::Narrow(Narrow { vector, bound })
            }
            None => Decimals::Wide(vector),
        }
    }

    /// Decimals of scale 0.
    pub fn of_ints(vector: Vector<'a, i64>) -> Decimals<'a> {
        let bound = match &vector.values {
            Values::Constant(value) => value.unsigned_abs(),
            values => {
                let values = values.slice(0);
                let reach = widest(|| values.iter().fold(0, |reach, value| reach | far(*value)));
                bound_of(reach)
            }
        };
        Decimals::Narrow(Narrow { vector, bound })
    }

    /// Widens to 128 bits.
    pub fn into_wide(self) -> Vector<'a, i128> {
        match self {
            Decimals::Narrow(narrow) => narrow.vector.map(i128::from),
            Decimals::Wide(vector) => vector,
        }
    }

    /// The validity of the rows; `None` if no row is NULL.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Decimals::Narrow(narrow) => narrow.vector.nulls.as_ref(),
            Decimals::Wide(vector) => vector.nulls.as_ref(),
        }
    }
}

/// The values in 64 bits and their bound; `None` if one does not fit.
pub(crate) fn narrowed(values: &[i128]) -> Option<(Vec<i64>, u64)> {
    let (mut excess, mut reach) = (0, 0);
    let mut narrowed = vec![0; values.len()];
    widest(|| {
        for (narrow, value) in narrowed.iter_mut().zip(values) {
            let (low, high) = (*value as i64, (*value >> 64) as i64);
            excess |= high ^ (low >> 63);
            reach |= far(low);
            *narrow = low;
        }
    });
    (excess == 0).then(|| (narrowed, bound_of(reach)))
}

/// Absolute value of a non-negative number, one less for a negative one.
#[inline(always)]
fn far(value: i64) -> i64 {
    value ^ (value >> 63)
}

/// The bound of values, from the bitwise OR of their [`far`].
fn bound_of(reach: i64) -> u64 {
    reach.unsigned_abs() + 1
}

/// Applies an operator.
///
/// # Errors
/// If the result of a wanted row exceeds 128 bits.
pub(crate) fn decimals(
    operator: Operator,
    left: Decimals<'_>,
    right: Decimals<'_>,
    wanted: Option<&Mask>,
) -> Result<Decimals<'static>> {
    match (left, right) {
        (Decimals::Narrow(left), Decimals::Narrow(right)) => Ok(of_narrow(operator, &left, &right)),
        (left, right) => {
            let (left, right) = (left.into_wide(), right.into_wide());
            Ok(Decimals::Wide(wide(operator, &left, &right, wanted)?))
        }
    }
}

/// Applies an operator to 64-bit values; the result always fits 128 bits.
fn of_narrow(operator: Operator, left: &Narrow<'_>, right: &Narrow<'_>) -> Decimals<'static> {
    let (first, second) = (u128::from(left.bound), u128::from(right.bound));
    let bound = match operator {
        Operator::Multiply => first * second,
        _ => first + second,
    };
    let nulls = union(&left.vector, &right.vector);
    let (left, right) = (&left.vector.values, &right.vector.values);
    macro_rules! compute {
        ($form:expr) => {
            widest(|| match operator {
                Operator::Add => left.zip(right, |a, b| $form(a).wrapping_add($form(b))),
                Operator::Subtract => left.zip(right, |a, b| $form(a).wrapping_sub($form(b))),
                Operator::Multiply => left.zip(right, |a, b| $form(a).wrapping_mul($form(b))),
                other => unreachable!("{other:?} is not for decimals"),
            })
        };
    }
    match u64::try_from(bound) {
        Ok(bound) if i64::try_from(bound).is_ok() => {
            let values = compute!(std::convert::identity::<i64>).shared();
            Decimals::Narrow(Narrow { vector: Vector { values, nulls }, bound })
        }
        _ => Decimals::Wide(Vector { values: compute!(i128::from), nulls }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::tests::Random;

    const OPERATORS: [Operator; 3] = [Operator::Add, Operator::Subtract, Operator::Multiply];

    /// A value of up to so many bits, often at the edge of them.
    fn value(random: &mut Random, bits: u32) -> i128 {
        let all = i128::MAX >> (127 - bits);
        let size = match random.below(4) {
            0 => all - i128::from(random.below(2)),
            _ => (i128::from(random.next()) << 64 | i128::from(random.next())) & all,
        };
        if random.one_in(2) { size } else { -size - i128::from(random.below(2)) }
    }

    fn vector(random: &mut Random, rows: usize) -> Vector<'static, i128> {
        let bits = random.pick(&[0, 1, 20, 31, 32, 62, 63, 64, 100, 126]);
        if random.one_in(4) {
            return Vector::constant(value(random, bits));
        }
        let values = (0..rows).map(|_| value(random, bits)).collect();
        let nulls = random.one_in(3).then(|| (0..rows).map(|row| row % 3 != 0).collect());
        Vector { values: Values::Owned(values), nulls }
    }

    #[test]
    fn what_is_computed_is_what_128_bits_have() {
        let random = &mut Random(7);
        let mut forms = [0, 0];
        for _ in 0..4_000 {
            let rows = 1 + random.below(40) as usize;
            let mask = Mask((0..rows).map(|_| u8::from(random.one_in(2))).collect());
            let wanted = random.one_in(2).then_some(&mask);
            let (left, right) = (vector(random, rows), vector(random, rows));
            let operator = random.pick(&OPERATORS);
            let expected = wide(operator, &left, &right, wanted);
            let found = decimals(operator, Decimals::of(left), Decimals::of(right), wanted);
            match (expected, found) {
                (Ok(expected), Ok(found)) => {
                    forms[usize::from(matches!(found, Decimals::Narrow(_)))] += 1;
                    assert_eq!(found.nulls(), expected.nulls.as_ref());
                    if let Decimals::Narrow(Narrow { vector, bound }) = &found {
                        let values = vector.values.slice(rows);
                        assert!(values.iter().all(|value| value.unsigned_abs() <= *bound));
                    }
                    let found = found.into_wide();
                    let is_valid = |row: &usize| !expected.is_null(*row);
                    for row in (0..rows).filter(is_valid) {
                        let is_wanted = wanted.is_none_or(|wanted| wanted.is_wanted(row));
                        if is_wanted {
                            assert_eq!(found.values.get(row), expected.values.get(row));
                        }
                    }
                }
                (Err(expected), Err(found)) => assert_eq!(found.to_string(), expected.to_string()),
                (expected, found) => panic!("{} but {}", expected.is_ok(), found.is_ok()),
            }
        }
        assert!(forms[0] > 500 && forms[1] > 500, "both forms occur: {forms:?}");
    }

    #[test]
    fn values_are_narrow_where_all_of_them_fit() {
        let of = |values: &[i128]| {
            let values = Values::Owned(values.to_vec());
            Decimals::of(Vector { values, nulls: None })
        };
        let (least, greatest) = (i128::from(i64::MIN), i128::from(i64::MAX));
        for values in [vec![], vec![0], vec![-1, 5, 7], vec![least, greatest]] {
            let Decimals::Narrow(narrow) = of(&values) else { panic!("{values:?} fit") };
            let far = values.iter().map(|value| value.unsigned_abs()).max().unwrap_or(0);
            assert!(far <= narrow.bound.into());
            assert!(u128::from(narrow.bound) <= 2 * far + 1, "{values:?}: {}", narrow.bound);
        }
        for values in [vec![0, least - 1], vec![greatest + 1, 3], vec![1 << 64]] {
            assert!(matches!(of(&values), Decimals::Wide(_)), "{values:?} do not fit");
        }
    }
}
