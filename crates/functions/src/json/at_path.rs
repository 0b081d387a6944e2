//! `#>` and `#>>`: the value at the end of a path. A step is a key in an object and an index in an
//! array.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::DataType as ArrowType;
use datafusion::logical_expr::ScalarUDF;
use thalweg_types::{DataType, Result};
use thalweg_values::scalar_function::Function;
use thalweg_values::types::arrow_type;

use super::json_field;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![of_document(false), of_document(true), as_text()]
}

/// The type of a path: an array of steps.
pub(super) fn path_type() -> ArrowType {
    arrow_type(&DataType::Array(Box::new(DataType::Text { max_chars: None })))
}

/// `#>` of `json` or of `jsonb`.
pub(super) fn of_document(is_binary: bool) -> Arc<ScalarUDF> {
    let name = if is_binary { "jsonb_at_path" } else { "json_at_path" };
    let arguments = [ArrowType::Utf8View, path_type()];
    Function::new(name, &[&arguments], ArrowType::Utf8View, |columns| at_path(columns, false))
        .returning_field(json_field(name))
        .into_udf()
}

/// `#>>`
pub(super) fn as_text() -> Arc<ScalarUDF> {
    let arguments = [ArrowType::Utf8View, path_type()];
    Function::new("json_text_at_path", &[&arguments], ArrowType::Utf8View, |columns| {
        at_path(columns, true)
    })
    .into_udf()
}

fn at_path(columns: &[ArrayRef], as_text: bool) -> Result<ArrayRef> {
    let documents = columns[0].as_string_view();
    let paths = columns[1].as_list::<i32>();
    let parts = (0..documents.len()).map(|row| {
        if documents.is_null(row) || paths.is_null(row) {
            return None;
        }
        let steps = paths.value(row);
        let mut part = documents.value(row).trim();
        for step in steps.as_string_view() {
            part = follow(part, step?)?;
        }
        match as_text {
            false => Some(part.to_owned()),
            true if part == "null" => None,
            true if part.starts_with('"') => serde_json::from_str(part).ok(),
            true => Some(part.to_owned()),
        }
    });
    Ok(Arc::new(parts.collect::<StringViewArray>()))
}

fn follow<'d>(document: &'d str, step: &str) -> Option<&'d str> {
    match document.as_bytes().first()? {
        b'{' => member(document, step),
        b'[' => item(document, step.trim().parse().ok()?),
        _ => None,
    }
}

/// The value of a key; the last one where `json` has several.
fn member<'d>(object: &'d str, key: &str) -> Option<&'d str> {
    let mut found = None;
    let mut at = after_blanks(object, 1);
    while object.as_bytes().get(at) == Some(&b'"') {
        let end = value_end(object, at)?;
        let name = &object[at..end];
        let is_same = match name.contains('\\') {
            true => serde_json::from_str::<String>(name).is_ok_and(|name| name == key),
            false => name[1..name.len() - 1] == *key,
        };
        // The colon stands between the two.
        let start = after_blanks(object, after_blanks(object, end) + 1);
        let end = value_end(object, start)?;
        if is_same {
            found = Some(&object[start..end]);
        }
        at = after_blanks(object, after_blanks(object, end) + 1);
    }
    found
}

/// An item by its place, counted from 0, or from the end for negative ones.
fn item(array: &str, place: i64) -> Option<&str> {
    let mut items = Vec::new();
    let mut at = after_blanks(array, 1);
    while array.as_bytes().get(at).is_some_and(|byte| *byte != b']') {
        let end = value_end(array, at)?;
        if i64::try_from(items.len()) == Ok(place) {
            return Some(&array[at..end]);
        }
        items.push(&array[at..end]);
        at = after_blanks(array, after_blanks(array, end) + 1);
    }
    let from_end = usize::try_from(place.checked_neg()?).ok()?;
    items.get(items.len().checked_sub(from_end)?).copied()
}

fn after_blanks(text: &str, from: usize) -> usize {
    let behind = text.as_bytes().get(from..).unwrap_or_default();
    from + behind.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The end of the value that begins at a place.
pub(super) fn value_end(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth, mut in_string) = (start, 0_usize, false);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if in_string => at += 1,
            b'"' => {
                in_string = !in_string;
                if !in_string && depth == 0 {
                    return Some(at + 1);
                }
            }
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Some(at),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b',' if depth == 0 => return Some(at),
            byte if byte.is_ascii_whitespace() && depth == 0 => return Some(at),
            _ => {}
        }
        at += 1;
    }
    (depth == 0 && !in_string && at > start).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_keys_and_places() {
        let document = r#"{"a": [1, {"b": "x,]\"}"}, [ ]], "1": null, "a\u0062": 7, "1": 8}"#;
        for (steps, expected) in [
            (&["a", "0"][..], Some("1")),
            (&["a", "1", "b"], Some(r#""x,]\"}""#)),
            (&["a", "-1"], Some("[ ]")),
            (&["a", "-4"], None),
            (&["a", "x"], None),
            (&["1"], Some("8")),
            (&["ab"], Some("7")),
            (&["nothing"], None),
            (&["1", "1"], None),
        ] {
            let found = steps.iter().try_fold(document, |part, step| follow(part, step));
            assert_eq!(found, expected, "{steps:?}");
        }
    }
}
