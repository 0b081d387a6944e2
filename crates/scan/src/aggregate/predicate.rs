//! Predicates that select rows.
//!
//! A predicate keeps the rows in which it is *true*; NULL and false are not distinguished. So there
//! is no NOT; callers negate the comparisons below it instead.

use std::sync::Arc;

use arrow::array::Array;
use thalweg_store::ChunkView;
use thalweg_types::Result;

use super::decimals::Decimals;
use super::floats::comparable;
use super::key_set::KeySet;
use super::number::{Block, Lane, Number};
use super::source::{Data, zone_bounds, zone_range};
use super::texts::TextTest;
use super::vector::{Mask, Values, Vector};
use crate::simd::widest;

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A condition on a row. Columns are positions among those of the aggregation.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    And(Vec<Predicate>),
    Or(Vec<Predicate>),
    /// Compares two numbers of one lane. Floats compare as in PostgreSQL: NaN equals itself and is
    /// greater than all others, both zeros are equal.
    Compare {
        lane: Lane,
        comparison: Comparison,
        operands: Box<(Number, Number)>,
    },
    /// Tests if an integer is in a sorted list, or, unless `inside`, that it is not.
    Among {
        number: Number,
        list: Vec<i64>,
        inside: bool,
    },
    /// Tests if an integer is in a set.
    AmongKeys {
        number: Number,
        keys: Arc<KeySet>,
    },
    Text {
        column: usize,
        test: TextTest,
    },
    IsNull {
        column: usize,
        null: bool,
    },
    /// True for all rows or for none.
    Always(bool),
}

impl Comparison {
    #[inline(always)]
    pub(crate) fn holds<T: PartialOrd>(self, left: T, right: T) -> bool {
        match self {
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
            Comparison::Less => left < right,
            Comparison::LessOrEqual => left <= right,
            Comparison::Greater => left > right,
            Comparison::GreaterOrEqual => left >= right,
        }
    }

    /// The equivalent comparison for exchanged operands.
    #[must_use]
    pub fn turned(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }

    /// The comparison that is true exactly if this one is false.
    #[must_use]
    pub fn negated(self) -> Comparison {
        match self {
            Comparison::Equal => Comparison::NotEqual,
            Comparison::NotEqual => Comparison::Equal,
            Comparison::Less => Comparison::GreaterOrEqual,
            Comparison::LessOrEqual => Comparison::Greater,
            Comparison::Greater => Comparison::LessOrEqual,
            Comparison::GreaterOrEqual => Comparison::Less,
        }
    }

    /// False if no value between two bounds, inclusive, satisfies the comparison with the constant.
    pub(crate) fn is_possible<T: PartialOrd>(self, least: T, greatest: T, constant: T) -> bool {
        match self {
            Comparison::Equal => least <= constant && constant <= greatest,
            Comparison::NotEqual => least != constant || greatest != constant,
            Comparison::Less => least < constant,
            Comparison::LessOrEqual => least <= constant,
            Comparison::Greater => greatest > constant,
            Comparison::GreaterOrEqual => greatest >= constant,
        }
    }
}

impl Predicate {
    /// Removes the rows from the mask in which the predicate is not true.
    pub(crate) fn narrow(&self, block: &Block<'_>, mask: &mut Mask) -> Result<()> {
        match self {
            Predicate::And(parts) => {
                for part in parts {
                    part.narrow(block, mask)?;
                    if mask.is_clear() {
                        break;
                    }
                }
                Ok(())
            }
            Predicate::Or(parts) => {
                let mut found = Mask(vec![0; block.length]);
                for part in parts {
                    let mut rest = Mask(mask.0.clone());
                    part.narrow(block, &mut rest)?;
                    found.0.iter_mut().zip(&rest.0).for_each(|(found, new)| *found |= new);
                }
                *mask = found;
                Ok(())
            }
            Predicate::Compare { lane, comparison, operands } => {
                let (left, right) = operands.as_ref();
                compare(*lane, *comparison, left, right, block, mask)
            }
            Predicate::Among { number, list, inside } => {
                let numbers = number.ints(block, Some(mask))?;
                let is_in = |value| list.binary_search(&value).is_ok() == *inside;
                keep(&numbers, mask, is_in);
                Ok(())
            }
            Predicate::AmongKeys { number, keys } => keys.narrow(number, block, mask),
            Predicate::Text { column, test } => {
                test.narrow(block, *column, mask);
                Ok(())
            }
            Predicate::IsNull { column, null } => {
                mask.keep_nulls(block.nulls(*column).as_ref(), *null);
                Ok(())
            }
            Predicate::Always(true) => Ok(()),
            Predicate::Always(false) => {
                mask.clear();
                Ok(())
            }
        }
    }

