//! Writes record batches as JSON lines.

use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::record_batch::RecordBatch;
use thalweg_types::Result;

use crate::columns::{JSON, JSONB, type_tag};
use crate::text::{DateStyle, ValueFormatter};

/// Writes batches as objects, one on each line.
///
/// Numbers are written as numbers, decimals with all their digits. Numbers that JSON does not
/// support (`NaN`, `Infinity`) and values of all other types are strings.
pub(crate) struct JsonWriter {
    /// For each column, `"name":` and the form of its values.
    columns: Vec<(String, Form)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    String,
    Boolean,
    Integer,
    /// A number that may be NaN or infinite.
    Float,
    /// Text that is already JSON.
    Embedded,
}

impl JsonWriter {
    /// Prepares the keys and value forms of the columns.
    pub fn new(schema: &SchemaRef) -> JsonWriter {
        let columns = schema.fields().iter().map(|field| {
            let mut key = String::new();
            push_string(field.name(), &mut key);
            key.push(':');
            (key, Form::of(field))
        });
        JsonWriter { columns: columns.collect() }
    }

    /// Appends one JSON object and a line end for each row. Fails if a column's type cannot be
    /// formatted.
    pub fn rows(&self, batch: &RecordBatch, out: &mut String) -> Result<()> {
        let formatters: Vec<ValueFormatter> = batch
            .columns()
            .iter()
            .map(|column| ValueFormatter::with_style(column, DateStyle::Iso))
            .collect::<Result<_>>()?;
        let mut scratch = String::new();
        for row in 0..batch.num_rows() {
            out.push('{');
            for (place, ((key, form), formatter)) in
                self.columns.iter().zip(&formatters).enumerate()
            {
                if place > 0 {
                    out.push(',');
                }
                out.push_str(key);
                push_value(formatter, *form, row, &mut scratch, out);
            }
            out.push_str("}\n");
        }
        Ok(())
    }
}

impl Form {
    /// The form of a field's values; for lists, that of their innermost items.
    fn of(field: &Field) -> Form {
        match field.data_type() {
            DataType::Boolean => Form::Boolean,
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Form::Float,
            number if number.is_numeric() => Form::Integer,
            DataType::List(item) | DataType::LargeList(item) => Form::of(item),
            DataType::Dictionary(_, value) => Form::of(&Field::new("", (**value).clone(), true)),
            _ if matches!(type_tag(field), Some(JSON | JSONB)) => Form::Embedded,
            _ => Form::String,
        }
    }
}

fn push_value(
    formatter: &ValueFormatter,
    form: Form,
    row: usize,
    scratch: &mut String,
    out: &mut String,
) {
    if formatter.is_null(row) {
        return out.push_str("null");
    }
    if let Some((items, places)) = formatter.items(row) {
        out.push('[');
        for item in places.clone() {
            if item > places.start {
                out.push(',');
            }
            push_value(items, form, item, scratch, out);
        }
        return out.push(']');
    }
    scratch.clear();
    formatter.format(row, scratch);
    match form {
        Form::Integer => out.push_str(scratch),
        Form::Float if scratch.ends_with(|last: char| last.is_ascii_digit()) => {
            out.push_str(scratch);
        }
        Form::Boolean => out.push_str(if scratch == "t" { "true" } else { "false" }),
        // Line ends outside of strings are white space in JSON, but would end the record.
        Form::Embedded => out.extend(scratch.chars().map(|character| match character {
            '\n' | '\r' => ' ',
            other => other,
        })),
        Form::Float | Form::String => push_string(scratch, out),
    }
}

fn push_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => {
                out.push_str("\\u00");
                for digit in [control >> 4, control & 15] {
                    out.extend(char::from_digit(u32::from(digit), 16));
                }
            }
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}
