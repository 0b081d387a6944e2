//! Values that clients give for parameters, in the types that a statement takes.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::error::ArrowError;
use thalweg_dialect::assign::assign;
use thalweg_dialect::to_text;
use thalweg_dialect::types::{arrow_type, from_field};
use thalweg_query::{Prepared, ScalarValue};
use thalweg_types::{Column, ColumnId, DataType as SqlType, Error, Result, SqlState};

/// The values of one run.
pub(crate) type Row = Vec<ScalarValue>;

/// The rows of a batch, converted as `INSERT` converts values for a column of the parameter's type.
///
/// # Errors
/// Where there are too many values or too few, or one does not fit.
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
    let value = |column: &ArrayRef, row| ScalarValue::try_from_array(column, row);
    let row = |row| columns.iter().map(|column| value(column, row)).collect::<Result<Row, _>>();
    (0..batch.num_rows())
        .map(|number| {
            row(number).map_err(|error| {
                Error::new(SqlState::PROTOCOL_VIOLATION, "a parameter cannot be read")
                    .with_source(error)
            })
        })
        .collect()
}

/// One row of texts in the forms that literals have.
///
/// # Errors
/// As [`rows`].
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
        // Some clients send texts in this way.
        DataType::Dictionary(_, values) => {
            let plain = arrow::compute::cast(column, values).map_err(unread)?;
            (plain, Arc::new(field.as_ref().clone().with_data_type(values.as_ref().clone())))
        }
        _ => (Arc::clone(column), Arc::clone(field)),
    };
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
    };
    assign(&column, &field, &target)
}

fn unread(error: ArrowError) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, "the parameters cannot be read").with_source(error)
}
