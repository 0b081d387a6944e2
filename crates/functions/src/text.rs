//! Functions of text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, Field, Int32Type, Int64Type};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::cast::{is_text, to_text};
use thalweg_values::errors::external;
use thalweg_values::scalar_function::{Compute, Function};

use super::concatenation::{items_of, variadic_lists};
use thalweg_values::bounded_output::{BoundedTexts, Text};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let text = || ArrowType::Utf8View;
    let of_any = |name, compute| Function::signed(name, TypeSignature::Any(1), text(), compute);
    vec![
        Function::new("quote_ident", &[&[text()]], text(), quote_ident).into_udf(),
        of_any("quote_literal", quote_literal).into_udf(),
        of_any("quote_nullable", quote_nullable).into_udf(),
        Function::signed("format", TypeSignature::VariadicAny, text(), format).into_udf(),
        Function::signed("format_items", TypeSignature::Any(2), text(), format_items).into_udf(),
        of_text_or_bytes("length", length)
            .alias("char_length")
            .alias("character_length")
            .into_udf(),
        of_text_or_bytes("octet_length", octet_length).into_udf(),
        of_text_or_bytes("bit_length", bit_length).into_udf(),
        Function::new("chr", &[&[ArrowType::Int64]], text(), character).into_udf(),
    ]
}

/// A function that gives a whole number.
fn of_text_or_bytes(name: &'static str, compute: Compute) -> Function {
    Function::signed(name, TypeSignature::Any(1), ArrowType::Int32, compute).returning(|given| {
        match given {
            [number] if number.is_numeric() || *number == ArrowType::Boolean => {
                let name =
                    thalweg_values::types::display_name(&Field::new("", number.clone(), true));
                let error_text = format!("function length({name}) does not exist");
                let error = Error::new(SqlState::UNDEFINED_FUNCTION, error_text)
                    .with_hint("You might need to add explicit type casts.");
                Err(external(error))
            }
            _ => Ok(ArrowType::Int32),
        }
    })
}

fn length(columns: &[ArrayRef]) -> Result<ArrayRef> {
    measure("length", columns, |text| match text.is_ascii() {
        true => text.len(),
        false => text.chars().count(),
    })
}

fn octet_length(columns: &[ArrayRef]) -> Result<ArrayRef> {
    measure("octet_length", columns, str::len)
}

fn bit_length(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let bytes = octet_length(columns)?;
    let bits: Int32Array = bytes.as_primitive::<Int32Type>().unary(|bytes| bytes.wrapping_mul(8));
    Ok(Arc::new(bits))
}

/// Texts as `of_text` measures them, bytes by their number.
fn measure(name: &str, columns: &[ArrayRef], of_text: fn(&str) -> usize) -> Result<ArrayRef> {
    let column = &columns[0];
    let given = column.data_type();
    let error_text = |error| thalweg_values::errors::from_arrow_error(&error);
    Ok(match given {
        ArrowType::Binary
        | ArrowType::LargeBinary
        | ArrowType::BinaryView
        | ArrowType::FixedSizeBinary(_) => {
            let through = match given {
                ArrowType::FixedSizeBinary(_) => {
                    cast(column, &ArrowType::Binary).map_err(error_text)?
                }
                _ => column.clone(),
            };
            let bytes = cast(&through, &ArrowType::BinaryView).map_err(error_text)?;
            let lengths = bytes.as_binary_view().iter().map(|bytes| Some(bytes?.len() as i32));
            Arc::new(lengths.collect::<Int32Array>())
        }
        ArrowType::Null => arrow::array::new_null_array(&ArrowType::Int32, column.len()),
        text if is_text(text) => {
            let texts = to_text(column)?;
            let lengths = texts.as_string_view().iter().map(|text| Some(of_text(text?) as i32));
            Arc::new(lengths.collect::<Int32Array>())
        }
        other => {
            let other = thalweg_values::types::display_name(&Field::new("", other.clone(), true));
            let error_text = format!("function {name}({other}) does not exist");
            return Err(Error::new(SqlState::UNDEFINED_FUNCTION, error_text)
                .with_hint("You might need to add explicit type casts."));
        }
    })
}

