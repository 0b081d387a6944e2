//! Operators of `jsonb` that make other documents: `||`, `-` and `#-`; and those that look for
//! keys, `?`, `?|` and `?&`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DataType as ArrowType, Int64Type};
use datafusion::logical_expr::ScalarUDF;
use thalweg_formats::text::{JsonParts, json_parts};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::scalar_function::{Compute, Function};
use thalweg_values::types::arrow_type;

use super::change::paths;
use super::{allow_parts, json_field, jsonb};
use thalweg_values::bounded_output::BoundedTexts;

const TEXT: ArrowType = ArrowType::Utf8View;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let texts = arrow_type(&DataType::Array(Box::new(DataType::Text { max_chars: None })));
    let makes = |name, second: &ArrowType, compute: Compute| {
        let arguments: &[&[ArrowType]] = &[&[TEXT, second.clone()]];
        Function::new(name, arguments, TEXT, compute).returning_field(json_field(name)).into_udf()
    };
    let asks = |name, compute: Compute| {
        Function::new(name, &[&[TEXT, texts.clone()]], ArrowType::Boolean, compute).into_udf()
    };
    vec![
        makes("jsonb_concat", &TEXT, |columns| {
            let right = columns[1].as_string_view();
            each(columns, |left, row| both(left, right.value(row)))
        }),
        makes("jsonb_delete", &TEXT, |columns| {
            let keys = columns[1].as_string_view();
            each(columns, |document, row| without(document, &[keys.value(row)]))
        }),
        makes("jsonb_delete_item", &ArrowType::Int64, |columns| {
            let places = columns[1].as_primitive::<Int64Type>();
            each(columns, |document, row| without_item(document, places.value(row)))
        }),
        makes("jsonb_delete_keys", &texts, |columns| {
            let keys = columns[1].as_list::<i32>();
            each(columns, |document, row| {
                let keys = keys.value(row);
                without(document, &keys.as_string_view().iter().flatten().collect::<Vec<_>>())
            })
        }),
        Function::new(
            "jsonb_delete_path",
            &[&[TEXT, texts.clone()], &[TEXT, TEXT]],
            TEXT,
            |columns| {
                let paths = paths(&columns[1])?;
                each(columns, |document, row| match &paths[row] {
                    Some(path) => without_path(document, path),
                    None => Ok(document.to_owned()),
                })
            },
        )
        .returning_field(json_field("jsonb_delete_path"))
        .into_udf(),
        Function::new("jsonb_exists", &[&[TEXT, TEXT]], ArrowType::Boolean, exists).into_udf(),
        asks("jsonb_exists_any", |columns| keys(columns, |found, _| found > 0)),
        asks("jsonb_exists_all", |columns| keys(columns, |found, wanted| found == wanted)),
    ]
}

/// Applies `change` to each document; a NULL argument gives NULL.
fn each(columns: &[ArrayRef], change: impl Fn(&str, usize) -> Result<String>) -> Result<ArrayRef> {
    let documents = columns[0].as_string_view();
    let mut made = BoundedTexts::default();
    for row in 0..documents.len() {
        match columns.iter().all(|column| column.is_valid(row)) {
            true => {
                allow_parts(documents.value(row))?;
                let changed = jsonb(&change(documents.value(row), row)?)?;
                made.allow(changed.len())?;
                made.owned(changed);
            }
            false => made.null(),
        }
    }
    Ok(made.finish())
}

fn object(members: Vec<(String, &str)>) -> String {
    let written = members
        .into_iter()
        .map(|(key, value)| format!("{}: {value}", serde_json::Value::from(key)));
    format!("{{{}}}", written.collect::<Vec<_>>().join(", "))
}

fn array(items: &[&str]) -> String {
    format!("[{}]", items.join(", "))
}

/// Merges two objects, where the second one's members win; anything else becomes an array.
fn both(left: &str, right: &str) -> Result<String> {
    let items = |parts, whole| match parts {
        JsonParts::Array(items) => items,
        _ => vec![whole],
    };
    Ok(match (json_parts(left)?, json_parts(right)?) {
        (JsonParts::Object(mut members), JsonParts::Object(others)) => {
            members.extend(others);
            object(members)
        }
        (first, second) => {
            let mut all = items(first, left);
            all.extend(items(second, right));
            array(&all)
        }
    })
}

