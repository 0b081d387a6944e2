//! Conversion of single values from and to the protocol.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type};
use thalweg_formats::rows::Value;
use thalweg_formats::text::format_value;
use thalweg_protocol::v1::value::Kind;
use thalweg_protocol::{Malformed, ValueRef, ValuesRef, v1};
use thalweg_types::{Error, Result, SqlState};

pub(super) fn malformed(malformed: Malformed) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, malformed.0)
}

/// Decodes the values of a row.
pub(super) fn decode_values<'a>(
    values: ValuesRef<'a>,
) -> impl Iterator<Item = Result<Value<'a>>> + use<'a> {
    values.read().map(|value| {
        Ok(match value.map_err(malformed)? {
            ValueRef::Null => Value::Null,
            ValueRef::Bool(value) => Value::Bool(value),
            ValueRef::Int(value) => Value::Int(value),
            ValueRef::Float(value) => Value::Float(value),
            ValueRef::Text(value) => Value::Text(value),
            ValueRef::Bytes(value) => Value::Bytes(value),
        })
    })
}

/// Encodes the values of a row.
///
/// # Errors
/// If a value cannot be formatted as text.
pub(super) fn encode_values(columns: &[ArrayRef], row: usize) -> Result<v1::Values> {
    let values = columns.iter().map(|column| Ok(v1::Value { kind: kind(column, row)? }));
    Ok(v1::Values { values: values.collect::<Result<_>>()? })
}

fn kind(column: &ArrayRef, row: usize) -> Result<Option<Kind>> {
    if column.is_null(row) {
        return Ok(None);
    }
    Ok(Some(match column.data_type() {
        DataType::Boolean => Kind::Bool(column.as_boolean().value(row)),
        DataType::Int16 => Kind::Int(column.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Kind::Int(column.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Kind::Int(column.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => Kind::Float(column.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Kind::Float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8View => Kind::Text(column.as_string_view().value(row).to_owned()),
        DataType::BinaryView => Kind::Bytes(column.as_binary_view().value(row).to_vec().into()),
        _ => {
            let mut text = String::new();
            format_value(column, row, &mut text)?;
            Kind::Text(text)
        }
    }))
}

/// The message for a row or look-up that failed.
pub(super) fn failure(index: u64, error: &Error) -> v1::Failure {
    v1::Failure {
        index,
        sqlstate: error.state().0.to_owned(),
        message: error.message().to_owned(),
        detail: error.detail().unwrap_or_default().to_owned(),
        hint: error.hint().unwrap_or_default().to_owned(),
    }
}
