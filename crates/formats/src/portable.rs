//! Record batches in types that every reader supports.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatchOptions, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use thalweg_types::{Error, Result};

use crate::text::ValueFormatter;

/// Converts batches to portable types.
pub(crate) struct Portable {
    pub schema: SchemaRef,
}

impl Portable {
    /// Converts texts and bytes from views to arrays with offsets. With `intervals_as_text`,
    /// converts intervals to PostgreSQL's text form.
    pub fn new(schema: &Schema, intervals_as_text: bool) -> Portable {
        let fields = schema.fields().iter().map(|field| portable_field(field, intervals_as_text));
        let fields: Vec<FieldRef> = fields.collect();
        Portable { schema: Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())) }
    }

    /// Converts a batch to the portable types. Fails if a value cannot be represented.
    pub fn convert(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| portable_array(column, field.data_type()));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = columns.collect::<Result<_>>()?;
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::internal(error.to_string()))
    }
}

fn portable_field(field: &Field, intervals_as_text: bool) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Interval(_) if intervals_as_text => DataType::Utf8,
        DataType::List(item) => DataType::List(portable_field(item, intervals_as_text)),
        other => other.clone(),
    };
    Arc::new(field.clone().with_data_type(data_type))
}

fn portable_array(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    match (array.data_type(), target) {
        (from, to) if from == to => Ok(Arc::clone(array)),
        (DataType::Interval(_), DataType::Utf8) => texts(array),
        (DataType::List(_), DataType::List(item)) => {
            let lists = array.as_list::<i32>();
            let items = portable_array(lists.values(), item.data_type())?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Ok(Arc::new(ListArray::new(Arc::clone(item), offsets, items, nulls)))
        }
        _ => cast(array, target).map_err(|error| Error::internal(error.to_string())),
    }
}

fn texts(array: &ArrayRef) -> Result<ArrayRef> {
    let formatter = ValueFormatter::new(array)?;
    let mut builder = StringBuilder::new();
    let mut text = String::new();
    for row in 0..array.len() {
        text.clear();
        formatter.format(row, &mut text);
        builder.append_option((!formatter.is_null(row)).then_some(&text));
    }
    Ok(Arc::new(builder.finish()))
}
