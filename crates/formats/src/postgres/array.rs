//! Decodes arrays that clients send in binary by converting them to text first: nesting, NULLs and
//! checks are thus those of the text form.

use arrow::datatypes::FieldRef;
use thalweg_types::{Error, Result, SqlState};

use super::decode::{cut_off, decode_binary, fixed, malformed};
use super::numeric;
use super::types::{Type, field_declared, innermost};

/// PostgreSQL's limit of an array's dimensions.
const DIMENSIONS_MAX: i32 = 6;
/// PostgreSQL's limit of an array's items.
const ITEMS_MAX: usize = 134_217_727;
/// Minimum size of an item: its length field.
const ITEM_BYTES_MIN: usize = 4;

/// The text of an array that was sent in binary.
pub(super) fn array_text(field: &FieldRef, bytes: &[u8]) -> Result<String> {
    let mut rest = bytes;
    let dimensions = word(&mut rest)?;
    if !matches!(word(&mut rest)?, 0 | 1) {
        return Err(malformed("invalid array flags"));
    }
    let item = sent_item(innermost(field), word(&mut rest)?.cast_unsigned())?;
    let sizes = sizes(dimensions, &mut rest)?;
    let mut text = String::new();
    if sizes.is_empty() {
        text.push_str("{}");
    } else {
        list_text(&item, &sizes, &mut rest, &mut text)?;
    }
    if !rest.is_empty() {
        return Err(malformed("incorrect binary data format"));
    }
    Ok(text)
}

/// The item type that the client declares.
fn sent_item(item: &FieldRef, oid: u32) -> Result<FieldRef> {
    let expected = Type::of(item).oid;
    if oid == expected {
        return Ok(FieldRef::clone(item));
    }
    field_declared(item, oid).ok_or_else(|| {
        let message =
            format!("binary data has array element type {oid} instead of expected {expected}");
        Error::new(SqlState::DATATYPE_MISMATCH, message)
    })
}

/// The sizes of all dimensions; empty for an array without items. The number of items is checked
/// against the remaining bytes.
fn sizes(dimensions: i32, rest: &mut &[u8]) -> Result<Vec<usize>> {
    if dimensions < 0 {
        return Err(malformed("invalid number of dimensions"));
    }
    if dimensions > DIMENSIONS_MAX {
        let message = format!(
            "number of array dimensions ({dimensions}) exceeds the maximum allowed \
             ({DIMENSIONS_MAX})"
        );
        return Err(Error::new(SqlState::LIMIT_EXCEEDED, message));
    }
    let mut sizes = Vec::with_capacity(DIMENSIONS_MAX as usize);
    let mut items = Some(usize::from(dimensions > 0));
    let mut begins_at_1 = true;
    for _ in 0..dimensions {
        let size = usize::try_from(word(rest)?).ok();
        begins_at_1 &= word(rest)? == 1;
        items = items.zip(size).and_then(|(items, size)| items.checked_mul(size));
        sizes.extend(size);
    }
    match items.filter(|items| *items <= ITEMS_MAX) {
        None => {
            let message = format!("array size exceeds the maximum allowed ({ITEMS_MAX})");
            Err(Error::new(SqlState::LIMIT_EXCEEDED, message))
        }
        Some(0) => Ok(Vec::new()),
        Some(items) if items > rest.len() / ITEM_BYTES_MIN => Err(cut_off()),
        Some(_) if !begins_at_1 => Err(Error::unsupported("an array that does not begin at 1")),
        Some(_) => Ok(sizes),
    }
}

fn list_text(item: &FieldRef, sizes: &[usize], rest: &mut &[u8], out: &mut String) -> Result<()> {
    let Some((size, inner)) = sizes.split_first() else { return item_text(item, rest, out) };
    out.push('{');
    for place in 0..*size {
        if place > 0 {
            out.push(',');
        }
        list_text(item, inner, rest, out)?;
    }
    out.push('}');
    Ok(())
}

fn item_text(item: &FieldRef, rest: &mut &[u8], out: &mut String) -> Result<()> {
    let length = word(rest)?;
    if length == -1 {
        out.push_str("NULL");
        return Ok(());
    }
    let length = usize::try_from(length).map_err(|_| cut_off())?;
    let (bytes, after) = rest.split_at_checked(length).ok_or_else(cut_off)?;
    *rest = after;
    let text = match item.data_type().is_decimal() {
        // The type of the array rounds its numbers, if it has a scale.
        true => numeric::decode(bytes)?,
        false => {
            let value = decode_binary(item, bytes)?;
            let mut text = String::new();
            crate::text::format_value(&value, 0, &mut text)?;
            text
        }
    };
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
    Ok(())
}

