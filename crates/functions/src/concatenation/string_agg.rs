//! The functions that replace `string_agg`: they join the items of a list into one text, or into
//! bytes, with separators between them. The separator is one for the whole list, or one for each of
//! its items.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, new_null_array};
use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::cast::{Manner, convert, is_text};
use thalweg_values::errors::{external, from_datafusion};
use thalweg_values::scalar_function::Function;
use thalweg_values::statement_control::check_cancelled;
use thalweg_values::types::display_name;

use super::super::text::shown;
use super::{LOOKED_AT, TEXT};
use thalweg_values::bounded_output::{BoundedBytes, BoundedTexts};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![
        Function::signed("string_agg_items", TypeSignature::Any(2), TEXT, |columns| {
            joined(columns, one_separator)
        })
        .returning(|given| joined_type(given, one_separator))
        .into_udf(),
        Function::signed("string_agg_pairs", TypeSignature::Any(2), TEXT, |columns| {
            joined(columns, item_of)
        })
        .returning(|given| joined_type(given, item_of))
        .into_udf(),
    ]
}

/// The type of a list's items.
fn item_of(given: &ArrowType) -> &ArrowType {
    match given {
        ArrowType::List(item) => item.data_type(),
        given => given,
    }
}

fn one_separator(given: &ArrowType) -> &ArrowType {
    given
}

/// The type of a separator, by that of all of them.
type Separator = fn(&ArrowType) -> &ArrowType;

/// Text of texts, bytes of bytes; PostgreSQL has no `string_agg` of anything else.
fn joined_type(given: &[ArrowType], separator: Separator) -> PlanResult<ArrowType> {
    let [items, separators] = given else { return Ok(TEXT) };
    let (item, separator) = (plain(item_of(items)), plain(separator(separators)));
    let is_textual = |given: &ArrowType| is_text(given) || given.is_null();
    match (item, separator) {
        (ArrowType::BinaryView, ArrowType::BinaryView | ArrowType::Utf8 | ArrowType::Null)
        | (ArrowType::Null, ArrowType::BinaryView) => Ok(ArrowType::BinaryView),
        (item, separator) if is_textual(item) && is_textual(separator) => Ok(TEXT),
        (item, separator) => {
            let (item, separator) = (named(item), named(separator));
            let error_text = format!("function string_agg({item}, {separator}) does not exist");
            Err(external(Error::new(SqlState::UNDEFINED_FUNCTION, error_text).with_hint(
                "No function matches the given name and argument types. You might need to add \
                 explicit type casts.",
            )))
        }
    }
}

/// The type of a dictionary's values.
fn plain(given: &ArrowType) -> &ArrowType {
    match given {
        ArrowType::Dictionary(_, value) => value,
        given => given,
    }
}

/// The type in an error message. Literals are `Utf8`, but columns are not.
fn named(given: &ArrowType) -> String {
    match given {
        ArrowType::Utf8 | ArrowType::Null => "unknown".to_owned(),
        given => display_name(&Field::new("", given.clone(), true)),
    }
}

fn joined(columns: &[ArrayRef], separator: Separator) -> Result<ArrayRef> {
    let given: Vec<ArrowType> = columns.iter().map(|column| column.data_type().clone()).collect();
    let returns = joined_type(&given, separator).map_err(|error| from_datafusion(error, ""))?;
    let Some(lists) = columns[0].as_list_opt::<i32>() else {
        return Ok(new_null_array(&returns, columns[0].len()));
    };
    check_pairs(lists, &columns[1])?;
    let separators = Separators::of(&columns[1]);
    match returns {
        ArrowType::BinaryView => bytes(lists, &separators),
        _ => texts(lists, &separators),
    }
}

/// Checks that the lists of a row have the same length, as those of one grouping do.
pub(crate) fn check_pairs(lists: &ListArray, others: &ArrayRef) -> Result<()> {
    let Some(others) = others.as_list_opt::<i32>() else { return Ok(()) };
    let is_paired = |row: usize| lists.value_length(row) == others.value_length(row);
    match (0..lists.len()).all(|row| lists.is_null(row) || is_paired(row)) {
        true => Ok(()),
        false => Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "lists of which the items belong together differ in length",
        )),
    }
}

/// Separators, of which each row has one, or one for each item.
struct Separators {
    values: ArrayRef,
    starts: Option<Vec<usize>>,
}

impl Separators {
    fn of(column: &ArrayRef) -> Separators {
        match column.as_list_opt::<i32>() {
            Some(lists) => {
                let starts = lists.value_offsets().iter().map(|start| *start as usize).collect();
                Separators { values: Arc::clone(lists.values()), starts: Some(starts) }
            }
            None => Separators { values: Arc::clone(column), starts: None },
        }
    }

    /// The position of the separator in front of an item.
    fn place(&self, row: usize, item: usize) -> usize {
        self.starts.as_ref().map_or(row, |starts| starts[row] + item)
    }
}

fn items_of(lists: &ListArray, row: usize) -> Range<usize> {
    let offsets = lists.value_offsets();
    offsets[row] as usize..offsets[row + 1] as usize
}

fn texts(lists: &ListArray, separators: &Separators) -> Result<ArrayRef> {
    let (items, between) = (shown(lists.values())?, shown(&separators.values)?);
    let (items, between) = (items.as_string_view(), between.as_string_view());
    let mut made = BoundedTexts::default();
    for row in 0..lists.len() {
        if lists.is_null(row) {
            made.null();
            continue;
        }
        made.write(|text| {
            for (place, item) in items_of(lists, row).enumerate() {
                if place % LOOKED_AT == 0 {
                    check_cancelled()?;
                }
                let separator = separators.place(row, place);
                if place > 0 && between.is_valid(separator) {
                    text.push(between.value(separator))?;
                }
                text.push(items.value(item))?;
            }
            Ok(())
        })?;
    }
    Ok(made.finish())
}

fn bytes(lists: &ListArray, separators: &Separators) -> Result<ArrayRef> {
    let as_bytes = |column: &ArrayRef| {
        let given = Field::new("", column.data_type().clone(), true);
        convert(column, &given, &DataType::Bytea, Manner::Explicit)?
            .ok_or_else(|| Error::internal("string_agg was given what is no bytes"))
    };
    let (items, between) = (as_bytes(lists.values())?, as_bytes(&separators.values)?);
    let (items, between) = (items.as_binary_view(), between.as_binary_view());
    let mut made = BoundedBytes::default();
    for row in 0..lists.len() {
        if lists.is_null(row) {
            made.null();
            continue;
        }
        check_cancelled()?;
        let mut pieces: Vec<&[u8]> = Vec::new();
        for (place, item) in items_of(lists, row).enumerate() {
            let separator = separators.place(row, place);
            if place > 0 && between.is_valid(separator) {
                pieces.push(between.value(separator));
            }
            pieces.push(items.value(item));
        }
        made.value(&pieces)?;
    }
    Ok(made.finish())
}
