//! The members of JSON objects as arrays of rows, which `json_each` in a list of columns gives; and
//! JSON arrays as text that arrays are made of.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Fields};
use datafusion::logical_expr::ScalarUDF;
use thalweg_formats::text::{JsonParts, json_parts};
use thalweg_types::{DataType, Result};
use thalweg_values::cast::{DIMENSIONS_MAX, too_many_dimensions};
use thalweg_values::scalar_function::{Compute, Function};
use thalweg_values::types::arrow_field;

use super::items::{as_text, as_written, lists, members, names, text_item, values};
use super::jsonb;
use thalweg_values::bounded_output::BoundedTexts;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let text = || ArrowType::Utf8View;
    let define = |name, value: ArrowType, compute: Compute| {
        Function::new(name, &[&[text()]], value, compute).into_udf()
    };
    vec![
        define("json_pairs", list_of_pairs(json()), |columns| {
            pairs(&columns[0], json(), |text| Ok(as_written(values(text)?)), as_given)
        }),
        define("json_pairs_text", list_of_pairs(plain()), |columns| {
            pairs(&columns[0], plain(), |text| Ok(as_text(values(text)?)), as_given)
        }),
        define("jsonb_pairs", list_of_pairs(binary()), |columns| {
            pairs(&columns[0], binary(), |text| Ok(as_written(values(&jsonb(text)?)?)), in_order)
        }),
        define("jsonb_pairs_text", list_of_pairs(plain()), |columns| {
            pairs(&columns[0], plain(), |text| Ok(as_text(values(&jsonb(text)?)?)), in_order)
        }),
        define("json_array_text", text(), array_texts),
    ]
}

fn json() -> FieldRef {
    Arc::new(arrow_field("value", &DataType::Json, true))
}

fn binary() -> FieldRef {
    Arc::new(arrow_field("value", &DataType::Jsonb, true))
}

fn plain() -> FieldRef {
    Arc::new(Field::new("value", ArrowType::Utf8View, true))
}

fn row_of(value: FieldRef) -> Fields {
    Fields::from(vec![Arc::new(Field::new("key", ArrowType::Utf8View, true)), value])
}

fn list_of_pairs(value: FieldRef) -> ArrowType {
    ArrowType::List(Arc::new(Field::new("item", ArrowType::Struct(row_of(value)), true)))
}

/// The names of an object's members, in their order in the text.
fn as_given(text: &str) -> Result<Vec<Option<String>>> {
    Ok(members(text)?.into_iter().map(|(name, _)| Some(name)).collect())
}

/// The names in `jsonb`'s own order.
fn in_order(text: &str) -> Result<Vec<Option<String>>> {
    names("jsonb_each", &jsonb(text)?)
}

fn pairs(
    objects: &ArrayRef,
    value: FieldRef,
    values: impl Fn(&str) -> Result<Vec<Option<String>>>,
    names: fn(&str) -> Result<Vec<Option<String>>>,
) -> Result<ArrayRef> {
    let names = lists(objects, text_item(), names)?;
    let values = lists(objects, text_item(), values)?;
    let (names, values) = (names.as_list::<i32>(), values.as_list::<i32>());
    let columns = vec![Arc::clone(names.values()), Arc::clone(values.values())];
    let rows = StructArray::new(row_of(value), columns, None);
    let item = Arc::new(Field::new("item", rows.data_type().clone(), true));
    let lists =
        ListArray::new(item, names.offsets().clone(), Arc::new(rows), names.nulls().cloned());
    Ok(Arc::new(lists))
}

/// JSON arrays as PostgreSQL writes arrays, and other values as the text that `->>` gives.
fn array_texts(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut made = BoundedTexts::default();
    for text in columns[0].as_string_view() {
        match text {
            None => made.null(),
            Some(text) if text.trim() == "null" => made.null(),
            Some(text) => {
                let written = array_text(text, 1)?;
                made.write(|text| text.push(&written))?;
            }
        }
    }
    Ok(made.finish())
}

/// `dimension` is the number of nested arrays, this one included.
fn array_text(text: &str, dimension: usize) -> Result<String> {
    if dimension > DIMENSIONS_MAX {
        return Err(too_many_dimensions(dimension));
    }
    let JsonParts::Array(items) = json_parts(text)? else {
        let whole = as_text(vec![text.trim()]).pop().flatten();
        return Ok(whole.unwrap_or_default());
    };
    let mut written = String::from("{");
    for (place, item) in items.into_iter().enumerate() {
        if place > 0 {
            written.push(',');
        }
        match (json_parts(item)?, as_text(vec![item]).pop().flatten()) {
            (JsonParts::Array(_), _) => written.push_str(&array_text(item, dimension + 1)?),
            (_, Some(item)) => {
                written.push('"');
                for c in item.chars() {
                    if matches!(c, '"' | '\\') {
                        written.push('\\');
                    }
                    written.push(c);
                }
                written.push('"');
            }
            (_, None) => written.push_str("NULL"),
        }
    }
    written.push('}');
    Ok(written)
}
