//! The members of JSON arrays and objects, as arrays.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, ListBuilder, StringViewBuilder};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::logical_expr::ScalarUDF;
use thalweg_formats::text::{JsonParts, json_parts};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::scalar_function::{Compute, Function};
use thalweg_values::types::arrow_field;

use super::{allow_parts, jsonb};
use thalweg_values::bounded_output::Growth;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let list_of = |name, item: FieldRef, compute: Compute| {
        let list = ArrowType::List(item);
        Function::new(name, &[&[ArrowType::Utf8View]], list, compute).into_udf()
    };
    vec![
        list_of("json_elements", json_item(), |columns| {
            lists(&columns[0], json_item(), |text| Ok(as_written(elements(text)?)))
        }),
        list_of("jsonb_elements", jsonb_item(), |columns| {
            lists(&columns[0], jsonb_item(), |text| Ok(as_written(elements(&jsonb(text)?)?)))
        }),
        list_of("json_elements_text", text_item(), |columns| {
            lists(&columns[0], text_item(), |text| Ok(as_text(elements(text)?)))
        }),
        list_of("jsonb_elements_text", text_item(), |columns| {
            lists(&columns[0], text_item(), |text| Ok(as_text(elements(&jsonb(text)?)?)))
        }),
        list_of("json_keys", text_item(), |columns| {
            lists(&columns[0], text_item(), |text| keys("json_object_keys", text))
        }),
        list_of("jsonb_keys", text_item(), |columns| {
            lists(&columns[0], text_item(), |text| keys("jsonb_object_keys", &jsonb(text)?))
        }),
        list_of("json_names", text_item(), |columns| {
            lists(&columns[0], text_item(), |text| {
                let names = members(text)?.into_iter();
                Ok(names.map(|(name, _)| Some(name)).collect())
            })
        }),
        list_of("jsonb_names", text_item(), |columns| {
            lists(&columns[0], text_item(), |text| names("jsonb_each", &jsonb(text)?))
        }),
        list_of("jsonb_text_names", text_item(), |columns| {
            lists(&columns[0], text_item(), |text| names("jsonb_each_text", &jsonb(text)?))
        }),
        list_of("json_members", json_item(), |columns| {
            lists(&columns[0], json_item(), |text| Ok(as_written(values(text)?)))
        }),
        list_of("jsonb_members", jsonb_item(), |columns| {
            lists(&columns[0], jsonb_item(), |text| Ok(as_written(values(&jsonb(text)?)?)))
        }),
        list_of("json_members_text", text_item(), |columns| {
            lists(&columns[0], text_item(), |text| Ok(as_text(values(text)?)))
        }),
        list_of("jsonb_members_text", text_item(), |columns| {
            lists(&columns[0], text_item(), |text| Ok(as_text(values(&jsonb(text)?)?)))
        }),
    ]
}

fn json_item() -> FieldRef {
    Arc::new(arrow_field("item", &DataType::Json, true))
}

fn jsonb_item() -> FieldRef {
    Arc::new(arrow_field("item", &DataType::Jsonb, true))
}

pub(super) fn text_item() -> FieldRef {
    Arc::new(Field::new("item", ArrowType::Utf8View, true))
}

pub(super) fn lists(
    column: &ArrayRef,
    item: FieldRef,
    members: impl Fn(&str) -> Result<Vec<Option<String>>>,
) -> Result<ArrayRef> {
    let mut growth = Growth::default();
    let mut lists = ListBuilder::new(StringViewBuilder::new()).with_field(item);
    for text in column.as_string_view() {
        let Some(text) = text else {
            lists.append_null();
            continue;
        };
        allow_parts(text)?;
        for member in members(text)? {
            growth.item(member.as_ref().map_or(0, String::len))?;
            lists.values().append_option(member);
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

fn refused(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn elements(text: &str) -> Result<Vec<&str>> {
    match json_parts(text)? {
        JsonParts::Array(items) => Ok(items),
        JsonParts::Object(_) => Err(refused("cannot extract elements from an object".to_owned())),
        JsonParts::Scalar => Err(refused("cannot extract elements from a scalar".to_owned())),
    }
}

pub(super) fn values(text: &str) -> Result<Vec<&str>> {
    Ok(members(text)?.into_iter().map(|(_, value)| value).collect())
}

pub(super) fn members(text: &str) -> Result<Vec<(String, &str)>> {
    match json_parts(text)? {
        JsonParts::Object(members) => Ok(members),
        JsonParts::Array(_) => Err(refused("cannot deconstruct an array as an object".to_owned())),
        JsonParts::Scalar => Err(refused("cannot deconstruct a scalar".to_owned())),
    }
}

/// The keys of an object, for a function that gives its members.
pub(super) fn names(function: &str, text: &str) -> Result<Vec<Option<String>>> {
    match json_parts(text)? {
        JsonParts::Object(members) => Ok(members.into_iter().map(|(key, _)| Some(key)).collect()),
        _ => Err(refused(format!("cannot call {function} on a non-object"))),
    }
}

fn keys(function: &str, text: &str) -> Result<Vec<Option<String>>> {
    match json_parts(text)? {
        JsonParts::Object(members) => Ok(members.into_iter().map(|(key, _)| Some(key)).collect()),
        JsonParts::Array(_) => Err(refused(format!("cannot call {function} on an array"))),
        JsonParts::Scalar => Err(refused(format!("cannot call {function} on a scalar"))),
    }
}

pub(super) fn as_written(parts: Vec<&str>) -> Vec<Option<String>> {
    parts.into_iter().map(|part| Some(part.to_owned())).collect()
}

/// Strings without their quotes, and null as NULL.
pub(super) fn as_text(parts: Vec<&str>) -> Vec<Option<String>> {
    let text = |part: &str| match part {
        "null" => None,
        quoted if quoted.starts_with('"') => serde_json::from_str(quoted).ok(),
        other => Some(other.to_owned()),
    };
    parts.into_iter().map(text).collect()
}
