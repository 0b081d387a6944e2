//! `jsonb_path_query` and its sisters, `@?` and `@@`: the items that a path finds in documents.

mod parse;
mod values;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanBuilder, ListBuilder, StringViewBuilder};
use arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::scalar_function::{Compute, Function};
use thalweg_values::types::arrow_field;

use self::parse::Path;
use self::values::{Fault, Item, Search};
use super::change::converted;
use super::{json_field, jsonb};
use thalweg_values::bounded_output::{BoundedTexts, allow_together};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let define = |name, returns: ArrowType, compute: Compute| {
        let counts = [2, 3, 4].map(TypeSignature::Any).to_vec();
        Function::signed(name, TypeSignature::OneOf(counts), returns, compute)
    };
    let json = |name: &'static str, compute: Compute| {
        define(name, ArrowType::Utf8View, compute).returning_field(json_field(name)).into_udf()
    };
    let boolean = |name, compute: Compute| define(name, ArrowType::Boolean, compute).into_udf();
    vec![
        define("jsonb_path_items", ArrowType::List(item()), items).into_udf(),
        json("jsonb_path_query_array", arrays),
        json("jsonb_path_query_first", firsts),
        boolean("jsonb_path_exists", |columns| truths(columns, false, exists)),
        boolean("jsonb_path_match", |columns| truths(columns, false, matched)),
        boolean("jsonb_path_exists_opr", |columns| truths(columns, true, exists)),
        boolean("jsonb_path_match_opr", |columns| truths(columns, true, matched)),
    ]
}

fn item() -> FieldRef {
    Arc::new(arrow_field("item", &DataType::Jsonb, true))
}

/// Passes the items that the path finds in each row to `take`; `None` if an argument is NULL, or if
/// the document has another shape than the path wants and errors are suppressed.
fn each(
    columns: &[ArrayRef],
    silent: bool,
    mut take: impl FnMut(Option<&[Item<'_>]>, bool) -> Result<()>,
) -> Result<()> {
    let text = DataType::Text { max_chars: None };
    let texts = columns
        .iter()
        .take(3)
        .map(|column| converted(column, &text))
        .collect::<Result<Vec<_>>>()?;
    let flags = columns.get(3).map(|column| converted(column, &DataType::Boolean)).transpose()?;
    let mut last: Option<(String, Path)> = None;
    for row in 0..texts[0].len() {
        let is_null = texts.iter().chain(&flags).any(|column| column.is_null(row));
        if is_null {
            take(None, true)?;
            continue;
        }
        let value = |place: usize| texts.get(place).map(|text| text.as_string_view().value(row));
        let written = value(1).unwrap_or_default();
        if last.as_ref().is_none_or(|(known, _)| known != written) {
            last = Some((written.to_owned(), Path::parse(written)?));
        }
        let Some((_, path)) = &last else { continue };
        let silent = silent || flags.as_ref().is_some_and(|flags| flags.as_boolean().value(row));
        let document = jsonb(value(0).unwrap_or_default())?;
        let search = Search { path, document: &document, variables: value(2) };
        match search.run() {
            Ok(found) => take(Some(&found), silent)?,
            Err(Fault::Shape(_)) if silent => take(None, silent)?,
            Err(Fault::Shape(error) | Fault::Error(error)) => return Err(error),
        }
    }
    Ok(())
}

fn items(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut lists = ListBuilder::new(StringViewBuilder::new()).with_field(item());
    let mut bytes = 0_usize;
    each(columns, false, |found, _| {
        for item in found.into_iter().flatten() {
            bytes = bytes.saturating_add(item.len());
            allow_together(bytes)?;
            lists.values().append_value(item);
        }
        lists.append(found.is_some());
        Ok(())
    })?;
    Ok(Arc::new(lists.finish()))
}

fn arrays(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut made = BoundedTexts::default();
    each(columns, false, |found, _| {
        let Some(found) = found else {
            made.null();
            return Ok(());
        };
        made.write(|text| {
            text.push("[")?;
            for (place, item) in found.iter().enumerate() {
                text.push(if place > 0 { ", " } else { "" })?;
                text.push(item)?;
            }
            text.push("]")
        })
    })?;
    Ok(made.finish())
}

fn firsts(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut made = BoundedTexts::default();
    each(columns, false, |found, _| match found.and_then(|found| found.first()) {
        Some(first) => made.write(|text| text.push(first)),
        None => {
            made.null();
            Ok(())
        }
    })?;
    Ok(made.finish())
}

fn truths(
    columns: &[ArrayRef],
    silent: bool,
    of: fn(&[Item<'_>], bool) -> Result<Option<bool>>,
) -> Result<ArrayRef> {
    let mut made = BooleanBuilder::new();
    each(columns, silent, |found, silent| {
        made.append_option(match found {
            Some(found) => of(found, silent)?,
            None => None,
        });
        Ok(())
    })?;
    Ok(Arc::new(made.finish()))
}

fn exists(found: &[Item<'_>], _silent: bool) -> Result<Option<bool>> {
    Ok(Some(!found.is_empty()))
}

/// The truth value of a path that is a single predicate.
fn matched(found: &[Item<'_>], silent: bool) -> Result<Option<bool>> {
    match found {
        [one] if one == "true" => Ok(Some(true)),
        [one] if one == "false" => Ok(Some(false)),
        [one] if one == "null" => Ok(None),
        _ if silent => Ok(None),
        _ => Err(Error::new(
            SqlState::SINGLETON_JSON_ITEM_REQUIRED,
            "single boolean result is expected",
        )),
    }
}
