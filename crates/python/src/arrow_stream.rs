//! Record batches from and for other libraries, through Arrow's C stream interface
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>).

use std::ffi::CStr;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, ListArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow::record_batch::{RecordBatch, RecordBatchOptions, RecordBatchReader};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use thalweg_formats::text::{Scratch, ValueFormatter};

use crate::errors::no_conversion;

const STREAM: &CStr = c"arrow_array_stream";

/// The schema and all batches of an object with `__arrow_c_stream__`, whose stream ends with this.
///
/// Metadata is dropped. It could promise, for example, that strings are UUIDs, which no one has
/// checked since they left the database.
///
/// # Errors
/// If it has no stream, or the stream fails.
pub fn read(object: &Bound<'_, PyAny>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let py = object.py();
    let capsule = object.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name points to a stream, which is moved out of it here; an empty
    // stream is left for the capsule's destructor.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
    py.detach(|| {
        let reader = ArrowArrayStreamReader::try_new(stream)?;
        let fields = reader.schema().fields().iter().map(without_metadata).collect::<Vec<_>>();
        let schema = Arc::new(Schema::new(fields));
        let batches = reader.map(|batch| with_fields(&batch?, &schema));
        let batches = batches.collect::<Result<Vec<_>, ArrowError>>()?;
        Ok((schema, batches))
    })
    .map_err(|error: ArrowError| {
        no_conversion(py, format!("the stream of rows cannot be read: {error}"))
    })
}

fn without_metadata(field: &Arc<Field>) -> Arc<Field> {
    let data_type = match field.data_type() {
        DataType::List(item) => DataType::List(without_metadata(item)),
        other => other.clone(),
    };
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
}

/// A batch with columns of these fields, which differ from its own in their representation only.
pub fn with_fields(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let pairs = batch.columns().iter().zip(schema.fields());
    let columns = pairs.map(|(column, field)| converted(column, field.data_type()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect::<Result<_, _>>()?;
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// A capsule with a stream of batches.
///
/// # Errors
/// If Python has no memory.
pub fn write<'py>(
    py: Python<'py>,
    reader: impl RecordBatchReader + Send + 'static,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
}

/// The types of exported columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Strings with offsets, which every library understands.
    Plain,
    /// Strings as the engine has them, for libraries that lack intervals and wide decimals: those
    /// become text.
    Views,
}

impl Form {
    fn data_type(self, data_type: &DataType) -> DataType {
        match (self, data_type) {
            (Form::Plain, DataType::Utf8View) => DataType::Utf8,
            (Form::Plain, DataType::BinaryView) => DataType::Binary,
            (Form::Views, DataType::Interval(_) | DataType::Decimal256(..)) => DataType::Utf8,
            (_, DataType::List(item)) => DataType::List(self.field(item)),
            (_, other) => other.clone(),
        }
    }

    fn field(self, field: &Arc<Field>) -> Arc<Field> {
        let data_type = self.data_type(field.data_type());
        match data_type == *field.data_type() {
            true => Arc::clone(field),
            false => Arc::new(field.as_ref().clone().with_data_type(data_type)),
        }
    }

    /// The exported columns of a result.
    pub fn schema(self, schema: &SchemaRef) -> SchemaRef {
        let fields: Vec<_> = schema.fields().iter().map(|field| self.field(field)).collect();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }
}

fn converted(column: &ArrayRef, target: &DataType) -> Result<ArrayRef, ArrowError> {
    match (column.data_type(), target) {
        (own, target) if own == target => Ok(Arc::clone(column)),
        (DataType::Interval(_) | DataType::Decimal256(..), DataType::Utf8) => texts(column),
        (DataType::List(_), DataType::List(item)) => {
            let (_, offsets, values, nulls) = column.as_list::<i32>().clone().into_parts();
            let values = converted(&values, item.data_type())?;
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, nulls)?))
        }
        _ => cast(column, target),
    }
}

/// The values as SQL writes them.
fn texts(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let formatter = ValueFormatter::of_session(column, None)
        .map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
    let (mut scratch, mut texts) = (Scratch::default(), StringBuilder::new());
    for row in 0..column.len() {
        texts.append_option(formatter.text(row, &mut scratch));
    }
    Ok(Arc::new(texts.finish()))
}