fn word(rest: &mut &[u8]) -> Result<i32> {
    let (bytes, after) = rest.split_first_chunk::<4>().ok_or_else(cut_off)?;
    *rest = after;
    Ok(i32::from_be_bytes(fixed(bytes)?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema};
    use arrow::record_batch::RecordBatch;

    use super::*;
    use crate::postgres::{RowEncoder, ValueFormat, decode, field_of_oid};

    const INT4: i32 = 23;
    const INT4_ARRAY: u32 = 1007;

    /// An array's field; one of arrays if the literal or the first word has two dimensions.
    fn field(oid: u32, is_nested: bool) -> FieldRef {
        let field = field_of_oid(oid).unwrap();
        match is_nested {
            true => Arc::new(Field::new("", DataType::List(field), true)),
            false => field,
        }
    }

    fn text(oid: u32, words: &[i32]) -> Result<String, (&'static str, String)> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let field = field(oid, words.first() == Some(&2));
        let value = decode(&field, ValueFormat::Binary, Some(&bytes));
        let value = value.map_err(|error| (error.state().0, error.message().to_owned()))?;
        let mut text = String::new();
        crate::text::format_value(&value, 0, &mut text).unwrap();
        Ok(text)
    }

    #[test]
    fn arrays_are_read_as_postgres_reads_them() {
        for (words, expected) in [
            (&[0, 0, INT4][..], "{}"),
            (&[1, 0, INT4, 2, 1, 4, 7, 4, 8], "{7,8}"),
            (&[2, 1, INT4, 2, 1, 1, 1, 4, 7, -1], "{{7},{NULL}}"),
            // Empty because of one dimension, whatever the other one is.
            (&[2, 0, INT4, i32::MAX, 1, 0, 1], "{}"),
            (&[2, 0, INT4, 0, 5, i32::MAX, 9], "{}"),
        ] {
            assert_eq!(text(INT4_ARRAY, words).unwrap(), expected, "{words:?}");
        }
        assert_eq!(text(1016, &[1, 0, 26, 1, 1, 4, -1]).unwrap(), "{4294967295}");
    }

    /// SQLSTATEs are PostgreSQL 15's.
    #[test]
    fn whatever_an_array_claims_to_hold_its_bytes_decide() {
        for (words, state) in [
            (&[][..], "08P01"),
            (&[1, 0], "08P01"),
            (&[7, 0, INT4, 1, 1], "54000"),
            (&[-1, 0, INT4], "22P03"),
            (&[1, 2, INT4, 1, 1, 4, 1], "22P03"),
            (&[1, 0, 20, 1, 1, 8, 0, 1], "42804"),
            (&[1, 0, INT4, -1, 1], "54000"),
            (&[3, 0, INT4, 65_536, 1, 65_536, 1, 65_536, 1], "54000"),
            (&[2, 0, INT4, 10_000, 1, 10_000, 1], "08P01"),
            (&[1, 0, INT4, 1_000_000, 1], "08P01"),
            (&[1, 0, INT4, 1, 0, 4, 7], "0A000"),
            (&[1, 0, INT4, 1, 1, 4, 7, 8], "22P03"),
            (&[1, 0, INT4, 1, 1, -2], "08P01"),
            (&[1, 0, INT4, 1, 1, 8, 0, 1], "22P03"),
        ] {
            assert_eq!(text(INT4_ARRAY, words).unwrap_err().0, state, "{words:?}");
        }
    }

    /// Tries every word of an array with every value that has caused a failure before.
    #[test]
    fn no_array_takes_more_work_than_it_has_bytes() {
        let array = [2, 0, INT4, 2, 1, 1, 1, 4, 7, 4, 8];
        for at in 0..array.len() {
            for word in [i32::MIN, -2, -1, 0, 1, 2, 6, 7, 255, 65_536, i32::MAX - 1, i32::MAX] {
                let mut changed = array;
                changed[at] = word;
                let _ = text(INT4_ARRAY, &changed);
            }
        }
    }

    #[test]
    fn what_is_sent_is_read_back() {
        for literal in ["{}", "{1,NULL,3}", "{{1,2},{3,4}}"] {
            let field = field(INT4_ARRAY, literal.starts_with("{{"));
            let value = decode(&field, ValueFormat::Text, Some(literal.as_bytes())).unwrap();
            let schema = Arc::new(Schema::new(vec![Arc::clone(&field)]));
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![value]);
            let mut row = Vec::new();
            let encoder = RowEncoder::new(schema, vec![ValueFormat::Binary]);
            encoder.batch(&batch.unwrap()).unwrap().data_row(0, &mut row).unwrap();
            // Skips the message's kind, its length, the number of columns, and the length of the
            // value.
            let back = decode(&field, ValueFormat::Binary, Some(&row[11..])).unwrap();
            let mut text = String::new();
            crate::text::format_value(&back, 0, &mut text).unwrap();
            assert_eq!(text, literal);
        }
    }
}
