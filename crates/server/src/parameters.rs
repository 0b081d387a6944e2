//! Parameter values from clients, converted to the types that a statement expects.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::error::ArrowError;
use thalweg_formats::text::{holds_numerics, numeric_with_own_digits};
use thalweg_query::{Prepared, ScalarValue};
use thalweg_types::{
    Column as TableColumn, ColumnId, DataType as SqlType, Error, Result, SqlState,
};
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
    let columns: Vec<Column> = columns
        .map(|((column, field), parameter)| Column::fitted(column, field, parameter))
        .collect::<Result<_>>()?;
    let row = |row| columns.iter().map(|column| column.value(row)).collect::<Result<Row>>();
    (0..batch.num_rows()).map(row).collect()
}

/// The values of a parameter in all rows.
enum Column {
    /// Values of the parameter's type.
    Fitted(ArrayRef),
    /// Values that become numerics, each with its own digits.
    Numerics {
        values: ArrayRef,
        /// Arrays of the type `Null` have none of their own.
        nulls: Option<NullBuffer>,
        parameter: FieldRef,
    },
}

impl Column {
    fn fitted(column: &ArrayRef, field: &FieldRef, parameter: &FieldRef) -> Result<Column> {
        if !holds_numerics(parameter.data_type()) {
            return fitted(column, field, parameter).map(Column::Fitted);
        }
        // This finds values of other types, such as booleans.
        fitted(&column.slice(0, 0), field, parameter)?;
        check_column(column)?;
        let (values, parameter) = (plain(column)?, FieldRef::clone(parameter));
        Ok(Column::Numerics { nulls: values.logical_nulls(), values, parameter })
    }

    fn value(&self, row: usize) -> Result<ScalarValue> {
        match self {
            Column::Fitted(column) => value(column, row),
            Column::Numerics { nulls, parameter, .. }
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) =>
            {
                value(&new_null_array(parameter.data_type(), 1), 0)
            }
            Column::Numerics { values, parameter, .. } => {
                value(&numeric_with_own_digits(parameter, &values.slice(row, 1))?, 0)
            }
        }
    }
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
    if column.data_type().is_null() {
        return Ok(new_null_array(&arrow_type(&data_type), column.len()));
    }
    let column = plain(column)?;
    let field = match field.data_type() {
        DataType::Dictionary(..) => {
            let data_type = column.data_type().clone();
            Arc::new(field.as_ref().clone().with_data_type(data_type))
        }
        _ => Arc::clone(field),
    };
    check_column(&column)?;
    let is_text =
        matches!(column.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if matches!(data_type, SqlType::Text { .. }) && !is_text {
        return to_text(&column);
    }
    let target = TableColumn {
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

/// The column without a dictionary, as some clients send texts.
fn plain(column: &ArrayRef) -> Result<ArrayRef> {
    match column.data_type() {
        DataType::Dictionary(_, values) => arrow::compute::cast(column, values).map_err(unread),
        _ => Ok(Arc::clone(column)),
    }
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
