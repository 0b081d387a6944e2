//! CASE expressions.

use arrow::buffer::NullBuffer;
use thalweg_types::Result;

use super::number::{Block, Number};
use super::predicate::Predicate;
use super::vector::{Mask, Values, Vector};

/// The WHEN branches, each a condition and its number, and the number of ELSE.
type Cases<'a> = (&'a [(Predicate, Option<Number>)], Option<&'a Number>);

/// Evaluates a CASE. Neither a condition nor a number can fail in a row that an earlier condition
/// matched.
pub(crate) fn chosen<'a, T: Copy + Default>(
    (cases, otherwise): Cases<'_>,
    block: &Block<'a>,
    wanted: Option<&Mask>,
    compute: impl Fn(&Number, &Block<'a>, Option<&Mask>) -> Result<Vector<'a, T>>,
) -> Result<Vector<'static, T>> {
    let mut rest = wanted.map_or_else(|| Mask::all(block.length), |mask| Mask(mask.0.clone()));
    let mut values = vec![T::default(); block.length];
    let mut known = vec![false; block.length];
    let mut take = |number: &Number, rows: &Mask| -> Result<()> {
        let numbers = compute(number, block, Some(rows))?;
        for row in (0..block.length).filter(|row| rows.is_wanted(*row)) {
            values[row] = numbers.values.get(row);
            known[row] = !numbers.is_null(row);
        }
        Ok(())
    };
    for (condition, number) in cases {
        let mut rows = Mask(rest.0.clone());
        condition.narrow(block, &mut rows)?;
        rest.0.iter_mut().zip(&rows.0).for_each(|(rest, taken)| *rest &= 1 - taken);
        if let Some(number) = number {
            take(number, &rows)?;
        }
    }
    if let Some(number) = otherwise {
        take(number, &rest)?;
    }
    let nulls = Some(NullBuffer::from(known)).filter(|nulls| nulls.null_count() > 0);
    Ok(Vector { values: Values::Owned(values), nulls })
}
