//! Types of numerics without precision: each value brings the digits that it is written with.
//!
//! A column of type `numeric` has a fixed precision and scale; a value that a client sends for a
//! parameter of that type keeps all of its digits, as in PostgreSQL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, FieldRef};
use thalweg_types::Result;

use super::decimal::DigitCounts;
use super::{ColumnBuilder, ValueFormatter, array};

/// True if values of the field are numerics, or arrays of numerics.
#[must_use]
pub fn holds_numerics(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) => holds_numerics(item.data_type()),
        other => other.is_decimal(),
    }
}

/// The field with the precision and the scale of the numbers in a text, which is that of a numeric
/// or of an array of numerics. The numbers of an array have one scale, the greatest of theirs.
///
/// # Errors
/// If the text is no such value (22P02), or if there are more digits than 38 (22003).
pub fn with_own_digits(field: &FieldRef, text: &str) -> Result<FieldRef> {
    let mut digits = DigitCounts::default();
    count(field.data_type(), text, &mut digits)?;
    with_digits(field, digits)
}

/// The value in the first row of an array, of any type, as a numeric with its own digits, or as an
/// array of such numerics. A floating point number loses digits behind the point for which a
/// numeric has no room.
///
/// # Errors
/// As [`with_own_digits`].
pub fn numeric_with_own_digits(field: &FieldRef, value: &ArrayRef) -> Result<ArrayRef> {
    let mut text = String::new();
    // The text is read again, whatever the session's style.
    ValueFormatter::of_session(value, None)?.format(0, &mut text);
    let mut digits = DigitCounts::default();
    count(field.data_type(), &text, &mut digits)?;
    let is_exact = !innermost(value.data_type()).is_floating();
    let field = with_digits(field, if is_exact { digits } else { digits.rounded() })?;
    let mut column = ColumnBuilder::new(&field)?;
    column.append(Some(&text))?;
    Ok(column.finish())
}

fn innermost(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::List(item) => innermost(item.data_type()),
        other => other,
    }
}

fn count(data_type: &DataType, text: &str, digits: &mut DigitCounts) -> Result<()> {
    match data_type {
        DataType::List(item) => {
            let items = array::parse(text)?;
            items.iter().flatten().try_for_each(|text| count(item.data_type(), text, digits))
        }
        _ => {
            *digits = digits.with(DigitCounts::of(text)?);
            Ok(())
        }
    }
}

fn with_digits(field: &FieldRef, digits: DigitCounts) -> Result<FieldRef> {
    let data_type = match field.data_type() {
        DataType::List(item) => DataType::List(with_digits(item, digits)?),
        _ => {
            let (precision, scale) = digits.decimal()?;
            DataType::Decimal128(precision, scale)
        }
    };
    Ok(Arc::new(field.as_ref().clone().with_data_type(data_type)))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array, StringViewArray};
    use arrow::datatypes::Field;

    use super::*;
    use crate::text::format_value;

    fn field(data_type: DataType) -> FieldRef {
        Arc::new(Field::new("", data_type, true))
    }

    fn list() -> DataType {
        DataType::List(Arc::new(Field::new("item", DataType::Decimal128(38, 10), true)))
    }

    #[test]
    fn numbers_have_the_digits_that_they_are_written_with() {
        for (text, wanted) in [
            ("0", (9, 0)),
            ("0.00", (11, 2)),
            ("-1.50", (11, 2)),
            (" +.5 ", (10, 1)),
            ("5.", (9, 0)),
            ("0001.5", (10, 1)),
            ("123456789", (9, 0)),
            ("1234567890.1", (19, 1)),
            ("1e3", (9, 0)),
            ("1.25e1", (10, 1)),
            ("1e-30", (38, 30)),
            ("12345678901234567890.5", (38, 1)),
            ("99999999999999999999999999999999999999", (38, 0)),
            ("0.99999999999999999999999999999999999999", (38, 38)),
        ] {
            let (precision, scale) = wanted;
            let found = with_own_digits(&field(DataType::Decimal128(38, 10)), text).unwrap();
            assert_eq!(found.data_type(), &DataType::Decimal128(precision, scale), "{text}");
        }
        for (text, state) in [
            ("1e38", "22003"),
            ("1e2147483647", "22003"),
            ("1e-39", "22003"),
            ("10.0000000000000000000000000000000000000", "22003"),
            ("1.5x", "22P02"),
            ("", "22P02"),
            ("NaN", "0A000"),
        ] {
            let found = with_own_digits(&field(DataType::Decimal128(38, 10)), text);
            assert_eq!(found.unwrap_err().state().0, state, "{text}");
        }
    }

    #[test]
    fn values_of_all_types_become_numerics() {
        let texts = |text: &str| Arc::new(StringViewArray::from(vec![text])) as ArrayRef;
        let float = |value: f64| Arc::new(Float64Array::from(vec![value])) as ArrayRef;
        for (data_type, value, wanted) in [
            (DataType::Decimal128(38, 10), texts("1.123456789012345"), "1.123456789012345"),
            (DataType::Decimal128(38, 10), Arc::new(Int64Array::from(vec![7])) as _, "7"),
            (DataType::Decimal128(38, 10), float(0.1), "0.1"),
            (DataType::Decimal128(38, 10), float(-1.5e20), "-150000000000000000000"),
            (
                DataType::Decimal128(38, 10),
                float(1.234_567_890_123_456_7e-25),
                "0.00000000000000000000000012345678901235",
            ),
            (
                list(),
                texts("{1.50,NULL,\"2.123456789012\"}"),
                "{1.500000000000,NULL,2.123456789012}",
            ),
            (list(), texts("{}"), "{}"),
        ] {
            let found = numeric_with_own_digits(&field(data_type), &value).unwrap();
            let mut text = String::new();
            format_value(&found, 0, &mut text).unwrap();
            assert_eq!(text, wanted);
        }
        let huge = numeric_with_own_digits(&field(DataType::Decimal128(38, 10)), &float(1e39));
        assert_eq!(huge.unwrap_err().state().0, "22003");
    }
}
