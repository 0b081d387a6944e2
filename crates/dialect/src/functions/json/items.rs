//! The members of JSON arrays and objects, as arrays.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, ListBuilder, StringViewBuilder};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::logical_expr::ScalarUDF;
use serde_json::Value;
use thalweg_types::{DataType, Error, Result, SqlState};

use super::super::define::{Compute, Function};
use crate::types::arrow_field;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let list_of = |name, item: FieldRef, compute: Compute| {
        let list = ArrowType::List(item);
        Function::new(name, &[&[ArrowType::Utf8View]], list, compute).into_udf()
    };
    vec![
        list_of("json_elements", json_item(), |columns| {
            lists(&columns[0], json_item(), |value| Ok(elements(value)?.map(to_json).collect()))
        }),
        list_of("json_elements_text", text_item(), |columns| {
            lists(&columns[0], text_item(), |value| Ok(elements(value)?.map(to_text).collect()))
        }),
        list_of("json_keys", text_item(), |columns| lists(&columns[0], text_item(), keys)),
    ]
}

fn json_item() -> FieldRef {
    Arc::new(arrow_field("item", &DataType::Json, true))
}

fn text_item() -> FieldRef {
    Arc::new(Field::new("item", ArrowType::Utf8View, true))
}

fn lists(
    column: &ArrayRef,
    item: FieldRef,
    members: impl Fn(Value) -> Result<Vec<Option<String>>>,
) -> Result<ArrayRef> {
    let mut lists = ListBuilder::new(StringViewBuilder::new()).with_field(item);
    for text in column.as_string_view() {
        let Some(text) = text else {
            lists.append_null();
            continue;
        };
        let value = serde_json::from_str(text).map_err(|error| {
            let told = "invalid input syntax for type json";
            Error::new(SqlState::INVALID_TEXT_REPRESENTATION, told).with_detail(error.to_string())
        })?;
        members(value)?.into_iter().for_each(|member| lists.values().append_option(member));
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

fn elements(value: Value) -> Result<impl Iterator<Item = Value>> {
    let refused = |what: &str| {
        let told = format!("cannot extract elements from {what}");
        Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, told))
    };
    match value {
        Value::Array(items) => Ok(items.into_iter()),
        Value::Object(_) => refused("an object"),
        _ => refused("a scalar"),
    }
}

fn to_json(value: Value) -> Option<String> {
    Some(value.to_string())
}

/// Strings without their quotes, and null as NULL.
fn to_text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

fn keys(value: Value) -> Result<Vec<Option<String>>> {
    match value {
        Value::Object(members) => Ok(members.into_iter().map(|(key, _)| Some(key)).collect()),
        Value::Array(_) => {
            let told = "cannot call json_object_keys on an array";
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, told))
        }
        _ => {
            let told = "cannot call json_object_keys on a scalar";
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, told))
        }
    }
}
