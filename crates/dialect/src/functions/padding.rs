//! Functions that make texts of a given length.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::{DataType as ArrowType, Int64Type};
use datafusion::logical_expr::ScalarUDF;
use thalweg_types::Result;

use super::bounded_output::BoundedTexts;
use super::define::Function;

/// PostgreSQL's assumption for the size of a character that it has not seen yet.
const CHARACTER_BYTES_MAX: usize = 4;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    const TEXT: ArrowType = ArrowType::Utf8View;
    const NUMBER: ArrowType = ArrowType::Int64;
    let padding: &[&[ArrowType]] = &[&[TEXT, NUMBER], &[TEXT, NUMBER, TEXT]];
    vec![
        Function::new("repeat", &[&[TEXT, NUMBER]], TEXT, repeat).into_udf(),
        Function::new("lpad", padding, TEXT, |columns| pad(columns, Side::Left)).into_udf(),
        Function::new("rpad", padding, TEXT, |columns| pad(columns, Side::Right)).into_udf(),
    ]
}

fn repeat(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let counts = columns[1].as_primitive::<Int64Type>();
    let mut made = BoundedTexts::default();
    for (text, count) in columns[0].as_string_view().iter().zip(counts) {
        let (Some(text), Some(count)) = (text, count) else {
            made.null();
            continue;
        };
        let count = usize::try_from(count).unwrap_or(0);
        made.allow(text.len().saturating_mul(count))?;
        made.owned(text.repeat(count));
    }
    Ok(made.finish())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

fn pad(columns: &[ArrayRef], side: Side) -> Result<ArrayRef> {
    let lengths = columns[1].as_primitive::<Int64Type>();
    let fills: Option<&StringViewArray> = columns.get(2).map(|fills| fills.as_string_view());
    let mut made = BoundedTexts::default();
    for (row, (text, length)) in columns[0].as_string_view().iter().zip(lengths).enumerate() {
        let fill = fills.map_or(Some(" "), |fills| fills.is_valid(row).then(|| fills.value(row)));
        let (Some(text), Some(length), Some(fill)) = (text, length, fill) else {
            made.null();
            continue;
        };
        let length = usize::try_from(length).unwrap_or(0);
        made.allow(length.saturating_mul(CHARACTER_BYTES_MAX))?;
        made.owned(padded(text, length, fill, side));
    }
    Ok(made.finish())
}

/// The text with as many characters as wanted: cut at its end, or filled at a side.
fn padded(text: &str, length: usize, fill: &str, side: Side) -> String {
    let missing = length.saturating_sub(text.chars().count());
    if missing == 0 {
        return text.chars().take(length).collect();
    }
    let filling = fill.chars().cycle().take(missing);
    match side {
        Side::Left => filling.chain(text.chars()).collect(),
        Side::Right => text.chars().chain(filling).collect(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    const LONG: i64 = 1 << 30;

    #[test]
    fn nothing_longer_than_a_value_can_be_is_made() {
        let text: ArrayRef = Arc::new(StringViewArray::from(vec!["x"]));
        for length in [LONG, i64::MAX] {
            let lengths: ArrayRef = Arc::new(Int64Array::from(vec![length]));
            let columns = [Arc::clone(&text), lengths];
            let made = [repeat(&columns), pad(&columns, Side::Left), pad(&columns, Side::Right)];
            for refused in made {
                assert_eq!(refused.unwrap_err().state().0, "54000");
            }
        }
    }
}
