//! `jsonb_set` and `jsonb_insert`: a document with another value at a path.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::cast::{Manner, convert};
use thalweg_values::scalar_function::{Compute, Function};

use super::tree::{Members, Tree};
use super::{json_field, jsonb, parse};
use thalweg_values::bounded_output::BoundedTexts;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let define = |name, compute: Compute| {
        let counts = vec![TypeSignature::Any(3), TypeSignature::Any(4)];
        Function::signed(name, TypeSignature::OneOf(counts), ArrowType::Utf8View, compute)
            .returning_field(json_field(name))
            .into_udf()
    };
    vec![
        define("jsonb_set", |columns| {
            each(columns, true, |document, path, value, create| {
                change(document, path, &mut |place| place.set(&value, create))
            })
        }),
        define("jsonb_insert", |columns| {
            each(columns, false, |document, path, value, after| {
                change(document, path, &mut |place| place.insert(&value, after))
            })
        }),
    ]
}

/// Changes each document; the fourth argument is an optional boolean.
fn each(
    columns: &[ArrayRef],
    default: bool,
    change: impl for<'t> Fn(&mut Tree<'t>, &[String], Tree<'t>, bool) -> Result<()>,
) -> Result<ArrayRef> {
    let (documents, values) = (texts(&columns[0])?, texts(&columns[2])?);
    let paths = paths(&columns[1])?;
    let flags = columns.get(3).map(|column| converted(column, &DataType::Boolean)).transpose()?;
    let mut made = BoundedTexts::default();
    let row = |row: usize| -> Result<Option<String>> {
        let flag = match &flags {
            None => default,
            Some(flags) if flags.is_null(row) => return Ok(None),
            Some(flags) => flags.as_boolean().value(row),
        };
        let (documents, values) = (documents.as_string_view(), values.as_string_view());
        let Some(path) = &paths[row] else { return Ok(None) };
        if documents.is_null(row) || values.is_null(row) {
            return Ok(None);
        }
        let mut document = parse(documents.value(row))?;
        change(&mut document, path, parse(values.value(row))?, flag)?;
        let mut changed = String::new();
        document.write(&mut changed);
        jsonb(&changed).map(Some)
    };
    for place in 0..documents.len() {
        match row(place)? {
            Some(changed) => {
                made.allow(changed.len())?;
                made.owned(changed);
            }
            None => made.null(),
        }
    }
    Ok(made.finish())
}

fn texts(column: &ArrayRef) -> Result<ArrayRef> {
    converted(column, &DataType::Text { max_chars: None })
}

pub(super) fn converted(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let from = Field::new("", column.data_type().clone(), true);
    convert(column, &from, to, Manner::Explicit)?.ok_or_else(|| {
        let error_text = format!("cannot cast type {} to {to}", column.data_type());
        Error::new(SqlState::CANNOT_COERCE, error_text)
    })
}

/// The steps of each path, which may be written as an array's text.
pub(super) fn paths(column: &ArrayRef) -> Result<Vec<Option<Vec<String>>>> {
    let text = DataType::Text { max_chars: None };
    let lists = converted(column, &DataType::Array(Box::new(text)))?;
    let lists = lists.as_list::<i32>();
    let steps = |row: usize| -> Result<Option<Vec<String>>> {
        if lists.is_null(row) {
            return Ok(None);
        }
        let items = lists.value(row);
        let steps = items.as_string_view().iter().enumerate().map(|(place, step)| {
            step.map(str::to_owned).ok_or_else(|| {
                let error_text = format!("path element at position {} is null", place + 1);
                Error::new(SqlState::NULL_VALUE_NOT_ALLOWED, error_text)
            })
        });
        steps.collect::<Result<Vec<_>>>().map(Some)
    };
    (0..lists.len()).map(steps).collect()
}

/// Where a path ends.
enum Place<'a, 't> {
    Member(&'a mut Members<'t>, &'a str),
    /// The index of an item; negative ones count from the end.
    Item(&'a mut Vec<Tree<'t>>, i64),
}

impl<'t> Place<'_, 't> {
    fn set(self, value: &Tree<'t>, create: bool) -> Result<()> {
        match self {
            Place::Member(members, key) => {
                if create || members.contains_key(key) {
                    members.insert(key.to_owned().into(), value.clone());
                }
            }
            Place::Item(items, at) => match found(items, at) {
                Some(item) => items[item] = value.clone(),
                None if create && at < 0 => items.insert(0, value.clone()),
                None if create => items.push(value.clone()),
                None => {}
            },
        }
        Ok(())
    }

    fn insert(self, value: &Tree<'t>, after: bool) -> Result<()> {
        match self {
            Place::Member(members, key) if members.contains_key(key) => {
                let message = "cannot replace existing key";
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    .with_hint("Try using the function jsonb_set to replace key value."));
            }
            Place::Member(members, key) => {
                members.insert(key.to_owned().into(), value.clone());
            }
            Place::Item(items, at) => match found(items, at) {
                Some(item) => items.insert(item + usize::from(after), value.clone()),
                None if at < 0 => items.insert(0, value.clone()),
                None => items.push(value.clone()),
            },
        }
        Ok(())
    }
}

fn found(items: &[Tree<'_>], at: i64) -> Option<usize> {
    let length = items.len() as i64;
    let at = if at < 0 { length + at } else { at };
    (0..length).contains(&at).then_some(at as usize)
}

/// Walks a path, and applies a change at its end. A path that leads nowhere changes nothing.
fn change<'t>(
    document: &mut Tree<'t>,
    path: &[String],
    at_end: &mut dyn FnMut(Place<'_, 't>) -> Result<()>,
) -> Result<()> {
    if let Tree::Plain(_) | Tree::Text(_) = document {
        let message = "cannot set path in scalar";
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let mut value = document;
    for (depth, step) in path.iter().enumerate() {
        let is_last = depth + 1 == path.len();
        match value {
            Tree::Object(members) if is_last => return at_end(Place::Member(members, step)),
            Tree::Object(members) => match members.get_mut(step.as_str()) {
                Some(member) => value = member,
                None => return Ok(()),
            },
            Tree::Array(items) => {
                let at = step.parse().map_err(|_| no_place(step, depth))?;
                if is_last {
                    return at_end(Place::Item(items, at));
                }
                match found(items, at) {
                    Some(item) => value = &mut items[item],
                    None => return Ok(()),
                }
            }
            _ => return Ok(()),
        }
    }
    Ok(())
}

fn no_place(step: &str, depth: usize) -> Error {
    let place = depth + 1;
    let error_text = format!("path element at position {place} is not an integer: \"{step}\"");
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, error_text)
}
