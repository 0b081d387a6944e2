//! Arrays: item by item, and from their text `{1,2,NULL}`.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, ListArray, StringViewArray, StringViewBuilder,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use thalweg_types::{DataType, Error, Result, SqlState};

use super::{Manner, plain_cast};
use crate::bounded_output::Growth;
use crate::types::arrow_field;

/// Number of dimensions that an array may have, as in PostgreSQL. Lists nest as deeply as arrays
/// have dimensions, so the limit also bounds every recursion over lists.
pub const DIMENSIONS_MAX: usize = 6;

/// Refuses an array of `count` dimensions.
pub fn too_many_dimensions(count: usize) -> Error {
    Error::new(
        SqlState::LIMIT_EXCEEDED,
        format!(
            "number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})"
        ),
    )
}

/// Converts the items of lists.
pub(super) fn convert(
    array: &ArrayRef,
    item: &DataType,
    manner: Manner,
) -> Result<Option<ArrayRef>> {
    let (ArrowType::List(given)
    | ArrowType::LargeList(given)
    | ArrowType::ListView(given)
    | ArrowType::LargeListView(given)
    | ArrowType::FixedSizeList(given, _)) = array.data_type()
    else {
        return Ok(None);
    };
    let given: FieldRef = given.clone();
    let lists = plain_cast(array, &ArrowType::List(given.clone()))?;
    let lists = lists.as_list::<i32>();
    let Some(items) = super::convert(lists.values(), &given, item, manner)? else {
        return Ok(None);
    };
    Ok(Some(list_of(item, lists.offsets().clone(), items, lists.nulls().cloned())?))
}

fn list_of(
    item: &DataType,
    offsets: OffsetBuffer<i32>,
    items: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let field = Arc::new(arrow_field("item", item, true));
    let list = ListArray::try_new(field, offsets, items, nulls).map_err(super::arrow_error)?;
    Ok(Arc::new(list))
}

/// Reads lists from their texts.
pub(super) fn parse(values: &StringViewArray, item: &DataType, manner: Manner) -> Result<ArrayRef> {
    let mut items = StringViewBuilder::new();
    let mut growth = Growth::default();
    let mut lengths = Vec::with_capacity(values.len());
    for text in values {
        let before = items.len();
        if let Some(text) = text {
            let count = dimensions(text);
            if count > DIMENSIONS_MAX {
                return Err(too_many_dimensions(count));
            }
            if count > 1 && !matches!(item, DataType::Array(_)) {
                let what = "an array of several dimensions from text that is no literal";
                return Err(Error::unsupported(what));
            }
            let is_nested = matches!(item, DataType::Array(_));
            let parsed = split_each(without_bounds(text)?, is_nested, |item| {
                growth.item(item.map_or(0, str::len))?;
                items.append_option(item);
                Ok(())
            })?;
            parsed.ok_or_else(|| malformed(text))?;
        }
        lengths.push(items.len() - before);
    }
    let items: ArrayRef = Arc::new(items.finish());
    let text_field = Field::new("item", ArrowType::Utf8View, true);
    let items = super::convert(&items, &text_field, item, manner)?
        .ok_or_else(|| Error::unsupported(format!("an array of {item} from text")))?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    check_rectangular(&offsets, &items, |row| malformed(values.value(row)))?;
    list_of(item, offsets, items, values.nulls().cloned())
}

/// The text behind the bounds of an array's dimensions. Only arrays that begin at 1 are accepted.
fn without_bounds(text: &str) -> Result<&str> {
    let trimmed = text.trim_start();
    if !trimmed.starts_with('[') {
        return Ok(text);
    }
    let (bounds, items) = trimmed.split_once('=').ok_or_else(|| malformed(text))?;
    let bounds = bounds.trim_end().strip_prefix('[').and_then(|bounds| bounds.strip_suffix(']'));
    for bounds in bounds.ok_or_else(|| malformed(text))?.split("][") {
        let (lower, _) = bounds.split_once(':').unwrap_or(("1", bounds));
        if lower.trim() != "1" {
            return Err(Error::unsupported("an array with a lower bound other than 1"));
        }
    }
    Ok(items)
}

