//! Conversion of values that `INSERT`, `UPDATE` and `COPY` store in a column.

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use thalweg_types::{Column, Error, Result, SqlState};

use crate::cast::{Manner, convert, rounded};
use crate::types;

/// The values as the column stores them, or the error of the first value that does not fit.
///
/// Values that have the column's type already are not copied. NULLs pass: NOT NULL is checked
/// elsewhere.
pub fn assign(array: &ArrayRef, from: &Field, to: &Column) -> Result<ArrayRef> {
    match convert(array, from, &to.data_type, Manner::Assignment)? {
        Some(converted) => Ok(match to.second_digits {
            Some(digits) => rounded(&converted, digits),
            None => converted,
        }),
        None => Err(Error::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "column \"{}\" is of type {} but expression is of type {}",
                to.name,
                to.data_type,
                types::display_name(from)
            ),
        )
        .with_hint("You will need to rewrite or cast the expression.")),
    }
}

#[cfg(test)]
mod tests;
