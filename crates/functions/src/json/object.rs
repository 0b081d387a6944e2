//! `json_object` and `jsonb_object`: objects of texts that lie in arrays.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::DataType as ArrowType;
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::scalar_function::{Compute, Function};

use super::build::{quoted, quoted_len};
use super::change::converted;
use super::{json_field, jsonb};
use thalweg_values::bounded_output::{BoundedTexts, allow_together};

/// Size of a member while an object is put together, in bytes.
const OBJECT_PIECE_BYTES: usize = 48;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let define = |name, compute: Compute| {
        let counts = vec![TypeSignature::Any(1), TypeSignature::Any(2)];
        Function::signed(name, TypeSignature::OneOf(counts), ArrowType::Utf8View, compute)
            .returning_field(json_field(name))
            .into_udf()
    };
    vec![
        define("json_object", |columns| objects(columns, |object| Ok(object.to_owned()))),
        define("jsonb_object", |columns| objects(columns, jsonb)),
    ]
}

/// Objects of keys and values by turns in one array, or in an array each.
fn objects(columns: &[ArrayRef], as_shown: impl Fn(&str) -> Result<String>) -> Result<ArrayRef> {
    let texts = DataType::Array(Box::new(DataType::Text { max_chars: None }));
    let lists =
        columns.iter().map(|column| converted(column, &texts)).collect::<Result<Vec<_>>>()?;
    let mut made = BoundedTexts::default();
    for row in 0..lists[0].len() {
        if lists.iter().any(|list| list.is_null(row)) {
            made.null();
            continue;
        }
        let items: Vec<ArrayRef> =
            lists.iter().map(|list| list.as_list::<i32>().value(row)).collect();
        let items: Vec<&StringViewArray> =
            items.iter().map(|items| items.as_string_view()).collect();
        let texts = items.iter().flat_map(|items| items.iter().flatten());
        let bytes: usize = texts.map(quoted_len).sum();
        // As pieces, and put together.
        let pieces = items[0].len().saturating_mul(OBJECT_PIECE_BYTES);
        allow_together(bytes.saturating_mul(2).saturating_add(pieces))?;
        let object = match items.as_slice() {
            [keys, values] if keys.len() == values.len() => object(keys.iter().zip(values.iter()))?,
            [pairs] if pairs.len() % 2 == 0 => {
                let (keys, values) = (pairs.iter().step_by(2), pairs.iter().skip(1).step_by(2));
                object(keys.zip(values))?
            }
            [_] => return Err(refused("array must have even number of elements")),
            _ => return Err(refused("mismatched array dimensions")),
        };
        let shown = as_shown(&object)?;
        made.allow(shown.len())?;
        made.owned(shown);
    }
    Ok(made.finish())
}

fn refused(error_text: &str) -> Error {
    Error::new(SqlState::ARRAY_SUBSCRIPT_ERROR, error_text)
}

fn object<'a>(members: impl Iterator<Item = (Option<&'a str>, Option<&'a str>)>) -> Result<String> {
    let members = members.map(|(key, value)| -> Result<String> {
        let key = key.ok_or_else(|| {
            Error::new(SqlState::NULL_VALUE_NOT_ALLOWED, "null value not allowed for object key")
        })?;
        let value = value.map_or_else(|| "null".to_owned(), quoted);
        Ok([&quoted(key), " : ", &value].concat())
    });
    let mut object = String::from("{");
    for member in members {
        object.push_str(if object.len() > 1 { ", " } else { "" });
        object.push_str(&member?);
    }
    object.push('}');
    Ok(object)
}