/// Refuses arrays of several dimensions whose parts differ in length.
fn check_rectangular(
    offsets: &OffsetBuffer<i32>,
    items: &ArrayRef,
    malformed: impl Fn(usize) -> Error,
) -> Result<()> {
    let mut bounds: Vec<usize> = offsets.iter().map(|offset| *offset as usize).collect();
    let mut items = items;
    while let Some(lists) = items.as_list_opt::<i32>() {
        for (row, range) in bounds.windows(2).enumerate() {
            let length = |at: usize| lists.is_valid(at).then(|| lists.value_length(at));
            let first = (range[0] < range[1]).then(|| length(range[0]));
            if (range[0]..range[1]).any(|at| Some(length(at)) != first || length(at).is_none()) {
                return Err(malformed(row));
            }
        }
        let inner = lists.value_offsets();
        bounds.iter_mut().for_each(|bound| *bound = inner[*bound] as usize);
        items = lists.values();
    }
    Ok(())
}

/// The number of dimensions that the text of an array has: its braces at the beginning.
pub fn dimensions(text: &str) -> usize {
    let text = text.trim_start();
    let text = match text.strip_prefix('[') {
        Some(bounds) => bounds.split_once('=').map_or(text, |(_, items)| items),
        None => text,
    };
    let is_brace = |c: &char| *c == '{' || c.is_whitespace();
    text.chars().take_while(is_brace).filter(|c| *c == '{').count()
}

fn malformed(text: &str) -> Error {
    Error::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("malformed array literal: \"{text}\""),
    )
}

/// The items between the outer braces; those of a nested array keep their own braces.
pub fn split(text: &str, nested: bool) -> Option<Vec<Option<String>>> {
    let mut items = Vec::new();
    let found = split_each(text, nested, |item| {
        items.push(item.map(str::to_owned));
        Ok(())
    });
    found.ok().flatten().map(|()| items)
}

/// Passes each item between the outer braces to `take`; `None` if the text is malformed.
fn split_each(
    text: &str,
    nested: bool,
    mut take: impl FnMut(Option<&str>) -> Result<()>,
) -> Result<Option<()>> {
    let inner = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let Some(inner) = inner else { return Ok(None) };
    if inner.trim().is_empty() {
        return Ok(Some(()));
    }
    let mut item = String::new();
    let mut rest = inner;
    loop {
        let Some((is_null, behind)) = take_item(rest, nested, &mut item) else { return Ok(None) };
        take((!is_null).then_some(item.as_str()))?;
        match behind {
            None => return Ok(Some(())),
            Some(behind) => rest = behind,
        }
    }
}

/// Reads one item. Returns true for NULL, and the text behind the comma if there is one.
fn take_item<'t>(
    text: &'t str,
    nested: bool,
    item: &mut String,
) -> Option<(bool, Option<&'t str>)> {
    let text = text.trim_start();
    item.clear();
    let (mut quoted, mut in_quotes, mut depth) = (false, false, 0_u32);
    let mut chars = text.char_indices();
    let mut behind = None;
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                if nested {
                    item.push(c);
                }
                item.push(chars.next()?.1);
            }
            '"' => {
                (quoted, in_quotes) = (true, !in_quotes);
                if nested {
                    item.push(c);
                }
            }
            ',' if !in_quotes && depth == 0 => {
                behind = Some(&text[at + 1..]);
                break;
            }
            '{' | '}' if !in_quotes && !nested => return None,
            '{' | '}' if !in_quotes => {
                depth = if c == '{' { depth + 1 } else { depth.checked_sub(1)? };
                item.push(c);
            }
            c => item.push(c),
        }
    }
    if in_quotes || depth > 0 {
        return None;
    }
    if quoted && !nested {
        return Some((false, behind));
    }
    item.truncate(item.trim_end().len());
    match item.as_str() {
        "" => None,
        item => Some((item.eq_ignore_ascii_case("null"), behind)),
    }
}
