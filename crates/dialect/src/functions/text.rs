//! Functions of text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::DataType as ArrowType;
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{Error, Result, SqlState};

use super::define::Function;
use crate::cast::to_text;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let text = || ArrowType::Utf8View;
    let of_any = |name, compute| Function::signed(name, TypeSignature::Any(1), text(), compute);
    vec![
        Function::new("quote_ident", &[&[text()]], text(), quote_ident).into_udf(),
        of_any("quote_literal", quote_literal).into_udf(),
        of_any("quote_nullable", quote_nullable).into_udf(),
        Function::signed("format", TypeSignature::VariadicAny, text(), format).into_udf(),
    ]
}

fn each(column: &ArrayRef, write: impl Fn(&str) -> String) -> Result<ArrayRef> {
    let values = to_text(column)?;
    let written = values.as_string_view().iter().map(|value| value.map(&write));
    Ok(Arc::new(written.collect::<StringViewArray>()))
}

fn quote_ident(columns: &[ArrayRef]) -> Result<ArrayRef> {
    each(&columns[0], identifier)
}

fn quote_literal(columns: &[ArrayRef]) -> Result<ArrayRef> {
    each(&columns[0], literal)
}

fn quote_nullable(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let values = to_text(&columns[0])?;
    let written =
        values.as_string_view().iter().map(|value| Some(value.map_or("NULL".into(), literal)));
    Ok(Arc::new(written.collect::<StringViewArray>()))
}

/// The name as it must be written in a statement.
fn identifier(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c == '_';
    let simple = name.starts_with(plain) && name.chars().all(|c| plain(c) || c.is_ascii_digit());
    if simple && !is_reserved(name) {
        return name.to_string();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
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

fn literal(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    // A backslash is itself only in the escaping form.
    if quoted.contains('\\') {
        return format!("E'{}'", quoted.replace('\\', "\\\\"));
    }
    format!("'{quoted}'")
}

/// `format('%s of %I is %L', …)`, with places as in `%2$s`.
fn format(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let Some((patterns, values)) = columns.split_first() else {
        return Err(Error::new(SqlState::UNDEFINED_FUNCTION, "format takes a pattern"));
    };
    let patterns = to_text(patterns)?;
    let values = values.iter().map(to_text).collect::<Result<Vec<_>>>()?;
    let values: Vec<&StringViewArray> = values.iter().map(|text| text.as_string_view()).collect();
    let written = patterns.as_string_view().iter().enumerate().map(|(row, pattern)| {
        let value = |place: usize| -> Option<Option<&str>> {
            let column = values.get(place)?;
            Some(column.is_valid(row).then(|| column.value(row)))
        };
        pattern.map(|pattern| format_row(pattern, value)).transpose()
    });
    Ok(Arc::new(written.collect::<Result<StringViewArray>>()?))
}

/// `value` gives the argument at a place: nothing beyond the last, or NULL, or text.
fn format_row<'a>(
    pattern: &str,
    value: impl Fn(usize) -> Option<Option<&'a str>>,
) -> Result<String> {
    let invalid = |message: &str| Error::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut text = String::with_capacity(pattern.len());
    let mut next = 0;
    let mut rest = pattern;
    while let Some((before, behind)) = rest.split_once('%') {
        text.push_str(before);
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
            None if digits > 0 => return Err(Error::unsupported("a width in format()")),
            None => (next, tail),
        };
        let kind =
            tail.chars().next().ok_or_else(|| invalid("unterminated format() type specifier"))?;
        rest = &tail[kind.len_utf8()..];
        if kind == '%' {
            text.push('%');
            continue;
        }
        let argument = value(place).ok_or_else(|| invalid("too few arguments for format()"))?;
        next = place + 1;
        match (kind, argument) {
            ('s', argument) => text.push_str(argument.unwrap_or_default()),
            ('I', Some(name)) => text.push_str(&identifier(name)),
            ('I', None) => {
                return Err(invalid("null values cannot be formatted as an SQL identifier"));
            }
            ('L', Some(value)) => text.push_str(&literal(value)),
            ('L', None) => text.push_str("NULL"),
            (other, _) => {
                return Err(invalid(&format!("unrecognized format() type specifier \"{other}\"")));
            }
        }
    }
    text.push_str(rest);
    Ok(text)
}
