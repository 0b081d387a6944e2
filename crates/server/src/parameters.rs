//! Parameter values from clients, converted to the types that a statement expects.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::error::ArrowError;
use thalweg_query::{Prepared, ScalarValue};
use thalweg_types::{Column, ColumnId, DataType as SqlType, Error, Result, SqlState};
use thalweg_values::assign::assign;
use thalweg_values::cast::to_text;
use thalweg_values::types::{arrow_type, from_field};

use crate::values::check_column;

/// Parameter values of one execution.
pub(crate) type Row = Vec<ScalarValue>;

/// The rows of a batch, each value converted like an `INSERT` into a column of the parameter's
/// type.
///
/// # Errors
/// If the number of values is wrong, or one does not fit its type.
pub(crate) fn rows(prepared: &Prepared, batch: &RecordBatch) -> Result<Vec<Row>> {
    let (given, wanted) = (batch.num_columns(), prepared.parameters().len());
    if given != wanted {
        let message = format!(
            "bind message supplies {given} parameters, but prepared statement requires {wanted}"
        );
        return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
    }
    let schema = batch.schema();
    let columns = batch.columns().iter().zip(schema.fields()).zip(prepared.parameters());
    let columns: Vec<ArrayRef> = columns
        .map(|((column, field), parameter)| fitted(column, field, parameter))
        .collect::<Result<_>>()?;
    let row = |row| columns.iter().map(|column| value(column, row)).collect::<Result<Row>>();
    (0..batch.num_rows()).map(row).collect()
}

fn value(column: &ArrayRef, row: usize) -> Result<ScalarValue> {
    ScalarValue::try_from_array(column, row).map_err(|error| {
        Error::new(SqlState::PROTOCOL_VIOLATION, "a parameter cannot be read").with_source(error)
    })
}

/// One row from texts in the format of literals.
///
/// # Errors
/// Like [`rows`].
pub(crate) fn of_texts(prepared: &Prepared, texts: Vec<Option<String>>) -> Result<Row> {
    if texts.is_empty() && prepared.parameters().is_empty() {
        return Ok(Row::new());
    }
    let fields: Vec<Field> = texts.iter().map(|_| Field::new("", DataType::Utf8, true)).collect();
    let columns = texts.into_iter().map(|text| Arc::new(StringArray::from(vec![text])) as ArrayRef);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.collect());
    rows(prepared, &batch.map_err(unread)?)?.pop().ok_or_else(|| Error::internal("a row was lost"))
}

fn fitted(column: &ArrayRef, field: &FieldRef, parameter: &FieldRef) -> Result<ArrayRef> {
    let data_type = from_field(parameter)?;
    let (column, field) = match column.data_type() {
        DataType::Null => return Ok(new_null_array(&arrow_type(&data_type), column.len())),
        // Some clients send texts as dictionaries.
        DataType::Dictionary(_, values) => {
            let plain = arrow::compute::cast(column, values).map_err(unread)?;
            (plain, Arc::new(field.as_ref().clone().with_data_type(values.as_ref().clone())))
        }
        _ => (Arc::clone(column), Arc::clone(field)),
    };
    check_column(&column)?;
    let is_text =
        matches!(column.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if matches!(data_type, SqlType::Text { .. }) && !is_text {
        return to_text(&column);
    }
    let target = Column {
        id: ColumnId(0),
        name: parameter.name().clone(),
        data_type,
        nullable: true,
        default: None,
        identity: None,
        second_digits: None,
    };
    assign(&column, &field, &target)
}

fn unread(error: ArrowError) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, "the parameters cannot be read").with_source(error)
}

#[cfg(test)]
mod tests {
    use thalweg_formats::postgres::{Type, field_of_oid};
    use thalweg_values::system_types::{SystemType, type_modifier, type_oid};
    use thalweg_values::types::arrow_field;

    use super::*;

    /// The catalog and the descriptions of results use the same OIDs for types.
    #[test]
    fn types_have_one_number() {
        let plain = [
            SqlType::Boolean,
            SqlType::Int2,
            SqlType::Int4,
            SqlType::Int8,
            SqlType::Float4,
            SqlType::Float8,
            SqlType::Decimal { precision: 12, scale: 2 },
            SqlType::Text { max_chars: None },
            SqlType::Text { max_chars: Some(40) },
            SqlType::Bytea,
            SqlType::Date,
            SqlType::Time,
            SqlType::Timestamp,
            SqlType::Timestamptz,
            SqlType::Interval,
            SqlType::Uuid,
            SqlType::Json,
            SqlType::Jsonb,
        ];
        for data_type in plain {
            let field = arrow_field("c", &data_type, true);
            let told = Type::of(&field);
            assert_eq!(told.oid, type_oid(&field), "{data_type:?}");
            assert_eq!(told.modifier, type_modifier(&field), "{data_type:?}");
            let parameter = field_of_oid(told.oid).expect("columns' types are parameters', too");
            assert_eq!(parameter.data_type().is_numeric(), field.data_type().is_numeric());
            let array = arrow_field("c", &SqlType::Array(Box::new(data_type.clone())), true);
            assert_eq!(Type::of(&array).oid, type_oid(&array), "{data_type:?}[]");
        }
        for name in ["oid", "xid", "name", "char", "pg_node_tree", "regclass", "regtype", "regproc"]
        {
            let field =
                SystemType::named(name).expect("it is one of the catalog's").field("c", true);
            assert_eq!(Type::of(&field).oid, type_oid(&field), "{name}");
        }
    }
}
