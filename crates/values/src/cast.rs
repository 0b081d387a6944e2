//! Conversions between types, with PostgreSQL's results.
//!
//! Arrow's own casts differ in many small ways: they truncate where PostgreSQL rounds, write
//! timestamps with a `T`, and read fewer spellings. Where both agree this module uses them.

mod list;
mod number;
mod output;
mod text;
mod time;

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType as ArrowType, Field};
use thalweg_types::{DataType, Error, Result};

use crate::system_types::SystemType;
use crate::types::{self, arrow_type};

pub use list::{
    DIMENSIONS_MAX, dimensions as array_dimensions, split as split_array, too_many_dimensions,
};
pub use output::to_text;
pub use time::{rounded, stored_micros};

/// The purpose of a conversion, which decides what it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Manner {
    /// Into a column: a value that doesn't fit is an error.
    Assignment,
    /// By `CAST`: a text that is too long for `varchar(n)` is cut.
    Explicit,
}

/// Converts values to a type; `None` if there is no such conversion.
pub fn convert(
    array: &ArrayRef,
    from: &Field,
    to: &DataType,
    manner: Manner,
) -> Result<Option<ArrayRef>> {
    let target = arrow_type(to);
    match array.data_type() {
        ArrowType::Null => return Ok(Some(new_null_array(&target, array.len()))),
        ArrowType::Dictionary(_, values) => {
            let plain = plain_cast(array, values)?;
            return convert(&plain, from, to, manner);
        }
        given if *given == target && !needs_check(from, to) => return Ok(Some(array.clone())),
        ArrowType::List(_)
            if SystemType::of(from).is_some_and(SystemType::is_vector)
                && matches!(to, DataType::Text { .. }) =>
        {
            return output::vector_to_text(array).map(Some);
        }
        _ => {}
    }
    if let DataType::Text { .. } | DataType::Uuid | DataType::Json | DataType::Jsonb = to {
        return text::to_textual(array, to, manner);
    }
    if is_text(array.data_type()) {
        let values = plain_cast(array, &ArrowType::Utf8View)?;
        let is_jsonb = || matches!(types::from_field(from), Ok(DataType::Jsonb));
        if manner == Manner::Explicit && text::takes_json_scalar(to) && is_jsonb() {
            return text::of_json_scalars(&values, to, &target).map(Some);
        }
        return text::parse_into(&values, to, &target, manner).map(Some);
    }
    match to {
        DataType::Boolean => number::to_boolean(array, manner),
        DataType::Int2 | DataType::Int4 | DataType::Int8 => number::to_integer(array, to, manner),
        DataType::Float4 | DataType::Float8 => number::to_float(array, to),
        DataType::Decimal { .. } => number::to_decimal(array, &target),
        DataType::Bytea => binary(array, &target),
        DataType::Date | DataType::Time | DataType::Timestamp | DataType::Timestamptz => {
            time::convert(array, to, &target)
        }
        DataType::Interval => time::to_interval(array, &target),
        DataType::Array(item) => list::convert(array, item, manner),
        DataType::Text { .. } | DataType::Uuid | DataType::Json | DataType::Jsonb => Ok(None),
    }
}

/// True if a value of the right Arrow type may still be wrong for the SQL type.
fn needs_check(from: &Field, to: &DataType) -> bool {
    let checked = matches!(
        to,
        DataType::Text { max_chars: Some(_) } | DataType::Uuid | DataType::Json | DataType::Jsonb
    );
    checked && types::from_field(from).ok().as_ref() != Some(to)
}

/// True for each of Arrow's types of texts.
pub fn is_text(data_type: &ArrowType) -> bool {
    matches!(data_type, ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View)
}

fn binary(array: &ArrayRef, target: &ArrowType) -> Result<Option<ArrayRef>> {
    match array.data_type() {
        ArrowType::Binary
        | ArrowType::LargeBinary
        | ArrowType::BinaryView
        | ArrowType::FixedSizeBinary(_) => {
            let through = match array.data_type() {
                ArrowType::FixedSizeBinary(_) => plain_cast(array, &ArrowType::Binary)?,
                _ => array.clone(),
            };
            plain_cast(&through, target).map(Some)
        }
        _ => Ok(None),
    }
}

/// Arrow's cast, failing on the first value that has no counterpart.
fn plain_cast(array: &ArrayRef, to: &ArrowType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, to, &options).map_err(arrow_error)
}

fn arrow_error(error: arrow::error::ArrowError) -> Error {
    crate::errors::from_arrow_error(&error)
}
