//! The items of `json_agg(DISTINCT value)` in the order of their values.
//!
//! PostgreSQL finds duplicates by a sort of the values. An array has each value as JSON, whose
//! order as text is another one: `10` is less than `9`.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::DataType as ArrowType;
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use serde_json::Value;
use thalweg_types::{Error, Result};
use thalweg_values::cast::to_text;
use thalweg_values::scalar_function::Function;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = TypeSignature::Any(3);
    let function = Function::signed("json_sorted_items", signature, ArrowType::Null, sorted);
    vec![function.returning_argument(0).into_udf()]
}

/// `json_sorted_items(list, is_descending, are_nulls_first)`, of lists whose items are JSON each.
fn sorted(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let ArrowType::List(field) = columns[0].data_type() else { return Ok(Arc::clone(&columns[0])) };
    let lists = columns[0].as_list::<i32>();
    if lists.is_empty() {
        return Ok(Arc::clone(&columns[0]));
    }
    let (descending, nulls_first) = (columns[1].as_boolean(), columns[2].as_boolean());
    let texts = to_text(lists.values())?;
    let texts = texts.as_string_view();
    let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(lists.len()));
    for row in 0..lists.len() {
        let ends = lists.value_offsets();
        let (start, end) = (ends[row] as usize, ends[row + 1] as usize);
        let all = if lists.is_null(row) { 0..0 } else { start..end };
        lengths.push(all.len());
        let (known, nulls): (Vec<usize>, Vec<usize>) =
            all.partition(|place| !texts.is_null(*place));
        let parsed = known.into_iter().map(|place| {
            let text = texts.value(place);
            (place, text, serde_json::from_str::<Value>(text).ok())
        });
        let mut parsed: Vec<_> = parsed.collect();
        parsed.sort_by(|(_, text, value), (_, other_text, other)| {
            let order = match (value, other) {
                (Some(value), Some(other)) => compared(value, other),
                _ => Ordering::Equal,
            };
            let order = order.then_with(|| text.cmp(other_text));
            if descending.value(row) { order.reverse() } else { order }
        });
        let known = parsed.into_iter().map(|(place, _, _)| place);
        match nulls_first.value(row) {
            true => places.extend(nulls.into_iter().chain(known)),
            false => places.extend(known.chain(nulls)),
        }
    }
    let places = UInt64Array::from_iter_values(places.into_iter().map(|place| place as u64));
    let internal = |error| Error::internal("items cannot be sorted").with_source(error);
    let items = take(lists.values(), &places, None).map_err(internal)?;
    let ends = OffsetBuffer::from_lengths(lengths);
    let list = ListArray::try_new(Arc::clone(field), ends, items, lists.nulls().cloned());
    Ok(Arc::new(list.map_err(internal)?))
}

/// The order of values as that of the SQL values that they are made of.
fn compared(one: &Value, other: &Value) -> Ordering {
    if let (Some(one), Some(other)) = (number(one), number(other))
        && (one.is_finite() || other.is_finite())
    {
        // NaN is greater than all other numbers.
        return (one.is_nan().cmp(&other.is_nan()))
            .then_with(|| one.partial_cmp(&other).unwrap_or(Ordering::Equal));
    }
    match (one, other) {
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Array(one), Value::Array(other)) => {
            let pairs = one.iter().zip(other);
            let order = pairs.map(|(one, other)| compared(one, other)).find(|order| order.is_ne());
            order.unwrap_or_else(|| one.len().cmp(&other.len()))
        }
        _ => rank(one).cmp(&rank(other)),
    }
}

/// A number, or the word that stands for one in JSON.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(word) => match word.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// The order of `jsonb` values of different kinds. NULL, as an item of an array, is last in SQL.
fn rank(value: &Value) -> u8 {
    match value {
        Value::String(_) => 0,
        Value::Number(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_order_of_their_kinds() {
        let sorted = [
            "\"-Infinity\"",
            "-2.5",
            "9",
            "10",
            "\"NaN\"",
            "false",
            "true",
            "[1, 2]",
            "[1, 10]",
            "[2]",
            "null",
        ];
        for pair in sorted.windows(2) {
            let [one, other] = [pair[0], pair[1]]
                .map(|text| serde_json::from_str::<Value>(text).expect("the text is JSON"));
            assert_eq!(compared(&one, &other), Ordering::Less, "{pair:?}");
        }
        assert_eq!(compared(&"a".into(), &"b".into()), Ordering::Less);
    }
}