    /// False if the chunk's zones or dictionaries exclude that the predicate is true in a row.
    /// `places` are the columns' positions in the table.
    pub(crate) fn is_possible(&self, chunk: &ChunkView, places: &[usize]) -> bool {
        match self {
            Predicate::And(parts) => parts.iter().all(|part| part.is_possible(chunk, places)),
            Predicate::Or(parts) => parts.iter().any(|part| part.is_possible(chunk, places)),
            Predicate::Compare { comparison, operands, .. } => {
                let (column, comparison, constant) = match operands.as_ref() {
                    (Number::Column(column), constant) => (*column, *comparison, constant),
                    (constant, Number::Column(column)) => (*column, comparison.turned(), constant),
                    _ => return true,
                };
                let constant = match constant {
                    Number::Int(value) => i128::from(*value),
                    Number::Decimal(value) => *value,
                    _ => return true,
                };
                zone_bounds(chunk, places[column]).is_none_or(|(least, greatest)| {
                    comparison.is_possible(least, greatest, constant)
                })
            }
            Predicate::Among { number: Number::Column(column), list, inside: true } => {
                zone_range(chunk, places[*column]).is_none_or(|(least, greatest)| {
                    list.iter().any(|value| (least..=greatest).contains(value))
                })
            }
            Predicate::AmongKeys { number: Number::Column(column), keys } => {
                zone_range(chunk, places[*column])
                    .is_none_or(|(least, greatest)| keys.is_possible(least, greatest))
            }
            Predicate::Text { column, test } => is_text_possible(chunk, places[*column], test),
            Predicate::IsNull { column, null } => {
                let nulls = chunk.zone(places[*column]).map(|zone| zone.null_count);
                nulls.is_none_or(|nulls| if *null { nulls > 0 } else { nulls < chunk.rows() })
            }
            Predicate::Always(answer) => *answer,
            Predicate::Among { .. } | Predicate::AmongKeys { .. } => true,
        }
    }
}

fn is_text_possible(chunk: &ChunkView, place: usize, test: &TextTest) -> bool {
    if let Some(dictionary) = chunk.dictionary(place) {
        return dictionary.values.iter().flatten().any(|text| test.passes(text));
    }
    let Some((least, greatest)) = chunk.zone(place).and_then(|zone| zone.range.as_ref()) else {
        return true;
    };
    let bound = |array| match super::source::Column::of_array(array).data {
        Data::Text(texts) if texts.is_valid(0) => Some(texts.value(0).to_owned()),
        _ => None,
    };
    match (bound(least), bound(greatest)) {
        (Some(least), Some(greatest)) => test.is_possible(&least, &greatest),
        _ => true,
    }
}

fn compare(
    lane: Lane,
    comparison: Comparison,
    left: &Number,
    right: &Number,
    block: &Block<'_>,
    mask: &mut Mask,
) -> Result<()> {
    match lane {
        Lane::Int => {
            if let (Some(left), Some(right)) = (block.halves(left), block.halves(right)) {
                narrow_compared(comparison, &left, &right, mask);
                return Ok(());
            }
            let (left, right) = (left.ints(block, Some(mask))?, right.ints(block, Some(mask))?);
            narrow_compared(comparison, &left, &right, mask);
        }
        Lane::Float => {
            let left = left.floats(block, Some(mask))?;
            let right = right.floats(block, Some(mask))?;
            let (left, right) = widest(|| (left.map(comparable), right.map(comparable)));
            narrow_compared(comparison, &left, &right, mask);
        }
        Lane::Decimal => {
            let left = left.decimals(block, Some(mask))?;
            let right = right.decimals(block, Some(mask))?;
            match (left, right) {
                (Decimals::Narrow(left), Decimals::Narrow(right)) => {
                    narrow_compared(comparison, &left.vector, &right.vector, mask);
                }
                (left, right) => {
                    let (left, right) = (left.into_wide(), right.into_wide());
                    narrow_compared(comparison, &left, &right, mask);
                }
            }
        }
    }
    Ok(())
}

fn narrow_compared<T: Copy + PartialOrd>(
    comparison: Comparison,
    left: &Vector<'_, T>,
    right: &Vector<'_, T>,
    mask: &mut Mask,
) {
    // One loop for each comparison, so that no loop branches on it.
    macro_rules! loops {
        ($($name:ident)*) => {
            match comparison {
                $(Comparison::$name => and(mask, left, right, |a, b| {
                    Comparison::$name.holds(a, b)
                }),)*
            }
        };
    }
    widest(|| loops!(Equal NotEqual Less LessOrEqual Greater GreaterOrEqual));
    for nulls in [&left.nulls, &right.nulls].into_iter().flatten() {
        mask.keep_nulls(Some(nulls), false);
    }
}

#[inline(always)]
fn and<T: Copy>(
    mask: &mut Mask,
    left: &Vector<'_, T>,
    right: &Vector<'_, T>,
    holds: impl Fn(T, T) -> bool,
) {
    let rows = mask.0.len();
    match (&left.values, &right.values) {
        (Values::Constant(left), Values::Constant(right)) if !holds(*left, *right) => mask.clear(),
        (Values::Constant(_), Values::Constant(_)) => {}
        (values, Values::Constant(right)) => {
            let values = values.slice(rows);
            let pairs = mask.0.iter_mut().zip(values.iter());
            pairs.for_each(|(kept, left)| *kept &= u8::from(holds(*left, *right)));
        }
        (left, right) => {
            let (left, right) = (left.slice(rows), right.slice(rows));
            let pairs = mask.0.iter_mut().zip(left.iter().zip(right.iter()));
            pairs.for_each(|(kept, (left, right))| *kept &= u8::from(holds(*left, *right)));
        }
    }
}

fn keep(numbers: &Vector<'_, i64>, mask: &mut Mask, holds: impl Fn(i64) -> bool) {
    let rows = mask.0.len();
    let values = numbers.values.slice(rows);
    mask.0.iter_mut().zip(values.iter()).for_each(|(kept, value)| *kept &= u8::from(holds(*value)));
    mask.keep_nulls(numbers.nulls.as_ref(), false);
}
