//! The schema of a result as sent to Flight clients.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
pub(crate) use thalweg_formats::flight::wire_field;
use thalweg_values::types::display_name;

/// The schema sent for rows of `schema`, with Flight SQL's metadata of columns.
pub(crate) fn wire_schema(schema: &Schema) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(|field| described(field)).collect();
    Arc::new(Schema::new(fields))
}

fn described(field: &Field) -> FieldRef {
    let wire = wire_field(field);
    let mut metadata = wire.metadata().clone();
    let mut describe = |key: &str, value: String| metadata.insert(key.to_owned(), value);
    describe("ARROW:FLIGHT:SQL:TYPE_NAME", display_name(field));
    if let DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) =
        field.data_type()
    {
        describe("ARROW:FLIGHT:SQL:PRECISION", precision.to_string());
        describe("ARROW:FLIGHT:SQL:SCALE", scale.to_string());
    }
    Arc::new(wire.as_ref().clone().with_metadata(metadata))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn columns_are_described() {
        let schema = Schema::new(vec![
            Field::new("n", DataType::Decimal128(15, 2), true),
            Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        ]);
        let wire = wire_schema(&schema);
        let said = |column: usize, key: &str| {
            wire.field(column).metadata().get(&format!("ARROW:FLIGHT:SQL:{key}")).cloned()
        };
        assert_eq!(said(0, "TYPE_NAME").as_deref(), Some("numeric"));
        assert_eq!(said(0, "PRECISION").as_deref(), Some("15"));
        assert_eq!(said(0, "SCALE").as_deref(), Some("2"));
        assert_eq!(said(1, "TYPE_NAME").as_deref(), Some("timestamp without time zone"));
        assert_eq!(said(1, "SCALE"), None);
    }
}
