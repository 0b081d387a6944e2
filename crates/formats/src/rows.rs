//! Rows in the forms of the record API: packed into bytes, as single values, or as record batches.
//!
//! Many rows become columns without an allocation for each. A row that does not fit is rejected by
//! itself: it leaves nothing behind, and the other rows are kept.

mod batches;
mod builder;
mod pack;

pub use batches::{BatchReader, check_message, schema_of_message};
pub use builder::RowsBuilder;
pub use pack::RowPacker;

use arrow::datatypes::Field;
use thalweg_types::{Error, SqlState};

/// A received value, not yet converted to its column's type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// Microseconds since 1970, for timestamps with and without a time zone.
    Timestamp(i64),
}

/// Number of bytes of the NULL bitmap at the beginning of a packed row.
fn marks(fields: &[arrow::datatypes::FieldRef]) -> usize {
    let nullable = fields.iter().any(|field| field.is_nullable());
    if nullable { fields.len().div_ceil(8) } else { 0 }
}

fn cut_off() -> Error {
    Error::new(SqlState::INVALID_BINARY_REPRESENTATION, "a packed row is cut off")
}

fn wrong_type(field: &Field, given: &str) -> Error {
    let (column, wanted) = (field.name(), crate::columns::type_name(field));
    let message = format!("column \"{column}\" is of type {wanted} but the value is {given}");
    Error::new(SqlState::DATATYPE_MISMATCH, message)
}

#[cfg(test)]
mod tests;
