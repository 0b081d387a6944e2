//! Maps the SQL types of `thalweg-types` to Arrow types and schemas.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use thalweg_types::{DataType, TableSchema};

/// Field metadata key that holds the SQL type where the Arrow type alone is ambiguous.
pub const TYPE_METADATA: &str = "thalweg.type";

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
        DataType::Array(item) => ArrowType::List(Arc::new(field("item", item, true))),
    }
}

/// The Arrow schema of a table's rows, its columns in the order of `schema.columns`.
#[must_use]
pub fn arrow_schema(schema: &TableSchema) -> SchemaRef {
    let fields: Vec<Field> = schema
        .columns
        .iter()
        .map(|column| field(&column.name, &column.data_type, column.nullable))
        .collect();
    Arc::new(Schema::new(fields))
}

fn field(name: &str, data_type: &DataType, nullable: bool) -> Field {
    let field = Field::new(name, arrow_type(data_type), nullable);
    match data_type {
        DataType::Uuid
        | DataType::Json
        | DataType::Jsonb
        | DataType::Text { max_chars: Some(_) } => {
            let metadata = HashMap::from([(TYPE_METADATA.to_owned(), data_type.to_string())]);
            field.with_metadata(metadata)
        }
        _ => field,
    }
}
