//! The column types of tables, and the mapping of other types to them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
pub use thalweg_columns::{JSON, JSONB, TYPE_KEY, UUID};

/// Microseconds since midnight in a `time`; the last value is `24:00:00`.
pub const TIMES_OF_DAY: std::ops::RangeInclusive<i64> = 0..=86_400_000_000;

pub(crate) fn type_tag(field: &Field) -> Option<&str> {
    field.metadata().get(TYPE_KEY).map(String::as_str)
}

pub(crate) fn tagged(field: Field, tag: &str) -> Field {
    field.with_metadata([(TYPE_KEY.to_owned(), tag.to_owned())].into())
}

/// The field of a table's column for the values of another field, if there is one.
pub(crate) fn storable(field: &Field) -> Option<Field> {
    let nullable = Field::new(field.name(), storable_type(field.data_type())?, true);
    let is_uuid = matches!(field.data_type(), DataType::FixedSizeBinary(16))
        && field.metadata().get("ARROW:extension:name").is_some_and(|name| name == "arrow.uuid");
    match type_tag(field) {
        _ if is_uuid => Some(tagged(nullable.with_data_type(DataType::Utf8View), UUID)),
        Some(tag) => Some(tagged(nullable, tag)),
        None => Some(nullable),
    }
}

/// The type of a table's column that holds all values of an Arrow type, if there is one.
pub(crate) fn storable_type(data_type: &DataType) -> Option<DataType> {
    use DataType as T;
    Some(match data_type {
        T::Null | T::Utf8 | T::LargeUtf8 | T::Utf8View => T::Utf8View,
        T::Boolean => T::Boolean,
        T::Int8 | T::UInt8 | T::Int16 => T::Int16,
        T::UInt16 | T::Int32 => T::Int32,
        T::UInt32 | T::Int64 => T::Int64,
        T::UInt64 => T::Decimal128(20, 0),
        T::Float16 | T::Float32 => T::Float32,
        T::Float64 => T::Float64,
        T::Decimal32(precision, scale)
        | T::Decimal64(precision, scale)
        | T::Decimal128(precision, scale) => T::Decimal128(*precision, *scale),
        T::Decimal256(precision, scale) => T::Decimal256(*precision, *scale),
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => T::BinaryView,
        T::Date32 => T::Date32,
        T::Time32(_) | T::Time64(_) => T::Time64(TimeUnit::Microsecond),
        T::Date64 | T::Timestamp(_, None) => T::Timestamp(TimeUnit::Microsecond, None),
        T::Timestamp(_, Some(_)) => T::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        T::Interval(_) | T::Duration(_) => T::Interval(IntervalUnit::MonthDayNano),
        T::Dictionary(_, value) => storable_type(value)?,
        T::RunEndEncoded(_, value) => storable_type(value.data_type())?,
        T::List(item)
        | T::LargeList(item)
        | T::ListView(item)
        | T::LargeListView(item)
        | T::FixedSizeList(item, _) => T::List(storable_item(item)?),
        T::Struct(_) | T::Map(..) | T::Union(..) => return None,
    })
}

fn storable_item(item: &FieldRef) -> Option<FieldRef> {
    let item = storable(item)?;
    Some(Arc::new(item.with_name("item")))
}

/// PostgreSQL's name of a type, or Arrow's if PostgreSQL lacks the type.
pub(crate) fn type_name(field: &Field) -> String {
    match field.data_type() {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int16 => "smallint".to_owned(),
        DataType::Int32 => "integer".to_owned(),
        DataType::Int64 => "bigint".to_owned(),
        DataType::Float32 => "real".to_owned(),
        DataType::Float64 => "double precision".to_owned(),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            format!("numeric({precision},{scale})")
        }
        DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 => {
            type_tag(field).unwrap_or("text").to_owned()
        }
        DataType::BinaryView | DataType::Binary | DataType::LargeBinary => "bytea".to_owned(),
        DataType::Date32 => "date".to_owned(),
        DataType::Time64(_) | DataType::Time32(_) => "time".to_owned(),
        DataType::Timestamp(_, None) => "timestamp".to_owned(),
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone".to_owned(),
        DataType::Interval(_) => "interval".to_owned(),
        DataType::List(item) => format!("{}[]", type_name(item)),
        other => other.to_string(),
    }
}