/// Values as a client sees them: `t` and `f`, where a cast to text gives `true` and `false`.
pub(super) fn shown(column: &ArrayRef) -> Result<ArrayRef> {
    match column.data_type() {
        ArrowType::Boolean => {
            let values = column.as_boolean().iter();
            let letters = values.map(|value| value.map(|value| if value { "t" } else { "f" }));
            Ok(Arc::new(letters.collect::<StringViewArray>()))
        }
        ArrowType::Null => Ok(arrow::array::new_null_array(&ArrowType::Utf8View, column.len())),
        _ => to_text(column),
    }
}

fn character(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let codes = columns[0].as_primitive::<Int64Type>().iter();
    let characters = codes.map(|code| {
        let Some(code) = code else { return Ok(None) };
        if code == 0 {
            return Err(Error::new(SqlState::LIMIT_EXCEEDED, "null character not permitted"));
        }
        let character = u32::try_from(code).ok().and_then(char::from_u32);
        character.map(|character| Some(character.to_string())).ok_or_else(|| {
            let error_text = "requested character not valid for encoding";
            Error::new(SqlState::LIMIT_EXCEEDED, error_text)
        })
    });
    Ok(Arc::new(characters.collect::<Result<StringViewArray>>()?))
}

fn each(column: &ArrayRef, write: impl Fn(&str, &mut Text<'_>) -> Result<()>) -> Result<ArrayRef> {
    let values = to_text(column)?;
    let mut made = BoundedTexts::default();
    for value in values.as_string_view() {
        match value {
            Some(value) => made.write(|text| write(value, text))?,
            None => made.null(),
        }
    }
    Ok(made.finish())
}

fn quote_ident(columns: &[ArrayRef]) -> Result<ArrayRef> {
    each(&columns[0], identifier)
}

fn quote_literal(columns: &[ArrayRef]) -> Result<ArrayRef> {
    each(&columns[0], literal)
}

fn quote_nullable(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let values = to_text(&columns[0])?;
    let mut made = BoundedTexts::default();
    for value in values.as_string_view() {
        made.write(|text| match value {
            Some(value) => literal(value, text),
            None => text.push("NULL"),
        })?;
    }
    Ok(made.finish())
}

/// The name as it must be written in a statement.
fn identifier(name: &str, text: &mut Text<'_>) -> Result<()> {
    let plain = |c: char| c.is_ascii_lowercase() || c == '_';
    let simple = name.starts_with(plain) && name.chars().all(|c| plain(c) || c.is_ascii_digit());
    if simple && !is_reserved(name) {
        return text.push(name);
    }
    text.push("\"")?;
    doubled(name, &['"'], text)?;
    text.push("\"")
}

/// Writes a text with some of its characters doubled.
fn doubled(written: &str, characters: &[char], text: &mut Text<'_>) -> Result<()> {
    for piece in written.split_inclusive(characters) {
        text.push(piece)?;
        if piece.ends_with(characters) {
            text.push(&piece[piece.len() - 1..])?;
        }
    }
    Ok(())
}

fn is_reserved(name: &str) -> bool {
    const RESERVED: [&str; 34] = [
        "all", "and", "any", "array", "as", "asc", "between", "case", "cast", "check", "column",
        "create", "default", "desc", "distinct", "else", "end", "false", "for", "from", "group",
        "having", "in", "limit", "not", "null", "or", "order", "select", "table", "true", "union",
        "user", "where",
    ];
    RESERVED.binary_search(&name).is_ok()
}

fn literal(value: &str, text: &mut Text<'_>) -> Result<()> {
    // A backslash is itself only in the escaping form.
    text.push(if value.contains('\\') { "E'" } else { "'" })?;
    doubled(value, &['\'', '\\'], text)?;
    text.push("'")
}

/// `format('%s of %I is %L', …)`, with places as in `%2$s`.
fn format(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let Some((patterns, values)) = columns.split_first() else {
        return Err(Error::new(SqlState::UNDEFINED_FUNCTION, "format takes a pattern"));
    };
    let patterns = to_text(patterns)?;
    let values = values.iter().map(shown).collect::<Result<Vec<_>>>()?;
    let values: Vec<&StringViewArray> = values.iter().map(|text| text.as_string_view()).collect();
    let mut made = BoundedTexts::default();
    for (row, pattern) in patterns.as_string_view().iter().enumerate() {
        let value = |place: usize| -> Option<Option<&str>> {
            let column = values.get(place)?;
            Some(column.is_valid(row).then(|| column.value(row)))
        };
        match pattern {
            Some(pattern) => made.write(|text| format_row(pattern, value, text))?,
            None => made.null(),
        }
    }
    Ok(made.finish())
}

/// `format(pattern, VARIADIC array)`; an array that is NULL has no items.
fn format_items(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let patterns = to_text(&columns[0])?;
    let lists = variadic_lists(&columns[1])?;
    let (items, bounds) = match &lists {
        Some(lists) => items_of(lists),
        None => (Arc::clone(&columns[1]), Vec::new()),
    };
    let items = shown(&items)?;
    let items = items.as_string_view();
    let mut made = BoundedTexts::default();
    for (row, pattern) in patterns.as_string_view().iter().enumerate() {
        let places = match &lists {
            Some(lists) if lists.is_valid(row) => bounds[row]..bounds[row + 1],
            _ => 0..0,
        };
        let value = |place: usize| -> Option<Option<&str>> {
            let item = places.start.checked_add(place).filter(|item| *item < places.end)?;
            Some(items.is_valid(item).then(|| items.value(item)))
        };
        match pattern {
            Some(pattern) => made.write(|text| format_row(pattern, value, text))?,
            None => made.null(),
        }
    }
    Ok(made.finish())
}

/// `value` returns the argument at a place: `None` beyond the last, or NULL, or text.
fn format_row<'a>(
    pattern: &str,
    value: impl Fn(usize) -> Option<Option<&'a str>>,
    text: &mut Text,
) -> Result<()> {
    let invalid = |message: &str| Error::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut next = 0;
    let mut rest = pattern;
    while let Some((before, behind)) = rest.split_once('%') {
        text.push(before)?;
        let digits = behind.len() - behind.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, tail) = behind.split_at(digits);
        let (place, tail) = match tail.strip_prefix('$') {
            Some(tail) => {
                let place = number.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
                (
                    place.ok_or_else(|| {
                        invalid("format specifies argument 0, but arguments are numbered from 1")
                    })?,
                    tail,
                )
            }
            None => (next, behind),
        };
        let (width, tail) = width_of(tail);
        let kind =
            tail.chars().next().ok_or_else(|| invalid("unterminated format() type specifier"))?;
        rest = &tail[kind.len_utf8()..];
        if kind == '%' {
            text.push("%")?;
            continue;
        }
        let argument = value(place).ok_or_else(|| invalid("too few arguments for format()"))?;
        next = place + 1;
        let start = text.bytes();
        match (kind, argument) {
            ('s', argument) => text.push(argument.unwrap_or_default())?,
            ('I', Some(name)) => identifier(name, text)?,
            ('I', None) => {
                return Err(invalid("null values cannot be formatted as an SQL identifier"));
            }
            ('L', Some(value)) => literal(value, text)?,
            ('L', None) => text.push("NULL")?,
            (other, _) => {
                return Err(invalid(&format!("unrecognized format() type specifier \"{other}\"")));
            }
        }
        pad(start, width, text)?;
    }
    text.push(rest)
}

/// A width in front of a kind, negative where the text goes to the left, and what is behind it.
fn width_of(text: &str) -> (i64, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    match digits.parse() {
        Ok(width) => (width, rest),
        Err(_) => (0, text),
    }
}

/// Adds blanks to what was written behind a place: behind it for a negative width, or before it.
fn pad(start: usize, width: i64, text: &mut Text) -> Result<()> {
    if width == 0 {
        return Ok(());
    }
    let wanted = (width.unsigned_abs() as usize).min(1 << 20);
    let blanks = " ".repeat(wanted.saturating_sub(text.chars_behind(start)));
    if width < 0 { text.push(&blanks) } else { text.insert(start, &blanks) }
}
