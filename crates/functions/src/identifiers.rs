//! `parse_ident`: the parts of an SQL name.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringViewBuilder};
use arrow::datatypes::DataType as ArrowType;
use datafusion::logical_expr::ScalarUDF;
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::bounded_output::allow_together;
use thalweg_values::scalar_function::Function;
use thalweg_values::types::arrow_type;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    const TEXT: ArrowType = ArrowType::Utf8View;
    let texts = DataType::Array(Box::new(DataType::Text { max_chars: None }));
    let arguments: &[&[ArrowType]] = &[&[TEXT], &[TEXT, ArrowType::Boolean]];
    vec![Function::new("parse_ident", arguments, arrow_type(&texts), parse_ident).into_udf()]
}

/// Size of the shortest part of a name on its way into an array, for each byte of it.
const PART_BYTES: usize = 24;

fn parse_ident(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for (row, name) in columns[0].as_string_view().iter().enumerate() {
        let (Some(name), true) = (name, columns.iter().all(|column| column.is_valid(row))) else {
            lists.append_null();
            continue;
        };
        // Each part is held for itself, and its list grows.
        allow_together(name.len().saturating_mul(PART_BYTES))?;
        let strict = columns.get(1).is_none_or(|strict| strict.as_boolean().value(row));
        parts(name, strict)?.iter().for_each(|part| lists.values().append_value(part));
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

/// Quoted parts are as they are, others in lower case. If `strict`, text behind the last part is an
/// error.
fn parts(name: &str, strict: bool) -> Result<Vec<String>> {
    let error_text = format!("string is not a valid identifier: \"{name}\"");
    let wrong = || Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text.clone());
    let mut parts = Vec::new();
    let mut rest = name.trim_start();
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (part, behind) = unquoted(quoted)
                .ok_or_else(|| wrong().with_detail("String has unclosed double quotes."))?;
            if part.is_empty() {
                return Err(wrong().with_detail("Quoted identifier must not be empty."));
            }
            parts.push(part);
            rest = behind;
        } else {
            let is_part = |c: char| c == '_' || c == '$' || c.is_alphanumeric();
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            if end == 0 || rest.starts_with(|c: char| c == '$' || c.is_ascii_digit()) {
                let error = wrong();
                return Err(match (parts.is_empty(), rest.starts_with('.')) {
                    (false, _) => error.with_detail("No valid identifier after \".\"."),
                    (true, true) => error.with_detail("No valid identifier before \".\"."),
                    (true, false) => error,
                });
            }
            parts.push(rest[..end].to_lowercase());
            rest = &rest[end..];
        }
        match rest.trim_start().strip_prefix('.') {
            Some(behind) => rest = behind.trim_start(),
            None if strict && !rest.trim_start().is_empty() => return Err(wrong()),
            None => return Ok(parts),
        }
    }
}

/// Splits a text at the closing quote; two quotes within stand for one.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut rest = text;
    loop {
        let (before, behind) = rest.split_once('"')?;
        part.push_str(before);
        match behind.strip_prefix('"') {
            Some(behind) => {
                part.push('"');
                rest = behind;
            }
            None => return Some((part, behind)),
        }
    }
}
