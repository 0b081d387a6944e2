//! Arrays: item by item, and from their text `{1,2,NULL}`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use thalweg_types::{DataType, Error, Result, SqlState};

use super::{Manner, plain_cast};
use crate::types::arrow_field;

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
pub(super) fn parse(values: &StringViewArray, item: &DataType) -> Result<ArrayRef> {
    let mut items: Vec<Option<String>> = Vec::new();
    let mut lengths = Vec::with_capacity(values.len());
    for text in values {
        let before = items.len();
        if let Some(text) = text {
            let parsed = split(text, matches!(item, DataType::Array(_)));
            items.extend(parsed.ok_or_else(|| malformed(text))?);
        }
        lengths.push(items.len() - before);
    }
    let items: ArrayRef = Arc::new(items.into_iter().collect::<StringViewArray>());
    let text_field = Field::new("item", ArrowType::Utf8View, true);
    let items = super::convert(&items, &text_field, item, Manner::Assignment)?
        .ok_or_else(|| Error::unsupported(format!("an array of {item} from text")))?;
    list_of(item, OffsetBuffer::from_lengths(lengths), items, values.nulls().cloned())
}

fn malformed(text: &str) -> Error {
    Error::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("malformed array literal: \"{text}\""),
    )
}

/// The items between the outer braces; those of a nested array keep their own braces.
pub(crate) fn split(text: &str, nested: bool) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    if inner.trim().is_empty() {
        return Some(Vec::new());
    }
    let mut items = Vec::new();
    let mut rest = inner;
    loop {
        let (item, behind) = take_item(rest, nested)?;
        items.push(item);
        match behind {
            None => return Some(items),
            Some(behind) => rest = behind,
        }
    }
}

/// One item, and what stands behind the comma if there is one.
fn take_item(text: &str, nested: bool) -> Option<(Option<String>, Option<&str>)> {
    let text = text.trim_start();
    let (mut item, mut quoted, mut in_quotes, mut depth) = (String::new(), false, false, 0_u32);
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
        return Some((Some(item), behind));
    }
    let item = item.trim_end();
    match item {
        "" => None,
        item if item.eq_ignore_ascii_case("null") => Some((None, behind)),
        item => Some((Some(item.to_string()), behind)),
    }
}
