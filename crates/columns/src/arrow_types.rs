//! Maps column types to Arrow types, and back.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use thalweg_types::{Column, DataType, Error, Result, TableSchema};

/// Field metadata key that names the SQL type where the Arrow type alone is ambiguous.
pub const TYPE_KEY: &str = "thalweg.type";
/// Under [`TYPE_KEY`]: text that holds a UUID.
pub const UUID: &str = "uuid";
/// Under [`TYPE_KEY`]: text that holds JSON.
pub const JSON: &str = "json";
/// Under [`TYPE_KEY`]: JSON in its canonical text.
pub const JSONB: &str = "jsonb";

/// The precision and scale of `numeric` without either: the most digits that fit 128 bits.
pub const NUMERIC_DEFAULT: (u8, i8) = (38, 10);

/// The most digits that an Arrow `Decimal128` holds.
const DECIMAL128_DIGITS_MAX: u8 = 38;

/// The Arrow type that stores a column's values and that scans return.
#[must_use]
pub fn arrow_type(data_type: &DataType) -> ArrowType {
    match data_type {
        DataType::Boolean => ArrowType::Boolean,
        DataType::Int2 => ArrowType::Int16,
        DataType::Int4 => ArrowType::Int32,
        DataType::Int8 => ArrowType::Int64,
        DataType::Float4 => ArrowType::Float32,
        DataType::Float8 => ArrowType::Float64,
        DataType::Decimal { precision, scale } if *precision <= DECIMAL128_DIGITS_MAX => {
            ArrowType::Decimal128(*precision, *scale)
        }
        DataType::Decimal { precision, scale } => ArrowType::Decimal256(*precision, *scale),
        DataType::Text { .. } | DataType::Uuid | DataType::Json | DataType::Jsonb => {
            ArrowType::Utf8View
        }
        DataType::Bytea => ArrowType::BinaryView,
        DataType::Date => ArrowType::Date32,
        DataType::Time => ArrowType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamptz => ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Interval => ArrowType::Interval(IntervalUnit::MonthDayNano),
        DataType::Array(item) => ArrowType::List(Arc::new(arrow_field("item", item, true))),
    }
}

/// A field of the type, with the metadata that Arrow's own type leaves out.
#[must_use]
pub fn arrow_field(name: &str, data_type: &DataType, nullable: bool) -> Field {
    let field = Field::new(name, arrow_type(data_type), nullable);
    match data_type {
        DataType::Uuid
        | DataType::Json
        | DataType::Jsonb
        | DataType::Text { max_chars: Some(_) } => {
            field.with_metadata([(TYPE_KEY.to_owned(), data_type.to_string())].into())
        }
        _ => field,
    }
}

/// The field under which a table shows a column.
#[must_use]
pub fn column_field(column: &Column) -> Field {
    arrow_field(&column.name, &column.data_type, column.nullable)
}

/// The column type that takes a field's values without loss: what `CREATE TABLE AS` gives a column.
///
/// # Errors
/// As [`from_arrow`].
pub fn from_field(field: &Field) -> Result<DataType> {
    if let Some(name) = field.metadata().get(TYPE_KEY)
        && let Some(data_type) = named_type(name)
    {
        return Ok(data_type);
    }
    from_arrow(field.data_type())
}

/// The type that [`TYPE_KEY`] names, if it is one of the types that need naming.
#[must_use]
pub fn named_type(name: &str) -> Option<DataType> {
    match name {
        UUID => Some(DataType::Uuid),
        JSON => Some(DataType::Json),
        JSONB => Some(DataType::Jsonb),
        _ => {
            let chars = name.strip_prefix("character varying(")?.strip_suffix(')')?;
            Some(DataType::Text { max_chars: Some(chars.parse().ok()?) })
        }
    }
}

/// The column type that takes every value of an Arrow type.
///
/// # Errors
/// If there is none: for structures, maps and unions.
pub fn from_arrow(data_type: &ArrowType) -> Result<DataType> {
    Ok(match data_type {
        ArrowType::Boolean => DataType::Boolean,
        ArrowType::Int8 | ArrowType::Int16 | ArrowType::UInt8 => DataType::Int2,
        ArrowType::Int32 | ArrowType::UInt16 => DataType::Int4,
        ArrowType::Int64 | ArrowType::UInt32 => DataType::Int8,
        ArrowType::UInt64 => DataType::Decimal { precision: 20, scale: 0 },
        ArrowType::Float16 | ArrowType::Float32 => DataType::Float4,
        ArrowType::Float64 => DataType::Float8,
        ArrowType::Decimal32(precision, scale)
        | ArrowType::Decimal64(precision, scale)
        | ArrowType::Decimal128(precision, scale)
        | ArrowType::Decimal256(precision, scale) => {
            DataType::Decimal { precision: *precision, scale: *scale }
        }
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View | ArrowType::Null => {
            DataType::Text { max_chars: None }
        }
        ArrowType::Binary
        | ArrowType::LargeBinary
        | ArrowType::BinaryView
        | ArrowType::FixedSizeBinary(_) => DataType::Bytea,
        ArrowType::Date32 | ArrowType::Date64 => DataType::Date,
        ArrowType::Time32(_) | ArrowType::Time64(_) => DataType::Time,
        ArrowType::Timestamp(_, None) => DataType::Timestamp,
        ArrowType::Timestamp(_, Some(_)) => DataType::Timestamptz,
        ArrowType::Interval(_) | ArrowType::Duration(_) => DataType::Interval,
        ArrowType::Dictionary(_, values) => from_arrow(values)?,
        ArrowType::RunEndEncoded(_, values) => from_field(values)?,
        ArrowType::List(item)
        | ArrowType::LargeList(item)
        | ArrowType::ListView(item)
        | ArrowType::LargeListView(item)
        | ArrowType::FixedSizeList(item, _) => DataType::Array(Box::new(from_field(item)?)),
        ArrowType::Struct(_) | ArrowType::Map(_, _) | ArrowType::Union(_, _) => {
            return Err(Error::unsupported(format!("a column of the composite type {data_type}")));
        }
    })
}

/// The Arrow schema of a table's rows, its columns in the order of `schema.columns`.
#[must_use]
pub fn arrow_schema(schema: &TableSchema) -> SchemaRef {
    let fields: Vec<Field> = schema.columns.iter().map(column_field).collect();
    Arc::new(Schema::new(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_survive_the_way_through_arrow() {
        for data_type in [
            DataType::Boolean,
            DataType::Int2,
            DataType::Int4,
            DataType::Int8,
            DataType::Float4,
            DataType::Float8,
            DataType::Decimal { precision: 38, scale: 10 },
            DataType::Decimal { precision: 39, scale: 3 },
            DataType::Text { max_chars: None },
            DataType::Text { max_chars: Some(7) },
            DataType::Bytea,
            DataType::Date,
            DataType::Time,
            DataType::Timestamp,
            DataType::Timestamptz,
            DataType::Interval,
            DataType::Uuid,
            DataType::Json,
            DataType::Jsonb,
        ] {
            let array = DataType::Array(Box::new(data_type.clone()));
            let nested = DataType::Array(Box::new(array.clone()));
            for data_type in [data_type, array, nested] {
                let field = arrow_field("c", &data_type, true);
                assert_eq!(from_field(&field).unwrap(), data_type);
                assert_eq!(field.data_type(), &arrow_type(&data_type));
            }
        }
    }
}