fn refused(message: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The document without the members of these names; an array loses texts instead.
fn without(document: &str, keys: &[&str]) -> Result<String> {
    match json_parts(document)? {
        JsonParts::Object(mut members) => {
            members.retain(|(key, _)| !keys.contains(&key.as_str()));
            Ok(object(members))
        }
        JsonParts::Array(mut items) => {
            items.retain(|item| !text_of(item).is_some_and(|text| keys.contains(&text.as_str())));
            Ok(array(&items))
        }
        JsonParts::Scalar => Err(refused("cannot delete from scalar")),
    }
}

/// The text of an item that is a string.
fn text_of(item: &str) -> Option<String> {
    serde_json::from_str(item).ok()
}

fn without_item(document: &str, place: i64) -> Result<String> {
    match json_parts(document)? {
        JsonParts::Array(mut items) => {
            if let Some(place) = place_in(&items, place) {
                items.remove(place);
            }
            Ok(array(&items))
        }
        JsonParts::Object(_) => Err(refused("cannot delete from object using integer index")),
        JsonParts::Scalar => Err(refused("cannot delete from scalar")),
    }
}

/// Negative places count from the end.
fn place_in(items: &[&str], place: i64) -> Option<usize> {
    let length = items.len() as i64;
    let place = if place < 0 { place.checked_add(length)? } else { place };
    (0..length).contains(&place).then_some(place as usize)
}

/// The document without the value at the end of a path; unchanged if there is none.
fn without_path(document: &str, path: &[String]) -> Result<String> {
    let parts = json_parts(document)?;
    let Some((step, rest)) = path.split_first() else {
        return match parts {
            JsonParts::Scalar => Err(refused("cannot delete path in scalar")),
            _ => Ok(document.to_owned()),
        };
    };
    Ok(match parts {
        JsonParts::Object(mut members) => {
            let Some(place) = members.iter().position(|(key, _)| key == step) else {
                return Ok(document.to_owned());
            };
            if rest.is_empty() {
                members.remove(place);
                return Ok(object(members));
            }
            let inner = deeper(members[place].1, rest)?;
            members[place].1 = &inner;
            object(members)
        }
        JsonParts::Array(mut items) => {
            let place = step.parse().map_err(|_| {
                let error_text =
                    format!("path element at position 1 is not an integer: \"{step}\"");
                Error::new(SqlState::INVALID_TEXT_REPRESENTATION, error_text)
            })?;
            let Some(place) = place_in(&items, place) else { return Ok(document.to_owned()) };
            if rest.is_empty() {
                items.remove(place);
                return Ok(array(&items));
            }
            let inner = deeper(items[place], rest)?;
            items[place] = &inner;
            array(&items)
        }
        JsonParts::Scalar => return Err(refused("cannot delete path in scalar")),
    })
}

fn deeper(document: &str, path: &[String]) -> Result<String> {
    match json_parts(document)? {
        JsonParts::Scalar => Ok(document.to_owned()),
        _ => without_path(document, path),
    }
}

/// The keys of a document: the names of its members, the texts of an array, or the text itself.
fn keys_of(document: &str) -> Result<Vec<String>> {
    Ok(match json_parts(document)? {
        JsonParts::Object(members) => members.into_iter().map(|(key, _)| key).collect(),
        JsonParts::Array(items) => items.into_iter().filter_map(text_of).collect(),
        JsonParts::Scalar => text_of(document).into_iter().collect(),
    })
}

fn exists(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (documents, keys) = (columns[0].as_string_view(), columns[1].as_string_view());
    let found = documents.iter().zip(keys).map(|pair| match pair {
        (Some(document), Some(key)) => Ok(Some(keys_of(document)?.iter().any(|held| held == key))),
        _ => Ok(None),
    });
    Ok(Arc::new(found.collect::<Result<BooleanArray>>()?))
}

/// Looks for several keys in each document.
fn keys(columns: &[ArrayRef], enough: fn(usize, usize) -> bool) -> Result<ArrayRef> {
    let (documents, lists) = (columns[0].as_string_view(), columns[1].as_list::<i32>());
    let found = (0..documents.len()).map(|row| {
        if documents.is_null(row) || lists.is_null(row) {
            return Ok(None);
        }
        let held = keys_of(documents.value(row))?;
        let wanted = lists.value(row);
        let wanted: Vec<&str> = wanted.as_string_view().iter().flatten().collect();
        let found = wanted.iter().filter(|key| held.iter().any(|held| held == *key)).count();
        Ok(Some(enough(found, wanted.len())))
    });
    Ok(Arc::new(found.collect::<Result<BooleanArray>>()?))
}
