//! Functions that make texts of a given length.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::{DataType as ArrowType, Int64Type};
use datafusion::logical_expr::ScalarUDF;
use thalweg_types::Result;
use thalweg_values::scalar_function::Function;

use thalweg_values::bounded_output::BoundedTexts;

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
        made.owned(padded(&made, text, length, fill, side)?);
    }
    Ok(made.finish())
}

/// The text with as many characters as wanted: cut at its end, or filled at a side.
fn padded(
    made: &BoundedTexts,
    text: &str,
    length: usize,
    fill: &str,
    side: Side,
) -> Result<String> {
    let missing = length.saturating_sub(text.chars().count());
    if missing == 0 || fill.is_empty() {
        let end = text.char_indices().nth(length).map_or(text.len(), |(end, _)| end);
        made.allow(end)?;
        return Ok(text[..end].to_owned());
    }
    let characters = fill.chars().count();
    let (whole, rest) = (missing / characters, missing % characters);
    let rest = fill.char_indices().nth(rest).map_or(fill.len(), |(end, _)| end);
    let filling = whole.saturating_mul(fill.len()).saturating_add(rest);
    let bytes = text.len().saturating_add(filling);
    made.allow(bytes)?;
    let mut padded = String::with_capacity(bytes);
    if side == Side::Right {
        padded.push_str(text);
    }
    padded.extend(std::iter::repeat_n(fill, whole));
    padded.push_str(&fill[..rest]);
    if side == Side::Left {
        padded.push_str(text);
    }
    Ok(padded)
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    const LONG: i64 = 1 << 30;

    #[test]
    fn texts_are_filled_up_by_characters() {
        let made = BoundedTexts::default();
        for (text, length, fill, left, right) in [
            ("xä", 5, "öz", "özöxä", "xäözö"),
            ("xä", 1, "z", "x", "x"),
            ("xä", 2, "z", "xä", "xä"),
            ("xä", 9, "", "xä", "xä"),
            ("", 2, "zä", "zä", "zä"),
            ("xä", 0, "z", "", ""),
        ] {
            assert_eq!(padded(&made, text, length, fill, Side::Left).unwrap(), left);
            assert_eq!(padded(&made, text, length, fill, Side::Right).unwrap(), right);
        }
    }

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
